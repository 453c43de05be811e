//! After the program: ends whatever it left running, and notes what the disk has to do with its failure.
//! Leaves no process behind that it can see; what the kernel will not let go is named.

use std::time::Duration;

use crate::attempt::AttemptFolder;
use crate::attempt::command;
use crate::attempt::facts::Facts;
use crate::attempt::order::Order;
use crate::os::{self, Reins};

/// What a program left behind may finish, e.g. an upload, after being asked to end.
const BACKGROUND_GRACE: Duration = Duration::from_secs(2);
/// Below this a disk counts as full.
const FULL: u64 = 1 << 20;

pub fn end_rest(reins: &mut Reins, folder: &AttemptFolder, facts: &mut Facts) {
    end_below(reins, folder, facts);
    let stuck = reins.let_go();
    if stuck > 0 {
        facts.trouble.push(format!(
            "{stuck} processes in its control group could not be ended"
        ));
    }
}

fn end_below(reins: &Reins, folder: &AttemptFolder, facts: &mut Facts) {
    let mark = command::mark(folder);
    if reins.left_something() {
        facts.left = u32::try_from(reins.count_rest()).unwrap_or(u32::MAX);
        // Those that were asked with the program have had their time.
        if facts.why.is_none() {
            reins.ask_rest();
            if reins.wait_rest(BACKGROUND_GRACE) {
                return;
            }
        }
    } else if facts.why.is_none() {
        // The usual case: it left nothing.
        return;
    }
    let stuck = reins.kill_rest(&mark);
    if stuck > 0 {
        facts
            .trouble
            .push(format!("{stuck} of its processes could not be ended"));
    }
}

/// A program that fails on a full disk often cannot even say so.
pub fn note_full_disk(folder: &AttemptFolder, order: &Order, facts: &mut Facts) {
    if facts.exit == Some(0) {
        return;
    }
    for path in [folder.path(), order.folder.as_path()] {
        if os::free_space(path).is_some_and(|free| free < FULL) {
            let text = format!(
                "could not write to {}: No space left on device",
                path.display()
            );
            facts.trouble.push(text);
            return;
        }
    }
}
