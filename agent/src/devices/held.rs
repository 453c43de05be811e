//! How much of a card processes hold that are not ours, and which. Pure: whose a process is, is an argument.
//!
//! Drivers tell processes with or without their figures, or none at all. What is not told lies between what strangers
//! are known to hold and what is not known to be ours; in that range the last sure figure is kept.

use std::collections::BTreeSet;

use vram::Bytes;

use super::names::friendly;
use super::{Live, Process};

/// So many are named; a desktop has dozens of small ones.
const NAMED: usize = 4;

/// Whose a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Of an attempt of this agent.
    Ours,
    Stranger,
    /// This agent cannot see it, as out of a container.
    Unseen,
}

/// What others hold of one card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub bytes: Bytes,
    /// `Ollama 512 MiB, Xorg (desktop) 200 MiB`; empty where no driver says.
    pub holders: String,
}

/// `active`: an attempt of ours has this card. `before`: what others held when it was last known.
#[must_use]
pub fn held(live: &Live, owner: impl Fn(u32) -> Owner, active: bool, before: Bytes) -> Held {
    let Some(memory) = live.memory else {
        // A card that does not say is taken for what it was.
        return Held {
            bytes: before,
            holders: String::new(),
        };
    };
    let all = live.processes.as_deref().unwrap_or_default();
    let of = |whose: Owner| -> Vec<&Process> {
        all.iter().filter(|one| owner(one.pid) == whose).collect()
    };
    let sum = |some: &[&Process]| some.iter().filter_map(|one| one.bytes).sum::<u64>();
    let (ours, unseen, mut others) = (of(Owner::Ours), of(Owner::Unseen), of(Owner::Stranger));
    // Without an attempt here nothing can be ours.
    if !active || !ours.is_empty() {
        others.extend(&unseen);
    }
    let most = memory.used.saturating_sub(sum(&ours));
    let least = sum(&others).min(most);
    let told = ours.iter().all(|one| one.bytes.is_some());
    let sure = !active && ours.is_empty() || !ours.is_empty() && told;
    let bytes = if sure {
        most
    } else {
        before.0.clamp(least, most)
    };
    Held {
        bytes: Bytes(bytes),
        holders: holders(others),
    }
}

/// What strangers are known to hold that `gives_way` names, and by whose leave.
#[must_use]
pub fn evictable(
    live: &Live,
    owner: impl Fn(u32) -> Owner,
    gives_way: impl Fn(&str) -> Option<usize>,
) -> (Bytes, BTreeSet<usize>) {
    let mut bytes = 0;
    let mut rules = BTreeSet::new();
    for one in live.processes.as_deref().unwrap_or_default() {
        if owner(one.pid) == Owner::Ours {
            continue;
        }
        if let (Some(rule), Some(some)) = (one.name.as_deref().and_then(&gives_way), one.bytes) {
            bytes += some;
            rules.insert(rule);
        }
    }
    (Bytes(bytes), rules)
}

fn holders(mut others: Vec<&Process>) -> String {
    others.sort_by_key(|one| (std::cmp::Reverse(one.bytes), one.pid));
    let rest = others.len().saturating_sub(NAMED);
    let mut said: Vec<String> = others
        .into_iter()
        .take(NAMED)
        .map(|one| {
            let name = match &one.name {
                Some(name) => friendly(name),
                None => format!("process {}", one.pid),
            };
            match one.bytes {
                Some(bytes) => format!("{name} {:.0} MiB", Bytes(bytes).mib()),
                None => name,
            }
        })
        .collect();
    if rest > 0 {
        said.push(format!("{rest} more"));
    }
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::Memory;

    const GIB: u64 = 1 << 30;

    fn live(used: u64, processes: Option<&[(u32, &str, Option<u64>)]>) -> Live {
        let process = |(pid, name, bytes): &(u32, &str, Option<u64>)| Process {
            pid: *pid,
            name: (!name.is_empty()).then(|| (*name).to_owned()),
            bytes: *bytes,
        };
        Live {
            memory: Some(Memory {
                total: 16 * GIB,
                used,
                reserved: None,
            }),
            processes: processes.map(|some| some.iter().map(process).collect()),
            ..Live::default()
        }
    }

    /// 1 to 9 are ours, those from 1000 are unseen.
    fn owner(pid: u32) -> Owner {
        match pid {
            0..10 => Owner::Ours,
            10..1000 => Owner::Stranger,
            _ => Owner::Unseen,
        }
    }

    #[track_caller]
    fn is(live: &Live, active: bool, before: u64, bytes: u64, holders: &str) {
        let held = held(live, owner, active, Bytes(before));
        assert_eq!((held.bytes.0, held.holders.as_str()), (bytes, holders));
    }

    #[test]
    fn without_an_attempt_everything_is_of_others() {
        is(&live(3 * GIB, None), false, 0, 3 * GIB, "");
        let some = [(20, "ollama", Some(2 * GIB)), (1001, "", Some(GIB / 2))];
        let said = "Ollama 2048 MiB, process 1001 512 MiB";
        is(&live(3 * GIB, Some(&some)), false, 0, 3 * GIB, said);
    }

    #[test]
    fn what_is_ours_is_not_held_by_others() {
        let some = [
            (1, "python3", Some(6 * GIB)),
            (2, "python3", Some(GIB)),
            (20, "Xorg", Some(GIB)),
        ];
        // Half a gigabyte is in no process's figure: it is not ours.
        is(
            &live(8 * GIB + GIB / 2, Some(&some)),
            true,
            0,
            GIB + GIB / 2,
            "Xorg (desktop) 1024 MiB",
        );
    }

    #[test]
    fn where_the_driver_gives_no_figures_the_last_sure_one_is_kept_within_what_is_known() {
        let untold = [(1, "python.exe", None), (20, "game.exe", None)];
        is(
            &live(9 * GIB, Some(&untold)),
            true,
            2 * GIB,
            2 * GIB,
            "game",
        );
        // Less is used than was held before: so much is gone.
        is(&live(GIB, Some(&untold)), true, 2 * GIB, GIB, "game");
        // A stranger that is known to have more raises it.
        let told = [(1, "python3", None), (20, "game", Some(5 * GIB))];
        is(
            &live(9 * GIB, Some(&told)),
            true,
            2 * GIB,
            5 * GIB,
            "game 5120 MiB",
        );
    }

    #[test]
    fn an_attempt_that_is_not_on_the_card_yet_hides_nothing() {
        let told = [(20, "game", Some(5 * GIB))];
        is(
            &live(5 * GIB, Some(&told)),
            true,
            0,
            5 * GIB,
            "game 5120 MiB",
        );
    }

    /// In a container the driver's process ids mean nothing here: our own attempt must not hold against itself.
    #[test]
    fn a_process_that_cannot_be_seen_may_be_ours() {
        let some = [(4711, "", Some(6 * GIB))];
        is(&live(6 * GIB, Some(&some)), true, GIB, GIB, "");
        is(
            &live(6 * GIB, Some(&some)),
            false,
            GIB,
            6 * GIB,
            "process 4711 6144 MiB",
        );
    }

    #[test]
    fn a_card_that_says_nothing_is_what_it_was() {
        is(&Live::default(), false, 7, 7, "");
    }

    #[test]
    fn many_small_ones_are_counted() {
        let some: Vec<_> = (20..27).map(|pid| (pid, "tab", Some(1 << 20))).collect();
        let held = held(&live(GIB, Some(&some)), owner, false, Bytes::ZERO);
        assert_eq!(
            held.holders,
            "tab 1 MiB, tab 1 MiB, tab 1 MiB, tab 1 MiB, 3 more"
        );
    }
}
