//! Every figure of docs/memory-model.md, computed from the data that the crate ships: tables of measured steps, the
//! seeds, recorded streams, and what other rules answer for the same rows. Pure: reads no file, writes none, learns
//! nothing that the model itself would not. Shared by the example and by tests, so that no figure is computed twice.

mod comparison;
pub mod document;
mod goals;
pub mod history;
mod listed;
mod measured;
mod packages;
mod residuals;
mod rules;
mod scatter;
pub mod spread;
pub mod streams;
pub mod tables;

use std::collections::BTreeMap;

/// Sections of the document by the name in their markers, and the drawing.
pub struct Figures {
    pub sections: BTreeMap<&'static str, String>,
    pub drawing: String,
}

pub fn compute() -> Result<Figures, String> {
    let tables = [tables::h200()?, tables::t4()?];
    let history = history::in_order_of_time();
    let rows = measured::all(&tables, &history)?;
    let rules = rules::all()?;
    let sections = BTreeMap::from([
        ("goals", goals::section(&tables, &history)?),
        ("models", residuals::by_model(&tables)),
        ("hosts", residuals::by_host()),
        ("uncertain", residuals::uncertain(&history)),
        ("streams", streams::section()?),
        ("rules", comparison::sources(&rules)),
        ("rivals", comparison::errors(&rules, &rows)),
        ("rival-verdicts", comparison::verdicts(&rules, &rows)),
    ]);
    Ok(Figures {
        sections,
        drawing: scatter::drawing(&tables),
    })
}
