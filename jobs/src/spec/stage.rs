//! `[probe]`, `[train]`, `[bake]`: what is run, after what, for how long. Refuses placeholders that nothing fills and
//! stages that wait for each other.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::DeValue;

use super::names::Names;
use super::program;
use super::reader::{Entry, Reader, Span, Table, tick};
use super::setting;
use super::settings::{KV_CACHES, Rule};
use super::types::{Params, ProbeMode, Stage};
use super::{nearest, units};
use crate::Kind;
use crate::kind::{ONE_STEP, TRAINER};
use crate::staged;

const KEYS: &[&str] = &["after", "run", "time_limit", "resume", "env", "settings"];

/// The settings that a bake has by name.
const BAKE: &[(&str, Rule)] = &[
    ("passes", Rule::Count),
    ("cases", Rule::Name),
    ("guards", Rule::Name),
    ("incumbent", Rule::Name),
    ("context_len", Rule::Count),
    ("gguf_bytes", Rule::Bytes),
    ("kv_cache", Rule::OneOf(KV_CACHES)),
    ("parallel", Rule::Count),
    ("max_new_tokens", Rule::Count),
    ("temperature", Rule::AtLeast(0.0)),
];

/// The settings that a probe has by name.
const PROBE: &[(&str, Rule)] = &[("step", Rule::OneOf(&[TRAINER, ONE_STEP]))];

/// Of these, settings that name a file where there is one beside the sweep file.
pub(crate) const MAY_BE_FILES: &[&str] = &["cases", "guards"];

const MODES: &[(&str, ProbeMode)] = &[
    ("rehearse", ProbeMode::Rehearse),
    ("card", ProbeMode::Card),
    ("both", ProbeMode::Both),
    ("none", ProbeMode::None),
];

/// A stage as read, with the place of its `after`.
pub(crate) struct ReadStage {
    pub stage: Stage,
    pub span: Span,
    pub after: Option<Span>,
}

pub(crate) fn stage(
    reader: &mut Reader<'_>,
    kind: Kind,
    names: &Names<'_>,
    mut table: Table<'_>,
) -> ReadStage {
    let span = table.span.clone();
    let after = table.take("after");
    let mode = table.take("mode");
    let probe = mode.map_or(ProbeMode::default(), |entry| {
        probe_mode(reader, kind, &entry)
    });
    let run = match table.take("run") {
        Some(entry) => program::run(reader, names, &entry),
        None if probe == ProbeMode::None => Vec::new(),
        None if table.has_nearly("run", KEYS) => Vec::new(),
        None => {
            let help = "add a line such as run = [\"{python}\", \"{kit}/train.py\"]";
            reader.error_help(span.clone(), format!("[{kind}] has no `run`"), help);
            Vec::new()
        }
    };
    let time_limit = table
        .take("time_limit")
        .and_then(|entry| reader.amount(&entry, units::duration));
    let resume = table
        .take("resume")
        .and_then(|entry| reader.boolean(&entry))
        .unwrap_or(false);
    let env = table
        .take("env")
        .map_or_else(BTreeMap::new, |entry| program::env(reader, names, &entry));
    let settings = stage_settings(reader, kind, &mut table);
    let known: Vec<&str> = match kind {
        Kind::Probe => KEYS.iter().copied().chain(["mode", "step"]).collect(),
        Kind::Train => KEYS.to_vec(),
        Kind::Bake => KEYS
            .iter()
            .copied()
            .chain(BAKE.iter().map(|(name, _)| *name))
            .collect(),
    };
    table.finish(reader, &known);
    let after_kind = after.as_ref().and_then(|entry| kind_of(reader, entry));
    ReadStage {
        stage: Stage {
            kind,
            after: after_kind,
            run,
            time_limit,
            resume,
            probe,
            env,
            settings,
        },
        span,
        after: after.map(|entry| entry.span()),
    }
}

fn probe_mode(reader: &mut Reader<'_>, kind: Kind, entry: &Entry<'_>) -> ProbeMode {
    if kind != Kind::Probe {
        let message = format!("[{kind}] has no `mode`");
        reader.error_help(entry.key_span.clone(), message, "only [probe] has one");
        return ProbeMode::default();
    }
    let Some(word) = reader.string(entry) else {
        return ProbeMode::default();
    };
    if let Some((_, mode)) = MODES.iter().find(|(name, _)| *name == word) {
        return *mode;
    }
    let names: Vec<&str> = MODES.iter().map(|(name, _)| *name).collect();
    let message = format!("`mode` cannot be \"{}\"", word.escape_debug());
    reader.error_help(entry.span(), message, nearest::help(word, &names));
    ProbeMode::default()
}

fn kind_of(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<Kind> {
    let word = reader.string(entry)?;
    let kind = word.parse().ok();
    if kind.is_none() {
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        let message = format!("`after` cannot be \"{}\"", word.escape_debug());
        reader.error_help(entry.span(), message, nearest::help(word, &names));
    }
    kind
}

/// The named ones of a probe or a bake, and the free ones of the table `settings`.
fn stage_settings(reader: &mut Reader<'_>, kind: Kind, table: &mut Table<'_>) -> Params {
    let mut settings = Params::new();
    let probe = PROBE.iter().map(|named| (Kind::Probe, named));
    let bake = BAKE.iter().map(|named| (Kind::Bake, named));
    for (of, (name, rule)) in probe.chain(bake) {
        let Some(entry) = table.take(name) else {
            continue;
        };
        if kind != of {
            let message = format!("`{name}` is a setting of [{of}], not of [{kind}]");
            reader.error_help(
                entry.key_span,
                message,
                format!("move it, or put it into [{kind}.settings]"),
            );
        } else if let Some(value) = setting::check(reader, Some(*rule), &tick(name), entry.value) {
            references(reader, entry.value);
            if let (true, Some(text)) = (MAY_BE_FILES.contains(name), value.as_str()) {
                reader.maybe_file(text, entry.span());
            }
            settings.insert((*name).to_owned(), value);
        }
    }
    let Some(entry) = table.take("settings") else {
        return settings;
    };
    let Some(own) = reader.table(&entry, format!("[{kind}.settings]")) else {
        return settings;
    };
    for entry in &own.entries {
        if settings.contains_key(entry.key) {
            let message = format!("`{}` is given twice", entry.key);
            reader.error_help(
                entry.key_span.clone(),
                message,
                format!("it is in [{kind}] already"),
            );
        } else if let Some(value) = reader.any(entry.value) {
            references(reader, entry.value);
            settings.insert(entry.key.to_owned(), value);
        }
    }
    settings
}

/// Files that a setting's value names, however deep: the program gets their paths on its host.
fn references(reader: &mut Reader<'_>, value: &Spanned<DeValue<'_>>) {
    match value.get_ref() {
        DeValue::String(text) => match staged::reference(text) {
            Some(name) => reader.file(name, value.span()),
            None if text.contains("{file:") => {
                let message = "in a setting, {file:NAME} must be the whole value";
                let help = "the program gets the file's path on its host; say the rest in a setting of its own";
                reader.error_help(value.span(), message, help);
            }
            None => {}
        },
        DeValue::Array(items) => items.iter().for_each(|item| references(reader, item)),
        DeValue::Table(table) => {
            let values = table.iter().map(|(_, value)| value);
            values.for_each(|value| references(reader, value));
        }
        _ => {}
    }
}

/// Each stage after the one it follows. Reports what follows a stage that is not there, or itself in the end.
pub(crate) fn in_order(reader: &mut Reader<'_>, read: Vec<ReadStage>) -> Vec<Stage> {
    let kinds: Vec<Kind> = read.iter().map(|one| one.stage.kind).collect();
    let mut missing = false;
    for one in &read {
        if let (Some(after), Some(span)) = (one.stage.after, &one.after)
            && !kinds.contains(&after)
        {
            missing = true;
            let message = format!(
                "[{}] comes after [{after}], which this file does not have",
                one.stage.kind
            );
            reader.error_help(
                span.clone(),
                message,
                format!("add [{after}], or remove this line"),
            );
        }
    }
    let mut left = read;
    let mut ordered: Vec<Stage> = Vec::with_capacity(left.len());
    loop {
        let done: Vec<Kind> = ordered.iter().map(|stage| stage.kind).collect();
        let ready = |one: &ReadStage| one.stage.after.is_none_or(|after| done.contains(&after));
        let Some(next) = left.iter().position(ready) else {
            break;
        };
        ordered.push(left.remove(next).stage);
    }
    if let (false, Some(one)) = (missing, left.first()) {
        report_cycle(reader, &left, one);
    }
    ordered
}

fn report_cycle(reader: &mut Reader<'_>, left: &[ReadStage], first: &ReadStage) {
    let mut way = vec![first.stage.kind];
    let mut at = first.stage.after;
    while let Some(kind) = at
        && !way.contains(&kind)
    {
        way.push(kind);
        at = left
            .iter()
            .find(|one| one.stage.kind == kind)
            .and_then(|one| one.stage.after);
    }
    way.extend(at);
    let names: Vec<&str> = way.iter().map(|kind| kind.as_str()).collect();
    let message = format!("stages wait for each other: {}", names.join(" after "));
    let span = first.after.clone().unwrap_or_else(|| first.span.clone());
    reader.error_help(
        span,
        message,
        "one of them must come first: remove its `after`",
    );
}
