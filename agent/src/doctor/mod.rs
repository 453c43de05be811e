//! Examines a host before it is trusted with a night: its file, folder, disk, resources, devices and Python stack, in
//! the process and under the user that asks. Changes nothing, repairs nothing, and starts no attempt; each finding says
//! what to do about it.

mod devices;
mod limits;
mod place;
mod python;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::HostConfig;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Ok,
    /// Something that only some sweeps miss.
    Warning,
    Failed,
}

impl State {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    pub state: State,
    /// What was found.
    pub says: String,
    /// What to do; nothing where all is well.
    pub fix: Option<String>,
}

impl Check {
    #[must_use]
    pub fn ok(name: impl Into<String>, says: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state: State::Ok,
            says: says.into(),
            fix: None,
        }
    }

    #[must_use]
    pub fn warning(
        name: impl Into<String>,
        says: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            state: State::Warning,
            says: says.into(),
            fix: Some(fix.into()),
        }
    }

    #[must_use]
    pub fn failed(
        name: impl Into<String>,
        says: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Failed,
            ..Self::warning(name, says, fix)
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examined {
    pub host: String,
    /// The worst of them.
    pub state: State,
    pub checks: Vec<Check>,
}

impl Examined {
    #[must_use]
    pub fn of(host: &str, checks: Vec<Check>) -> Self {
        let worst = |state| checks.iter().any(|check| check.state == state);
        let state = match (worst(State::Failed), worst(State::Warning)) {
            (true, _) => State::Failed,
            (false, true) => State::Warning,
            (false, false) => State::Ok,
        };
        Self {
            host: host.to_owned(),
            state,
            checks,
        }
    }
}

/// `folder` is the agent's; `kit` the folder with `selftest.py`. Blocks, up to minutes where a Python stack is large.
#[must_use]
pub fn examine(config: &HostConfig, folder: &Path, kit: &Path) -> Vec<Check> {
    let mut checks = place::folder(folder);
    checks.push(place::clock(crate::clock::unix_ms()));
    checks.extend(place::resources(config));
    if config.simulated {
        let says = "a simulated host: its devices and its Python are not looked at";
        checks.push(Check::ok("devices", says));
        return checks;
    }
    checks.push(limits::enforced(config));
    checks.extend(devices::access(config));
    checks.extend(python::stacks(config, place::nearest(folder), kit));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_is_the_hosts() {
        let of = |checks| Examined::of("box", checks).state;
        let (ok, warning) = (Check::ok("a", "b"), Check::warning("a", "b", "c"));
        assert_eq!(of(vec![]), State::Ok);
        assert_eq!(of(vec![ok.clone(), warning.clone()]), State::Warning);
        assert_eq!(
            of(vec![Check::failed("a", "b", "c"), ok, warning]),
            State::Failed
        );
    }
}
