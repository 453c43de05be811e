//! `[axes]`: which settings vary, and how they are combined. Refuses empty axes, values named twice, and mixtures of
//! the four ways (grid, random, list, zip).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use toml::de::DeValue;

use super::file::Marks;
use super::range;
use super::reader::{Entry, Reader, Span, Table, tick};
use super::setting::{self, Spot};
use super::types::{Axes, Axis, AxisValues, Params};
use super::value::canonical;
use crate::plan::MOST_TRIALS;

/// The axes, and where they stand for what only expansion can find.
pub(crate) struct ReadAxes {
    pub axes: Axes,
    pub span: Span,
    pub random: Option<Span>,
    /// Of each cell of a `list`.
    pub cells: Vec<Span>,
}

impl ReadAxes {
    pub fn split(self) -> (Axes, Marks) {
        let marks = Marks {
            axes: self.span,
            random: self.random,
            cells: self.cells,
            ..Marks::default()
        };
        (self.axes, marks)
    }
}

pub(crate) fn axes(reader: &mut Reader<'_>, trained: bool, mut table: Table<'_>) -> ReadAxes {
    let span = table.span.clone();
    let random = table.take("random");
    let zip = table.take("zip");
    let list = table.take("list");
    if let Some(entry) = list {
        refuse_beside_list(reader, [random, zip].into_iter().flatten(), &table);
        return list_cells(reader, trained, &entry, span);
    }
    let draws = random.as_ref().map(|entry| {
        let draws = reader
            .integer(entry, 1..=i64::from(MOST_TRIALS))
            .unwrap_or(1);
        u32::try_from(draws).unwrap_or(1)
    });
    let zipped = zip
        .as_ref()
        .and_then(|entry| reader.boolean(entry))
        .unwrap_or(false);
    if let (true, Some(entry)) = (zipped, &random) {
        reader.error_help(
            entry.key_span.clone(),
            "`random` and `zip` cannot be combined",
            "choose one of them",
        );
    }
    if table.entries.is_empty() {
        let help = "name an axis, such as rank = [96, 112], or leave [axes] out";
        reader.error_help(span.clone(), "[axes] is empty", help);
    }
    let axes: Vec<Axis> = table
        .entries
        .iter()
        .filter_map(|entry| axis(reader, trained, draws.is_some(), zipped, entry))
        .collect();
    if zipped {
        check_zip(reader, &table.entries, &axes);
    }
    let axes = match draws {
        Some(draws) => Axes::Random { draws, axes },
        None if zipped => Axes::Zip(axes),
        None => Axes::Grid(axes),
    };
    ReadAxes {
        axes,
        span,
        random: random.map(|entry| entry.span()),
        cells: Vec::new(),
    }
}

fn axis(
    reader: &mut Reader<'_>,
    trained: bool,
    random: bool,
    zipped: bool,
    entry: &Entry<'_>,
) -> Option<Axis> {
    let rule = setting::rule(reader, trained, Spot::Cell, entry.key, &entry.key_span)?;
    let values = match entry.value.get_ref() {
        DeValue::Array(items) if items.is_empty() => {
            let message = format!("axis `{}` has no values", entry.key);
            reader.error_help(entry.span(), message, "give it values, or leave it out");
            return None;
        }
        DeValue::Array(items) => {
            let what = format!("a value of axis `{}`", entry.key);
            let mut values = Vec::with_capacity(items.len());
            for item in items {
                let value = setting::check(reader, rule, &what, item);
                values.push((value, item.span()));
            }
            listed(reader, entry.key, zipped, values)?
        }
        DeValue::Table(_) => range::range(reader, random, rule, entry)?,
        _ => {
            let message = format!("axis `{}` must be an array of values", entry.key);
            let written = reader.written(entry.span());
            let help = format!("write [{written}], or put what does not vary into [recipe]");
            reader.error_help(entry.span(), message, help);
            return None;
        }
    };
    Some(Axis {
        name: entry.key.to_owned(),
        values,
    })
}

/// The values of an axis; twice the same would make two equal cells, save in a zip.
fn listed(
    reader: &mut Reader<'_>,
    name: &str,
    zipped: bool,
    values: Vec<(Option<Value>, Span)>,
) -> Option<AxisValues> {
    let mut seen = BTreeSet::new();
    let mut kept = Vec::with_capacity(values.len());
    let count = values.len();
    for (value, span) in values {
        let Some(value) = value else { continue };
        if !seen.insert(canonical(&value)) && !zipped {
            let message = format!(
                "axis `{name}` has the value {} twice",
                reader.written(span.clone())
            );
            reader.error_help(span, message, "every cell must be another one: remove it");
        }
        kept.push(value);
    }
    (kept.len() == count).then_some(AxisValues::Listed(kept))
}

/// All axes of a zip have as many values as the first one.
fn check_zip(reader: &mut Reader<'_>, entries: &[Entry<'_>], axes: &[Axis]) {
    let length = |axis: &Axis| match &axis.values {
        AxisValues::Listed(values) => values.len(),
        AxisValues::Range { .. } => 0,
    };
    let Some(first) = axes.first() else { return };
    for axis in &axes[1..] {
        let (have, want) = (length(axis), length(first));
        let entry = entries.iter().find(|entry| entry.key == axis.name);
        if let (true, Some(entry)) = (have != want, entry) {
            let message = format!(
                "`zip` needs axes of equal length: `{}` has {want} values, `{}` has {have}",
                first.name, axis.name
            );
            reader.error(entry.span(), message);
        }
    }
}

fn refuse_beside_list<'t>(
    reader: &mut Reader<'_>,
    modes: impl Iterator<Item = Entry<'t>>,
    table: &Table<'t>,
) {
    for entry in modes.chain(table.entries.iter().cloned()) {
        let message = format!(
            "`list` names whole cells, so `{}` cannot stand beside it",
            entry.key
        );
        let help = "move it into each cell of `list`, or into [recipe] if it does not vary";
        reader.error_help(entry.key_span, message, help);
    }
}

fn list_cells(reader: &mut Reader<'_>, trained: bool, entry: &Entry<'_>, span: Span) -> ReadAxes {
    let mut cells = Vec::new();
    let mut spans = Vec::new();
    let items = reader.array(entry).unwrap_or_default();
    if items.is_empty() && matches!(entry.value.get_ref(), DeValue::Array(_)) {
        let help = "give it cells, such as list = [{ rank = 96 }, { rank = 112 }]";
        reader.error_help(entry.span(), "`list` has no cells", help);
    }
    for item in items {
        let DeValue::Table(table) = item.get_ref() else {
            reader.wrong_type(item, "each cell of `list`", "a table such as { rank = 96 }");
            continue;
        };
        let table = Table::new("`list`", item.span(), table);
        let mut cell = Params::new();
        for setting in &table.entries {
            if let Some(value) = setting::read(reader, trained, Spot::Cell, setting) {
                cell.insert(setting.key.to_owned(), value);
            }
        }
        cells.push(cell);
        spans.push(item.span());
    }
    ReadAxes {
        axes: Axes::List(cells),
        span,
        random: None,
        cells: spans,
    }
}

impl Axes {
    /// The names that every cell has.
    pub(crate) fn sure_names(&self) -> Vec<&str> {
        match self {
            Self::None => Vec::new(),
            Self::Grid(axes) | Self::Zip(axes) | Self::Random { axes, .. } => {
                axes.iter().map(|axis| axis.name.as_str()).collect()
            }
            Self::List(cells) => {
                let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                for name in cells.iter().flat_map(Params::keys) {
                    *counts.entry(name).or_default() += 1;
                }
                counts.retain(|_, count| *count == cells.len());
                counts.into_keys().collect()
            }
        }
    }

    /// The names that any cell has.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::List(cells) => {
                let all: BTreeSet<&String> = cells.iter().flat_map(Params::keys).collect();
                all.into_iter().map(String::as_str).collect()
            }
            _ => self.sure_names(),
        }
    }

    /// Each name with the texts of the values that are listed for it.
    pub(crate) fn listed(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let mut all: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        match self {
            Self::None => {}
            Self::List(cells) => {
                for (name, value) in cells.iter().flatten() {
                    all.entry(name).or_default().insert(canonical(value));
                }
            }
            Self::Grid(axes) | Self::Zip(axes) | Self::Random { axes, .. } => {
                for axis in axes {
                    if let AxisValues::Listed(values) = &axis.values {
                        all.insert(&axis.name, values.iter().map(canonical).collect());
                    }
                }
            }
        }
        all
    }

    /// Whether a range of this name goes over this value.
    pub(crate) fn in_range(&self, name: &str, value: &Value) -> bool {
        let Self::Random { axes, .. } = self else {
            return false;
        };
        axes.iter().any(|axis| match &axis.values {
            AxisValues::Range { from, to, .. } => {
                axis.name == name
                    && value
                        .as_f64()
                        .is_some_and(|number| (*from..=*to).contains(&number))
            }
            AxisValues::Listed(_) => false,
        })
    }
}

/// For messages: the values of an axis, if they are few.
pub(crate) fn shown_values(axes: &Axes, name: &str) -> Option<String> {
    let values: Vec<&Value> = match axes {
        Axes::None => return None,
        Axes::List(cells) => cells.iter().filter_map(|cell| cell.get(name)).collect(),
        Axes::Grid(axes) | Axes::Zip(axes) | Axes::Random { axes, .. } => {
            match &axes.iter().find(|axis| axis.name == name)?.values {
                AxisValues::Listed(values) => values.iter().collect(),
                AxisValues::Range { from, to, .. } => return Some(format!("from {from} to {to}")),
            }
        }
    };
    if values.len() > 12 {
        return None;
    }
    let shown: Vec<String> = values.into_iter().map(Value::to_string).collect();
    Some(format!("{} has {}", tick(name), shown.join(", ")))
}
