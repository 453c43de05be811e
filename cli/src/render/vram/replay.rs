//! `sweep vram replay` for people: the peaks, whether it ran out, and what was alive at the peak.

use vram::{Alive, ReplayAnswer, ReplayStatus};

use super::{tenth, tenth_if};
use crate::render::table::{Kind, Table};

/// Labels, largest first; `--json` has all.
const ALIVE_SHOWN: usize = 20;

pub fn text(answer: &ReplayAnswer, limit_mib: Option<f64>) -> String {
    let within = limit_mib.map_or_else(String::new, |limit| format!(" within {limit:.1} MiB"));
    let ending = match answer.status {
        ReplayStatus::Ok => format!("ran to its end{within}"),
        ReplayStatus::Oom => {
            let wanted = tenth_if(answer.oom_wanted_mib);
            format!("out of memory{within}, wanting {wanted} MiB more")
        }
    };
    let mut table = Table::new(&[("PEAK", Kind::Text), ("MiB", Kind::Figure)]);
    table.row(["allocated".to_owned(), tenth(answer.allocated_mib)]);
    table.row(["reserved".to_owned(), tenth(answer.reserved_mib)]);
    let events = answer.events;
    let alive = alive(&answer.alive_at_peak, ALIVE_SHOWN);
    format!("{ending}, after {events} events\n\n{table}{alive}")
}

/// What is alive at the peak.
pub fn alive(blocks: &[Alive], shown: usize) -> String {
    if blocks.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("ALIVE AT THE PEAK", Kind::Text),
        ("MiB", Kind::Figure),
        ("BLOCKS", Kind::Figure),
    ]);
    for one in blocks.iter().take(shown) {
        table.row([one.label.clone(), tenth(one.mib), one.blocks.to_string()]);
    }
    if let Some(rest) = blocks.get(shown..).filter(|rest| !rest.is_empty()) {
        let mib = rest.iter().map(|one| one.mib).sum();
        let count: u64 = rest.iter().map(|one| one.blocks).sum();
        let name = format!("and {} more", rest.len());
        table.row([name, tenth(mib), count.to_string()]);
    }
    format!("\n{table}")
}
