//! `sweep vram explain` for people: the peak, where it falls, and what is alive there by module and by line.

use vram::{Explanation, ReplayStatus, Wanted};

use super::replay::alive;
use super::{tenth, tenth_if};
use crate::render::table::{Kind, Table, printable};
use crate::render::wrap;

const MODULES_SHOWN: usize = 12;
const BLOCKS_SHOWN: usize = 20;

pub fn text(explained: &Explanation) -> String {
    let answer = &explained.replayed;
    let ending = match answer.status {
        ReplayStatus::Ok => String::new(),
        ReplayStatus::Oom => format!(
            "; then out of memory, wanting {} MiB more{}",
            tenth_if(answer.oom_wanted_mib),
            explained.wanted.as_ref().map_or_else(String::new, wanted)
        ),
    };
    let peak = format!(
        "peak allocated {} MiB in {}, reserved {} MiB{ending}",
        tenth(answer.allocated_mib),
        explained.peak_stage,
        tenth(answer.reserved_mib),
    );
    let mut peak = wrap::paragraph(&printable(&peak), 0, 4);
    if explained
        .by_module
        .iter()
        .all(|one| one.label.ends_with(" bytes"))
    {
        let note = "this stream names no blocks, as a card recorded it: each is told by its size; a rehearsal names them";
        peak.push_str(&wrap::paragraph(note, 0, 4));
    }
    let mut modules = Table::new(&[
        ("MODULE", Kind::Text),
        ("MiB", Kind::Figure),
        ("BLOCKS", Kind::Figure),
    ]);
    for one in explained.by_module.iter().take(MODULES_SHOWN) {
        modules.row([one.label.clone(), tenth(one.mib), one.blocks.to_string()]);
    }
    let blocks = alive(&answer.alive_at_peak, BLOCKS_SHOWN);
    if explained.largest.is_empty() {
        return format!("{peak}\n{modules}{blocks}");
    }
    let mut largest = Table::new(&[
        ("LARGEST ASKED FOR IN THE STEP", Kind::Text),
        ("MiB EACH", Kind::Figure),
        ("TIMES", Kind::Figure),
    ]);
    for one in &explained.largest {
        largest.row([one.label.clone(), tenth(one.mib), one.blocks.to_string()]);
    }
    format!("{peak}\n{modules}{blocks}\n{largest}")
}

/// What asked for the block that found no place, when, and how full it was.
fn wanted(one: &Wanted) -> String {
    format!(
        " for {} in {}, with {} MiB allocated and {} reserved",
        one.label,
        one.stage,
        tenth(one.allocated_mib),
        tenth(one.reserved_mib)
    )
}
