//! `run` and `env` of a stage: the program, its arguments and its extra environment, with their placeholders.
//! Refuses what nothing will fill, variables that are the agent's, and secrets.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::DeValue;

use super::names::Names;
use super::nearest;
use super::placeholder::{Piece, pieces};
use super::reader::{Entry, Reader, Span};
use crate::plan::HOST_NAMES;
use crate::staged::PREFIX;

/// Variables that the agent sets to pin devices; a value here would undo the placement.
const PINNING: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
];

const SECRETS: &[&str] = &["_TOKEN", "_SECRET", "_PASSWORD", "_API_KEY"];

pub(crate) fn run(reader: &mut Reader<'_>, names: &Names<'_>, entry: &Entry<'_>) -> Vec<String> {
    if let Some(command) = entry.value.get_ref().as_str() {
        let words: Vec<String> = command
            .split_whitespace()
            .map(|word| format!("{word:?}"))
            .collect();
        let message = "`run` must be an array of strings, as no shell reads it";
        reader.error_help(
            entry.span(),
            message,
            format!("run = [{}]", words.join(", ")),
        );
        return Vec::new();
    }
    let Some(words) = reader.strings(entry) else {
        return Vec::new();
    };
    match words.first() {
        None => {
            let help = "name a program, such as run = [\"{python}\", \"{kit}/train.py\"]";
            reader.error_help(entry.span(), "`run` is empty", help);
        }
        Some((program, span)) if program.trim().is_empty() => {
            reader.error(span.clone(), "the program's name is empty");
        }
        Some(_) => {}
    }
    for (text, span) in &words {
        check_text(reader, names, text, span);
    }
    words.into_iter().map(|(text, _)| text.to_owned()).collect()
}

pub(crate) fn env(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    entry: &Entry<'_>,
) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let Some(table) = reader.table(entry, "`env`") else {
        return env;
    };
    for variable in &table.entries {
        check_variable(reader, variable);
        let value = variable.value.get_ref().as_str();
        match value {
            Some(text) => {
                check_text(reader, names, text, &variable.span());
                env.insert(variable.key.to_owned(), text.to_owned());
            }
            None => wrong_value(reader, variable.value, variable.key),
        }
    }
    env
}

fn wrong_value(reader: &mut Reader<'_>, value: &Spanned<DeValue<'_>>, key: &str) {
    let written = reader.text().get(value.span()).unwrap_or_default();
    let message = format!("the variable `{key}` must be a string");
    match value.get_ref() {
        DeValue::Array(_) | DeValue::Table(_) => reader.error(value.span(), message),
        _ => reader.error_help(value.span(), message, format!("with quotes: \"{written}\"")),
    }
}

fn check_variable(reader: &mut Reader<'_>, variable: &Entry<'_>) {
    let name = variable.key;
    let at = variable.key_span.clone();
    let good = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.starts_with(|c: char| !c.is_ascii_digit());
    let upper = name.to_ascii_uppercase();
    if !good {
        let message = format!("`{}` cannot be the name of a variable", name.escape_debug());
        reader.error_help(
            at,
            message,
            "letters, digits and _ only, and no digit first",
        );
    } else if upper.starts_with("SWEEP_") || PINNING.contains(&upper.as_str()) {
        let message = format!("`{name}` is set by the agent for each attempt");
        reader.error_help(
            at,
            message,
            "remove it; [place] says which devices an attempt may have",
        );
    } else if SECRETS.iter().any(|end| upper.ends_with(end)) {
        let message =
            format!("`{name}` looks like a secret, which does not belong into a sweep file");
        reader.error_help(
            at,
            message,
            "put it into the host's configuration: sweep files are kept and shown",
        );
    }
}

/// Every placeholder of a text must be filled for every trial.
fn check_text(reader: &mut Reader<'_>, names: &Names<'_>, text: &str, span: &Span) {
    if text.contains('\0') {
        reader.error(
            span.clone(),
            "an argument or variable cannot hold a NUL character",
        );
        return;
    }
    let found = match pieces(text) {
        Ok(found) => found,
        Err(wrong) => {
            let at = wrong.at();
            let span = inside(reader.text(), span, text, at..at + 1);
            reader.error_help(
                span,
                wrong.to_string(),
                "a brace itself is written twice: {{ or }}",
            );
            return;
        }
    };
    for piece in found {
        if let Piece::Name(name, at) = piece {
            let span = inside(reader.text(), span, text, at);
            check_name(reader, names, name, span);
        }
    }
}

fn check_name(reader: &mut Reader<'_>, names: &Names<'_>, name: &str, span: Span) {
    if let Some(file) = name.strip_prefix(PREFIX) {
        reader.file(file, span);
        return;
    }
    let needs_setting = matches!(name, "dataset" | "model_path");
    if names.has_always(name) || (HOST_NAMES.contains(&name) && !needs_setting) || !names.whole {
        return;
    }
    if name == "model_path" {
        if !names.model_is_named {
            let message = "`{model_path}` stands here, but this sweep names no model";
            reader.error_help(
                span,
                message,
                "say `name` in [model]: hosts declare weights by it",
            );
        }
        return;
    }
    if name == "dataset" {
        let help = "name it in [recipe], such as dataset = \"2026-09-21\"";
        reader.error_help(
            span,
            "`{dataset}` stands here, but this sweep names no dataset",
            help,
        );
    } else if names.axes.names().contains(&name) {
        let message = format!("`{{{name}}}` has no value in some of the trials");
        reader.error_help(
            span,
            message,
            format!("give `{name}` a value in [recipe] as well"),
        );
    } else {
        let shown = format!("unknown placeholder `{{{}}}`", name.escape_debug());
        let known: Vec<&str> = HOST_NAMES.iter().chain(&names.always).copied().collect();
        let help = match nearest::nearest(name, &known) {
            Some(near) => format!("did you mean `{{{near}}}`?"),
            None => format!("known: {}", braced(&known)),
        };
        reader.error_help(span, shown, help);
    }
}

fn braced(names: &[&str]) -> String {
    let braced: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
    braced.join(", ")
}

/// Where a part of a string stands in the file; the whole string where escapes hide it.
fn inside(source: &str, span: &Span, text: &str, part: Span) -> Span {
    let written = source.get(span.clone()).unwrap_or_default();
    match written.find(text) {
        Some(offset) if !text.is_empty() => {
            let start = span.start + offset;
            start + part.start..start + part.end
        }
        _ => span.clone(),
    }
}
