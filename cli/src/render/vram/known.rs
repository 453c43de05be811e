//! `sweep vram models` and `sweep vram cards` for people.

use vram::Card;

use super::{tenth, word};
use crate::cmd::vram::KnownModel;
use crate::render::format::device;
use crate::render::table::{Kind, Table};

pub fn models(models: &[KnownModel]) -> String {
    let mut table = Table::new(&[
        ("MODEL", Kind::Text),
        ("FAMILY", Kind::Word),
        ("LAYERS", Kind::Figure),
        ("HIDDEN", Kind::Figure),
        ("PARAMETERS", Kind::Figure),
    ]);
    for model in models {
        table.row([
            model.name.to_owned(),
            model.family.clone(),
            model.layers.to_string(),
            model.hidden.to_string(),
            format!("{:.2}B", model.parameters as f64 / 1e9),
        ]);
    }
    table.to_string()
}

pub fn cards(cards: &[Card]) -> String {
    let mut table = Table::new(&[
        ("CARD", Kind::Text),
        ("BACKEND", Kind::Word),
        ("TOTAL MiB", Kind::Figure),
        ("USABLE", Kind::Figure),
        ("IS", Kind::Word),
        ("SOURCE OF USABLE", Kind::Text),
    ]);
    for card in cards {
        table.row([
            device(&card.name),
            word(&card.backend),
            format!("{:.0}", card.total_mib),
            tenth(card.usable_mib),
            word(&card.basis),
            card.usable_source.clone(),
        ]);
    }
    table.to_string()
}
