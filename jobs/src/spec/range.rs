//! A range as the values of an axis: `{ from = 1e-5, to = 1e-3, scale = "log" }`. Only with `random`, as a range has
//! no first value and no next one.

use super::reader::{Entry, Reader, Table};
use super::setting;
use super::settings::Rule;
use super::types::AxisValues;
use super::{nearest, value};

const KEYS: &[&str] = &["from", "to", "scale", "integer"];

pub(crate) fn range(
    reader: &mut Reader<'_>,
    random: bool,
    rule: Option<Rule>,
    entry: &Entry<'_>,
) -> Option<AxisValues> {
    let mut table = reader.table(entry, format!("axis `{}`", entry.key))?;
    let from = bound(reader, &mut table, entry, "from", rule);
    let to = bound(reader, &mut table, entry, "to", rule);
    let log = scale(reader, &mut table);
    let integer = table
        .take("integer")
        .and_then(|entry| reader.boolean(&entry))
        .unwrap_or(matches!(rule, Some(Rule::Count | Rule::Bytes | Rule::Seed)));
    table.finish(reader, KEYS);
    if !random {
        let message = format!("axis `{}` is a range, which needs `random`", entry.key);
        let help = "add random = 20 (the number of trials) to [axes], or list the values";
        reader.error_help(entry.span(), message, help);
    }
    let (from, to, log) = (from?, to?, log?);
    let wrong = if from >= to {
        Some("`from` must be below `to`")
    } else if log && from <= 0.0 {
        Some("a logarithmic range must start above 0")
    } else if integer && (from.fract() != 0.0 || to.fract() != 0.0) {
        Some("a range of whole numbers needs whole bounds")
    } else if !integer && matches!(rule, Some(Rule::Count | Rule::Bytes | Rule::Seed)) {
        Some("this setting takes whole numbers only: integer = true")
    } else {
        None
    };
    if let Some(wrong) = wrong {
        reader.error(entry.span(), format!("axis `{}`: {wrong}", entry.key));
    }
    Some(AxisValues::Range {
        from,
        to,
        log,
        integer,
    })
}

fn bound(
    reader: &mut Reader<'_>,
    table: &mut Table<'_>,
    axis: &Entry<'_>,
    key: &str,
    rule: Option<Rule>,
) -> Option<f64> {
    let Some(entry) = table.take(key) else {
        let message = format!("axis `{}` is a range without `{key}`", axis.key);
        reader.error_help(
            axis.span(),
            message,
            "a range is written { from = 1e-5, to = 1e-3 }",
        );
        return None;
    };
    let what = format!("`{key}` of axis `{}`", axis.key);
    let json = setting::check(reader, rule, &what, entry.value)?;
    if !json.is_number() {
        let found = value::json_type_name(&json);
        reader.error(
            entry.span(),
            format!("{what} must be a number, not {found}"),
        );
    }
    json.as_f64()
}

/// Whether it is logarithmic.
fn scale(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Option<bool> {
    let Some(entry) = table.take("scale") else {
        return Some(false);
    };
    match reader.string(&entry)? {
        "log" => Some(true),
        "linear" => Some(false),
        other => {
            let message = format!("`scale` cannot be \"{}\"", other.escape_debug());
            reader.error_help(
                entry.span(),
                message,
                nearest::help(other, &["linear", "log"]),
            );
            None
        }
    }
}
