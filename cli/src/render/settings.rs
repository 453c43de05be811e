//! The settings of trials in a table: a column for each axis while they are few and short, else one column of
//! `name=value` pairs. A value is never cut.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::format;
use super::table::Kind;

/// Columns of axes may take this much of a line.
const ROOM: usize = 36;

pub struct Settings {
    /// Empty: pairs in one column.
    names: Vec<String>,
    pairs: bool,
}

impl Settings {
    /// For these trials' JSON objects.
    pub fn of<'j>(all: impl Iterator<Item = &'j str>) -> Self {
        let mut names = BTreeSet::new();
        let mut values = Vec::new();
        for json in all {
            let map = object(json);
            names.extend(map.keys().cloned());
            values.push(map);
        }
        let width = |name: &String| {
            let shown = values
                .iter()
                .filter_map(|map| map.get(name))
                .map(|value| length(&format::plain(value)));
            shown.max().unwrap_or(0).max(length(name)) + 2
        };
        let pairs = names.iter().map(width).sum::<usize>() > ROOM;
        Self {
            names: if pairs {
                Vec::new()
            } else {
                names.into_iter().collect()
            },
            pairs,
        }
    }

    pub fn columns(&self) -> Vec<(String, Kind)> {
        if self.pairs {
            return vec![("SETTINGS".to_owned(), Kind::Pairs)];
        }
        self.names
            .iter()
            .map(|name| (name.clone(), Kind::Figure))
            .collect()
    }

    /// Under [`Settings::columns`]; `None` for a line that belongs to the trial above.
    pub fn cells(&self, json: Option<&str>) -> Vec<String> {
        if self.pairs {
            return vec![json.map(format::params).unwrap_or_default()];
        }
        let map = json.map(object).unwrap_or_default();
        self.names
            .iter()
            .map(|name| map.get(name).map(format::plain).unwrap_or_default())
            .collect()
    }
}

fn object(json: &str) -> Map<String, Value> {
    serde_json::from_str(json).unwrap_or_default()
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_axes_are_columns_and_many_are_pairs() {
        let few = Settings::of([r#"{"rank":96,"dropout":0.1}"#, r#"{"rank":112}"#].into_iter());
        let names: Vec<String> = few.columns().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["dropout", "rank"]);
        assert_eq!(few.cells(Some(r#"{"rank":112}"#)), ["", "112"]);
        assert_eq!(few.cells(None), ["", ""]);

        let long = r#"{"learning_rate":1e-5,"weight_decay":0.01,"corpus":"2026-09-21"}"#;
        let many = Settings::of([long].into_iter());
        assert_eq!(many.columns().len(), 1);
        assert_eq!(
            many.cells(Some(long)),
            ["corpus=2026-09-21 learning_rate=0.00001 weight_decay=0.01"]
        );
        assert_eq!(Settings::of(["{}"].into_iter()).columns(), []);
    }
}
