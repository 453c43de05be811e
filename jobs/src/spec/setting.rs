//! Checks one setting where it is written: in `[recipe]`, `[model]`, as a value of an axis, or in a `set`.
//! A sweep without a `[model]` is a program of its own and names its settings as it likes, save those with a meaning here.

use std::fmt::Display;

use serde_json::Value;
use toml::Spanned;
use toml::de::DeValue;

use super::reader::{Entry, Reader, Span, tick};
use super::settings::{EXACT, Home, MOST, MOST_BYTES, Rule, SETTINGS, find};
use super::{nearest, value};

/// A setting of the user's own program starts with this in a sweep with a `[model]`.
const OWN: &str = "x_";

const LONGEST_NAME: usize = 64;

/// Where a setting stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    Recipe,
    Model,
    /// An axis, a cell of a list, or a `set`.
    Cell,
}

/// What the value of a key may be; or the key is refused, with the reason reported.
pub(crate) fn rule(
    reader: &mut Reader<'_>,
    trained: bool,
    spot: Spot,
    key: &str,
    at: &Span,
) -> Option<Option<Rule>> {
    match (key, spot) {
        ("kit" | "python" | "sweep_dir", _) => {
            let message = format!("`{key}` is filled in by each host and cannot be a setting");
            reader.error_help(at.clone(), message, "choose another name");
            None
        }
        ("host" | "seed", Spot::Recipe | Spot::Model) => {
            let home = if key == "host" { "[place]" } else { "[sweep]" };
            let message = format!("`{key}` is not a setting of the recipe");
            reader.error_help(
                at.clone(),
                message,
                format!("put it into {home}, or make it an axis"),
            );
            None
        }
        ("host" | "dataset", _) => Some(Some(Rule::Name)),
        ("seed", _) => Some(Some(Rule::Seed)),
        ("model", Spot::Cell) if trained => Some(Some(Rule::Name)),
        ("model", _) => {
            let message = "the model is named in a table [model]";
            let help = "write [model] and name = \"...\"; an axis `model` may then name others";
            reader.error_help(at.clone(), message, help);
            None
        }
        _ if trained => known_rule(reader, spot, key, at),
        _ => own_name(reader, key, at).then_some(None),
    }
}

/// For a sweep with a `[model]`: a listed setting, or one of the user's own.
fn known_rule(reader: &mut Reader<'_>, spot: Spot, key: &str, at: &Span) -> Option<Option<Rule>> {
    if key.starts_with(OWN) {
        return own_name(reader, key, at).then_some(None);
    }
    let Some(setting) = find(key) else {
        let names: Vec<&str> = names_for(spot);
        let mut help = nearest::help(key, &names);
        if spot != Spot::Model {
            help.push_str(&format!(" (a setting of your own starts with `{OWN}`)"));
        }
        let place = match spot {
            Spot::Recipe => "unknown setting",
            Spot::Model => "unknown key",
            Spot::Cell => "unknown axis or setting",
        };
        let table = match spot {
            Spot::Recipe => " in [recipe]",
            Spot::Model => " in [model]",
            Spot::Cell => "",
        };
        reader.error_help(at.clone(), format!("{place} `{key}`{table}"), help);
        return None;
    };
    if spot == Spot::Model && setting.home != Home::Model {
        let message = format!("`{key}` is a setting of the recipe");
        reader.error_help(at.clone(), message, "put it into [recipe]");
        return None;
    }
    Some(Some(setting.rule))
}

fn names_for(spot: Spot) -> Vec<&'static str> {
    let listed = SETTINGS
        .iter()
        .filter(|setting| spot != Spot::Model || setting.home == Home::Model)
        .map(|setting| setting.name);
    match spot {
        Spot::Model => ["name", "config"].into_iter().chain(listed).collect(),
        Spot::Recipe => listed.collect(),
        Spot::Cell => listed.chain(["model", "host", "seed"]).collect(),
    }
}

/// Whether a name can stand in a placeholder.
fn own_name(reader: &mut Reader<'_>, key: &str, at: &Span) -> bool {
    let good = !key.is_empty() && key.len() <= LONGEST_NAME && key.chars().all(crate::is_name_char);
    if !good {
        let message = format!("`{}` cannot be the name of a setting", key.escape_debug());
        let help = format!("letters, digits and - _ . only, at most {LONGEST_NAME} of them");
        reader.error_help(at.clone(), message, help);
    }
    good
}

/// One `key = value`, checked and read.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    trained: bool,
    spot: Spot,
    entry: &Entry<'_>,
) -> Option<Value> {
    let rule = rule(reader, trained, spot, entry.key, &entry.key_span)?;
    check(reader, rule, &tick(entry.key), entry.value)
}

/// A value against its rule; `what` is how the message calls it.
pub(crate) fn check(
    reader: &mut Reader<'_>,
    rule: Option<Rule>,
    what: &str,
    value: &Spanned<DeValue<'_>>,
) -> Option<Value> {
    let given = value.get_ref();
    match rule {
        None => reader.any(value),
        Some(Rule::Count) => whole(reader, what, value, 1, MOST),
        Some(Rule::Bytes) => whole(reader, what, value, 1, MOST_BYTES),
        Some(Rule::Seed) => whole(reader, what, value, 0, EXACT),
        Some(Rule::AtLeast(low)) => {
            number(reader, what, value, format_args!("at least {low}"), |n| {
                n >= low
            })
        }
        Some(Rule::Above(low)) => number(
            reader,
            what,
            value,
            format_args!("greater than {low}"),
            |n| n > low,
        ),
        Some(Rule::Share) => {
            let share = |n| (0.0..1.0).contains(&n);
            number(reader, what, value, "at least 0 and below 1", share)
        }
        Some(Rule::Flag) if given.is_bool() => reader.any(value),
        Some(Rule::Flag) => {
            reader.wrong_type(value, what, "true or false");
            None
        }
        Some(Rule::Name) => one_word(reader, what, value, None),
        Some(Rule::OneOf(words)) => one_word(reader, what, value, Some(words)),
        Some(Rule::Names) => many_words(reader, what, value, None),
        Some(Rule::SomeOf(words)) => many_words(reader, what, value, Some(words)),
    }
}

fn whole(
    reader: &mut Reader<'_>,
    what: &str,
    value: &Spanned<DeValue<'_>>,
    low: i64,
    high: i64,
) -> Option<Value> {
    if !value.get_ref().is_integer() {
        reader.wrong_type(value, what, "a whole number");
        return None;
    }
    match value::integer(value.get_ref()) {
        Some(number) if (low..=high).contains(&number) => Some(Value::from(number)),
        Some(number) if number < low => {
            reader.error(
                value.span(),
                format!("{what} must be at least {low}, not {number}"),
            );
            None
        }
        _ => {
            let written = reader.written(value.span());
            reader.error(
                value.span(),
                format!("{what} must be at most {high}, not {written}"),
            );
            None
        }
    }
}

fn number(
    reader: &mut Reader<'_>,
    what: &str,
    value: &Spanned<DeValue<'_>>,
    wanted: impl Display,
    good: impl Fn(f64) -> bool,
) -> Option<Value> {
    if !matches!(value.get_ref(), DeValue::Integer(_) | DeValue::Float(_)) {
        reader.wrong_type(value, what, "a number");
        return None;
    }
    let json = reader.any(value)?;
    if json.as_f64().is_some_and(good) {
        return Some(json);
    }
    let written = reader.written(value.span());
    reader.error(
        value.span(),
        format!("{what} must be {wanted}, not {written}"),
    );
    None
}

fn one_word(
    reader: &mut Reader<'_>,
    what: &str,
    value: &Spanned<DeValue<'_>>,
    known: Option<&[&str]>,
) -> Option<Value> {
    let Some(word) = value.get_ref().as_str() else {
        reader.wrong_type(value, what, "a string in quotes");
        return None;
    };
    if word.trim().is_empty() {
        reader.error(value.span(), format!("{what} is empty"));
        return None;
    }
    match known {
        Some(known) if !known.contains(&word) => {
            let message = format!("{what} cannot be \"{}\"", word.escape_debug());
            reader.error_help(value.span(), message, nearest::help(word, known));
            None
        }
        _ => Some(Value::from(word)),
    }
}

fn many_words(
    reader: &mut Reader<'_>,
    what: &str,
    value: &Spanned<DeValue<'_>>,
    known: Option<&[&str]>,
) -> Option<Value> {
    let DeValue::Array(items) = value.get_ref() else {
        reader.wrong_type(value, what, "an array of strings");
        return None;
    };
    if items.is_empty() && known.is_none() {
        reader.error(value.span(), format!("{what} is empty"));
        return None;
    }
    let mut words: Vec<Value> = Vec::with_capacity(items.len());
    for item in items {
        let word = one_word(reader, &format!("an item of {what}"), item, known)?;
        if words.contains(&word) {
            reader.error(item.span(), format!("{what} names {word} twice"));
            return None;
        }
        words.push(word);
    }
    Some(Value::Array(words))
}
