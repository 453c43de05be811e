//! The control groups of one attempt: made with its limits, entered by its program, read at its end, emptied and removed.
//! Kept in the attempt's order, so that whoever finds the attempt without its shepherd can end it all the same.
//! A limit that the kernel refuses is told, not passed over.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use vram::Bytes;

use super::{Controller, Version};
use crate::attempt::{Contained, Limits};
use crate::clock;
use crate::os::unix::processes::kill;

const ROUND: Duration = Duration::from_millis(2);
/// A process in an uninterruptible wait (a hung driver) may never go.
const PATIENCE: Duration = Duration::from_secs(10);
/// Version 1 says so where there is no limit.
const NO_LIMIT: u64 = 1 << 62;
/// Of version 1's cpu.shares, what 100 is in version 2.
const SHARES: u64 = 1024;

/// A folder of one hierarchy, with what can be limited there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub path: PathBuf,
    pub version: Version,
    pub controllers: Vec<Controller>,
}

/// One folder in each hierarchy that is of use; none where no group may be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Group(Vec<Part>);

impl Group {
    pub(super) fn of(parts: Vec<Part>) -> Self {
        Self(parts)
    }

    #[must_use]
    pub fn exists(&self) -> bool {
        self.0.iter().any(|part| part.path.exists())
    }

    /// Makes the folders and sets what of the limits has a controller here.
    pub fn make(&self, limits: &Limits) -> Result<(), String> {
        for part in &self.0 {
            fs::create_dir(&part.path).map_err(|error| said("make", &part.path, &error))?;
        }
        for (controller, files) in settings(limits) {
            let Some(part) = self.part(controller) else {
                continue;
            };
            let own = files
                .into_iter()
                .filter(|(version, ..)| *version == part.version);
            for (_, name, value, needed) in own {
                let path = part.path.join(name);
                if let (Err(error), true) = (fs::write(&path, value), needed) {
                    return Err(said("set", &path, &error));
                }
            }
        }
        Ok(())
    }

    /// Whoever writes a 0 there goes in.
    pub fn doors(&self) -> Result<Vec<File>, String> {
        let open = |part: &Part| {
            let path = part.path.join("cgroup.procs");
            let door = File::options().write(true).open(&path);
            door.map_err(|error| said("open", &path, &error))
        };
        self.0.iter().map(open).collect()
    }

    /// Absent where nothing was made.
    #[must_use]
    pub fn contained(&self) -> Option<Contained> {
        if !self.exists() {
            return None;
        }
        let read = |controller, version_2: &str, version_1: &str| {
            let part = self.part(controller)?;
            let name = match part.version {
                Version::V1 => version_1,
                Version::V2 => version_2,
            };
            fs::read_to_string(part.path.join(name)).ok()
        };
        let memory =
            |version_2, version_1| number(&read(Controller::Memory, version_2, version_1)?);
        let counted = read(Controller::Memory, "memory.events", "memory.oom_control");
        let refused = read(Controller::Pids, "pids.events", "pids.events");
        let processes =
            read(Controller::Pids, "pids.max", "pids.max").and_then(|text| number(&text));
        Some(Contained {
            memory_limit: memory("memory.max", "memory.limit_in_bytes")
                .filter(|bytes| *bytes < NO_LIMIT)
                .map(Bytes),
            memory_peak: memory("memory.peak", "memory.max_usage_in_bytes").map(Bytes),
            oom_kills: counted.map_or(0, |text| entry(&text, "oom_kill")),
            refused_memory: 0,
            process_limit: processes.and_then(|limit| u32::try_from(limit).ok()),
            refused: refused.map_or(0, |text| entry(&text, "max")),
        })
    }

    /// Whether the kernel has killed in it for want of memory.
    #[must_use]
    pub fn has_oom_kill(&self) -> bool {
        self.part(Controller::Memory).is_some_and(|part| {
            let name = match part.version {
                Version::V1 => "memory.oom_control",
                Version::V2 => "memory.events",
            };
            let text = fs::read_to_string(part.path.join(name)).unwrap_or_default();
            entry(&text, "oom_kill") > 0
        })
    }

    /// Kills everything in it, once; true when nothing was there.
    pub fn kill(&self) -> bool {
        if let Some(part) = self.part(Controller::Pids) {
            // Who is killed one by one must not be able to have children faster than that.
            let _ = fs::write(part.path.join("pids.max"), "0");
        }
        let mut empty = true;
        for part in &self.0 {
            let inside = members(&part.path);
            if inside.is_empty() {
                continue;
            }
            empty = false;
            if part.version == Version::V2 && fs::write(part.path.join("cgroup.kill"), "1").is_ok()
            {
                continue;
            }
            for pid in inside.into_iter().filter(|pid| *pid != std::process::id()) {
                kill(pid, Signal::KILL);
            }
        }
        empty
    }

    /// Kills everything in it and removes it; returns how many processes would not go.
    #[must_use]
    pub fn end(&self) -> usize {
        let begin = clock::monotonic();
        loop {
            let empty = self.kill();
            let removed = empty && self.0.iter().all(|part| remove(&part.path));
            if removed {
                return 0;
            }
            if begin.elapsed() >= PATIENCE {
                return self
                    .0
                    .iter()
                    .map(|part| members(&part.path).len())
                    .max()
                    .unwrap_or(0);
            }
            std::thread::sleep(ROUND);
        }
    }

    fn part(&self, controller: Controller) -> Option<&Part> {
        self.0
            .iter()
            .find(|part| part.controllers.contains(&controller))
    }
}

/// File, value, and whether it must be so: of each controller, for both versions.
type Setting = (Version, &'static str, String, bool);

fn settings(limits: &Limits) -> Vec<(Controller, Vec<Setting>)> {
    use Version::{V1, V2};
    let mut all = Vec::new();
    if let Some(memory) = limits.memory {
        let bytes = memory.0.to_string();
        all.push((
            Controller::Memory,
            vec![
                (V2, "memory.max", bytes.clone(), true),
                // Swapped out it would go on, some hundred times slower. Not every kernel counts swap.
                (V2, "memory.swap.max", "0".to_owned(), false),
                // It dies whole: half of a job is of no use.
                (V2, "memory.oom.group", "1".to_owned(), false),
                (V1, "memory.limit_in_bytes", bytes.clone(), true),
                (V1, "memory.memsw.limit_in_bytes", bytes, false),
            ],
        ));
    }
    if let Some(weight) = limits.cpu_weight {
        let shares = (u64::from(weight) * SHARES / 100).max(2);
        all.push((
            Controller::Cpu,
            vec![
                (V2, "cpu.weight", weight.to_string(), true),
                (V1, "cpu.shares", shares.to_string(), true),
            ],
        ));
    }
    if let Some(processes) = limits.processes {
        let most = processes.to_string();
        all.push((
            Controller::Pids,
            vec![
                (V2, "pids.max", most.clone(), true),
                (V1, "pids.max", most, true),
            ],
        ));
    }
    all
}

fn said(what: &str, path: &Path, error: &io::Error) -> String {
    format!(
        "could not {what} the control group {}: {error}",
        path.display()
    )
}

/// Of it and of the groups that its processes have made below it.
fn members(path: &Path) -> Vec<u32> {
    let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    let mut found: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for below in folders(path) {
        found.extend(members(&below));
    }
    found
}

/// True when it is gone. A process that was just killed may hold it for a moment.
pub(super) fn remove(path: &Path) -> bool {
    for below in folders(path) {
        remove(&below);
    }
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Absent for `max`.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn entry(text: &str, name: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            memory: Some(Bytes(64 << 20)),
            cpu_weight: Some(50),
            processes: Some(9),
        }
    }

    /// Plain files in the place of the kernel's: what is written where, and what is read from where.
    fn pretended(version: Version, files: &[(&str, &str)]) -> (tempfile::TempDir, Group) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("group");
        let group = Group::of(vec![Part {
            path: path.clone(),
            version,
            controllers: Controller::ALL.into(),
        }]);
        group.make(&limits()).unwrap();
        for (name, text) in files {
            fs::write(path.join(name), text).unwrap();
        }
        (root, group)
    }

    #[test]
    fn version_2_is_written_and_read() {
        let files = [
            ("memory.peak", "67108864\n"),
            (
                "memory.events",
                "low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\noom_group_kill 1\n",
            ),
            ("pids.events", "max 7\n"),
        ];
        let (root, group) = pretended(Version::V2, &files);
        let read = |name: &str| fs::read_to_string(root.path().join("group").join(name)).unwrap();
        assert_eq!(read("memory.max"), "67108864");
        assert_eq!(
            (read("memory.swap.max"), read("memory.oom.group")),
            ("0".into(), "1".into())
        );
        assert_eq!(
            (read("cpu.weight"), read("pids.max")),
            ("50".into(), "9".into())
        );
        let seen = group.contained().unwrap();
        assert_eq!(seen.memory_limit, Some(Bytes(64 << 20)));
        assert_eq!(
            (seen.memory_peak, seen.oom_kills),
            (Some(Bytes(64 << 20)), 3)
        );
        assert_eq!((seen.process_limit, seen.refused), (Some(9), 7));
        assert!(group.has_oom_kill());
    }

    #[test]
    fn version_1_is_written_and_read() {
        let files = [
            ("memory.max_usage_in_bytes", "4096\n"),
            (
                "memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
            ),
            ("pids.events", "max 0\n"),
        ];
        let (root, group) = pretended(Version::V1, &files);
        let read = |name: &str| fs::read_to_string(root.path().join("group").join(name)).unwrap();
        assert_eq!(read("memory.limit_in_bytes"), "67108864");
        assert_eq!(read("cpu.shares"), "512");
        let seen = group.contained().unwrap();
        assert_eq!(
            (seen.memory_peak, seen.oom_kills, seen.refused),
            (Some(Bytes(4096)), 0, 0)
        );
        assert!(!group.has_oom_kill());
    }

    #[test]
    fn a_group_that_was_never_made_is_nothing() {
        let group = Group::of(vec![Part {
            path: "/no/such/folder".into(),
            version: Version::V2,
            controllers: Controller::ALL.into(),
        }]);
        assert_eq!(group.contained(), None);
        assert_eq!(group.end(), 0);
        assert!(
            group
                .make(&limits())
                .unwrap_err()
                .contains("/no/such/folder")
        );
        assert!(Group::default().kill());
    }
}
