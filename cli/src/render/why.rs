//! `sweep why` for people: the reason in a sentence, the arithmetic of each device, the terms of the need, what is alive
//! at its peak (`peak.rs`), and what would make it fit.

use proto::v1::{RehearsalDocument, VerdictDocument, WhyDocument};

use super::format::{device, host};
use super::paint::paint;
use super::table::{Kind, Table, printable};
use super::{SIMULATED, peak, verdicts, wrap};

pub fn text(why: &WhyDocument) -> String {
    let mut text = format!("{}: {}", why.job, why.state);
    if !why.code.is_empty() {
        text.push_str(&format!(" ({})", why.code));
    }
    text.push('\n');
    if !why.reason.is_empty() {
        text.push_str(&wrap::paragraph(&printable(&why.reason), 0, 0));
    }
    for one in &why.rehearsals {
        text.push_str(&wrap::paragraph(&rehearsal(one), 0, 4));
    }
    if !why.verdicts.is_empty() {
        text.push_str(&format!("\n{}", arithmetic(&why.verdicts)));
    }
    if let Some(terms) = terms(&why.verdicts) {
        text.push_str(&format!("\n{terms}"));
    }
    if let Some(peak) = &why.peak {
        text.push_str(&format!("\n{}", peak::peak(peak)));
    }
    if !why.hosts.is_empty() {
        text.push('\n');
    }
    for reason in &why.hosts {
        let place = [host(&reason.host), device(&reason.device)].join(" ");
        let line = format!("{}: {}", place.trim(), printable(&reason.reason));
        text.push_str(&wrap::paragraph(&line, 0, 4));
    }
    if let Some(would_fit) = &why.would_fit {
        text.push_str(&format!(
            "\n{}",
            wrap::alternatives("would fit", &printable(would_fit))
        ));
    }
    if let Some(advice) = &why.advice {
        text.push_str(&format!("\n{}", peak::first_advice(advice)));
    }
    if why.verdicts.iter().any(|verdict| verdict.simulated) {
        text.push_str(SIMULATED);
    }
    paint(&text)
}

/// `rehearsed on tower in 52 s with 1330 MiB at rank 96: peft 0.21.0, torch 2.16.0`
fn rehearsal(one: &RehearsalDocument) -> String {
    let on = one
        .host
        .as_deref()
        .map(|name| format!(" on {}", host(name)));
    let (on, rank) = (on.unwrap_or_default(), one.rank);
    let mode = if one.mode == "train" { "" } else { "probe " };
    // Most cards want no word for it.
    let what = match one.cards.as_str() {
        "" | "ampere" => mode.to_owned(),
        cards => format!("for {cards} cards: {mode}"),
    };
    match one.state.as_str() {
        "done" => {
            let versions = one.versions.iter();
            let versions: Vec<String> = versions
                .map(|(name, version)| format!("{name} {version}"))
                .collect();
            let seconds = one.seconds.unwrap_or(0.0);
            let doubts = match one.doubts.as_slice() {
                [] => String::new(),
                doubts => format!("; the band is wider: {}", doubts.join("; ")),
            };
            let memory = one.peak_mib.map(|mib| format!(" with {mib:.0} MiB"));
            let text = format!(
                "{what}rehearsed{on} in {seconds:.0} s{} at rank {rank}: {}{doubts}",
                memory.unwrap_or_default(),
                versions.join(", ")
            );
            printable(&text)
        }
        "recorded" => {
            let attempt = one.attempt.as_deref().unwrap_or_default();
            printable(&format!("{what}recorded{on} at rank {rank} by {attempt}"))
        }
        "failed" => {
            let error = one.error.as_deref().unwrap_or_default();
            printable(&format!(
                "{what}rehearsal{on} at rank {rank} failed: {error}"
            ))
        }
        state => format!("{what}rehearsal{on} at rank {rank}: {state}"),
    }
}

fn arithmetic(all: &[VerdictDocument]) -> String {
    let mut table = verdicts::table(Vec::new());
    for (verdict, devices) in verdicts::merged(all) {
        table.row(verdicts::row(verdict, devices));
    }
    table.to_string()
}

/// What the need consists of, for the first device where it is known in parts.
fn terms(all: &[VerdictDocument]) -> Option<String> {
    let verdict = all.iter().find(|verdict| !verdict.terms.is_empty())?;
    let mut table = Table::new(&[
        ("TERM", Kind::Text),
        ("MiB", Kind::Figure),
        ("FROM", Kind::Word),
    ]);
    for term in &verdict.terms {
        table.row([
            term.name.clone(),
            format!("{:.1}", term.mib),
            term.mark.clone(),
        ]);
    }
    if let Some(need) = verdict.need_mib {
        table.row([
            "need".to_owned(),
            format!("{need:.1}"),
            verdict.source.clone(),
        ]);
    }
    table.row([
        "usable".to_owned(),
        format!("{:.1}", verdict.usable_mib),
        String::new(),
    ]);
    table.row([
        "held by others".to_owned(),
        format!("{:.1}", verdict.held_mib),
        String::new(),
    ]);
    let room = verdict.usable_mib - verdict.held_mib;
    table.row([
        "room".to_owned(),
        format!("{room:.1}"),
        "usable - held".to_owned(),
    ]);
    if let Some(need) = verdict.need_mib {
        let left = room - need;
        let name = if left < 0.0 { "short by" } else { "to spare" };
        table.row([name.to_owned(), format!("{:.1}", left.abs()), band(verdict)]);
    }
    Some(format!(
        "on {} {}:\n{table}",
        host(&verdict.host),
        device(&verdict.device)
    ))
}

fn band(verdict: &VerdictDocument) -> String {
    match verdict.band_mib {
        Some(band) if band > 0.0 => format!("give or take {band:.1}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::render::sample;

    #[test]
    fn the_arithmetic_and_its_terms_are_shown() {
        let text = sample::plain(&super::text(&sample::why()));
        sample::assert_fits(&text);
        assert!(
            text.starts_with("dropout-ab-k3f9q2/6/train: waiting (too_large)\n"),
            "{text}"
        );
        assert!(
            text.contains("short by          42.4  give or take 120.0"),
            "{text}"
        );
        assert!(text.contains("weights         3421.5  computed"), "{text}");
        assert!(text.contains("would fit: rank 104"), "{text}");
        let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let made = "rehearsed on tower in 52 s at rank 96: peft 0.21.0, torch 2.16.0; the band is wider: torch 2.16.0 was";
        assert!(said.contains(made), "{text}");
        assert!(
            said.contains("rehearsal on tower at rank 112 failed: timed_out"),
            "{text}"
        );
    }
}
