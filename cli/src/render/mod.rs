//! Documents as text for people, within 100 columns. Pure: a document in, a text out; nothing is asked or printed.
//! What ran on a simulated device carries a `*` or the word, in every table.

pub mod advice;
pub mod check;
pub mod devices;
pub mod doctor;
pub mod format;
pub mod history;
pub mod hosts;
pub mod list;
pub mod paint;
pub mod peak;
pub mod plan;
pub mod progress;
pub mod results;
pub mod settings;
pub mod sweep;
pub mod table;
pub mod token;
pub mod verdicts;
pub mod vram;
pub mod why;
pub mod wrap;

#[cfg(test)]
pub mod sample;

/// Footnote of a table with stars.
pub const SIMULATED: &str = "* simulated device: its figures are not measurements";

/// A word on many jobs names this many of them; `--json` names all.
const JOBS_SHOWN: usize = 20;

/// What `cancel` and `retry` changed.
pub fn jobs_changed(how: &str, jobs: &[String]) -> String {
    let mut text = match jobs.len() {
        0 => "nothing there to change".to_owned(),
        1 => format!("1 job {how}"),
        count => format!("{count} jobs {how}"),
    };
    for job in jobs.iter().take(JOBS_SHOWN) {
        text.push_str("\n  ");
        text.push_str(job);
    }
    if jobs.len() > JOBS_SHOWN {
        text.push_str(&format!("\n  ... and {} more", jobs.len() - JOBS_SHOWN));
    }
    text
}
