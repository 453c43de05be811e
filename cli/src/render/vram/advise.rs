//! `sweep vram advise` for people: what fits, and what was tried.

use vram::{Advice, ReplayStatus, Source, Tried};

use super::{tenth, tenth_if, word};
use crate::render::table::{Kind, Table};

pub fn text(advice: &Advice) -> String {
    let written = format!(
        "as written: {} (need {} ± {} MiB, room {} MiB)\n",
        advice.verdict.as_str(),
        tenth_if(advice.need_mib),
        tenth_if(advice.band_mib),
        tenth(advice.room_mib),
    );
    let fits: String = advice
        .suggestions
        .iter()
        .map(|one| {
            let same = if one.keeps_arithmetic {
                "computes the same"
            } else {
                "another training"
            };
            let (need, band) = (tenth(one.need.mib()), tenth(one.band.mib()));
            format!("  {} ({same}; need {need} ± {band} MiB)\n", one.change)
        })
        .collect();
    let fits = if fits.is_empty() {
        "nothing that was tried fits\n".to_owned()
    } else {
        format!("fits with:\n{fits}")
    };
    let mut table = Table::new(&[
        ("TRIED", Kind::Text),
        ("NEED", Kind::Figure),
        ("VERDICT", Kind::Text),
        ("REPLAYED", Kind::Text),
    ]);
    for one in &advice.tried {
        table.row([
            one.change.clone(),
            tenth(one.need_mib),
            word(&one.verdict),
            replayed(one),
        ]);
    }
    format!("{written}\n{fits}\n{table}")
}

fn replayed(one: &Tried) -> String {
    match one.status {
        None if one.rests_on.source == Source::Measured => "measured there".to_owned(),
        None => "-".to_owned(),
        Some(ReplayStatus::Ok) => format!("ran, {} MiB reserved", tenth_if(one.reserved_mib)),
        Some(ReplayStatus::Oom) => {
            format!("out of memory wanting {} MiB", tenth_if(one.oom_wanted_mib))
        }
    }
}
