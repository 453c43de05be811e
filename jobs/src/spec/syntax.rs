//! What is not TOML, in words for people who do not know TOML by heart. Reports what stands first on each line, and
//! nothing after a bracket that was left open: what follows that is noise.

use super::reader::{Reader, Span};

/// Reports the parser's errors.
pub(crate) fn report(reader: &mut Reader<'_>, errors: &[toml::de::Error]) {
    // Start of the line after the last one that had an error.
    let mut next_line = 0;
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        if span.start < next_line {
            continue;
        }
        let rest = reader
            .text()
            .as_bytes()
            .get(span.start..)
            .unwrap_or_default();
        let left = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(rest.len());
        next_line = span.start + left + 1;
        let Plain {
            message,
            help,
            ends,
        } = plain(reader, error.message(), &span);
        match help {
            Some(help) => reader.error_help(span, message, help),
            None => reader.error(span, message),
        }
        if ends {
            return;
        }
    }
}

struct Plain {
    message: String,
    help: Option<String>,
    /// What follows is misread.
    ends: bool,
}

fn say(message: impl Into<String>, help: impl Into<String>) -> Plain {
    Plain {
        message: message.into(),
        help: Some(help.into()),
        ends: false,
    }
}

fn plain(reader: &Reader<'_>, message: &str, span: &Span) -> Plain {
    let (what, _) = message.split_once(", expected").unwrap_or((message, ""));
    let written = reader.text().get(span.clone()).unwrap_or_default().trim();
    match what {
        "duplicate key" => duplicate(reader, written, span),
        "missing value" | "missing value for key" => no_value(),
        "string values must be quoted" | "invalid value" if written.is_empty() => no_value(),
        "string values must be quoted" | "invalid boolean" | "invalid value" => say(
            "text needs quotes",
            format!("write \"{}\"", word_at(reader, span)),
        ),
        "invalid basic string" => say(
            "this string has no end",
            "close it with \" on the same line",
        ),
        "invalid literal string" => {
            say("this string has no end", "close it with ' on the same line")
        }
        "key with no value" | "missing assignment between key-value pairs" => say(
            "there is no `=` after the name",
            "a line is written name = value",
        ),
        "missing comma between array elements" => Plain {
            ends: true,
            ..say(
                "there is no comma before this",
                "put a comma, or close the array above with ]",
            )
        },
        "missing comma between key-value pairs" => Plain {
            ends: true,
            ..say(
                "there is no comma before this",
                "put a comma, or close the table above with }",
            )
        },
        "unclosed array" => Plain {
            ends: true,
            ..say("the array is not closed", "close it with ]")
        },
        "unclosed inline table" => Plain {
            ends: true,
            ..say("the table is not closed", "close it with }")
        },
        "unclosed table" | "unclosed array table" => say(
            "the name of the table is not closed",
            "write [name], or [[when]] for a condition",
        ),
        "cannot recurse further; max recursion depth met" | "recursion limit" => Plain {
            ends: true,
            ..say(
                "this is nested too deeply",
                "a sweep file has tables in tables, not more",
            )
        },
        "unexpected leading zero" => say(
            "a number cannot start with 0",
            "write it without, or as text in quotes",
        ),
        "invalid unquoted key" => say(
            "this cannot be a name",
            "names have letters, digits, - and _ only",
        ),
        _ => Plain {
            message: message.to_owned(),
            help: None,
            ends: false,
        },
    }
}

fn no_value() -> Plain {
    say(
        "there is no value after the `=`",
        "a value is \"text\", a number, true, false, [ .. ] or { .. }",
    )
}

fn duplicate(reader: &Reader<'_>, written: &str, span: &Span) -> Plain {
    let before = &reader.text()[..span.start.min(reader.text().len())];
    if before.ends_with('[') {
        say(
            format!("[{written}] stands here a second time"),
            "join the two",
        )
    } else {
        say(format!("`{written}` is given twice"), "remove one of them")
    }
}

/// The bare word at a place, to show it in quotes.
fn word_at<'t>(reader: &Reader<'t>, span: &Span) -> &'t str {
    let rest = reader.text().get(span.start..).unwrap_or_default();
    let end = rest
        .find([',', ']', '}', '#', '\n', '\r'])
        .unwrap_or(rest.len());
    rest[..end].trim()
}
