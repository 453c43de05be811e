//! Who asks, and the lines that say who did what: `tracing`'s target `audit`, one line each, never a secret.
//!
//! Refuses to let what somebody sent begin a line of its own, or speak to a terminal: control characters are escaped.

use std::fmt;
use std::net::SocketAddr;

use proto::said::is_unfit;

use super::roles::Role;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// On this machine, of a coordinator without TLS: whoever reaches it may do everything.
    Local,
    User {
        name: String,
        role: Role,
    },
    Host {
        name: String,
        /// SHA-256 of the certificate that it showed.
        certificate: super::book::Digest,
    },
    /// Of the one rpc that is open to all.
    Nobody,
}

/// Goes with each request, in its extensions.
#[derive(Clone, Debug)]
pub struct Caller {
    pub who: Who,
    pub address: Option<SocketAddr>,
}

impl Caller {
    /// A request that passed no gate has none: it came from a test, or from this very process.
    pub fn of(extensions: &tonic::Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or(Self {
            who: Who::Local,
            address: None,
        })
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Who::Local => f.write_str("local")?,
            Who::User { name, role } => write!(f, "user {name} ({role})")?,
            Who::Host { name, .. } => write!(f, "host {name}")?,
            Who::Nobody => f.write_str("somebody")?,
        }
        match self.address {
            Some(address) => write!(f, " at {address}"),
            None => Ok(()),
        }
    }
}

/// Something was done.
pub fn done(caller: &Caller, what: &str, about: &str) {
    tracing::info!(target: "audit", "{}", line(caller, what, about));
}

/// A token was used. Reading is many times a second, and changes nothing: only with more logging.
pub fn used(caller: &Caller, rpc: &str) {
    let reads = super::roles::need(rpc) == Some(super::roles::Need::Role(Role::Read));
    if reads {
        tracing::debug!(target: "audit", "{}", line(caller, "token used", rpc));
    } else {
        tracing::info!(target: "audit", "{}", line(caller, "token used", rpc));
    }
}

/// Something was refused.
pub fn refused(caller: &Caller, what: &str, why: &str) {
    tracing::warn!(target: "audit", "{}", line(caller, &format!("refused {what}"), why));
}

fn line(caller: &Caller, what: &str, about: &str) -> String {
    let (caller, about) = (escaped(&caller.to_string()), escaped(about));
    format!("audit: {caller}: {}: {about}", escaped(what))
}

fn escaped(text: &str) -> String {
    const LONGEST: usize = 500;
    let mut shown = String::new();
    for c in text.chars().take(LONGEST) {
        if is_unfit(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line() {
        let caller = Caller {
            who: Who::Host {
                name: "box\nroot".into(),
                certificate: [0; 32],
            },
            address: Some(([127, 0, 0, 1], 80).into()),
        };
        let text = line(
            &caller,
            "cancel",
            "x\r\naudit: user eve (admin): submit: y\u{1b}[2J\u{202e}",
        );
        assert!(
            !text.contains(|c: char| c.is_control() || c == '\u{202e}'),
            "{text:?}"
        );
        assert!(
            text.starts_with("audit: host box\\nroot at 127.0.0.1:80: cancel: x\\r\\n"),
            "{text}"
        );
        assert!(line(&caller, "x", &"é".repeat(5000)).chars().count() < 600);
    }
}
