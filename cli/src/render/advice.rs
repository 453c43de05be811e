//! What would make trials fit, for people: one block for each recipe that does not fit some class of card, trials that
//! fit nowhere first, changes that compute the same before others. `--json` has all that this leaves out.

use proto::v1::{AdviceDocument, PlanDocument, PlannedTrial};
use vram::{Advice, ReplayStatus, Suggestion, Tried};

use super::format::{count, device, host, mib, params};
use super::table::printable;
use super::wrap;

/// Of one class of card; the smallest of each sort of change come first.
const SUGGESTIONS_SHOWN: usize = 4;
const TRIED_SHOWN: usize = 4;
const HOSTS_SHOWN: usize = 3;

pub fn text(plan: &PlanDocument) -> String {
    let mut text = String::new();
    if plan.advised && !plan.advice.is_empty() {
        let heading =
            "advice: every change was replayed in the room there is, or was measured there";
        text.push_str(&format!("\n{heading}\n"));
    }
    let mut before: Option<&[u32]> = None;
    for one in &plan.advice {
        if before != Some(one.trials.as_slice()) {
            text.push_str(&format!("\n{}", heading(one, &plan.trials)));
        }
        before = Some(&one.trials);
        text.push_str(&class(one));
    }
    text.push_str(&left_out(plan));
    text
}

/// `trials 3, 5-7 (rank=112): fits no known device`
fn heading(one: &AdviceDocument, trials: &[PlannedTrial]) -> String {
    let many = one.trials.len() > 1;
    let first = one.trials.first();
    let own = trials.iter().find(|trial| Some(&trial.index) == first);
    let settings = own.map(|trial| params(&trial.params)).unwrap_or_default();
    let settings = match (settings.is_empty(), many) {
        (true, _) => String::new(),
        (false, false) => format!(" ({settings})"),
        (false, true) => format!(" (the first: {settings})"),
    };
    let where_else = match (one.fits_elsewhere, many) {
        (false, false) => "fits no known device",
        (false, true) => "fit no known device",
        (true, false) => "fits other devices",
        (true, true) => "fit other devices",
    };
    let name = if many { "trials" } else { "trial" };
    let line = format!("{name} {}{settings}: {where_else}", ranges(&one.trials));
    wrap::paragraph(&printable(&line), 0, 4)
}

fn class(one: &AdviceDocument) -> String {
    let mark = if one.simulated { " *" } else { "" };
    let named = one.hosts.iter().take(HOSTS_SHOWN);
    let mut hosts: Vec<String> = named.map(|name| host(name)).collect();
    if let Some(more) = one.hosts.len().checked_sub(HOSTS_SHOWN + 1) {
        hosts.push(count(more as u64 + 1, "more host"));
    }
    let place = format!("{}{mark} of {}", device(&one.device), hosts.join(", "));
    let Ok(advice) = serde_json::from_str::<Advice>(&one.answer) else {
        return wrap::paragraph(&format!("{place}: the answer cannot be read"), 2, 4);
    };
    let need = match (advice.need_mib, advice.band_mib) {
        (Some(need), Some(band)) => {
            format!("needs {need:.0}±{band:.0} of {} MiB", mib(advice.room_mib))
        }
        _ => format!("nothing is known of its need; {} MiB", mib(advice.room_mib)),
    };
    let verdict = advice.verdict.as_str();
    let line = format!("{place}: {verdict}, {need}");
    let mut text = wrap::paragraph(&printable(&line), 2, 4);
    for change in advice.suggestions.iter().take(SUGGESTIONS_SHOWN) {
        text.push_str(&wrap::paragraph(&printable(&suggestion(change)), 4, 6));
    }
    if let Some(more) = advice.suggestions.len().checked_sub(SUGGESTIONS_SHOWN + 1) {
        text.push_str(&format!(
            "    and {} (--json)\n",
            count(more as u64 + 1, "other")
        ));
    }
    text.push_str(&wrap::paragraph(&printable(&in_vain(&advice)), 4, 6));
    text
}

/// `paged optimizer state: needs 7103±90 MiB, computes the same`
pub fn suggestion(one: &Suggestion) -> String {
    let (need, band) = (one.need.mib(), one.band.mib());
    let same = if one.keeps_arithmetic {
        "computes the same"
    } else {
        "another training"
    };
    format!("{}: needs {need:.0}±{band:.0} MiB, {same}", one.change)
}

/// What was looked at and is not enough, the first of it by name.
fn in_vain(advice: &Advice) -> String {
    if advice.tried.is_empty() {
        return "nothing of it can be changed that the memory model can replay".to_owned();
    }
    let fits = |one: &&Tried| {
        advice
            .suggestions
            .iter()
            .any(|it| it.settings == one.settings)
    };
    let vain: Vec<&Tried> = advice.tried.iter().filter(|one| !fits(one)).collect();
    let named = vain
        .iter()
        .take(TRIED_SHOWN)
        .map(|one| format!("{} ({})", one.change, why_not(one)));
    let mut named: Vec<String> = named.collect();
    if let Some(more) = vain.len().checked_sub(TRIED_SHOWN + 1) {
        named.push(format!("{} more", more + 1));
    }
    let tried = count(advice.tried.len() as u64, "change");
    match (named.is_empty(), advice.suggestions.is_empty()) {
        (true, _) => format!("{tried} tried"),
        (false, true) => format!("{tried} tried, none is enough: {}", named.join("; ")),
        (false, false) => format!("{tried} tried, not enough: {}", named.join("; ")),
    }
}

fn why_not(one: &Tried) -> String {
    match (one.status, one.oom_wanted_mib) {
        (Some(ReplayStatus::Oom), Some(wanted)) => {
            format!("replayed: wants {} MiB more", mib(wanted))
        }
        (Some(ReplayStatus::Oom), None) => "replayed: out of memory".to_owned(),
        _ => {
            let (need, band) = (one.need_mib, one.band_mib);
            format!("{}, {need:.0}±{band:.0}", one.verdict.as_str())
        }
    }
}

fn left_out(plan: &PlanDocument) -> String {
    if plan.not_advised.is_empty() {
        return String::new();
    }
    let line = format!(
        "no advice for {}: more recipes than are searched at once; plan a file with these alone (trials {})",
        count(plan.not_advised.len() as u64, "trial"),
        ranges(&plan.not_advised)
    );
    format!("\n{}", wrap::paragraph(&line, 0, 4))
}

/// `1-3, 7` of ascending numbers.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let runs = runs.map(|run| match run {
        [one] => one.to_string(),
        [one, .., last] => format!("{one}-{last}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn what_fits_what_was_tried_and_for_whom() {
        let text = sample::plain(&text(&sample::advised()));
        sample::assert_fits(&text);
        let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "trials 3, 5-7 (the first: dropout=0.1 rank=112): fit no known device",
            "RTX 3060 Ti * of nvidia-8g: too_large, needs 7912±78 of 7281 MiB",
            "paged optimizer state: needs 7103±90 MiB, computes the same",
            "rank 96 instead of 112: needs 7249±74 MiB, another training",
            "4 changes tried, not enough: offload without the weights (replayed: wants 70.1 MiB more); \
             rank 104 instead of 112 (uncertain, 7379±94)",
            "no advice for 2 trials: more recipes than are searched at once; plan a file with these alone (trials 8-9)",
        ] {
            assert!(said.contains(part), "no `{part}` in {text}");
        }
    }

    #[test]
    fn where_nothing_is_enough_it_says_so() {
        let mut plan = sample::advised();
        let mut advice: Advice = serde_json::from_str(&plan.advice[0].answer).unwrap();
        advice.suggestions.clear();
        plan.advice[0].answer = serde_json::to_string(&advice).unwrap();
        assert!(text(&plan).contains("none is enough"), "{}", text(&plan));
        advice.tried.clear();
        plan.advice[0].answer = serde_json::to_string(&advice).unwrap();
        assert!(text(&plan).contains("nothing of it can be changed"));
    }

    #[test]
    fn runs_of_numbers_are_short() {
        assert_eq!(ranges(&[1]), "1");
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3, 7, 9-10");
    }
}
