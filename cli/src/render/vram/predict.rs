//! `sweep vram predict` for people: the terms, each with what it rests on, the arithmetic of need against room, and
//! what would make it fit; or, without a device, need against each of many.

use vram::{Basis, Card, Prediction, ReplayStatus, Suggestion, VerdictKind};

use super::{tenth, tenth_if, word};
use crate::cmd::vram::Found;
use crate::render::SIMULATED;
use crate::render::format::{device, host, mib, unknown};
use crate::render::paint::paint;
use crate::render::table::{Kind, Table, printable};
use crate::render::wrap;

/// Blocks alive at the peak, largest first; `--json` has all.
const ALIVE_SHOWN: usize = 8;

/// On the one device that was named, and its card where it is one known by name.
pub fn one(heading: &str, prediction: &Prediction, card: Option<&Card>) -> String {
    let verdict = prediction.verdict.as_str();
    let place = printable(&prediction.device);
    let line = format!("{} on {place}: {verdict}", printable(heading));
    let mut text = format!("{}\n{}", wrap::paragraph(&line, 0, 4), terms(prediction));
    if let Some(card) = card.filter(|card| card.basis != Basis::Measured) {
        let usable = format!(
            "usable memory {}: {}",
            word(&card.basis),
            card.usable_source
        );
        text.push_str(&wrap::paragraph(&usable, 0, 4));
    }
    text.push_str(&stages(prediction));
    text.push_str(&replayed(prediction));
    text.push_str(&would_fit(&prediction.would_fit));
    paint(&text)
}

fn terms(prediction: &Prediction) -> String {
    let mut table = Table::new(&[
        ("TERM", Kind::Text),
        ("MiB", Kind::Figure),
        ("FROM", Kind::Word),
    ]);
    let mut row = |name: &str, mib: String, from: &str| {
        table.row([name.to_owned(), mib, from.to_owned()]);
    };
    for term in &prediction.terms {
        row(&term.name, tenth_if(term.mib), &word(&term.mark));
    }
    if let (Some(allocated), Some(reserved)) = (prediction.allocated_mib, prediction.reserved_mib) {
        row("allocated", tenth(allocated), "their sum");
        row("allocator cache", tenth(reserved - allocated), "");
        row("reserved", tenth(reserved), "");
        row("context", tenth_if(prediction.context_mib), "");
    }
    let source = prediction.source.as_str();
    row(
        "need",
        tenth_if(prediction.need_mib),
        &format!("rests on: {source}"),
    );
    row("usable", tenth(prediction.usable_mib), "");
    row("held by others", tenth(prediction.held_mib), "");
    let room = (prediction.usable_mib - prediction.held_mib).max(0.0);
    row("room", tenth(room), "usable - held");
    if let Some(need) = prediction.need_mib {
        let left = room - need;
        let name = if left < 0.0 { "short by" } else { "to spare" };
        row(name, tenth(left.abs()), &give_or_take(prediction.band_mib));
    }
    table.to_string()
}

fn give_or_take(band: Option<f64>) -> String {
    let band = band.filter(|band| *band > 0.0);
    band.map_or_else(String::new, |band| format!("give or take {band:.1}"))
}

/// Of the closed form, uncorrected: which stage decides, and by how much.
fn stages(prediction: &Prediction) -> String {
    if prediction.stages.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[("STAGE", Kind::Text), ("ALLOCATED MiB", Kind::Figure)]);
    for stage in &prediction.stages {
        table.row([stage.name.clone(), tenth(stage.allocated_mib)]);
    }
    format!("\n{table}")
}

fn replayed(prediction: &Prediction) -> String {
    let Some(replayed) = &prediction.replayed else {
        return String::new();
    };
    let context = prediction.context_mib.unwrap_or(0.0);
    let limit = (prediction.usable_mib - prediction.held_mib - context).max(0.0);
    let ending = match (replayed.status, replayed.oom_wanted_mib) {
        (ReplayStatus::Ok, _) => "runs to its end".to_owned(),
        (ReplayStatus::Oom, wanted) => {
            let wanted = wanted.map_or_else(unknown, tenth);
            format!("runs out of memory wanting {wanted} MiB more")
        }
    };
    let line = format!(
        "rehearsed and replayed in {limit:.1} MiB (room - context) it {ending}: {} MiB allocated, {} reserved",
        tenth(replayed.allocated_mib),
        tenth(replayed.reserved_mib)
    );
    let mut text = format!("\n{}", wrap::paragraph(&line, 0, 4));
    if prediction.verdict == VerdictKind::Fits && replayed.status == ReplayStatus::Oom {
        text.push_str(
            "verdict and replay disagree: measure it (a probe) before you rely on either\n",
        );
    }
    text.push_str(&super::replay::alive(&replayed.alive_at_peak, ALIVE_SHOWN));
    text
}

fn would_fit(suggestions: &[Suggestion]) -> String {
    let lines: String = suggestions
        .iter()
        .map(|one| {
            let (need, band) = (one.need.mib(), one.band.mib());
            let line = format!("{} (need {need:.0}±{band:.0} MiB)", one.change);
            wrap::paragraph(&line, 2, 4)
        })
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\nwould fit:\n{lines}")
}

/// On each of many devices, and the terms on the first where it fits.
pub fn many(heading: &str, found: &[Found]) -> String {
    let has_hosts = found.iter().any(|one| one.host.is_some());
    let mut columns = vec![
        ("DEVICE", Kind::Text),
        ("NEED MiB", Kind::Figure),
        ("USABLE", Kind::Figure),
        ("HELD", Kind::Figure),
        ("VERDICT", Kind::Word),
        ("RESTS ON", Kind::Word),
    ];
    if has_hosts {
        columns.insert(0, ("HOST", Kind::Text));
    }
    let mut table = Table::new(&columns);
    let mut assumed = false;
    for one in found {
        let prediction = &one.prediction;
        let card = vram::known_card(&prediction.device).ok();
        let guess = one.host.is_none() && card.is_some_and(|card| card.basis == Basis::Assumed);
        assumed |= guess;
        let place = has_hosts.then(|| host(one.host.as_deref().unwrap_or_default()));
        table.row(place.into_iter().chain(cells(one, guess)));
    }
    let mut text = format!("{}\n{table}", wrap::paragraph(&printable(heading), 0, 4));
    if assumed {
        text.push_str("~ assumed; `sweep vram cards` says from what\n");
    }
    let fits = |one: &&Found| one.prediction.verdict == VerdictKind::Fits;
    let shown = found.iter().find(fits).or(found.last());
    if let Some(shown) = shown.filter(|one| one.prediction.need_mib.is_some()) {
        let device = device(&shown.prediction.device);
        text.push_str(&format!("\non {device}:\n{}", terms(&shown.prediction)));
        text.push_str(&would_fit(&shown.prediction.would_fit));
    }
    if found.iter().any(|one| one.simulated) {
        text.push_str(SIMULATED);
    }
    paint(&text)
}

fn cells(one: &Found, guess: bool) -> [String; 6] {
    let prediction = &one.prediction;
    let times = match one.devices {
        0 | 1 => String::new(),
        many => format!("{many} x "),
    };
    let mark = if one.simulated { " *" } else { "" };
    let need = match (prediction.need_mib, prediction.band_mib) {
        (Some(need), Some(band)) => format!("{need:.0}±{band:.0}"),
        _ => unknown(),
    };
    [
        format!("{times}{}{mark}", device(&prediction.device)),
        need,
        format!(
            "{}{}",
            if guess { "~" } else { "" },
            mib(prediction.usable_mib)
        ),
        mib(prediction.held_mib),
        prediction.verdict.as_str().to_owned(),
        prediction.source.as_str().to_owned(),
    ]
}
