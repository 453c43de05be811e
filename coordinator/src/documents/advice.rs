//! What was found to make trials fit, in the documents: all of it for a plan, the first change for a job, and the
//! replayed peak that it is about. Shows no change that was neither replayed nor measured.

use jobs::Kind;
use proto::v1::{AdviceDocument, FirstAdvice, PeakDocument, PlanDocument, WhyDocument};
use serde::Serialize;
use vram::{Advice, Origin, Peak};

use super::why::Asked;
use crate::advice::{Answered, Device, Found, Snapshot, would_fit};

/// The plan with what was found: all of it if advice was asked for, else only what would make those fit that are too
/// large everywhere.
pub fn advised(
    mut document: PlanDocument,
    snapshot: &Snapshot,
    answered: &[Answered],
    kind: Kind,
) -> PlanDocument {
    for trial in &mut document.trials {
        if snapshot.is_too_large_everywhere(trial.index) {
            trial.would_fit = would_fit(snapshot, answered, trial.index);
        }
    }
    if document.advised {
        let rows = answered.iter();
        document.advice = rows.map(|one| row(snapshot, one, kind)).collect();
    }
    document
}

fn row(snapshot: &Snapshot, one: &Answered, kind: Kind) -> AdviceDocument {
    let Answered { question, advice } = one;
    let class = &snapshot.devices[question.device].class;
    AdviceDocument {
        trials: question.trials.clone(),
        kind: kind.to_string(),
        device: class.name.clone(),
        hosts: question.hosts.clone(),
        simulated: class.simulated,
        fits_elsewhere: question.fits_elsewhere,
        answer: text(&shown(advice)),
    }
}

/// Without what no replay has shown.
fn shown(advice: &Advice) -> Advice {
    let mut shown = advice.clone();
    shown.suggestions.retain(|one| one.rests_on.is_shown());
    shown
}

/// What explains a job that does not fit some device, or ran out of memory on one.
pub fn explained(document: WhyDocument, asked: &Asked, found: &Found) -> WhyDocument {
    let snapshot = &asked.snapshot;
    let answered = &found.answered;
    let peak = found.peak.as_ref();
    let first = |keeps| {
        let found = answered.iter();
        let mut found = found.filter_map(|one| Some((one, one.first(keeps)?)));
        let (one, suggestion) = found.next()?;
        let device = &snapshot.devices[one.question.device];
        Some(FirstAdvice {
            host: device.host.clone(),
            device: device.name.clone(),
            simulated: device.class.simulated,
            suggestion: text(suggestion),
            command: format!("sweep plan {} --advise", quoted(&asked.file)),
        })
    };
    let trial = snapshot.trials.first();
    let nothing_fits = trial.is_some_and(|one| one.seen.iter().all(|seen| !seen.fits()));
    let index = trial.map_or(0, |one| one.index);
    WhyDocument {
        peak: peak.map(|(device, peak)| peak_document(asked, &snapshot.devices[*device], peak)),
        advice: first(true).or_else(|| first(false)),
        would_fit: (nothing_fits && asked.would_fit)
            .then(|| would_fit(snapshot, answered, index))
            .flatten(),
        ..document
    }
}

fn peak_document(asked: &Asked, device: &Device, peak: &Peak) -> PeakDocument {
    PeakDocument {
        host: device.host.clone(),
        device: device.name.clone(),
        simulated: device.class.simulated,
        explained: text(peak),
        commands: explain_command(asked, device, peak).into_iter().collect(),
    }
}

/// `sweep vram explain` of the streams that were replayed, which lie in the coordinator's data folder.
fn explain_command(asked: &Asked, device: &Device, peak: &Peak) -> Option<String> {
    if peak.stream == Origin::Shapes {
        return None;
    }
    let kept = asked.kept.get(&vram::Kernels::of(&device.class))?;
    let file = |blob: &str| quoted(&asked.data.join("blobs").join(blob).display().to_string());
    let from = match kept.as_slice() {
        [(_, blob)] => format!("--from {}", file(blob)),
        [(a, one), (b, two)] => {
            let (one, two) = (file(one), file(two));
            let rank = asked.rank;
            format!("--from rank={a}:{one} --from rank={b}:{two} --for rank={rank}")
        }
        _ => return None,
    };
    let limit = peak.limit_mib;
    Some(format!("sweep vram explain {from} --limit-mib {limit:.1}"))
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn text(document: &impl Serialize) -> String {
    serde_json::to_string(document).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted("jobs/dropout-ab.toml"), "jobs/dropout-ab.toml");
        assert_eq!(quoted("my night's.toml"), r"'my night'\''s.toml'");
        assert_eq!(quoted("a;b"), "'a;b'");
        assert_eq!(quoted(""), "''");
    }
}
