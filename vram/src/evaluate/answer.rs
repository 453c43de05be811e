//! What an evaluation says: each row's prediction beside what was measured, and how far off they are together.
//! A row that ran out of memory counts for verdicts only. Predicts nothing itself.

use serde::{Deserialize, Serialize};

use crate::verdict::VerdictKind;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluatedRow {
    pub line: usize,
    pub model: Option<String>,
    pub gpu: Option<String>,
    pub quant: Option<String>,
    pub rank: u64,
    pub batch: u64,
    pub seq_len: u64,
    /// Absent where the activations of the model's family are not known.
    pub predicted_allocated_mib: Option<f64>,
    pub measured_allocated_mib: Option<f64>,
    pub allocated_error_pct: Option<f64>,
    pub predicted_reserved_mib: Option<f64>,
    pub measured_reserved_mib: Option<f64>,
    pub reserved_error_pct: Option<f64>,
    pub predicted_pre_step_mib: Option<f64>,
    pub measured_pre_step_mib: Option<f64>,
    pub pre_step_error_pct: Option<f64>,
    pub predicted_after_load_mib: Option<f64>,
    /// The most until the first forward, and the first backward, had ended.
    pub predicted_forward_peak_mib: Option<f64>,
    pub measured_forward_peak_mib: Option<f64>,
    pub forward_error_pct: Option<f64>,
    pub predicted_backward_peak_mib: Option<f64>,
    pub measured_backward_peak_mib: Option<f64>,
    pub backward_error_pct: Option<f64>,
    pub limit_mib: Option<f64>,
    /// Against `limit_mib`, where the row has one.
    pub verdict: Option<VerdictKind>,
    /// What the failing allocation would ask for, where the replay runs out.
    pub predicted_oom_wanted_mib: Option<f64>,
    pub status: Option<String>,
    /// What the prediction rests on: the stream of the shapes (`replayed`) or of the program's code (`rehearsed`), or
    /// `learned` where measurements corrected it.
    pub source: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    pub n: usize,
    pub median_pct: Option<f64>,
    pub p90_pct: Option<f64>,
    pub max_pct: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCounts {
    pub false_fits: usize,
    pub false_too_large: usize,
    pub uncertain: usize,
    pub n: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub n: usize,
    pub allocated: Errors,
    pub reserved: Errors,
    pub pre_step: Errors,
    pub forward: Errors,
    pub backward: Errors,
    pub verdicts: VerdictCounts,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    pub rows: Vec<EvaluatedRow>,
    pub summary: Summary,
}

pub(super) fn summary(rows: &[EvaluatedRow]) -> Summary {
    let mut verdicts = VerdictCounts::default();
    for row in rows {
        let status = row.status.as_deref().map(str::to_ascii_lowercase);
        let (Some(verdict), Some(status)) = (row.verdict, status) else {
            continue;
        };
        verdicts.n += 1;
        match (verdict, status.as_str()) {
            (VerdictKind::Fits, "oom") => verdicts.false_fits += 1,
            (VerdictKind::TooLarge | VerdictKind::Spills, "ok") => verdicts.false_too_large += 1,
            (VerdictKind::Uncertain, _) => verdicts.uncertain += 1,
            _ => {}
        }
    }
    Summary {
        n: rows.len(),
        allocated: errors(rows.iter().filter_map(|row| row.allocated_error_pct)),
        reserved: errors(rows.iter().filter_map(|row| row.reserved_error_pct)),
        pre_step: errors(rows.iter().filter_map(|row| row.pre_step_error_pct)),
        forward: errors(rows.iter().filter_map(|row| row.forward_error_pct)),
        backward: errors(rows.iter().filter_map(|row| row.backward_error_pct)),
        verdicts,
    }
}

/// Median, ninth decile and maximum of absolute errors.
pub(crate) fn errors(values: impl Iterator<Item = f64>) -> Errors {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let median = match n {
        0 => None,
        n if n % 2 == 1 => Some(values[n / 2]),
        n => Some((values[n / 2 - 1] + values[n / 2]) / 2.0),
    };
    Errors {
        n,
        median_pct: median,
        p90_pct: values.get((n * 9 / 10).min(n.saturating_sub(1))).copied(),
        max_pct: values.last().copied(),
    }
}
