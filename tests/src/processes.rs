//! Which processes belong to a test, read from /proc, and ending them by their ids. What has ended but is not buried
//! yet does not count as alive.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Living processes whose environment or arguments contain `text`; never this one.
#[must_use]
pub fn living(text: &str) -> Vec<u32> {
    let names = |pid: u32| {
        ["environ", "cmdline"].iter().any(|file| {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(text)
        })
    };
    all().filter(|pid| names(*pid) && is_alive(*pid)).collect()
}

/// The processes whose environment or arguments contain `text`, and everything that those have started.
#[must_use]
pub(crate) fn family(text: &str) -> Vec<u32> {
    let parents: BTreeMap<u32, u32> = all().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found: BTreeSet<u32> = living(text).into_iter().collect();
    loop {
        let more = parents
            .iter()
            .filter(|(pid, parent)| found.contains(parent) && !found.contains(pid));
        let more: Vec<u32> = more
            .map(|(pid, _)| *pid)
            .filter(|pid| is_alive(*pid))
            .collect();
        if more.is_empty() {
            return found.into_iter().collect();
        }
        found.extend(more);
    }
}

/// Living processes of one attempt: its program and whatever that started.
#[must_use]
pub fn attempt_processes(attempt: &str) -> Vec<u32> {
    let wanted = format!("SWEEP_ATTEMPT={attempt}");
    let marked = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|one| one == wanted.as_bytes())
    };
    all().filter(|pid| marked(*pid) && is_alive(*pid)).collect()
}

/// The shepherd of an attempt: it is started with the attempt's folder as its argument.
#[must_use]
pub fn shepherd_of(attempt: &str) -> Option<u32> {
    let folder = format!("/attempts/{attempt}");
    let is_shepherd = |pid: &u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut arguments = arguments.split(|byte| *byte == 0).skip(1);
        arguments.next() == Some(b"shepherd")
            && arguments
                .next()
                .is_some_and(|path| path.ends_with(folder.as_bytes()))
    };
    all().find(|pid| is_shepherd(pid) && is_alive(*pid))
}

pub fn kill9(pid: u32) {
    signal(pid, Signal::KILL);
}

pub fn terminate(pid: u32) {
    signal(pid, Signal::TERM);
}

pub fn freeze(pid: u32) {
    signal(pid, Signal::STOP);
}

pub fn thaw(pid: u32) {
    signal(pid, Signal::CONT);
}

fn signal(pid: u32, signal: Signal) {
    let raw = i32::try_from(pid).ok().filter(|pid| *pid > 1);
    let pid = raw.and_then(Pid::from_raw).expect("a process id");
    // It may have ended by itself meanwhile.
    let _ = kill_process(pid, signal);
}

fn all() -> impl Iterator<Item = u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(move |pid| *pid != own)
}

fn is_alive(pid: u32) -> bool {
    let state = stat(pid).and_then(|stat| stat.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.split(' ').nth(1)?.parse().ok()
}

/// State, parent and so on.
fn stat(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // The name before it may hold anything, parentheses too.
    text.rsplit_once(") ").map(|(_, rest)| rest.to_owned())
}
