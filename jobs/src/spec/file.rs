//! From the bytes of a sweep file to a [`Spec`]: text, then TOML, then each table by its own module.
//! All errors of one step are reported together; a step is not tried on what an earlier one refused.

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::axes::{ReadAxes, axes};
use super::error::SpecErrors;
use super::names::Names;
use super::reader::{Entry, Reader, Span, Table};
use super::setting::{self, Spot};
use super::types::{Axes, Model, NamedFile, Params, Place, Retry, Spec, Stage};
use super::{head, nearest, place, settings, stage, when};
use crate::Kind;

/// Larger files are not sweeps.
const LARGEST: usize = 1 << 20;

const TABLES: &[&str] = &[
    "sweep", "model", "recipe", "axes", "when", "probe", "train", "bake", "place", "retry",
];

/// Where things stand that only expansion can find wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    pub axes: Span,
    /// Of the number of draws.
    pub random: Option<Span>,
    /// Of each cell of a `list`.
    pub cells: Vec<Span>,
    pub whens: Vec<Span>,
    /// Each file that travels, where it is named first.
    pub files: Vec<(NamedFile, Span)>,
}

/// The one reader of sweep files. `file_name` is only for the messages.
pub fn parse(file_name: &str, text: &[u8]) -> Result<Spec, SpecErrors> {
    let text = as_text(file_name, text)?;
    parse_marked(file_name, text).map(|(spec, _)| spec)
}

/// [`parse`] of what is text already, with the places that `plan::load` needs.
pub(crate) fn parse_marked(file_name: &str, text: &str) -> Result<(Spec, Marks), SpecErrors> {
    let mut reader = Reader::new(file_name, text);
    let (document, syntax) = DeTable::parse_recoverable(text);
    if !syntax.is_empty() {
        super::syntax::report(&mut reader, &syntax);
        return Err(reader.into_errors());
    }
    let root = Table::new("the file", 0..0, document.get_ref());
    let (spec, marks) = read(&mut reader, root);
    reader.finish()?;
    Ok((spec, marks))
}

/// The bytes as text, without the mark that some editors put first.
pub(crate) fn as_text<'t>(file_name: &str, bytes: &'t [u8]) -> Result<&'t str, SpecErrors> {
    let refuse = |message: String, help: &str| {
        Err(SpecErrors::whole_file(
            file_name,
            message,
            Some(help.to_owned()),
        ))
    };
    if bytes.len() > LARGEST {
        let message = format!(
            "the file has {} bytes; a sweep file has at most 1 MiB",
            bytes.len()
        );
        return refuse(message, "is it the right file?");
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return refuse("the file is UTF-16 text".to_owned(), "save it as UTF-8");
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            if text.trim().is_empty() {
                let help = "a sweep file starts with [sweep] and name = \"...\"";
                return refuse("the file is empty".to_owned(), help);
            }
            Ok(text)
        }
        Err(error) => {
            let line = bytes[..error.valid_up_to()]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
                + 1;
            refuse(format!("line {line} is not UTF-8 text"), "save it as UTF-8")
        }
    }
}

fn read(reader: &mut Reader<'_>, mut root: Table<'_>) -> (Spec, Marks) {
    let head = match section(reader, &mut root, "sweep") {
        Some(table) => head::head(reader, table),
        None => {
            let stray = root
                .entries
                .iter()
                .any(|entry| head::SWEEP_KEYS.contains(&entry.key));
            if !stray && !root.has_nearly("sweep", TABLES) {
                let help = "a sweep file starts with [sweep] and name = \"...\"";
                reader.error_help(0..0, "the file has no [sweep]", help);
            }
            head::Head::default()
        }
    };
    let before = reader.errors();
    let model = section(reader, &mut root, "model").map(|table| head::model(reader, table));
    let trained = model.is_some();
    let recipe = section(reader, &mut root, "recipe")
        .map_or_else(Params::new, |table| recipe(reader, model.as_ref(), table));
    let read_axes = section(reader, &mut root, "axes").map(|table| axes(reader, trained, table));
    let (axes, mut marks) = read_axes.map_or((Axes::None, Marks::default()), ReadAxes::split);
    let names = Names::new(model.as_ref(), &recipe, &axes, reader.errors() == before);
    let (whens, spans) = root
        .take("when")
        .map(|entry| when::whens(reader, &names, &entry))
        .unwrap_or_default();
    marks.whens = spans;
    let place = section(reader, &mut root, "place")
        .map_or_else(Place::unsaid, |table| place::place(reader, &names, table));
    let stages = stages(reader, &mut root, &names);
    let retry = section(reader, &mut root, "retry")
        .map_or_else(Retry::default, |table| place::retry(reader, table));
    finish_root(reader, root);
    marks.files = reader.take_files();
    let spec = Spec {
        name: head.name,
        about: head.about,
        seed: head.seed,
        seed_per_trial: head.seed_per_trial,
        priority: head.priority,
        model,
        recipe,
        axes,
        when: whens,
        stages,
        place,
        retry,
        files: marks.files.iter().map(|(file, _)| file.clone()).collect(),
    };
    (spec, marks)
}

/// Takes one `[name]`.
fn section<'t>(reader: &mut Reader<'_>, root: &mut Table<'t>, name: &str) -> Option<Table<'t>> {
    let entry = root.take(name)?;
    reader.table(&entry, format!("[{name}]"))
}

fn recipe(reader: &mut Reader<'_>, model: Option<&Model>, table: Table<'_>) -> Params {
    let mut recipe = Params::new();
    for entry in &table.entries {
        let Some(value) = setting::read(reader, model.is_some(), Spot::Recipe, entry) else {
            continue;
        };
        if model.is_some_and(|model| model.settings.contains_key(entry.key)) {
            let message = format!("`{}` is given twice, in [model] and in [recipe]", entry.key);
            reader.error_help(entry.key_span.clone(), message, "remove one of them");
        }
        recipe.insert(entry.key.to_owned(), value);
    }
    check_lengths(reader, &table.entries, &recipe);
    recipe
}

/// The response is a part of the sequence.
fn check_lengths(reader: &mut Reader<'_>, entries: &[Entry<'_>], recipe: &Params) {
    let number = |name| recipe.get(name).and_then(Value::as_u64);
    let (Some(whole), Some(part)) = (number("seq_len"), number("response_len")) else {
        return;
    };
    let entry = entries.iter().find(|entry| entry.key == "response_len");
    if let (true, Some(entry)) = (part > whole, entry) {
        let message = format!("`response_len` ({part}) is more than `seq_len` ({whole})");
        reader.error_help(
            entry.span(),
            message,
            "the response is a part of the sequence",
        );
    }
}

fn stages(reader: &mut Reader<'_>, root: &mut Table<'_>, names: &Names<'_>) -> Vec<Stage> {
    let mut read = Vec::new();
    let mut any = Kind::ALL
        .iter()
        .any(|kind| root.has_nearly(kind.as_str(), TABLES));
    for kind in Kind::ALL {
        let Some(entry) = root.take(kind.as_str()) else {
            continue;
        };
        any = true;
        if let Some(table) = reader.table(&entry, format!("[{kind}]")) {
            read.push(stage::stage(reader, kind, names, table));
        }
    }
    let works = |one: &stage::ReadStage| one.stage.probe != super::types::ProbeMode::None;
    if !any || (!read.is_empty() && !read.iter().any(works)) {
        let help = "add one of [probe], [train], [bake], each with a `run`";
        reader.error_help(0..0, "this sweep has nothing to run", help);
    }
    stage::in_order(reader, read)
}

/// What is left at the top: unknown tables, or keys that stand outside of any.
fn finish_root(reader: &mut Reader<'_>, root: Table<'_>) {
    for entry in root.entries {
        if matches!(entry.value.get_ref(), DeValue::Table(_)) {
            let message = format!("unknown table [{}]", entry.key);
            reader.error_help(entry.key_span, message, nearest::help(entry.key, TABLES));
            continue;
        }
        let message = format!("`{}` stands outside of any table", entry.key);
        let help = if head::SWEEP_KEYS.contains(&entry.key) {
            "write [sweep] in a line above it".to_owned()
        } else if settings::find(entry.key).is_some() {
            "write it below [recipe], or as an axis below [axes]".to_owned()
        } else {
            nearest::help(entry.key, TABLES)
        };
        reader.error_help(entry.key_span, message, help);
    }
}
