//! Prose within the width of a page. Breaks at blanks only, so ids and numbers stay whole.

use super::table::WIDTH;

/// The text as lines that end with a newline each; the first is indented by `first`, the others by `rest`.
pub fn paragraph(text: &str, first: usize, rest: usize) -> String {
    let width = usize::from(WIDTH);
    let mut wrapped = " ".repeat(first);
    let mut column = first;
    let mut fresh = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !fresh && column + 1 + length > width {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(rest));
            column = rest;
            fresh = true;
        }
        if !fresh {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
        fresh = false;
    }
    wrapped.push('\n');
    wrapped
}

/// `head: the one`, or the head and a line for each of the alternatives, which a semicolon divides.
pub fn alternatives(head: &str, text: &str) -> String {
    let each: Vec<&str> = text.split("; ").collect();
    if let [only] = each.as_slice() {
        return paragraph(&format!("{head}: {only}"), 0, 4);
    }
    let lines = each.iter().map(|one| paragraph(one, 2, 4));
    std::iter::once(format!("{head}:\n")).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_broken_at_blanks() {
        let text = paragraph(&"needs 7313 MiB ".repeat(20), 2, 4);
        assert!(text.lines().count() > 2);
        assert!(text.lines().all(|line| line.chars().count() <= 100));
        assert!(text.lines().skip(1).all(|line| line.starts_with("    ")));
        assert_eq!(paragraph("a b", 0, 2), "a b\n");
        assert_eq!(alternatives("x", "a"), "x: a\n");
        assert_eq!(alternatives("x", "a; b"), "x:\n  a\n  b\n");
    }
}
