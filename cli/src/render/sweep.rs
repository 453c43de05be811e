//! `sweep show` for people: one row for each job with its newest attempt, then what is worth knowing about those that
//! wait or did not succeed.

use proto::v1::{AttemptDocument, JobDocument, StagedFile, SweepDocument, TrialDocument};

use super::format::{
    count, device, duration_if, host, mib_if, size, time, time_if, unknown, within,
};
use super::paint::paint;
use super::results::summary;
use super::settings::Settings;
use super::table::{Kind, Table, named, printable};
use super::{SIMULATED, wrap};

/// More remarks than this are counted only; `sweep why JOB` has each.
const REMARKS: usize = 30;
/// More files than this are counted only; `--json` has each.
const FILES: usize = 8;

pub fn text(document: &SweepDocument) -> String {
    let head = document.sweep.clone().unwrap_or_default();
    let settings = Settings::of(document.trials.iter().map(|trial| trial.params.as_str()));
    let mut columns = named(&[("JOB", Kind::Word)]);
    columns.extend(settings.columns());
    columns.extend(named(&[
        ("STATE", Kind::Word),
        ("TRIES", Kind::Figure),
        ("HOST", Kind::Text),
        ("DEVICE", Kind::Text),
        ("PREDICTED", Kind::Figure),
        ("PEAK MiB", Kind::Figure),
        ("TIME", Kind::Figure),
    ]));
    let mut table = Table::of(columns);
    for trial in &document.trials {
        for (at, job) in trial.jobs.iter().enumerate() {
            let mut row = vec![within(&job.id, &head.id).to_owned()];
            row.extend(settings.cells((at == 0).then_some(trial.params.as_str())));
            row.extend(cells(job));
            table.row(row);
        }
    }
    let about = if head.about.is_empty() {
        String::new()
    } else {
        format!(", {}", printable(&head.about))
    };
    let mut text = wrap::paragraph(&format!("{}: {}{about}", head.id, head.state), 0, 4);
    text.push_str(&format!(
        "submitted {}, settled {} (UTC)\n\n{table}",
        time(&head.submitted_at),
        time_if(head.settled_at.as_deref())
    ));
    text.push_str(&remarks(&document.trials, &head.id));
    if let Some(line) = files(&document.files) {
        text.push_str(&wrap::paragraph(&line, 0, 4));
    }
    text.push_str(&format!("\n{}", summary(document.summary.as_ref())));
    if head.simulated {
        text.push_str(&format!("\n{SIMULATED}"));
    }
    paint(&text)
}

fn cells(job: &JobDocument) -> [String; 7] {
    let attempt = job.attempts.last();
    let of = |show: &dyn Fn(&AttemptDocument) -> String| attempt.map_or_else(unknown, show);
    let mark = |attempt: &AttemptDocument| if attempt.simulated { " *" } else { "" };
    [
        state(job),
        job.attempts.len().to_string(),
        of(&|attempt| host(&attempt.host)),
        of(&|attempt| format!("{}{}", device(&attempt.device), mark(attempt))),
        of(&|attempt| mib_if(attempt.predicted_mib)),
        of(&|attempt| mib_if(attempt.peak_allocated_mib)),
        of(&|attempt| duration_if(attempt.seconds)),
    ]
}

/// What travels with it: its own files by name, the kit by number.
fn files(all: &[StagedFile]) -> Option<String> {
    let (kit, own): (Vec<_>, Vec<_>) = all.iter().partition(|file| file.bundle == "kit");
    let mut said: Vec<String> = own.iter().take(FILES).map(|file| one_file(file)).collect();
    if own.len() > FILES {
        said.push(format!("{} more", own.len() - FILES));
    }
    if !kit.is_empty() {
        let bytes: u64 = kit.iter().map(|file| file.size).sum();
        let files = count(kit.len() as u64, "file");
        said.push(format!("the kit ({files}, {})", size(bytes)));
    }
    (!said.is_empty()).then(|| format!("files that travel with it: {}\n", said.join(", ")))
}

fn one_file(file: &StagedFile) -> String {
    let digest: String = file.sha256.chars().take(12).collect();
    let name = printable(&file.name);
    format!("{name} ({}, sha256 {digest})", size(file.size))
}

/// The outcome; for a job that runs, how far it is.
fn state(job: &JobDocument) -> String {
    let progress = job.attempts.last().and_then(|attempt| attempt.progress);
    match (&job.outcome, progress) {
        (Some(outcome), _) => outcome.clone(),
        (None, Some(done)) if job.state == "active" => format!("active {:.0}%", done * 100.0),
        _ => job.state.clone(),
    }
}

/// One line for each remark, naming the first job that it holds for.
fn remarks(trials: &[TrialDocument], sweep: &str) -> String {
    let mut said: Vec<(String, &str, u64)> = Vec::new();
    let mut say = |id: &str, text| match said.iter_mut().find(|(_, same, _)| *same == text) {
        Some((_, _, more)) => *more += 1,
        None => said.push((within(id, sweep).to_owned(), text, 0)),
    };
    for trial in trials {
        for job in &trial.jobs {
            remark(job).into_iter().for_each(|text| say(&job.id, text));
        }
    }
    let mut lines: Vec<String> = said
        .iter()
        .map(|(job, text, more)| match more {
            0 => format!("{job}: {}", printable(text)),
            more => format!("{job} and {more} more: {}", printable(text)),
        })
        .map(|line| wrap::paragraph(&line, 0, 4))
        .collect();
    lines.extend(trials.iter().filter_map(|trial| {
        let head = format!("{} would fit", within(&trial.id, sweep));
        Some(wrap::alternatives(
            &head,
            &printable(trial.would_fit.as_deref()?),
        ))
    }));
    let hidden = lines.len().saturating_sub(REMARKS);
    lines.truncate(REMARKS);
    if hidden > 0 {
        lines.push(format!(
            "and {} (sweep why JOB)\n",
            count(hidden as u64, "more remark")
        ));
    }
    if lines.is_empty() {
        String::new()
    } else {
        format!("\n{}", lines.concat())
    }
}

fn remark(job: &JobDocument) -> Option<&str> {
    if job.outcome.as_deref() == Some("succeeded") {
        return None;
    }
    let ending = job
        .attempts
        .last()
        .and_then(|attempt| attempt.detail.as_deref());
    job.reason
        .as_deref()
        .or(ending)
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use crate::render::sample;

    #[test]
    fn jobs_are_rows_and_remarks_follow() {
        let text = sample::plain(&super::text(&sample::sweep()));
        sample::assert_fits(&text);
        assert!(text.contains("1/train"), "{text}");
        assert!(text.contains("active 40%"), "{text}");
        assert!(text.contains("6 would fit: rank 104"), "{text}");
        assert!(text.contains("RTX 5060 Ti *"), "{text}");
    }
}
