//! Reading /proc: who descends from whom, how much memory they hold, who carries a mark; and ending the leftovers of
//! an attempt whose shepherd is gone. A process that ends while it is read is simply not there.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::attempt::Process;

const ROUNDS: u32 = 200;
const ROUND: Duration = Duration::from_millis(10);

/// Ticks from boot to the start of a process; absent when there is none, or only its dead shell.
#[must_use]
pub fn started(pid: u32) -> Option<u64> {
    let stat = Stat::read(pid)?;
    (stat.state != 'Z' && stat.state != 'X').then_some(stat.started)
}

pub(super) struct Stat {
    pub state: char,
    pub parent: u32,
    pub session: u32,
    pub started: u64,
}

impl Stat {
    pub fn read(pid: u32) -> Option<Self> {
        // The name in parentheses may itself hold blanks and parentheses: everything counts from the last one.
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let mut fields = text.rsplit_once(") ")?.1.split(' ');
        Some(Self {
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            session: fields.nth(1)?.parse().ok()?,
            started: fields.nth(15)?.parse().ok()?,
        })
    }
}

pub(super) fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Every process below `root`, without it.
pub(super) fn descendants(root: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let Some(first) = children(root) else {
        return descendants_by_parent(root);
    };
    let mut open = first;
    while let Some(pid) = open.pop() {
        found.push(pid);
        open.extend(children(pid).unwrap_or_default());
    }
    found
}

/// Absent where the kernel does not list children, or the process is gone.
fn children(pid: u32) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let list = fs::read_to_string(thread.path().join("children")).ok()?;
        found.extend(
            list.split_ascii_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
    }
    Some(found)
}

fn descendants_by_parent(root: u32) -> Vec<u32> {
    let mut below: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in all() {
        if let Some(stat) = Stat::read(pid) {
            below.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = below.remove(&root).unwrap_or_default();
    while let Some(pid) = open.pop() {
        found.push(pid);
        open.extend(below.remove(&pid).unwrap_or_default());
    }
    found
}

/// Bytes resident now.
pub(super) fn resident(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

/// At its highest, what lay between two looks among it.
pub(super) fn resident_peak(pid: u32) -> u64 {
    status_bytes(pid, "VmHWM:")
}

fn status_bytes(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Processes whose environment has exactly this `NAME=value`.
pub(super) fn marked(mark: &str) -> Vec<u32> {
    let own = std::process::id();
    let has = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|one| one == mark.as_bytes())
    };
    let mut found: Vec<u32> = all().filter(|pid| *pid != own).filter(has).collect();
    found.retain(|pid| started(*pid).is_some());
    found
}

/// Whether a variable of the process begins like this; absent where it cannot be looked at.
pub fn has_variable(pid: u32, start: &str) -> Option<bool> {
    let environment = match fs::read(format!("/proc/{pid}/environ")) {
        Ok(environment) => environment,
        // Of another user: none of ours.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Some(false),
        Err(_) => return None,
    };
    let mut words = environment.split(|byte| *byte == 0);
    Some(words.any(|word| word.starts_with(start.as_bytes())))
}

/// The path of its program, or the name that it gave itself.
pub fn program_of(pid: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let path = path.and_then(|path| {
        path.to_str()
            .map(|path| path.trim_end_matches(" (deleted)").to_owned())
    });
    path.or_else(|| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(name.trim().to_owned())
    })
}

pub(super) fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = pid_of(pid) {
        // It may have ended by now, which is what is wanted.
        let _ = kill_process(pid, signal);
    }
}

pub(super) fn kill_group(group: u32, signal: Signal) {
    if let Some(group) = pid_of(group) {
        let _ = kill_process_group(group, signal);
    }
}

pub(super) fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?).filter(|pid| pid.as_raw_nonzero().get() > 1)
}

/// Kills what an attempt left running without its shepherd: the shepherd's session, everything below those, and
/// whatever carries the attempt's mark. Returns how many were found and how many would not go.
pub fn end_leftovers(shepherd: Option<Process>, mark: &str) -> (usize, usize) {
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..ROUNDS {
        let mut found = marked(mark);
        if let Some(shepherd) = shepherd {
            found.extend(session_members(shepherd));
        }
        let below: Vec<u32> = found.iter().flat_map(|pid| descendants(*pid)).collect();
        found.extend(below);
        found.retain(|pid| started(*pid).is_some());
        if found.is_empty() {
            return (seen.len(), 0);
        }
        seen.extend(found.iter().copied());
        for pid in found {
            kill(pid, Signal::KILL);
        }
        if round > 0 {
            std::thread::sleep(ROUND);
        }
    }
    (seen.len(), marked(mark).len())
}

/// Members of the session that the shepherd made for itself and its program, also when both are gone: the kernel
/// gives an id to nobody else while a session has it. A process older than the shepherd is of another session.
fn session_members(shepherd: Process) -> Vec<u32> {
    if started(shepherd.pid).is_some_and(|now| now != shepherd.started) {
        return Vec::new();
    }
    let own = std::process::id();
    let is_of = |pid: &u32| {
        Stat::read(*pid).is_some_and(|stat| {
            stat.session == shepherd.pid && stat.started >= shepherd.started && *pid != own
        })
    };
    all().filter(is_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_child_are_seen() {
        let own = std::process::id();
        assert!(started(own).is_some());
        assert!(resident(own) > 1 << 20);
        let mark = format!("SWEEP_TEST_MARK=of {own}");
        let mut command = std::process::Command::new("sleep");
        let (name, value) = mark.split_once('=').unwrap();
        let mut child = command.arg("30").env(name, value).spawn().unwrap();
        assert!(descendants(own).contains(&child.id()));
        assert!(descendants_by_parent(own).contains(&child.id()));
        // Its environment is there a moment after it has been started.
        while marked(&mark).is_empty() {
            std::thread::sleep(ROUND);
        }
        let reaper = std::thread::spawn(move || child.wait());
        assert_eq!(end_leftovers(None, &mark), (1, 0));
        assert!(!reaper.join().unwrap().unwrap().success());
        assert_eq!(end_leftovers(None, &mark), (0, 0));
    }
}
