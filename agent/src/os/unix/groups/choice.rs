//! Where below version 2 an agent may make groups for its attempts. Pure: the state of its own group and of those above
//! is an argument.
//!
//! A group of version 2 that gives controllers to groups below it may hold no process itself. So attempts lie beside the
//! agent's own group, in the nearest one above that gives the controllers on. A service's own group is never divided: its
//! service manager could not start the service again as long as an attempt runs.

use std::path::{Path, PathBuf};

use super::Controller;

/// What is known of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    pub path: PathBuf,
    /// That it has.
    pub controllers: Vec<Controller>,
    /// That groups below it have.
    pub given: Vec<Controller>,
    /// Groups may be made in it and processes brought there.
    pub writable: bool,
    /// Controllers may be given on.
    pub may_give: bool,
    /// The first group of all, to which the rule above does not apply.
    pub first: bool,
    /// The only process in it is the one that asks.
    pub alone: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// As it is.
    Use(PathBuf),
    /// Once it gives its controllers on.
    Give(PathBuf),
    /// Once the asking process has gone into a group of its own below it, and it gives its controllers on.
    Divide(PathBuf),
    /// Why not, and what would help.
    Nowhere(String),
}

/// `levels`: the own group first, then each one above it, up to where the hierarchy is mounted.
#[must_use]
pub fn choose(levels: &[Level]) -> Choice {
    let Some((own, above)) = levels.split_first() else {
        return Choice::Nowhere("this process has no control group".to_owned());
    };
    let wanted = |some: &[Controller]| some.contains(&Controller::Memory);
    if !levels.iter().any(|one| wanted(&one.controllers)) {
        // Controllers are in version 1; this one is good for ending all of an attempt at once.
        return match own.writable {
            true => Choice::Use(own.path.clone()),
            false => Choice::Nowhere(no_rights(own)),
        };
    }
    if own.first && own.writable && wanted(&own.given) {
        return Choice::Use(own.path.clone());
    }
    if let Some(parent) = above.first()
        && is_unit(&parent.path)
        && parent.may_give
        && parent.writable
        && wanted(&parent.controllers)
    {
        return Choice::Give(parent.path.clone());
    }
    if let Some(one) = above.iter().find(|one| one.writable && wanted(&one.given)) {
        return Choice::Use(one.path.clone());
    }
    if is_service(&own.path) {
        return Choice::Nowhere(
            "its service's control group holds the agent itself and cannot be divided: DelegateSubgroup= in the unit, \
             which needs systemd 254 or newer, gives the agent a group of its own"
                .to_owned(),
        );
    }
    if own.writable && own.may_give && own.alone && wanted(&own.controllers) {
        return Choice::Divide(own.path.clone());
    }
    Choice::Nowhere(no_rights(own))
}

fn no_rights(own: &Level) -> String {
    format!(
        "this process may make no control groups at {}: run the agent as the service that `sweep agent install` makes, \
         or under `systemd-run --user --scope -p Delegate=yes`",
        own.path.display()
    )
}

fn is_service(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "service")
}

/// Made by systemd for one unit, which it leaves to the unit.
fn is_unit(path: &Path) -> bool {
    is_service(path) || path.extension().is_some_and(|end| end == "scope")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Controller; 3] = Controller::ALL;

    /// A group that has the controllers and gives them on as systemd's slices do.
    fn level(path: &str) -> Level {
        Level {
            path: path.into(),
            controllers: ALL.into(),
            given: ALL.into(),
            ..Level::default()
        }
    }

    fn leaf(path: &str) -> Level {
        Level {
            given: Vec::new(),
            ..level(path)
        }
    }

    fn ours(level: Level) -> Level {
        Level {
            writable: true,
            may_give: true,
            ..level
        }
    }

    #[test]
    fn a_service_whose_agent_has_a_group_of_its_own() {
        let unit = "/c/system.slice/sweep-agent.service";
        let own = ours(leaf("/c/system.slice/sweep-agent.service/agent"));
        let above = [level("/c/system.slice"), level("/c")];
        let before = [vec![own.clone(), ours(leaf(unit))], above.to_vec()].concat();
        assert_eq!(choose(&before), Choice::Give(unit.into()));
        let again = [vec![own, ours(level(unit))], above.to_vec()].concat();
        assert_eq!(choose(&again), Choice::Give(unit.into()));
    }

    #[test]
    fn a_service_of_an_older_systemd_is_not_divided() {
        let levels = [
            ours(leaf("/c/s.slice/sweep-agent.service")),
            level("/c/s.slice"),
        ];
        let Choice::Nowhere(why) = choose(&levels) else {
            panic!("{:?}", choose(&levels));
        };
        assert!(why.contains("DelegateSubgroup"), "{why}");
    }

    #[test]
    fn root_uses_what_lies_above_its_session() {
        let levels = [
            ours(leaf("/c/user.slice/session-1.scope")),
            ours(level("/c/user.slice")),
            ours(level("/c")),
        ];
        assert_eq!(choose(&levels), Choice::Use("/c/user.slice".into()));
        // A slice that gives too little on is passed over.
        let mut fewer = levels.clone();
        fewer[1].given = vec![Controller::Pids];
        assert_eq!(choose(&fewer), Choice::Use("/c".into()));
        let mut service = levels;
        service[0].path = "/c/user.slice/sweep-agent.service".into();
        assert_eq!(choose(&service), Choice::Use("/c/user.slice".into()));
    }

    #[test]
    fn the_first_group_of_all_is_no_service() {
        let first = Level {
            first: true,
            ..ours(level("/c"))
        };
        assert_eq!(choose(&[first]), Choice::Use("/c".into()));
    }

    #[test]
    fn a_scope_that_is_the_agents_alone_is_divided_and_another_is_not() {
        let scope = Level {
            alone: true,
            ..ours(leaf("/c/u.slice/run-1.scope"))
        };
        let levels = [scope, level("/c/u.slice")];
        assert_eq!(
            choose(&levels),
            Choice::Divide("/c/u.slice/run-1.scope".into())
        );
        let mut shared = levels.clone();
        shared[0].alone = false;
        assert!(matches!(choose(&shared), Choice::Nowhere(_)));
    }

    #[test]
    fn without_rights_it_says_what_to_do() {
        let levels = [leaf("/c/u.slice/session-1.scope"), level("/c/u.slice")];
        let Choice::Nowhere(why) = choose(&levels) else {
            panic!("{:?}", choose(&levels));
        };
        assert!(
            why.contains("/c/u.slice/session-1.scope") && why.contains("agent install"),
            "{why}"
        );
        assert!(matches!(choose(&[]), Choice::Nowhere(_)));
    }

    /// Beside version 1.
    #[test]
    fn a_hierarchy_without_controllers_holds_attempts_together() {
        let own = Level {
            path: "/u/x.service".into(),
            writable: true,
            ..Level::default()
        };
        assert_eq!(choose(&[own]), Choice::Use("/u/x.service".into()));
    }
}
