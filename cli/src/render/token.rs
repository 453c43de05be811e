//! `sweep token list` for people.

use proto::v1::TokenDocument;

use super::format::time;
use super::table::{Kind, Table};

pub fn text(tokens: &[TokenDocument]) -> String {
    if tokens.is_empty() {
        return "no tokens".to_owned();
    }
    let mut table = Table::new(&[
        ("NAME", Kind::Word),
        ("KIND", Kind::Word),
        ("ROLE", Kind::Word),
        ("HOST", Kind::Word),
        ("STATE", Kind::Word),
        ("CREATED (UTC)", Kind::Word),
        ("EXPIRES (UTC)", Kind::Word),
    ]);
    for token in tokens {
        let expires = match token.expires.as_str() {
            "" => "never".to_owned(),
            // With its year: it may be far.
            at => at.chars().take(16).collect::<String>().replace('T', " "),
        };
        table.row([
            token.name.clone(),
            token.kind.clone(),
            token.role.clone(),
            token.host.clone(),
            token.state.clone(),
            time(&token.created),
            expires,
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_row_and_an_absent_end_is_said() {
        let token = TokenDocument {
            name: "ann".into(),
            kind: "user".into(),
            role: "submit".into(),
            state: "valid".into(),
            created: "2026-12-02T03:49:40.123Z".into(),
            ..TokenDocument::default()
        };
        let text = super::text(&[token]);
        assert!(
            text.contains("ann") && text.contains("submit") && text.contains("never"),
            "{text}"
        );
        assert_eq!(super::text(&[]), "no tokens");
    }
}
