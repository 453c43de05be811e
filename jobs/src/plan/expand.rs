//! From axes to trials: combine, then drop and change by `[[when]]`, in the order of the file.
//! Refuses two equal cells, more trials than [`MOST_TRIALS`], and a sweep of which nothing is left.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

use super::random::draw;
use super::{MOST_TRIALS, Plan, Trial};
use crate::spec::{Axes, Axis, AxisValues, Params, Spec, When, WhenAction, canonical, same};

/// What is wrong with a sweep although its file reads well.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ExpandError {
    pub message: String,
    pub help: String,
    pub(crate) at: At,
}

/// The part of the file to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Axes,
    /// `random = N`.
    Random,
    /// A cell of a `list`.
    Cell(usize),
    When(usize),
}

impl ExpandError {
    pub(crate) fn new(at: At, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: help.into(),
            at,
        }
    }
}

/// Trials in file order: the same spec gives the same trials with the same numbers.
pub fn expand(spec: Spec) -> Result<Plan, ExpandError> {
    let cells = cells(&spec.axes, spec.seed)?;
    refuse_endless(cells.len(), &spec.when)?;
    let mut trials: Vec<Trial> = Vec::with_capacity(cells.len());
    let mut skipped = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (number, cell) in cells.into_iter().enumerate() {
        match apply(cell, &spec.when) {
            Applied::Skipped(cell, reason) => skipped.push((cell, reason)),
            Applied::Kept(params, changed_by) => {
                let first = *seen.entry(cell_text(&params)).or_insert(number);
                if first != number {
                    return Err(duplicate(&spec.axes, &params, number, first, changed_by));
                }
                let index = u32::try_from(trials.len() + 1).unwrap_or(u32::MAX);
                trials.push(Trial { index, params });
            }
        }
    }
    if trials.is_empty() {
        let at = spec.when.len().checked_sub(1).map_or(At::Axes, At::When);
        let message = format!(
            "all {} cells are skipped, so there is no trial",
            skipped.len()
        );
        return Err(ExpandError::new(
            at,
            message,
            "make the conditions of [[when]] narrower",
        ));
    }
    Ok(Plan {
        spec,
        trials,
        skipped,
    })
}

fn cells(axes: &Axes, seed: u64) -> Result<Vec<Params>, ExpandError> {
    match axes {
        Axes::None => Ok(vec![Params::new()]),
        Axes::List(cells) => {
            few_enough(cells.len() as u128)?;
            Ok(cells.clone())
        }
        Axes::Zip(axes) => {
            let rows = axes
                .iter()
                .map(|axis| listed(axis).len())
                .min()
                .unwrap_or(0);
            few_enough(rows as u128)?;
            Ok((0..rows).map(|row| zip_row(axes, row)).collect())
        }
        Axes::Grid(axes) => {
            let cells = combinations(axes);
            few_enough(cells)?;
            let cells = u64::try_from(cells).unwrap_or(u64::MAX);
            Ok((0..cells).map(|cell| grid_cell(axes, cell)).collect())
        }
        Axes::Random { draws, axes } => draw(*draws, axes, seed),
    }
}

fn few_enough(cells: u128) -> Result<(), ExpandError> {
    if cells <= u128::from(MOST_TRIALS) {
        return Ok(());
    }
    let message = format!(
        "{} trials are too many: at most {}",
        grouped(cells),
        grouped(u128::from(MOST_TRIALS))
    );
    let help = "shorten the axes, or draw some of the cells: random = 1000";
    Err(ExpandError::new(At::Axes, message, help))
}

/// 1,000,000 rather than 1000000.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The values of an axis; a range has none of its own.
pub(super) fn listed(axis: &Axis) -> &[Value] {
    match &axis.values {
        AxisValues::Listed(values) => values,
        AxisValues::Range { .. } => &[],
    }
}

/// How many cells the listed axes have together.
pub(super) fn combinations(axes: &[Axis]) -> u128 {
    axes.iter()
        .map(listed)
        .filter(|values| !values.is_empty())
        .fold(1u128, |all, values| {
            all.saturating_mul(values.len() as u128)
        })
}

/// The numbered cell of the listed axes; the last axis varies fastest.
pub(super) fn grid_cell(axes: &[Axis], number: u64) -> Params {
    let mut left = number;
    let mut cell = Params::new();
    for axis in axes.iter().rev() {
        let values = listed(axis);
        let Some(count) = u64::try_from(values.len()).ok().filter(|count| *count > 0) else {
            continue;
        };
        let at = usize::try_from(left % count).unwrap_or_default();
        cell.insert(axis.name.clone(), values[at].clone());
        left /= count;
    }
    cell
}

fn zip_row(axes: &[Axis], row: usize) -> Params {
    axes.iter()
        .filter_map(|axis| Some((axis.name.clone(), listed(axis).get(row)?.clone())))
        .collect()
}

/// Keeps the time of an expansion within a second or so, whoever wrote the file.
fn refuse_endless(cells: usize, whens: &[When]) -> Result<(), ExpandError> {
    const MOST: usize = 20_000_000;
    let values = |when: &When| -> usize {
        let counts = when
            .condition
            .values()
            .map(|value| value.as_array().map_or(1, Vec::len));
        counts.sum()
    };
    let comparisons = whens
        .iter()
        .map(values)
        .sum::<usize>()
        .saturating_mul(cells);
    if comparisons <= MOST {
        return Ok(());
    }
    let message = "there are too many conditions for so many cells";
    let help = "name the cells themselves: list = [{ .. }, { .. }]";
    Err(ExpandError::new(At::When(0), message, help))
}

enum Applied {
    /// The cell, and the last `[[when]]` that changed it.
    Kept(Params, Option<usize>),
    Skipped(Params, String),
}

fn apply(mut cell: Params, whens: &[When]) -> Applied {
    let mut changed_by = None;
    for (number, when) in whens.iter().enumerate() {
        if !matches(&cell, &when.condition) {
            continue;
        }
        match &when.action {
            WhenAction::Skip(reason) => return Applied::Skipped(cell, reason.clone()),
            WhenAction::Set(set) => {
                cell.extend(set.clone());
                changed_by = Some(number);
            }
        }
    }
    Applied::Kept(cell, changed_by)
}

fn matches(cell: &Params, condition: &Params) -> bool {
    condition.iter().all(|(name, wanted)| {
        let Some(value) = cell.get(name) else {
            return false;
        };
        let any = wanted
            .as_array()
            .is_some_and(|any| any.iter().any(|one| same(one, value)));
        any || same(wanted, value)
    })
}

/// One text for equal cells.
pub(super) fn cell_text(params: &Params) -> String {
    let mut text = String::new();
    for (name, value) in params {
        text.push_str(name);
        text.push('\0');
        text.push_str(&canonical(value));
        text.push('\0');
    }
    text
}

fn duplicate(
    axes: &Axes,
    params: &Params,
    number: usize,
    first: usize,
    changed_by: Option<usize>,
) -> ExpandError {
    let shown: Vec<String> = params
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let message = format!(
        "cells {} and {} are the same: {}",
        first + 1,
        number + 1,
        shown.join(", ")
    );
    match (changed_by, axes) {
        (Some(when), _) => ExpandError::new(
            At::When(when),
            format!("after this `set`, {message}"),
            "skip one of them with a [[when]] instead",
        ),
        (None, Axes::List(_)) => ExpandError::new(At::Cell(number), message, "remove one of them"),
        (None, _) => ExpandError::new(At::Axes, message, "remove one of them"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;

    fn cells(axes: &str) -> Vec<String> {
        let text = format!("[sweep]\nname = \"t\"\n[axes]\n{axes}\n[train]\nrun = [\"x\"]\n");
        let plan = load("t.toml", text.as_bytes()).unwrap();
        let cell = |params: &super::Params| serde_json::to_string(params).unwrap();
        plan.trials
            .iter()
            .map(|trial| cell(&trial.params))
            .collect()
    }

    #[test]
    fn the_last_axis_of_a_grid_varies_fastest() {
        assert_eq!(
            cells("b = [1, 2]\na = [0.5, \"x\"]"),
            [
                r#"{"a":0.5,"b":1}"#,
                r#"{"a":"x","b":1}"#,
                r#"{"a":0.5,"b":2}"#,
                r#"{"a":"x","b":2}"#
            ]
        );
    }

    #[test]
    fn zip_and_list() {
        assert_eq!(
            cells("zip = true\na = [1, 1]\nb = [3, 4]"),
            [r#"{"a":1,"b":3}"#, r#"{"a":1,"b":4}"#]
        );
        assert_eq!(
            cells("list = [{ a = 1 }, { b = 2 }]"),
            [r#"{"a":1}"#, r#"{"b":2}"#]
        );
    }

    #[test]
    fn conditions_are_applied_in_order() {
        let text = "a = [1, 2, 3]\n[[when]]\nif = { a = [1, 2] }\nset = { a = 9, b = true }\n\
                    [[when]]\nif = { a = 9 }\nset = { c = 1 }";
        let refused = std::panic::catch_unwind(|| cells(text));
        assert!(refused.is_err(), "cells 1 and 2 are made equal");
        let text = "a = [1, 2, 3]\n[[when]]\nif = { a = 1 }\nset = { a = 9 }\n\
                    [[when]]\nif = { a = 9 }\nset = { c = 1 }\n[[when]]\nif = { a = 3.0 }\nskip = \"no\"";
        assert_eq!(cells(text), [r#"{"a":9,"c":1}"#, r#"{"a":2}"#]);
    }
}
