//! Predicted against measured, for everything that was learned, by host and mode: the answer of `sweep vram report`,
//! and a scatter of it. Each row is predicted from the closed form and its family's correction, not from itself alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::evaluate::{Errors, errors};
use crate::{Backend, Knowledge, Mode};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportRow {
    pub host: String,
    /// The model's family and shape, by one name: what corrections are learned for.
    pub family: String,
    pub device: String,
    pub mode: Mode,
    pub backend: Backend,
    pub source: String,
    pub measured_mib: f64,
    /// The closed form alone, and corrected by its family.
    pub computed_mib: f64,
    pub corrected_mib: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportGroup {
    pub host: String,
    pub family: String,
    pub mode: Mode,
    pub computed: Errors,
    pub corrected: Errors,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub rows: Vec<ReportRow>,
    pub groups: Vec<ReportGroup>,
    /// Measurements kept out of learning.
    pub outliers: Vec<String>,
}

#[must_use]
pub fn report(knowledge: &Knowledge) -> Report {
    let rows = knowledge.compared();
    let mut groups: BTreeMap<(String, String, Mode), Vec<&ReportRow>> = BTreeMap::new();
    for row in &rows {
        groups
            .entry((row.host.clone(), row.family.clone(), row.mode))
            .or_default()
            .push(row);
    }
    let off = |predicted: f64, measured: f64| (predicted / measured - 1.0).abs() * 100.0;
    let groups = groups
        .into_iter()
        .map(|((host, family, mode), rows)| ReportGroup {
            host,
            family,
            mode,
            computed: errors(
                rows.iter()
                    .map(|row| off(row.computed_mib, row.measured_mib)),
            ),
            corrected: errors(
                rows.iter()
                    .map(|row| off(row.corrected_mib, row.measured_mib)),
            ),
        });
    Report {
        groups: groups.collect(),
        outliers: knowledge.outliers(),
        rows,
    }
}

/// Measured across, predicted up, both in GiB on one scale; on the line it was right.
#[must_use]
pub fn scatter_svg(report: &Report) -> String {
    const SIDE: f64 = 480.0;
    const EDGE: f64 = 48.0;
    let most = report
        .rows
        .iter()
        .map(|row| row.measured_mib.max(row.corrected_mib))
        .fold(1024.0, f64::max);
    let top = (most / 1024.0).ceil() * 1024.0;
    let place = |mib: f64| mib / top * SIDE;
    let whole = SIDE + 2.0 * EDGE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole} {whole}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{whole}\" height=\"{whole}\" fill=\"white\"/>\n\
         <line x1=\"{EDGE}\" y1=\"{}\" x2=\"{}\" y2=\"{EDGE}\" stroke=\"#999\"/>\n",
        EDGE + SIDE,
        EDGE + SIDE,
    );
    for row in &report.rows {
        let colour = if row.backend == Backend::Rocm {
            "#c0392b"
        } else {
            "#2471a3"
        };
        let (x, y) = (
            EDGE + place(row.measured_mib),
            EDGE + SIDE - place(row.corrected_mib),
        );
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\" fill-opacity=\"0.6\"/>"
        );
    }
    let gib = top / 1024.0;
    let _ = writeln!(
        svg,
        "<text x=\"{EDGE}\" y=\"{}\">measured, 0 to {gib:.0} GiB</text>\n<text x=\"8\" y=\"{}\">predicted</text>\n</svg>",
        EDGE + SIDE + 24.0,
        EDGE - 16.0,
    );
    svg
}
