//! Which rpc needs what of its caller: the only place that says so. Pure. An rpc that is not in the table is refused, and
//! a test holds the table against the `.proto` files, so none can be forgotten.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sees everything, changes nothing.
    Read,
    /// Also runs programs on the hosts: submits, cancels, retries.
    Submit,
    /// Also says which hosts are used, and who has a token.
    Admin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: what it carries is checked by its handler.
    Open,
    /// A user's token of this role or a higher one.
    Role(Role),
    /// The certificate of a host that has joined.
    Host,
}

const READ: Need = Need::Role(Role::Read);
const SUBMIT: Need = Need::Role(Role::Submit);
const ADMIN: Need = Need::Role(Role::Admin);

pub const TABLE: [(&str, Need); 27] = [
    ("/sweep.v1.Sweeps/Submit", SUBMIT),
    ("/sweep.v1.Sweeps/Plan", READ),
    ("/sweep.v1.Sweeps/List", READ),
    ("/sweep.v1.Sweeps/Show", READ),
    ("/sweep.v1.Sweeps/Watch", READ),
    ("/sweep.v1.Sweeps/Logs", READ),
    ("/sweep.v1.Sweeps/Cancel", SUBMIT),
    ("/sweep.v1.Sweeps/Retry", SUBMIT),
    ("/sweep.v1.Sweeps/Why", READ),
    ("/sweep.v1.Sweeps/History", READ),
    ("/sweep.v1.Sweeps/Results", READ),
    ("/sweep.v1.Hosts/ListHosts", READ),
    ("/sweep.v1.Hosts/ShowHost", READ),
    ("/sweep.v1.Hosts/DrainHost", ADMIN),
    ("/sweep.v1.Hosts/ResumeHost", ADMIN),
    ("/sweep.v1.Hosts/ForgetHost", ADMIN),
    ("/sweep.v1.Vram/Predict", READ),
    ("/sweep.v1.Vram/Report", READ),
    ("/sweep.v1.Files/Missing", SUBMIT),
    ("/sweep.v1.Files/Upload", SUBMIT),
    ("/sweep.v1.Files/Fetch", Need::Host),
    ("/sweep.v1.Agents/Session", Need::Host),
    ("/sweep.v1.Trust/Join", Need::Open),
    ("/sweep.v1.Trust/CreateToken", ADMIN),
    ("/sweep.v1.Trust/ListTokens", ADMIN),
    ("/sweep.v1.Trust/RevokeToken", ADMIN),
    ("/sweep.v1.Trust/RotateToken", ADMIN),
];

/// `None`: there is no such rpc.
pub fn need(path: &str) -> Option<Need> {
    let mut rows = TABLE.iter();
    rows.find(|row| row.0 == path).map(|row| row.1)
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Admin => "admin",
        })
    }
}

impl FromStr for Role {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "read" => Ok(Self::Read),
            "submit" => Ok(Self::Submit),
            "admin" => Ok(Self::Admin),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every rpc that a `.proto` file declares, as the path of its requests.
    fn declared() -> BTreeSet<String> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/sweep/v1");
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let mut service = String::new();
            for line in text.lines().map(str::trim) {
                let word = |line: &str| line.split([' ', '(']).next().unwrap_or("").to_owned();
                if let Some(rest) = line.strip_prefix("service ") {
                    service = word(rest);
                } else if let Some(rest) = line.strip_prefix("rpc ") {
                    found.insert(format!("/sweep.v1.{service}/{}", word(rest)));
                }
            }
        }
        found
    }

    #[test]
    fn every_rpc_has_its_row_and_no_row_is_left_over() {
        let rows: BTreeSet<_> = TABLE.iter().map(|row| row.0.to_owned()).collect();
        assert_eq!(rows.len(), TABLE.len(), "a row stands twice");
        assert_eq!(rows, declared());
        assert_eq!(need("/sweep.v1.Sweeps/Fly"), None);
    }

    #[test]
    fn a_reader_changes_nothing_and_only_joining_is_open() {
        assert!(Role::Read < Role::Submit && Role::Submit < Role::Admin);
        let open: Vec<_> = TABLE.iter().filter(|row| row.1 == Need::Open).collect();
        assert_eq!(open.len(), 1);
        for word in [
            "Submit", "Cancel", "Retry", "Upload", "Drain", "Forget", "Token",
        ] {
            let mut rows = TABLE.iter().filter(|row| row.0.contains(word));
            assert!(
                rows.all(|row| row.1 != READ && row.1 != Need::Open),
                "{word}"
            );
        }
        for role in [Role::Read, Role::Submit, Role::Admin] {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert_eq!("root".parse::<Role>(), Err(()));
    }
}
