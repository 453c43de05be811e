//! `[sweep]` and `[model]`: what the sweep is called and what it trains.
//! Refuses a name that could not be a folder, and a model file outside the sweep file's own folder.

use super::reader::{Entry, Reader, Table};
use super::setting::{self, Spot};
use super::settings::EXACT;
use super::types::{Model, Params};

pub(crate) const SWEEP_KEYS: &[&str] = &["name", "about", "seed", "seed_per_trial", "priority"];

const LONGEST_NAME: usize = 40;

#[derive(Default)]
pub(crate) struct Head {
    pub name: String,
    pub about: String,
    pub seed: u64,
    pub seed_per_trial: bool,
    pub priority: i32,
}

pub(crate) fn head(reader: &mut Reader<'_>, mut table: Table<'_>) -> Head {
    let mut head = Head::default();
    match table.take("name") {
        Some(entry) => head.name = name(reader, &entry),
        None if table.has_nearly("name", SWEEP_KEYS) => {}
        None => {
            let message = "[sweep] has no `name`";
            reader.error_help(
                table.span.clone(),
                message,
                "add a line such as name = \"dropout-ab\"",
            );
        }
    }
    if let Some(entry) = table.take("about") {
        head.about = reader.string(&entry).unwrap_or_default().to_owned();
    }
    if let Some(entry) = table.take("seed") {
        let seed = reader.integer(&entry, 0..=EXACT);
        head.seed = seed.unwrap_or_default().unsigned_abs();
    }
    if let Some(entry) = table.take("seed_per_trial") {
        head.seed_per_trial = reader.boolean(&entry).unwrap_or_default();
    }
    if let Some(entry) = table.take("priority") {
        let priority = reader.integer(&entry, -1000..=1000).unwrap_or_default();
        head.priority = i32::try_from(priority).unwrap_or_default();
    }
    table.finish(reader, SWEEP_KEYS);
    head
}

fn name(reader: &mut Reader<'_>, entry: &Entry<'_>) -> String {
    let Some(text) = reader.words(entry) else {
        return String::new();
    };
    if let Some(wrong) = text.chars().find(|c| !crate::is_name_char(*c)) {
        let message = format!("a sweep's name cannot hold {wrong:?}");
        reader.error_help(entry.span(), message, "letters, digits and - _ . only");
    } else if text.starts_with(['.', '-']) {
        let message = "a sweep's name must start with a letter, a digit or _".to_owned();
        reader.error_help(
            entry.span(),
            message,
            "its results are kept in a folder of that name",
        );
    } else if text.len() > LONGEST_NAME {
        let message = format!(
            "a sweep's name has at most {LONGEST_NAME} characters, this one has {}",
            text.len()
        );
        reader.error_help(entry.span(), message, "say more in `about`");
    }
    text.to_owned()
}

pub(crate) fn model(reader: &mut Reader<'_>, mut table: Table<'_>) -> Model {
    let name = table.take("name");
    let config = table.take("config");
    let misspelt = ["name", "config"]
        .into_iter()
        .any(|key| table.has_nearly(key, &["name", "config"]));
    if name.is_none() && config.is_none() && !misspelt {
        let help = "name = \"unsloth/gemma-3-4b-it\", or config = \"config.json\" with its shapes";
        reader.error_help(
            table.span.clone(),
            "[model] says neither `name` nor `config`",
            help,
        );
    }
    let mut settings = Params::new();
    for entry in &table.entries {
        if let Some(value) = setting::read(reader, true, Spot::Model, entry) {
            settings.insert(entry.key.to_owned(), value);
        }
    }
    Model {
        name: name.and_then(|entry| reader.words(&entry).map(String::from)),
        config: config.and_then(|entry| config_path(reader, &entry)),
        settings,
    }
}

/// The file travels with the sweep, so it must lie beside it.
fn config_path(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<String> {
    let path = reader.words(entry)?;
    let leaves = path.starts_with(['/', '\\'])
        || path.chars().nth(1) == Some(':')
        || path.split(['/', '\\']).any(|part| part == "..");
    if leaves {
        let message = "`config` must be a path inside the folder of the sweep file";
        reader.error_help(
            entry.span(),
            message,
            "copy the file beside the sweep file: it travels with it",
        );
        return None;
    }
    Some(path.to_owned())
}
