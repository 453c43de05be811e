//! What is wrong with a sweep file: every error found, each with its place, in words that say what to do.
//! Renders them with a caret for people and as plain fields for JSON; decides nothing.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;

/// More than this many errors help nobody; the rest are counted.
pub(crate) const SHOWN: usize = 50;

/// One thing that is wrong. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpecError {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Bytes of the text that the caret marks.
    #[serde(skip)]
    pub(crate) span: Range<usize>,
}

/// All that is wrong with one file, in the order of the file. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecErrors {
    items: Vec<SpecError>,
    /// Errors beyond those kept.
    more: usize,
    /// The text that the carets point into; empty when the file could not be read as text.
    text: String,
}

impl SpecErrors {
    pub(crate) fn new(text: &str, items: Vec<SpecError>, more: usize) -> Self {
        Self {
            items,
            more,
            text: text.to_owned(),
        }
    }

    /// One error about the file as a whole, without a caret.
    pub(crate) fn whole_file(file: &str, message: String, help: Option<String>) -> Self {
        let item = SpecError {
            file: file.to_owned(),
            line: 1,
            column: 1,
            message,
            help,
            span: 0..0,
        };
        Self::new("", vec![item], 0)
    }

    #[must_use]
    pub fn items(&self) -> &[SpecError] {
        &self.items
    }

    /// For people: each error with its line and a caret; `coloured` adds the terminal's colours.
    #[must_use]
    pub fn render(&self, coloured: bool) -> String {
        let renderer = if coloured {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut shown: Vec<String> = self
            .items
            .iter()
            .map(|item| self.render_one(&renderer, item))
            .collect();
        if self.more > 0 {
            shown.push(format!("and {} more errors", self.more));
        }
        shown.join("\n\n")
    }

    fn render_one(&self, renderer: &Renderer, item: &SpecError) -> String {
        let title = Level::ERROR.primary_title(item.message.as_str());
        let help = item.help.as_deref().map(|help| Level::HELP.message(help));
        let group = if self.text.is_empty() {
            let origin = annotate_snippets::Origin::path(item.file.as_str());
            title.element(origin).elements(help)
        } else {
            let snippet = Snippet::source(self.text.as_str())
                .path(item.file.as_str())
                .annotation(AnnotationKind::Primary.span(item.span.clone()));
            title.element(snippet).elements(help)
        };
        renderer.render(&[group])
    }
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.render(false))
    }
}

impl std::error::Error for SpecErrors {}

impl Serialize for SpecErrors {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.items.serialize(serializer)
    }
}
