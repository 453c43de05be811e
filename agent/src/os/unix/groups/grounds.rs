//! Where this process may make control groups, found out at the agent's start, and what lies there of attempts that are
//! over. Changes nothing but what `choice` says: at most this process moves into a group of its own.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, access};

use super::choice::{Choice, Level, choose};
use super::group::{Group, Part, remove};
use super::hierarchy::{Hierarchy, hierarchies};
use super::{Controller, Version};
use crate::attempt::Limits;

/// The agent's own, below a group that it divides.
const LEAF: &str = "agent";

/// Folders in which attempts' groups are made, and why some limit has none.
#[derive(Clone, Debug, Default)]
pub struct Grounds {
    /// `path` is the folder that the groups lie in.
    spots: Vec<Part>,
    why: String,
}

impl Grounds {
    /// Finds them and takes them. Call it before anything is started that is to lie in a group.
    #[must_use]
    pub fn take() -> Self {
        Self::find(true)
    }

    /// What [`Grounds::take`] would find; changes nothing.
    #[must_use]
    pub fn look() -> Self {
        Self::find(false)
    }

    fn find(take: bool) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let all = hierarchies(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let mut grounds = Self::default();
        for one in &all {
            let spot = match one.version {
                Version::V1 if one.controllers.is_empty() => continue,
                Version::V1 => of_version_1(one),
                Version::V2 => of_version_2(one, take),
            };
            match spot {
                Ok(spot) => grounds.spots.push(spot),
                Err(why) => grounds.why = why,
            }
        }
        if all.is_empty() {
            grounds.why = "no control groups are mounted here".to_owned();
        }
        grounds
    }

    /// The group of this name, everywhere at once. Nothing is made yet.
    #[must_use]
    pub fn group(&self, name: &str) -> Group {
        let below = |spot: &Part| Part {
            path: spot.path.join(name),
            ..spot.clone()
        };
        Group::of(self.spots.iter().map(below).collect())
    }

    /// Which of these limits nobody enforces here, why, and what would help.
    #[must_use]
    pub fn unenforced(&self, limits: &Limits) -> Option<String> {
        let wanted = [
            (Controller::Memory, limits.memory.is_some()),
            (Controller::Cpu, limits.cpu_weight.is_some()),
            (Controller::Pids, limits.processes.is_some()),
        ];
        let has = |one: &Controller| self.spots.iter().any(|spot| spot.controllers.contains(one));
        let lacking: Vec<&str> = wanted
            .into_iter()
            .filter(|(one, set)| *set && !has(one))
            .map(|(one, _)| one.key())
            .collect();
        let why = match self.why.as_str() {
            "" => "no control group here has that controller",
            why => why,
        };
        (!lacking.is_empty()).then(|| {
            format!(
                "[limits] {} of attempts {} not enforced: {why}",
                lacking.join(", "),
                if lacking.len() == 1 { "is" } else { "are" }
            )
        })
    }

    /// Groups here whose name begins so: the rest of the name, and the group.
    #[must_use]
    pub fn named(&self, begin: &str) -> Vec<(String, Group)> {
        let mut rests: Vec<String> = self
            .spots
            .iter()
            .flat_map(|spot| fs::read_dir(&spot.path).into_iter().flatten().flatten())
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix(begin)?.to_owned()))
            .collect();
        rests.sort();
        rests.dedup();
        let group = |rest: String| {
            let group = self.group(&format!("{begin}{rest}"));
            (rest, group)
        };
        rests.into_iter().map(group).collect()
    }
}

fn of_version_1(one: &Hierarchy) -> Result<Part, String> {
    if !may(&one.own, Access::WRITE_OK) {
        return Err(format!(
            "the control groups of version 1 at {} are not this user's; docs/containment.md says how root hands them over",
            one.own.display()
        ));
    }
    Ok(Part {
        path: one.own.clone(),
        version: Version::V1,
        controllers: one.controllers.clone(),
    })
}

fn of_version_2(one: &Hierarchy, take: bool) -> Result<Part, String> {
    let levels: Vec<Level> = one
        .own
        .ancestors()
        .take_while(|path| path.starts_with(&one.top))
        .enumerate()
        .map(|(at, path)| level(path, at == 0))
        .collect();
    let choice = choose(&levels);
    let (path, divide) = match choice {
        Choice::Use(path) => (path, false),
        Choice::Give(path) => {
            let done = if take { give(&path) } else { Ok(()) };
            done.map_err(|error| not_given(&path, &error))?;
            (path, true)
        }
        Choice::Divide(path) => {
            let done = if take { divided(&path) } else { Ok(()) };
            done.map_err(|error| not_given(&path, &error))?;
            (path, true)
        }
        Choice::Nowhere(why) => return Err(why),
    };
    // What would be given on, where nothing was done.
    let file = if divide && !take {
        "cgroup.controllers"
    } else {
        "cgroup.subtree_control"
    };
    Ok(Part {
        controllers: words(&path.join(file)),
        path,
        version: Version::V2,
    })
}

fn level(path: &Path, own: bool) -> Level {
    let procs = path.join("cgroup.procs");
    let is_alone = || {
        let members = fs::read_to_string(&procs).unwrap_or_default();
        members.trim() == std::process::id().to_string()
    };
    Level {
        controllers: words(&path.join("cgroup.controllers")),
        given: words(&path.join("cgroup.subtree_control")),
        writable: may(path, Access::WRITE_OK | Access::EXEC_OK) && may(&procs, Access::WRITE_OK),
        may_give: may(&path.join("cgroup.subtree_control"), Access::WRITE_OK),
        first: !path.join("cgroup.type").exists(),
        alone: own && is_alone(),
        path: path.to_owned(),
    }
}

fn give(path: &Path) -> io::Result<()> {
    let has = words(&path.join("cgroup.controllers"));
    let mut result = Ok(());
    for one in Controller::ALL.into_iter().filter(|one| has.contains(one)) {
        let given = fs::write(
            path.join("cgroup.subtree_control"),
            format!("+{}", one.word()),
        );
        // Without the others it is of use still.
        if one == Controller::Memory {
            result = given;
        }
    }
    result
}

fn divided(path: &Path) -> io::Result<()> {
    let leaf = path.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::write(leaf.join("cgroup.procs"), "0")?;
    give(path).inspect_err(|_| {
        // As it was before.
        let _ = fs::write(path.join("cgroup.procs"), "0");
        let _ = remove(&leaf);
    })
}

fn not_given(path: &Path, error: &io::Error) -> String {
    format!(
        "the control group {} does not give its controllers on: {error}",
        path.display()
    )
}

fn words(path: &Path) -> Vec<Controller> {
    Controller::of(&fs::read_to_string(path).unwrap_or_default())
}

fn may(path: &Path, what: Access) -> bool {
    access(path, what).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_enforces_is_said_with_its_key() {
        let all = Limits {
            memory: Some(vram::Bytes(1 << 30)),
            cpu_weight: Some(50),
            processes: Some(100),
        };
        let none = Grounds {
            spots: Vec::new(),
            why: "no rights".to_owned(),
        };
        assert_eq!(
            none.unenforced(&all).unwrap(),
            "[limits] memory, cpu_weight, processes of attempts are not enforced: no rights"
        );
        assert_eq!(none.unenforced(&Limits::default()), None);
        let memory = Grounds {
            spots: vec![Part {
                path: "/c".into(),
                version: Version::V2,
                controllers: vec![Controller::Memory, Controller::Pids],
            }],
            why: String::new(),
        };
        let said = memory.unenforced(&all).unwrap();
        assert!(
            said.starts_with("[limits] cpu_weight of attempts is not"),
            "{said}"
        );
    }

    /// Whatever this machine allows.
    #[test]
    fn looking_changes_nothing() {
        let before = fs::read_to_string("/proc/self/cgroup").unwrap();
        let grounds = Grounds::look();
        let group = grounds.group("sweep-test-of-a-look");
        assert_eq!(fs::read_to_string("/proc/self/cgroup").unwrap(), before);
        assert!(!group.exists());
        assert!(grounds.named("sweep-test-of-a-look").is_empty());
    }
}
