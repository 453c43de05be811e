//! docs/rehearsal.md, docs/memory-model.md and its drawing say what the shipped data gives: the code that writes them, in check mode.
//! Where it fails: `cargo run --release -p vram --example memory_model_document`.

#[path = "../examples/memory_model_document/figures/mod.rs"]
mod figures;
#[allow(dead_code, reason = "the example shows the rest")]
#[path = "../examples/rehearsal_document/sections/mod.rs"]
mod sections;

use figures::document::{difference, filled};

const DOCUMENT: &str = include_str!("../../docs/memory-model.md");
const DRAWING: &str = include_str!("../../docs/memory-model.svg");

#[test]
fn the_document_says_what_the_data_gives() {
    let computed = figures::compute().unwrap();
    let wanted = filled(DOCUMENT, &computed.sections).unwrap();
    assert_eq!(difference(DOCUMENT, &wanted), None);
    assert_eq!(difference(DRAWING, &computed.drawing), None);
}

/// Where it fails: `cargo run -p vram --example rehearsal_document`, or `docs/rehearsal` where the tables are not up to date.
#[test]
fn the_rehearsals_document_says_what_the_tables_give() {
    let written = include_str!("../../docs/rehearsal.md");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/data/rehearsed");
    #[expect(
        clippy::disallowed_methods,
        reason = "a test; the crate itself reads no file"
    )]
    let said = |table: &str| std::fs::read_to_string(format!("{folder}/{table}.json")).ok();
    let wanted = filled(written, &sections::all(said).unwrap()).unwrap();
    assert_eq!(difference(written, &wanted), None);
}
