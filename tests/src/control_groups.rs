//! Control groups as a test sees them: whether this process may make some with a limit, and which lie there for an
//! agent's attempts. Where it may not, a test says loudly that it is skipped.

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// Whether an agent started from here can limit memory: asked of the agent itself.
#[must_use]
pub fn may_limit(hosts: &serde_json::Value) -> bool {
    let degraded = &hosts["degraded"];
    let lines = degraded.as_array().cloned().unwrap_or_default();
    let refused = lines
        .iter()
        .filter_map(|line| line.as_str())
        .find(|line| line.contains("not enforced"));
    if let Some(why) = refused {
        println!("SKIPPED: no control groups here: {why}");
    }
    refused.is_none()
}

/// The groups whose name ends with this attempt's id, in every hierarchy.
#[must_use]
pub fn groups_of(attempt: &str) -> Vec<PathBuf> {
    let end = attempt.replace('/', "~");
    let mut found = Vec::new();
    walk(Path::new(ROOT), 6, &mut |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("sweep-") && name.ends_with(&end) {
            found.push(path.to_owned());
        }
    });
    found
}

/// Removes what attempts of this room were held in: who kills an agent and its shepherds takes that over from them.
pub(crate) fn remove_groups_of(room: &Path) {
    let mut orders = Vec::new();
    walk(room, 9, &mut |path| orders.push(path.join("order.json")));
    for order in orders {
        let text = fs::read(order).unwrap_or_default();
        let order: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let parts = order["group"].as_array().cloned().unwrap_or_default();
        for path in parts.iter().filter_map(|part| part["path"].as_str()) {
            // Gone already, mostly.
            let _ = fs::remove_dir(path);
        }
    }
}

fn walk(folder: &Path, depth: u32, see: &mut impl FnMut(&Path)) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for entry in folders {
        see(&entry.path());
        if depth > 0 {
            walk(&entry.path(), depth - 1, see);
        }
    }
}
