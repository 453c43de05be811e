//! Where the agent lives: its folder, the disk under it, the clock, and the data that the host's file names.
//! Reads no secret's content and lists no data set.

use std::fs;
use std::path::Path;

use super::Check;
use crate::config::HostConfig;
use crate::os;

/// Checkpoints, logs and a kit; a full disk ends trainings.
const ENOUGH: u64 = 20 << 30;
const TOO_LITTLE: u64 = 1 << 30;
/// 2026-01-01: no version of this program is older.
const EARLIEST_MS: u64 = 1_767_225_600_000;

/// Makes nothing: a folder made by another user than the agent's would shut the agent out.
pub fn folder(folder: &Path) -> Vec<Check> {
    let there = nearest(folder);
    let shown = folder.display();
    if let Err(error) = os::may_write(there) {
        let fix = "let the user that runs the agent own that folder, or name another with --data";
        return vec![Check::failed(
            "folder",
            format!("{shown}: {} cannot be written: {error}", there.display()),
            fix,
        )];
    }
    let found = if there == folder {
        format!("{shown} can be written")
    } else {
        format!("{shown} can be made")
    };
    let mut checks = vec![if os::is_root_on_anothers(there) {
        let fix = "run this as the user that the agent runs as: what root may says nothing of it";
        Check::warning(
            "folder",
            format!("{found} by root; it is another user's"),
            fix,
        )
    } else {
        Check::ok("folder", found)
    }];
    checks.extend(os::free_space(there).map(disk));
    checks
}

/// The folder, or what of it is there already.
pub fn nearest(folder: &Path) -> &Path {
    let mut all = folder.ancestors();
    all.find(|one| one.is_dir()).unwrap_or(Path::new("/"))
}

fn disk(free: u64) -> Check {
    let says = format!("{:.1} GiB free", free as f64 / (1_u64 << 30) as f64);
    let fix = "make room, or move the folder with --data";
    match free {
        0..TOO_LITTLE => Check::failed("disk", says, fix),
        TOO_LITTLE..ENOUGH => Check::warning("disk", says, fix),
        _ => Check::ok("disk", says),
    }
}

/// Nothing rests on it but what people read; TLS certificates would.
pub fn clock(now_ms: u64) -> Check {
    let says = proto::time::rfc3339(now_ms);
    if now_ms < EARLIEST_MS {
        let fix = "set the clock (timedatectl set-ntp true): certificates and logs go by it";
        return Check::warning("clock", says, fix);
    }
    Check::ok("clock", says)
}

pub fn resources(config: &HostConfig) -> Vec<Check> {
    if config.simulated {
        return Vec::new();
    }
    let mut checks = Vec::new();
    let named = [("data set", &config.datasets), ("model", &config.models)];
    for (kind, all) in named {
        checks.extend(all.iter().map(|(name, path)| resource(kind, name, path)));
    }
    let secrets = config.secrets.iter();
    checks.extend(secrets.map(|(name, path)| secret(name, path)));
    checks
}

fn resource(kind: &str, name: &str, path: &Path) -> Check {
    let what = format!("{kind} {name}");
    let there = fs::metadata(path).and_then(|about| {
        if about.is_dir() {
            fs::read_dir(path).map(drop)
        } else {
            fs::File::open(path).map(drop)
        }
    });
    match there {
        Ok(()) => Check::ok(what, path.display().to_string()),
        Err(error) => Check::failed(
            what,
            format!("{}: {error}", path.display()),
            "put it there, correct its path in the host's file, or take it out: jobs that require it come here",
        ),
    }
}

fn secret(name: &str, path: &Path) -> Check {
    let what = format!("secret {name}");
    let shown = path.display();
    if let Err(error) = fs::File::open(path) {
        let fix = "put the file there, readable by the user that runs the agent";
        return Check::failed(what, format!("{shown}: {error}"), fix);
    }
    if os::everybody_may_read(path) {
        let fix = format!("chmod 600 {shown}");
        return Check::warning(what, format!("{shown} can be read by every user"), fix);
    }
    Check::ok(what, shown.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_disk_and_a_clock_are_judged_by_their_figures() {
        assert_eq!(disk(500 << 20).state, State::Failed);
        assert_eq!(disk(5 << 30).state, State::Warning);
        assert_eq!(disk(50 << 30).state, State::Ok);
        assert_eq!(clock(0).state, State::Warning);
        assert_eq!(clock(EARLIEST_MS).state, State::Ok);
        assert_eq!(clock(EARLIEST_MS).says, "2026-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_folder_that_cannot_be_is_told() {
        let room = tempfile::tempdir().unwrap();
        let agent = room.path().join("data/agents/box");
        let found = folder(&agent);
        assert_eq!(found[0].state, State::Ok, "{found:?}");
        assert!(found[0].says.ends_with("can be made"));
        assert!(!room.path().join("data").exists(), "nothing is made");
        fs::create_dir_all(&agent).unwrap();
        assert!(folder(&agent)[0].says.ends_with("can be written"));
    }
}
