//! `sweep check` for people.

use super::format::{count, plain};
use super::table::printable;
use crate::cmd::check::Checked;

const LISTED: usize = 20;

pub fn text(checked: &Checked) -> String {
    let mut text = format!(
        "{}: {} is right: {}, {} ({})",
        checked.file,
        checked.name,
        count(checked.trials as u64, "trial"),
        count(checked.jobs as u64, "job"),
        checked.kinds.join(", "),
    );
    if !checked.files.is_empty() {
        let bytes: u64 = checked.files.iter().map(|file| file.bytes).sum();
        text.push_str(&format!(
            "\n{} of {} with it",
            count(checked.files.len() as u64, "file"),
            format_args!("{:.1} MiB travel", bytes as f64 / f64::from(1 << 20)),
        ));
    }
    for name in &checked.not_files {
        text.push_str(&format!(
            "\nno file {} beside it: the program gets the name, nothing travels",
            printable(name)
        ));
    }
    if !checked.skipped.is_empty() {
        text.push_str(&format!(
            "\n{} skipped:",
            count(checked.skipped.len() as u64, "cell")
        ));
    }
    for cell in checked.skipped.iter().take(LISTED) {
        let params: Vec<String> = cell
            .params
            .iter()
            .map(|(name, value)| format!("{name}={}", plain(value)))
            .collect();
        text.push_str(&format!("\n  {}: {}", params.join(" "), cell.reason));
    }
    if checked.skipped.len() > LISTED {
        text.push_str(&format!("\n  and {} more", checked.skipped.len() - LISTED));
    }
    text
}
