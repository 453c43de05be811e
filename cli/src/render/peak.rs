//! Why a job needs what it needs, for people: the largest blocks alive at its replayed peak, by module and line of code;
//! the block that finds no place; and the first change to try. Part of `sweep why`.

use proto::v1::{FirstAdvice, PeakDocument};
use vram::{Origin, Peak, PeakRequest, Suggestion};

use super::advice::suggestion;
use super::format::{device, host};
use super::table::{Kind, Table, printable};
use super::wrap;

/// Nothing of a peak that cannot be read.
pub fn peak(document: &PeakDocument) -> String {
    let Ok(peak) = serde_json::from_str::<Peak>(&document.explained) else {
        return String::new();
    };
    let heading = format!(
        "peak of {}: {:.1} MiB allocated in {}",
        stream(&peak),
        peak.allocated_mib,
        peak.stage
    );
    let mut text = wrap::paragraph(&printable(&heading), 0, 4);
    text.push_str(&blocks(&peak).to_string());
    text.push('\n');
    let wanted = peak.out_of_memory.as_ref();
    if wanted.is_none_or(|failure| failure.wanted.mib < peak.largest_request.mib) {
        let line = format!(
            "largest block of the step: {}",
            request(&peak.largest_request)
        );
        text.push_str(&wrap::paragraph(&printable(&line), 0, 4));
    }
    let mark = if document.simulated { " *" } else { "" };
    let place = format!(
        "{} {}{mark}",
        host(&document.host),
        device(&document.device)
    );
    let limit = format!(
        "{:.1} MiB that {place} has (room - context)",
        peak.limit_mib
    );
    let line = match wanted {
        None => format!("replayed in the {limit} it runs to its end"),
        Some(failure) => format!(
            "replayed in the {limit} it runs out of memory: wants {}; {:.1} MiB allocated, {:.1} reserved then",
            request(&failure.wanted),
            failure.allocated_mib,
            failure.reserved_mib
        ),
    };
    text.push_str(&wrap::paragraph(&printable(&line), 0, 4));
    for command in &document.commands {
        // One line, so that it can be copied.
        text.push_str(&printable(&format!("more: {command}")));
        text.push('\n');
    }
    text
}

fn stream(peak: &Peak) -> &'static str {
    match (peak.stream, peak.scaled) {
        (Origin::Recorded, false) => "the recorded stream",
        (Origin::Recorded, true) => "the recorded streams of two other ranks, scaled",
        (Origin::Rehearsed, false) => "the rehearsed stream",
        (Origin::Rehearsed, true) => "the rehearsed streams of two other ranks, scaled",
        (Origin::Shapes, _) => "the stream of the shapes alone",
    }
}

fn blocks(peak: &Peak) -> Table {
    let mut table = Table::new(&[
        ("ALIVE AT THE PEAK", Kind::Text),
        ("LINE", Kind::Text),
        ("MiB", Kind::Figure),
        ("SHARE", Kind::Figure),
        ("BLOCKS", Kind::Figure),
        ("", Kind::Text),
    ]);
    for one in &peak.largest {
        table.row([
            one.module.clone(),
            one.line.clone(),
            format!("{:.1}", one.mib),
            format!("{:.0} %", one.share * 100.0),
            one.blocks.to_string(),
            one.note.clone().unwrap_or_default(),
        ]);
    }
    if peak.others_mib > 0.0 {
        let named: f64 = peak.largest.iter().map(|one| one.mib).sum();
        let share = peak.others_mib / (named + peak.others_mib);
        table.row([
            "all others".to_owned(),
            String::new(),
            format!("{:.1}", peak.others_mib),
            format!("{:.0} %", share * 100.0),
            String::new(),
            String::new(),
        ]);
    }
    table
}

/// `1280.3 MiB in forward and loss (lm_head fixes.py:44: lm_head copied by save_on_cpu's offload)`
fn request(one: &PeakRequest) -> String {
    let place = format!("{} {}", one.module, one.line);
    let note = one.note.as_ref().map(|note| format!(": {note}"));
    let note = note.unwrap_or_default();
    format!(
        "{:.1} MiB in {} ({}{note})",
        one.mib,
        one.stage,
        place.trim()
    )
}

/// Nothing of one that cannot be read.
pub fn first_advice(advice: &FirstAdvice) -> String {
    let Ok(first) = serde_json::from_str::<Suggestion>(&advice.suggestion) else {
        return String::new();
    };
    let place = format!("{} {}", host(&advice.host), device(&advice.device));
    let mark = if advice.simulated { " *" } else { "" };
    let line = format!("would fit {place}{mark} with {}", suggestion(&first));
    let mut text = wrap::paragraph(&printable(&line), 0, 4);
    text.push_str(&printable(&format!("all that would: {}", advice.command)));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn blocks_by_module_and_line_and_the_one_without_a_place() {
        let why = sample::why_explained();
        let text = sample::plain(&peak(&why.peak.unwrap()));
        let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "peak of the rehearsed stream: 7299.3 MiB allocated in backward, step 2",
            "step model.py:72 1781.7 25 % 2400",
            "layers.*.mlp.gate_proj bnb.py:552 140.2 2 % 8",
            "all others 5254.0 73 %",
            "replayed in the 7600.1 MiB that box RTX 3070 Ti * has (room - context) it runs out of memory: wants \
             1280.3 MiB in forward and loss (lm_head fixes.py:44: lm_head copied by save_on_cpu's offload); \
             4994.1 MiB allocated, 7526.0 reserved then",
            "more: sweep vram explain --from data/blobs/0a1b --limit-mib 7600.1",
        ] {
            assert!(said.contains(part), "no `{part}` in {text}");
        }
        let advice = first_advice(&why.advice.unwrap());
        let wanted = "would fit box RTX 3070 Ti * with paged optimizer state: needs 7103±90 MiB, computes the same\n\
                      all that would: sweep plan jobs/dropout-ab.toml --advise\n";
        assert_eq!(advice, wanted);
    }

    #[test]
    fn what_has_its_place_is_the_largest_block_all_the_same() {
        let mut document = sample::why_explained().peak.unwrap();
        let mut explained: Peak = serde_json::from_str(&document.explained).unwrap();
        explained.out_of_memory = None;
        document.explained = serde_json::to_string(&explained).unwrap();
        let text = peak(&document);
        assert!(text.contains("it runs to its end"), "{text}");
        assert!(
            text.contains("largest block of the step: 1280.3 MiB"),
            "{text}"
        );
    }
}
