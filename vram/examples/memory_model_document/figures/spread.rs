//! Median, ninth decile and maximum of errors, and how figures are written: few digits, so that the document is the
//! same on every machine. Holds no figure itself.

use vram::Errors;

/// Of absolute percentages; the same statistics as `vram::evaluate` gives for a table.
pub fn spread(values: impl IntoIterator<Item = f64>) -> Errors {
    let mut values: Vec<f64> = values.into_iter().map(f64::abs).collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let median = match n {
        0 => None,
        odd if odd % 2 == 1 => Some(values[odd / 2]),
        even => Some(f64::midpoint(values[even / 2 - 1], values[even / 2])),
    };
    Errors {
        n,
        median_pct: median,
        p90_pct: values.get((n * 9 / 10).min(n.saturating_sub(1))).copied(),
        max_pct: values.last().copied(),
    }
}

/// Predicted against measured, with its sign.
pub fn off_pct(predicted: f64, measured: f64) -> f64 {
    (predicted / measured - 1.0) * 100.0
}

/// Three digits at most.
pub fn pct(value: f64) -> String {
    match value.abs() {
        small if small < 0.1 => format!("{value:.3} %"),
        small if small < 10.0 => format!("{value:.2} %"),
        _ => format!("{value:.1} %"),
    }
}

pub fn pct_or_none(value: Option<f64>) -> String {
    value.map_or_else(String::new, pct)
}

/// The row that parts a table's head from its body.
pub fn head(columns: &[&str]) -> String {
    format!(
        "| {} |\n|{}\n",
        columns.join(" | "),
        " --- |".repeat(columns.len())
    )
}

pub fn line(cells: &[String]) -> String {
    let mut line = String::from("|");
    for cell in cells {
        line.push(' ');
        line.push_str(cell);
        line.push_str(if cell.is_empty() { "|" } else { " |" });
    }
    line.push('\n');
    line
}
