//! Which hierarchies of control groups this process sees and where it is in each, from the texts of
//! `/proc/self/cgroup` and `/proc/self/mountinfo`. Pure. A hierarchy whose place it cannot name is left out.

use std::path::{Path, PathBuf};

use super::{Controller, Version};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    /// Bound to it; version 2 says elsewhere what it has.
    pub controllers: Vec<Controller>,
    /// Where it is mounted.
    pub top: PathBuf,
    /// This process's own group, below `top`.
    pub own: PathBuf,
}

#[must_use]
pub fn hierarchies(groups: &str, mounts: &str) -> Vec<Hierarchy> {
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(bound), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let version = if bound.is_empty() {
            Version::V2
        } else {
            Version::V1
        };
        let of = |mount: &&Mount| {
            mount.version == version
                && (bound.is_empty() || mount.options == bound.split(',').collect::<Vec<_>>())
        };
        let own = mounts
            .iter()
            .filter(of)
            .find_map(|mount| Some((mount, mount.place(path)?)));
        if let Some((mount, own)) = own {
            found.push(Hierarchy {
                version,
                controllers: Controller::of(bound),
                top: mount.at.clone(),
                own,
            });
        }
    }
    found
}

struct Mount<'a> {
    version: Version,
    /// Of the hierarchy, what is shown at the mount point.
    root: &'a str,
    at: PathBuf,
    /// Controllers among them, and `name=`.
    options: Vec<&'a str>,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, at) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let version = match after.next()? {
            "cgroup" => Version::V1,
            "cgroup2" => Version::V2,
            _ => return None,
        };
        let options = after.nth(1)?.split(',');
        // What every mount has, and what is a setting of the hierarchy.
        let settings = ["rw", "ro", "xattr", "clone_children", "noprefix", "all"];
        Some(Self {
            version,
            root,
            at: PathBuf::from(at.replace("\\040", " ")),
            options: options
                .filter(|one| !settings.contains(one) && !one.starts_with("release_agent="))
                .collect(),
        })
    }

    /// The folder of a group, if this mount shows it.
    fn place(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(self.root).ok()?;
        let plain = !path.contains("..");
        plain.then(|| self.at.join(below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(groups: &str, mounts: &str) -> Vec<(Version, String)> {
        let all = hierarchies(groups, mounts).into_iter();
        all.map(|one| (one.version, one.own.display().to_string()))
            .collect()
    }

    #[test]
    fn version_2_alone() {
        let found = hierarchies(
            "0::/system.slice/sweep-agent.service/agent\n",
            "32 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].version, Version::V2);
        assert_eq!(found[0].top, Path::new("/sys/fs/cgroup"));
        let own = "/sys/fs/cgroup/system.slice/sweep-agent.service/agent";
        assert_eq!(found[0].own, Path::new(own));
    }

    #[test]
    fn version_1_with_version_2_beside_it() {
        let groups = "8:pids:/user.slice\n4:memory:/a\n3:cpu,cpuacct:/\n1:name=systemd:/x.service\n0::/x.service\n";
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
            39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
            40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/x,name=systemd\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let found = hierarchies(groups, mounts);
        let controllers: Vec<_> = found.iter().map(|one| one.controllers.clone()).collect();
        let (memory, cpu, pids) = (Controller::Memory, Controller::Cpu, Controller::Pids);
        assert_eq!(
            controllers,
            [vec![pids], vec![memory], vec![cpu], vec![], vec![]]
        );
        assert_eq!(
            places(groups, mounts),
            [
                (Version::V1, "/sys/fs/cgroup/pids/user.slice".to_owned()),
                (Version::V1, "/sys/fs/cgroup/memory/a".to_owned()),
                (Version::V1, "/sys/fs/cgroup/cpu,cpuacct/".to_owned()),
                (Version::V1, "/sys/fs/cgroup/systemd/x.service".to_owned()),
                (Version::V2, "/sys/fs/cgroup/unified/x.service".to_owned()),
            ]
        );
    }

    /// A container shows a part of the hierarchy, or none that this process is in.
    #[test]
    fn a_mount_that_begins_further_down() {
        let mounts = "9 8 0:28 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        let v2 = |path: &str| places(&format!("0::{path}\n"), mounts);
        assert_eq!(v2("/docker/ab/x")[0].1, "/sys/fs/cgroup/x");
        assert_eq!(v2("/docker/abc"), []);
        let outside = "9 8 0:28 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(places("0::/\n", outside), []);
        assert_eq!(places("4:memory:/a\n", mounts), []);
    }
}
