//! What the kernel says about this process's memory: the limit it runs under, and kills for want of memory.
//! Absent figures stay absent.

use std::fs;
use std::path::PathBuf;

/// The smallest limit of this process's control group and of those above it (version 2, then version 1).
#[must_use]
pub fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = folders(&groups).into_iter().flat_map(|(folder, file)| {
        let above: Vec<PathBuf> = folder.ancestors().map(|at| at.join(file)).collect();
        above.into_iter().filter_map(|path| limit(&path))
    });
    limits.min()
}

/// Each group folder that may limit memory, with the name of its limit file.
fn folders(groups: &str) -> Vec<(PathBuf, &'static str)> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
                found.push((PathBuf::from(root).join(path), "memory.max"));
            }
        } else if controllers.split(',').any(|one| one == "memory") {
            let root = PathBuf::from("/sys/fs/cgroup/memory");
            found.push((root.join(path), "memory.limit_in_bytes"));
        }
    }
    found
}

/// Without a limit version 2 says `max`, and version 1 a number close to 2^63.
fn limit(path: &std::path::Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.trim().parse().ok().filter(|bytes| *bytes < 1 << 62)
}

/// How many processes the kernel has killed for want of memory, in this control group and altogether. Only a
/// difference means something.
#[must_use]
pub fn oom_kills() -> Option<u64> {
    let machine = counter("/proc/vmstat", "oom_kill");
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = folders(&groups)
        .into_iter()
        .find_map(|(folder, _)| counter(folder.join("memory.events").to_str()?, "oom_kill"));
    match (machine, own) {
        (None, None) => None,
        (machine, own) => Some(machine.unwrap_or(0).saturating_add(own.unwrap_or(0))),
    }
}

fn counter(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_folders_of_both_versions_are_found() {
        let found = folders("4:memory:/a/b\n9:name=systemd:/\n0::/user.slice/x\n");
        let text: Vec<_> = found
            .iter()
            .map(|(folder, file)| format!("{}/{file}", folder.display()))
            .collect();
        assert_eq!(
            text,
            [
                "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                "/sys/fs/cgroup/user.slice/x/memory.max",
                "/sys/fs/cgroup/unified/user.slice/x/memory.max",
            ]
        );
    }

    #[test]
    fn this_kernel_counts_its_kills() {
        assert!(oom_kills().is_some());
    }
}
