//! `[place]` and `[retry]`: which hosts and devices a trial may have, and how often a job is tried again.
//! Knows no host: whether a label exists is found when the sweep is planned.

use super::axes::shown_values;
use super::names::Names;
use super::reader::{Entry, Reader, Table, tick};
use super::types::{Axes, AxisValues, DeviceChoice, DeviceKind, Place, Retry};
use super::{nearest, units};
use crate::AttemptOutcome;

const KEYS: &[&str] = &["require", "compare", "gpus", "memory", "device", "host"];

/// Outcomes after which another try can help.
const RETRIED: &[AttemptOutcome] = &[
    AttemptOutcome::GpuFault,
    AttemptOutcome::HostLost,
    AttemptOutcome::Interrupted,
    AttemptOutcome::Failed,
    AttemptOutcome::TimedOut,
    AttemptOutcome::HostOom,
];

impl Place {
    /// What holds where the file has no `[place]`.
    pub(crate) fn unsaid() -> Self {
        Self {
            gpus: 1,
            ..Self::default()
        }
    }
}

pub(crate) fn place(reader: &mut Reader<'_>, names: &Names<'_>, mut table: Table<'_>) -> Place {
    let mut place = Place::unsaid();
    if let Some(entry) = table.take("require") {
        place.require = require(reader, names, &entry);
    }
    if let Some(entry) = table.take("compare") {
        place.compare = compare(reader, names, &entry);
    }
    if let Some(entry) = table.take("device") {
        place.device = device(reader, &entry);
    }
    if let Some(entry) = table.take("gpus") {
        let gpus = reader.integer(&entry, 1..=64).unwrap_or(1);
        place.gpus = u32::try_from(gpus).unwrap_or(1);
        if place.device == Some(DeviceChoice::Only(DeviceKind::Cpu)) {
            let help = "remove this line, or say device = \"gpu\"";
            reader.error_help(entry.key_span, "a job on a CPU has no GPUs", help);
        }
    }
    if let Some(entry) = table.take("memory") {
        place.memory = reader.amount(&entry, units::memory);
    }
    if let Some(entry) = table.take("host") {
        place.host = reader.words(&entry).map(String::from);
    }
    table.finish(reader, KEYS);
    place
}

fn require(reader: &mut Reader<'_>, names: &Names<'_>, entry: &Entry<'_>) -> Vec<String> {
    let labels = reader.strings(entry).unwrap_or_default();
    for (label, span) in &labels {
        if *label == "model" && names.whole && !names.model_is_named {
            let help = "say `name` in [model]: hosts declare weights by it";
            let message = "hosts must have the model's weights, but this sweep names no model";
            reader.error_help(span.clone(), message, help);
        }
        if label.trim().is_empty() {
            reader.error(span.clone(), "a label is empty");
        } else if *label == "dataset" && names.whole && !names.has_always("dataset") {
            let help = "name it in [recipe], such as dataset = \"2026-09-21\"";
            let message = "hosts must have the dataset, but this sweep names none";
            reader.error_help(span.clone(), message, help);
        }
    }
    labels
        .into_iter()
        .map(|(label, _)| label.to_owned())
        .collect()
}

fn compare(reader: &mut Reader<'_>, names: &Names<'_>, entry: &Entry<'_>) -> Option<String> {
    let name = reader.words(entry)?;
    if !names.whole {
        return None;
    }
    let axes = names.axes;
    let known = axes.names();
    if !known.contains(&name) {
        let help = match known[..] {
            [] => "this sweep has no axes".to_owned(),
            _ => nearest::help(name, &known),
        };
        let message = format!(
            "`compare` names `{}`, which is not an axis",
            name.escape_debug()
        );
        reader.error_help(entry.span(), message, help);
        return None;
    }
    if name == "host" {
        let help = "compare an axis of the recipe, or remove this line";
        let message = "`compare` keeps its arms on one class of host, so it cannot compare hosts";
        reader.error_help(entry.span(), message, help);
        return None;
    }
    let is_range = |axes: &[super::types::Axis]| {
        let ranges = axes
            .iter()
            .filter(|axis| matches!(axis.values, AxisValues::Range { .. }));
        ranges
            .map(|axis| axis.name.clone())
            .any(|range| range == name)
    };
    if let Axes::Random { axes: random, .. } = axes
        && is_range(random)
    {
        let message = format!(
            "`compare` needs an axis of listed values, and {} is a range",
            tick(name)
        );
        let help =
            shown_values(axes, name).map_or_else(String::new, |values| format!("it goes {values}"));
        reader.error_help(entry.span(), message, help);
        return None;
    }
    Some(name.to_owned())
}

fn device(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<DeviceChoice> {
    match reader.string(entry)? {
        "cpu" => Some(DeviceChoice::Only(DeviceKind::Cpu)),
        "gpu" => Some(DeviceChoice::Only(DeviceKind::Gpu)),
        "any" => Some(DeviceChoice::Any),
        other => {
            let message = format!("`device` cannot be \"{}\"", other.escape_debug());
            reader.error_help(
                entry.span(),
                message,
                nearest::help(other, &["cpu", "gpu", "any"]),
            );
            None
        }
    }
}

pub(crate) fn retry(reader: &mut Reader<'_>, table: Table<'_>) -> Retry {
    let mut retry = Retry::default();
    let names: Vec<&str> = RETRIED.iter().map(|outcome| outcome.as_str()).collect();
    for entry in &table.entries {
        match entry.key.parse::<AttemptOutcome>() {
            Ok(outcome) if RETRIED.contains(&outcome) => {
                if let Some(times) = reader.integer(entry, 0..=20) {
                    retry
                        .0
                        .insert(outcome, u32::try_from(times).unwrap_or_default());
                }
            }
            Ok(outcome) => {
                let message = format!("a job that ended as `{outcome}` is not tried again");
                let help = match outcome.is_too_large() {
                    true => "it goes to a device with more room instead: remove this line",
                    false => "remove this line",
                };
                reader.error_help(entry.key_span.clone(), message, help);
            }
            Err(_) => {
                let message = format!("unknown key `{}` in {}", entry.key, table.name);
                let help = nearest::help(entry.key, &names);
                reader.error_help(entry.key_span.clone(), message, help);
            }
        }
    }
    retry
}
