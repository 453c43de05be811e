//! `[[when]]`: which cells are dropped or changed. Refuses a condition that no cell can meet, as that is a slip.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use toml::de::DeValue;

use super::axes::shown_values;
use super::names::Names;
use super::nearest;
use super::reader::{Entry, Reader, Span, Table};
use super::setting::{self, Spot};
use super::types::{Axes, Params, When, WhenAction};
use super::value::canonical;

const KEYS: [&str; 3] = ["if", "skip", "set"];

/// The conditions in file order, and where each one stands.
pub(crate) fn whens(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    entry: &Entry<'_>,
) -> (Vec<When>, Vec<Span>) {
    let mut whens: Vec<When> = Vec::new();
    let mut spans = Vec::new();
    let DeValue::Array(items) = entry.value.get_ref() else {
        let help = "write it with double brackets: [[when]]";
        reader.error_help(
            entry.key_span.clone(),
            "`when` is a list of conditions",
            help,
        );
        return (whens, spans);
    };
    let mut possible = Possible {
        axes: names.axes,
        listed: names.axes.listed(),
        given: BTreeSet::new(),
    };
    for item in items {
        let DeValue::Table(table) = item.get_ref() else {
            reader.wrong_type(item, "each `when`", "a table");
            continue;
        };
        let table = Table::new("[[when]]", item.span(), table);
        if let Some(when) = one(reader, names, &possible, table) {
            if let WhenAction::Set(set) = &when.action {
                let texts = set
                    .iter()
                    .map(|(name, value)| (name.clone(), canonical(value)));
                possible.given.extend(texts);
            }
            whens.push(when);
            spans.push(item.span());
        }
    }
    (whens, spans)
}

fn one(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    possible: &Possible<'_>,
    mut table: Table<'_>,
) -> Option<When> {
    let condition = table.take("if");
    let skip = table.take("skip");
    let set = table.take("set");
    let span = table.span.clone();
    let misspelt = KEYS.map(|key| table.has_nearly(key, &KEYS));
    table.finish(reader, &KEYS);
    let condition = match condition {
        Some(entry) => conditions(reader, names, possible, &entry),
        None if misspelt[0] => None,
        None => {
            let help = "add a line such as if = { rank = 112, dropout = 0.1 }";
            reader.error_help(span.clone(), "[[when]] has no `if`", help);
            None
        }
    };
    let action = match (skip, set) {
        (Some(entry), None) => reader
            .words(&entry)
            .map(|reason| WhenAction::Skip(reason.to_owned())),
        (None, Some(entry)) => settings(reader, names.trained, &entry).map(WhenAction::Set),
        (Some(_), Some(entry)) => {
            reader.error(entry.key_span, "a [[when]] either skips or sets, not both");
            None
        }
        (None, None) if misspelt[1] || misspelt[2] => None,
        (None, None) => {
            let help = "add skip = \"the reason\", or set = { ... }";
            reader.error_help(span, "[[when]] does nothing", help);
            None
        }
    };
    Some(When {
        condition: condition?,
        action: action?,
    })
}

fn conditions(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    possible: &Possible<'_>,
    entry: &Entry<'_>,
) -> Option<Params> {
    let table = reader.table(entry, "`if`")?;
    if table.entries.is_empty() {
        reader.error_help(
            entry.span(),
            "`if` is empty, so every cell would match",
            "name an axis and its value",
        );
    }
    if !names.whole {
        return None;
    }
    let axes = names.axes;
    let known = axes.names();
    let mut condition = Params::new();
    for wanted in &table.entries {
        if !known.contains(&wanted.key) {
            let help = if known.is_empty() {
                "this sweep has no axes".to_owned()
            } else {
                nearest::help(wanted.key, &known)
            };
            let message = format!("`{}` is not an axis", wanted.key);
            reader.error_help(wanted.key_span.clone(), message, help);
            continue;
        }
        let Some(value) = reader.any(wanted.value) else {
            continue;
        };
        if !possible.can_be(wanted.key, &value) {
            let written = reader.written(wanted.span());
            let message = format!("no cell has `{}` = {written}", wanted.key);
            match shown_values(axes, wanted.key) {
                Some(values) => reader.error_help(wanted.span(), message, values),
                None => reader.error(wanted.span(), message),
            }
        }
        condition.insert(wanted.key.to_owned(), value);
    }
    Some(condition)
}

/// The values that axes list, and those that an earlier `set` gave: what a condition may name.
struct Possible<'s> {
    axes: &'s Axes,
    listed: BTreeMap<&'s str, BTreeSet<String>>,
    given: BTreeSet<(String, String)>,
}

impl Possible<'_> {
    /// Whether a cell can have the value, or each of its values.
    fn can_be(&self, name: &str, value: &Value) -> bool {
        let any = value.as_array().filter(|any| !any.is_empty());
        self.is(name, value) || any.is_some_and(|any| any.iter().all(|one| self.is(name, one)))
    }

    fn is(&self, name: &str, value: &Value) -> bool {
        let text = canonical(value);
        self.listed
            .get(name)
            .is_some_and(|texts| texts.contains(&text))
            || self.axes.in_range(name, value)
            || self.given.contains(&(name.to_owned(), text))
    }
}

fn settings(reader: &mut Reader<'_>, trained: bool, entry: &Entry<'_>) -> Option<Params> {
    let table = reader.table(entry, "`set`")?;
    if table.entries.is_empty() {
        reader.error(entry.span(), "`set` is empty");
    }
    let mut set = Params::new();
    for setting in &table.entries {
        if let Some(value) = setting::read(reader, trained, Spot::Cell, setting) {
            set.insert(setting.key.to_owned(), value);
        }
    }
    Some(set)
}
