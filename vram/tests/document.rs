//! docs/memory-model.md and its drawing say what the shipped data gives: the code that writes them, in check mode.
//! Where it fails: `cargo run --release -p vram --example memory_model_document`.

#[path = "../examples/memory_model_document/figures/mod.rs"]
mod figures;

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
