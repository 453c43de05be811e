//! `{name}` in a text: where the placeholders are, and what replaces them. `{{` and `}}` are the braces themselves.
//! Knows no names: which ones exist is for its callers to say.

use std::borrow::Cow;
use std::ops::Range;

use thiserror::Error;

/// A piece of a text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    Text(&'t str),
    /// `{{` or `}}`.
    Brace(char),
    /// `{name}`, with the bytes it stands at, braces included.
    Name(&'t str, Range<usize>),
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum BadPlaceholder {
    #[error("`{{` is never closed")]
    Open(usize),
    #[error("`}}` closes nothing")]
    Close(usize),
}

impl BadPlaceholder {
    pub(crate) fn at(&self) -> usize {
        match self {
            Self::Open(at) | Self::Close(at) => *at,
        }
    }
}

/// Cuts a text at its placeholders.
pub(crate) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, BadPlaceholder> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let Some(brace) = rest.find(['{', '}']) else {
            found.push(Piece::Text(rest));
            break;
        };
        if brace > 0 {
            found.push(Piece::Text(&rest[..brace]));
            at += brace;
            continue;
        }
        let (piece, length) = one(rest, at)?;
        found.push(piece);
        at += length;
    }
    Ok(found)
}

/// The piece at the start of `rest`, which starts with a brace; and its length.
fn one(rest: &str, at: usize) -> Result<(Piece<'_>, usize), BadPlaceholder> {
    if rest.starts_with("{{") {
        return Ok((Piece::Brace('{'), 2));
    }
    if rest.starts_with("}}") {
        return Ok((Piece::Brace('}'), 2));
    }
    if rest.starts_with('}') {
        return Err(BadPlaceholder::Close(at));
    }
    match rest[1..].find(['{', '}']) {
        Some(end) if rest.as_bytes()[end + 1] == b'}' => {
            let length = end + 2;
            Ok((Piece::Name(&rest[1..=end], at..at + length), length))
        }
        _ => Err(BadPlaceholder::Open(at)),
    }
}

/// A value as it goes into a text with placeholders: its braces doubled, so that they are not read again.
pub(crate) fn escape(value: &str) -> Cow<'_, str> {
    if value.contains(['{', '}']) {
        Cow::Owned(value.replace('{', "{{").replace('}', "}}"))
    } else {
        Cow::Borrowed(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_placeholders() {
        assert_eq!(
            pieces("a{b}{{c}}"),
            Ok(vec![
                Piece::Text("a"),
                Piece::Name("b", 1..4),
                Piece::Brace('{'),
                Piece::Text("c"),
                Piece::Brace('}'),
            ])
        );
        assert_eq!(pieces(""), Ok(vec![]));
    }

    #[test]
    fn lone_braces_are_refused() {
        assert_eq!(pieces("a{b"), Err(BadPlaceholder::Open(1)));
        assert_eq!(pieces("a{b{c}"), Err(BadPlaceholder::Open(1)));
        assert_eq!(pieces("ä}"), Err(BadPlaceholder::Close(2)));
    }

    #[test]
    fn an_escaped_text_has_no_placeholders() {
        let text = "x{y}{{";
        let again: String = pieces(&escape(text))
            .unwrap()
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.to_owned(),
                Piece::Brace(brace) => brace.to_string(),
                Piece::Name(..) => unreachable!(),
            })
            .collect();
        assert_eq!(again, text);
    }
}
