//! Rules that are a program: what fitcheck-llm and accelerate answered when the scripts in data/rivals asked them.
//! Only reads their answers; runs neither.

use std::collections::BTreeMap;

use serde::Deserialize;
use vram::VerdictKind;

const FITCHECK: &str = include_str!("../../../data/rivals/fitcheck.jsonl");
const ACCELERATE: &str = include_str!("../../../data/rivals/accelerate.jsonl");

/// The first line of each file.
#[derive(Deserialize)]
struct Tool {
    version: String,
}

#[derive(Deserialize)]
pub struct FitcheckAnswer {
    table: String,
    row: String,
    /// Everything but its overhead, and all of it.
    pub tensors_mib: Option<f64>,
    pub total_mib: Option<f64>,
    verdict: Option<String>,
    /// Settings of the row that it has no option for.
    #[serde(default)]
    pub untold: Vec<String>,
}

impl FitcheckAnswer {
    pub fn verdict(&self) -> Option<VerdictKind> {
        match self.verdict.as_deref()? {
            "safe" => Some(VerdictKind::Fits),
            "does_not_fit" => Some(VerdictKind::TooLarge),
            _ => Some(VerdictKind::Uncertain),
        }
    }
}

pub struct Fitcheck {
    pub version: String,
    answers: BTreeMap<(String, String), FitcheckAnswer>,
}

impl Fitcheck {
    pub fn read() -> Result<Self, String> {
        let (version, answers) = read::<FitcheckAnswer>("fitcheck.jsonl", FITCHECK)?;
        let keyed = answers
            .into_iter()
            .map(|one| ((one.table.clone(), one.row.clone()), one));
        Ok(Self {
            version,
            answers: keyed.collect(),
        })
    }

    pub fn answer(&self, table: &str, row: &str) -> Option<&FitcheckAnswer> {
        self.answers.get(&(table.to_owned(), row.to_owned()))
    }
}

/// By the dtype of the command; `None` is its N/A.
#[derive(Deserialize)]
struct AccelerateAnswer {
    model: String,
    total_mib: BTreeMap<String, f64>,
    training_mib: BTreeMap<String, Option<f64>>,
}

pub struct Accelerate {
    pub version: String,
    answers: Vec<AccelerateAnswer>,
}

impl Accelerate {
    pub fn read() -> Result<Self, String> {
        let (version, answers) = read("accelerate.jsonl", ACCELERATE)?;
        Ok(Self { version, answers })
    }

    fn of(&self, model: &str) -> Option<&AccelerateAnswer> {
        self.answers.iter().find(|answer| answer.model == model)
    }

    pub fn total_mib(&self, model: &str, bits: u32) -> Option<f64> {
        self.of(model)?.total_mib.get(dtype(bits)?).copied()
    }

    pub fn training_mib(&self, model: &str, bits: u32) -> Option<f64> {
        *self.of(model)?.training_mib.get(dtype(bits)?)?
    }
}

fn dtype(bits: u32) -> Option<&'static str> {
    match bits {
        4 => Some("int4"),
        16 => Some("float16"),
        _ => None,
    }
}

fn read<T: for<'a> Deserialize<'a>>(name: &str, text: &str) -> Result<(String, Vec<T>), String> {
    let bad = |error: serde_json::Error| format!("read {name}: {error}");
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let tool: Tool = serde_json::from_str(first).map_err(bad)?;
    let answers = lines.map(|line| serde_json::from_str(line).map_err(bad));
    Ok((tool.version, answers.collect::<Result<_, _>>()?))
}
