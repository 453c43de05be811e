//! Which versions of the stream between agent and coordinator work together. Pure.
//!
//! A minor version that changes the stream raises [`PROTOCOL`] by one, and a change only adds: fields that the other side
//! does not know are ignored by it, messages and values that it does not know change nothing. So neighbours work with
//! each other either way round, and hosts can be upgraded one after the other, before or after the coordinator. Refuses
//! what is further apart, with a sentence that names the side to upgrade.

/// Version of the stream between agent and coordinator.
pub const PROTOCOL: u32 = 1;

/// One end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Agent,
    Coordinator,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Coordinator => "coordinator",
        }
    }
}

/// Why the other side, which speaks `theirs`, is too far from this one; `None`: they work together.
#[must_use]
pub fn too_far(other: Side, theirs: u32, their_version: &str) -> Option<String> {
    apart(PROTOCOL, other, theirs, their_version)
}

fn apart(ours: u32, other: Side, theirs: u32, their_version: &str) -> Option<String> {
    if theirs > 0 && ours.abs_diff(theirs) <= 1 {
        return None;
    }
    let this = match other {
        Side::Agent => Side::Coordinator,
        Side::Coordinator => Side::Agent,
    };
    let older = if theirs < ours { other } else { this };
    let version = match their_version {
        "" => String::new(),
        version => format!(" (sweep {})", crate::said::plain(version, 40)),
    };
    Some(format!(
        "the {}{version} speaks protocol {theirs}, this {} protocol {ours}, and they may be one apart: upgrade the {}",
        other.word(),
        this.word(),
        older.word()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_work_together_and_others_are_told_what_to_upgrade() {
        for theirs in [4, 5, 6] {
            assert_eq!(apart(5, Side::Agent, theirs, "0.5.0"), None);
        }
        let old = apart(5, Side::Agent, 3, "0.3.0").unwrap();
        assert_eq!(
            old,
            "the agent (sweep 0.3.0) speaks protocol 3, this coordinator protocol 5, and they may be one apart: \
             upgrade the agent"
        );
        let new = apart(5, Side::Agent, 7, "0.7.0").unwrap();
        assert!(new.ends_with("upgrade the coordinator"), "{new}");
        let new = apart(5, Side::Coordinator, 7, "0.7.0").unwrap();
        assert!(new.ends_with("upgrade the agent"), "{new}");
        let old = apart(5, Side::Coordinator, 2, "").unwrap();
        assert!(
            old.starts_with("the coordinator speaks protocol 2")
                && old.ends_with("upgrade the coordinator")
        );
    }

    #[test]
    fn who_says_no_protocol_is_none_of_ours() {
        assert!(apart(1, Side::Agent, 0, "").is_some());
        let evil = apart(1, Side::Agent, 9, "\u{1b}[2J\n").unwrap();
        assert!(!evil.contains(char::is_control), "{evil}");
    }
}
