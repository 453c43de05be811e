//! `sweep check` for people.

use super::format::{count, plain};
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
