//! Sections between markers, and whether two texts say the same. Knows nothing of what a section holds; refuses a
//! document that lacks one of the sections, or names one that nobody computes.

use std::collections::BTreeMap;

const BEGIN: &str = "<!-- figures: begin ";
const END: &str = "<!-- end -->";

/// The document with every section rewritten.
pub fn filled(document: &str, sections: &BTreeMap<&'static str, String>) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = document;
    let mut seen = Vec::new();
    while let Some(at) = rest.find(BEGIN) {
        let (before, marked) = rest.split_at(at);
        let (name, after) = marked[BEGIN.len()..]
            .split_once(" -->")
            .ok_or("a marker does not close")?;
        let section = sections
            .get(name)
            .ok_or_else(|| format!("nobody computes the section `{name}`"))?;
        let end = after
            .find(END)
            .ok_or_else(|| format!("the section `{name}` does not end"))?;
        text.push_str(&format!("{before}{BEGIN}{name} -->\n{section}{END}"));
        rest = &after[end + END.len()..];
        seen.push(name);
    }
    if let Some(missing) = sections.keys().find(|name| !seen.contains(name)) {
        return Err(format!("the document has no section `{missing}`"));
    }
    Ok(text + rest)
}

/// The first line in which the texts differ by more than the last digit of a number that has decimals.
pub fn difference(written: &str, wanted: &str) -> Option<String> {
    let (mut written_lines, mut wanted_lines) = (written.lines(), wanted.lines());
    for at in 1.. {
        match (written_lines.next(), wanted_lines.next()) {
            (None, None) => return None,
            (Some(one), Some(other)) if is_alike(one, other) => {}
            (one, other) => {
                let shown = |line: Option<&str>| line.unwrap_or("nothing").to_owned();
                let (one, other) = (shown(one), shown(other));
                return Some(format!("line {at} is `{one}` and would be `{other}`"));
            }
        }
    }
    None
}

fn is_alike(one: &str, other: &str) -> bool {
    let (one, other) = (pieces(one), pieces(other));
    one.len() == other.len()
        && one
            .iter()
            .zip(&other)
            .all(|(a, b)| a == b || is_close(a, b))
}

/// Numbers, and what stands between them.
fn pieces(line: &str) -> Vec<&str> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let number = is_number(first);
        let end = rest.find(|c| is_number(c) != number).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Counts must be equal; a rounded figure may be one off in its last place.
fn is_close(one: &str, other: &str) -> bool {
    let decimals = |text: &str| text.split_once('.').map(|(_, behind)| behind.len());
    let (Some(a), Some(b)) = (decimals(one), decimals(other)) else {
        return false;
    };
    let unit = 0.1_f64.powi(a.min(b) as i32);
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => (one - other).abs() < unit * 1.5,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_last_digit_may_differ() {
        assert_eq!(difference("0.41 %, 24 rows", "0.42 %, 24 rows"), None);
        assert_eq!(difference("0.099 %", "0.10 %"), None);
        for (written, wanted) in [
            ("0.41 %", "0.44 %"),
            ("24 rows", "25 rows"),
            ("0.41 %", "0.41 s"),
            ("a", "a\nb"),
            ("a\nb", "a"),
        ] {
            assert!(difference(written, wanted).is_some(), "{written}");
        }
    }

    #[test]
    fn a_document_has_every_section_and_no_other() {
        let sections = BTreeMap::from([("one", "1\n".to_owned())]);
        let document = format!("before\n{BEGIN}one -->\nold\n{END}\nafter\n");
        let filled = filled(&document, &sections).unwrap();
        assert_eq!(filled, document.replace("old", "1"));
        for bad in [
            "nothing",
            "<!-- figures: begin one -->\n",
            "<!-- figures: begin two -->\n<!-- end -->",
        ] {
            assert!(super::filled(bad, &sections).is_err(), "{bad}");
        }
    }
}
