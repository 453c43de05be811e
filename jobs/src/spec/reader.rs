//! Walks the file's tables by hand, so that every value keeps its place, and collects what is wrong with them.
//! Knows types and names; what a key means is for the module that asks.

use std::fmt::Display;
use std::ops::Range;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{SHOWN, SpecError, SpecErrors};
use super::types::NamedFile;
use super::units::Wrong;
use super::{nearest, value};
use crate::staged::{Names, check_name};

pub(crate) type Span = Range<usize>;

/// Collects errors against one text.
pub(crate) struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    found: Vec<Found>,
    /// Errors beyond the kept ones.
    more: usize,
    /// Files that the text names, each where it is named first.
    files: Vec<(NamedFile, Span)>,
    file_names: Names,
}

/// Keeps the work small for files that are wrong all over.
const KEPT: usize = 1000;

struct Found {
    span: Span,
    message: String,
    help: Option<String>,
}

/// One `key = value` of a table.
#[derive(Clone)]
pub(crate) struct Entry<'t> {
    pub key: &'t str,
    pub key_span: Span,
    pub value: &'t Spanned<DeValue<'t>>,
}

impl Entry<'_> {
    pub fn span(&self) -> Span {
        self.value.span()
    }
}

/// A table in the order of the file; what is not taken out of it is unknown.
pub(crate) struct Table<'t> {
    /// As messages call it: `[recipe]`.
    pub name: String,
    pub span: Span,
    pub entries: Vec<Entry<'t>>,
}

impl<'t> Table<'t> {
    pub fn new(name: impl Into<String>, span: Span, table: &'t DeTable<'t>) -> Self {
        let mut entries: Vec<Entry<'t>> = table
            .iter()
            .map(|(key, value)| Entry {
                key: key.get_ref(),
                key_span: key.span(),
                value,
            })
            .collect();
        entries.sort_by_key(|entry| entry.key_span.start);
        Self {
            name: name.into(),
            span,
            entries,
        }
    }

    pub fn take(&mut self, key: &str) -> Option<Entry<'t>> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }

    /// Whether a key that nobody took is nearly `key`: then `key` is misspelt rather than missing.
    pub fn has_nearly(&self, key: &str, known: &[&str]) -> bool {
        self.entries
            .iter()
            .any(|entry| nearest::nearest(entry.key, known) == Some(key))
    }

    /// Refuses what was not taken, with the nearest of `known`.
    pub fn finish(self, reader: &mut Reader<'_>, known: &[&str]) {
        for entry in self.entries {
            let message = format!("unknown key `{}` in {}", entry.key, self.name);
            let help = nearest::help(entry.key, known);
            reader.error_help(entry.key_span, message, help);
        }
    }
}

impl<'a> Reader<'a> {
    pub fn new(file: &'a str, text: &'a str) -> Self {
        Self {
            file,
            text,
            found: Vec::new(),
            more: 0,
            files: Vec::new(),
            file_names: Names::default(),
        }
    }

    pub fn text(&self) -> &'a str {
        self.text
    }

    /// A value as the file writes it, if that is short.
    pub fn written(&self, span: Span) -> String {
        match self.text.get(span) {
            Some(short) if short.len() <= 40 && !short.contains('\n') => short.to_owned(),
            _ => "this".to_owned(),
        }
    }

    pub fn error(&mut self, span: Span, message: impl Into<String>) {
        self.push(span, message.into(), None);
    }

    pub fn error_help(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.push(span, message.into(), Some(help.into()));
    }

    fn push(&mut self, span: Span, message: String, help: Option<String>) {
        if self.found.len() == KEPT {
            self.more += 1;
            return;
        }
        let span = on_chars(self.text, span);
        self.found.push(Found {
            span,
            message,
            help,
        });
    }

    /// The text names a file that is to travel with the sweep.
    pub fn file(&mut self, name: &str, span: Span) {
        if let Some((known, at)) = self.files.iter_mut().find(|(known, _)| known.name == name) {
            if !known.required {
                (known.required, *at) = (true, span);
            }
            return;
        }
        if let Err(bad) = check_name(name) {
            let help =
                "a path inside the folder of the sweep file, such as {file:cases/held-out.jsonl}";
            self.error_help(span, bad.to_string(), help);
        } else if let Err(clash) = self.file_names.add(name) {
            self.error_help(span, clash.to_string(), "rename one of them");
        } else {
            let name = name.to_owned();
            let required = true;
            self.files.push((NamedFile { name, required }, span));
        }
    }

    /// The text may name one: what could not is a word for the program.
    pub fn maybe_file(&mut self, name: &str, span: Span) {
        let is_known = self.files.iter().any(|(known, _)| known.name == name);
        if !is_known && check_name(name).is_ok() && self.file_names.add(name).is_ok() {
            let name = name.to_owned();
            let required = false;
            self.files.push((NamedFile { name, required }, span));
        }
    }

    pub fn take_files(&mut self) -> Vec<(NamedFile, Span)> {
        std::mem::take(&mut self.files)
    }

    pub fn errors(&self) -> usize {
        self.found.len() + self.more
    }

    /// What was found, if anything.
    pub fn finish(self) -> Result<(), SpecErrors> {
        if self.found.is_empty() {
            Ok(())
        } else {
            Err(self.into_errors())
        }
    }

    /// Only after an error.
    pub fn into_errors(mut self) -> SpecErrors {
        self.found
            .sort_by_key(|found| (found.span.start, found.span.end));
        let more = self.more + self.found.len().saturating_sub(SHOWN);
        let shown = self.found.into_iter().take(SHOWN);
        let items = shown
            .map(|found| placed(self.file, self.text, found))
            .collect();
        SpecErrors::new(self.text, items, more)
    }

    /// `what` must be `wanted`, and is something else.
    pub fn wrong_type(&mut self, value: &Spanned<DeValue<'_>>, what: impl Display, wanted: &str) {
        let given = value.get_ref();
        let message = format!("{what} must be {wanted}, not {}", value::type_name(given));
        let written = self.text.get(value.span()).unwrap_or_default();
        let is_plain = !matches!(given, DeValue::Array(_) | DeValue::Table(_));
        let help = if wanted.starts_with("a string") {
            (is_plain && given.as_str().is_none()).then(|| format!("with quotes: \"{written}\""))
        } else if wanted.starts_with("a whole number") && given.is_float() {
            value::without_point(given).map(|whole| format!("without the point: {whole}"))
        } else if wanted.starts_with("an array of strings") {
            given.as_str().map(|_| format!("in brackets: [{written}]"))
        } else {
            value::quoted_other(given).map(|bare| format!("without quotes: {bare}"))
        };
        match help {
            Some(help) => self.error_help(value.span(), message, help),
            None => self.error(value.span(), message),
        }
    }

    pub fn string<'t>(&mut self, entry: &Entry<'t>) -> Option<&'t str> {
        let text = entry.value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(entry.value, tick(entry.key), "a string in quotes");
        }
        text
    }

    /// A string that says something.
    pub fn words<'t>(&mut self, entry: &Entry<'t>) -> Option<&'t str> {
        let text = self.string(entry)?;
        if text.trim().is_empty() {
            self.error(entry.span(), format!("`{}` is empty", entry.key));
            return None;
        }
        Some(text)
    }

    pub fn boolean(&mut self, entry: &Entry<'_>) -> Option<bool> {
        let answer = entry.value.get_ref().as_bool();
        if answer.is_none() {
            self.wrong_type(entry.value, tick(entry.key), "true or false");
        }
        answer
    }

    /// A text with a unit, such as a time, by its own reader.
    pub fn amount<T>(
        &mut self,
        entry: &Entry<'_>,
        read: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Option<T> {
        // A bare number gets the same answer as a text without a unit.
        let text = match entry.value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(_) | DeValue::Float(_) => self.written(entry.span()),
            _ => {
                self.wrong_type(entry.value, tick(entry.key), "a string in quotes");
                return None;
            }
        };
        let wrong = match read(&text) {
            Ok(_) if entry.value.get_ref().as_str().is_none() => return None,
            Ok(amount) => return Some(amount),
            Err(wrong) => wrong,
        };
        let message = format!("`{}` {}", entry.key, wrong.message);
        self.push(entry.span(), message, wrong.help);
        None
    }

    /// A whole number within `range`.
    pub fn integer(
        &mut self,
        entry: &Entry<'_>,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        let Some(number) = value::integer(entry.value.get_ref()) else {
            self.wrong_type(entry.value, tick(entry.key), "a whole number");
            return None;
        };
        if !range.contains(&number) {
            let (low, high) = range.into_inner();
            let message = format!("`{}` must be from {low} to {high}, not {number}", entry.key);
            self.error(entry.span(), message);
            return None;
        }
        Some(number)
    }

    pub fn table<'t>(&mut self, entry: &Entry<'t>, name: impl Into<String>) -> Option<Table<'t>> {
        match entry.value.get_ref() {
            DeValue::Table(table) => Some(Table::new(name, entry.key_span.clone(), table)),
            _ => {
                self.wrong_type(entry.value, tick(entry.key), "a table");
                None
            }
        }
    }

    pub fn array<'t>(&mut self, entry: &Entry<'t>) -> Option<&'t [Spanned<DeValue<'t>>]> {
        match entry.value.get_ref() {
            DeValue::Array(items) => Some(items),
            _ => {
                self.wrong_type(entry.value, tick(entry.key), "an array");
                None
            }
        }
    }

    /// An array of strings, with each one's place.
    pub fn strings<'t>(&mut self, entry: &Entry<'t>) -> Option<Vec<(&'t str, Span)>> {
        let items = self.array(entry)?;
        let mut found = Vec::with_capacity(items.len());
        for item in items {
            match item.get_ref().as_str() {
                Some(text) => found.push((text, item.span())),
                None => self.wrong_type(item, format!("each item of `{}`", entry.key), "a string"),
            }
        }
        (found.len() == items.len()).then_some(found)
    }

    /// Any value that JSON has too.
    pub fn any(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Value> {
        match value::to_json(value) {
            Ok(json) => Some(json),
            Err((span, message)) => {
                self.error(span, message);
                None
            }
        }
    }
}

fn placed(file: &str, text: &str, found: Found) -> SpecError {
    let before = &text[..found.span.start];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    SpecError {
        file: file.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        message: found.message,
        help: found.help,
        span: found.span,
    }
}

/// One error at its place, found by somebody else.
pub(crate) fn one_error(
    file: &str,
    text: &str,
    span: Span,
    message: String,
    help: String,
) -> SpecErrors {
    let mut reader = Reader::new(file, text);
    reader.error_help(span, message, help);
    reader.into_errors()
}

pub(crate) fn tick(key: &str) -> String {
    format!("`{key}`")
}

/// The span, moved to whole characters inside the text.
fn on_chars(text: &str, span: Span) -> Span {
    let start = text.floor_char_boundary(span.start.min(text.len()));
    let end = text.ceil_char_boundary(span.end.min(text.len()).max(start));
    start..end
}
