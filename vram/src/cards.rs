//! Common cards by name: what their driver calls them and how much of each a process can use (data/cards.json, each
//! number with its source). Finds a card by a part of its name; refuses to choose where several have that part.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Backend, Bytes, DeviceClass, DeviceLoad};

/// What a card's usable memory rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// On a card of the project's own.
    Measured,
    /// Printed by somebody else's.
    Reported,
    Assumed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// As its driver names it.
    pub name: String,
    pub backend: Backend,
    /// The system that it is known under.
    #[serde(default = "linux")]
    pub os: String,
    pub total_mib: f64,
    pub total_source: String,
    pub usable_mib: f64,
    pub usable_source: String,
    /// Of `usable_mib`.
    pub basis: Basis,
}

fn linux() -> String {
    "linux".to_owned()
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CardError {
    #[error("no card is known as `{name}`; known: {known}")]
    Unknown { name: String, known: String },
    #[error("`{name}` may be any of: {found}")]
    Ambiguous { name: String, found: String },
}

impl Card {
    /// Windows drivers page to system memory instead of failing.
    #[must_use]
    pub fn class(&self, os: &str) -> DeviceClass {
        DeviceClass {
            name: self.name.clone(),
            backend: self.backend,
            os: os.to_owned(),
            spills: os == "windows",
            simulated: false,
        }
    }

    #[must_use]
    pub fn load(&self, held: Bytes) -> DeviceLoad {
        DeviceLoad {
            usable: Bytes::from_mib(self.usable_mib),
            held,
        }
    }

    /// Without its maker: `RTX 3060`, `T4`, `RX 7900 XT`.
    fn bare(&self) -> &str {
        let makers = ["NVIDIA GeForce ", "NVIDIA ", "AMD Radeon ", "Tesla "];
        let bare = makers
            .iter()
            .find_map(|maker| self.name.strip_prefix(maker));
        bare.unwrap_or(&self.name)
    }
}

#[derive(Deserialize)]
struct File {
    cards: Vec<Card>,
}

const CARDS: &str = include_str!("../data/cards.json");

// Shipped inside the program and read by its tests: it parses, or no card is known.
static ALL: LazyLock<Vec<Card>> =
    LazyLock::new(|| serde_json::from_str::<File>(CARDS).map_or_else(|_| Vec::new(), |f| f.cards));

/// In the order of the file.
#[must_use]
pub fn known_cards() -> &'static [Card] {
    &ALL
}

/// The one card whose name is this, or else has this in it, whatever the case.
pub fn known_card(name: &str) -> Result<&'static Card, CardError> {
    let wanted = name.trim().to_lowercase();
    let is = |text: &str| text.to_lowercase() == wanted;
    // `RTX 3060` is a whole name, though that of the 3060 Ti has it too.
    if let Some(card) = ALL.iter().find(|card| is(&card.name) || is(card.bare())) {
        return Ok(card);
    }
    let has = |card: &&Card| !wanted.is_empty() && card.name.to_lowercase().contains(&wanted);
    let found: Vec<&Card> = ALL.iter().filter(has).collect();
    let names = |cards: &[&Card]| {
        let bare: Vec<&str> = cards.iter().map(|card| card.bare()).collect();
        bare.join(", ")
    };
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(CardError::Unknown {
            name: name.to_owned(),
            known: names(&ALL.iter().collect::<Vec<_>>()),
        }),
        several => Err(CardError::Ambiguous {
            name: name.to_owned(),
            found: names(several),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str) -> Result<&'static str, CardError> {
        known_card(name).map(|card| card.name.as_str())
    }

    #[test]
    fn the_file_is_read_and_its_numbers_make_sense() {
        assert_eq!(
            serde_json::from_str::<File>(CARDS)
                .map(|f| f.cards.len())
                .ok(),
            Some(22)
        );
        for card in known_cards() {
            assert_eq!(found(&card.name), Ok(card.name.as_str()));
            assert_eq!(found(card.bare()), Ok(card.name.as_str()));
            let kept = card.total_mib - card.usable_mib;
            assert!((0.0..1024.0).contains(&kept), "{}: {kept}", card.name);
            assert!(!card.usable_source.is_empty() && !card.total_source.is_empty());
            assert_ne!(card.backend, Backend::Cpu);
        }
    }

    #[test]
    fn a_part_of_one_name_is_enough() {
        assert_eq!(found("3070 ti"), Ok("NVIDIA GeForce RTX 3070 Ti"));
        assert_eq!(found("7900 XTX"), Ok("AMD Radeon RX 7900 XTX"));
        assert_eq!(found("rtx 3060"), Ok("NVIDIA GeForce RTX 3060"));
        assert_eq!(found("A10"), Ok("NVIDIA A10"));
        assert_eq!(found(" h200 "), Ok("NVIDIA H200"));
    }

    #[test]
    fn a_part_of_several_or_of_none_is_refused() {
        let error = |name| found(name).unwrap_err().to_string();
        assert_eq!(error("3060"), "`3060` may be any of: RTX 3060, RTX 3060 Ti");
        assert_eq!(
            error("a100"),
            "`a100` may be any of: A100-SXM4-40GB, A100-SXM4-80GB"
        );
        assert!(error("Voodoo").starts_with("no card is known as `Voodoo`; known: RTX 3060, "));
        assert!(error("").starts_with("no card is known as ``"));
    }
}
