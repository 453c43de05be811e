//! What of a card changes the stream of a training step: the attention kernels that PyTorch takes on it, and the size
//! of its BLAS workspace. Streams of cards with the same kernels differ in the workspace alone, which is put in place
//! when they are replayed; streams of other kernels never stand for each other.
//! The same table as `jobs/kit/rehearsal/devices.py`: a test reads that file.

use serde::{Deserialize, Serialize};

use crate::generation::{Generation, generation};
use crate::{Backend, Bytes, DeviceClass};

/// Cards that one stream serves, by the first of them. Which generations these are is said by the attention kernels of
/// a step without and with a mask.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Kernels {
    /// No flash attention.
    Turing,
    /// Flash attention, and the memory-efficient one where there is a mask: Blackwell too, and Hopper, whose cuDNN
    /// kernel differs by the rounding of two blocks (a mask's rows to 8, a row of sums to 32).
    #[default]
    Ampere,
    /// Triton's.
    Rocm,
}

impl Kernels {
    pub const ALL: [Self; 3] = [Self::Turing, Self::Ampere, Self::Rocm];

    /// Of a class of device; a CPU has none of its own, and is asked for no stream.
    #[must_use]
    pub fn of(class: &DeviceClass) -> Self {
        match class.backend {
            Backend::Rocm => Self::Rocm,
            Backend::Cuda => generation(&class.name, "").group(),
            Backend::Cpu => Self::default(),
        }
    }

    /// What `rehearse.py --device` takes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turing => "turing",
            Self::Ampere => "ampere",
            Self::Rocm => "rocm",
        }
    }

    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// What a stream was made for, or is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardKind {
    pub kernels: Kernels,
    /// Of one BLAS workspace.
    pub workspace: Bytes,
}

impl CardKind {
    #[must_use]
    pub fn of(class: &DeviceClass) -> Self {
        let workspace = match class.backend {
            Backend::Cpu => 0,
            Backend::Cuda => generation(&class.name, "").workspace(),
            Backend::Rocm => generation(&class.name, "amd").workspace(),
        };
        Self {
            kernels: Kernels::of(class),
            workspace: Bytes(workspace),
        }
    }
}

impl Generation {
    pub(crate) fn group(self) -> Kernels {
        match self {
            Self::Turing => Kernels::Turing,
            Self::Ampere | Self::Hopper | Self::Blackwell => Kernels::Ampere,
            Self::Rocm => Kernels::Rocm,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const DEVICES: &str = include_str!("../../jobs/kit/rehearsal/devices.py");

    /// The words in quotes of a line; cuDNN's kernel counts as the one that it hardly differs from.
    fn quoted(line: &str) -> Vec<&str> {
        let words = line.split('"').skip(1).step_by(2);
        words
            .map(|word| if word == "cudnn" { "efficient" } else { word })
            .collect()
    }

    /// `TURING = Device("turing", SMALL, "efficient", "efficient")`, by the variable's name.
    fn devices() -> BTreeMap<&'static str, (Vec<&'static str>, bool)> {
        let lines = DEVICES
            .lines()
            .filter_map(|line| line.split_once(" = Device("));
        lines
            .map(|(name, rest)| (name, (quoted(rest), rest.contains("LARGE"))))
            .collect()
    }

    fn generations() -> [(&'static str, Generation); 5] {
        [
            ("TURING", Generation::Turing),
            ("AMPERE", Generation::Ampere),
            ("HOPPER", Generation::Hopper),
            ("BLACKWELL", Generation::Blackwell),
            ("ROCM", Generation::Rocm),
        ]
    }

    #[test]
    fn one_group_is_what_the_kit_makes_one_stream_for() {
        let known = devices();
        assert_eq!(
            known.len(),
            generations().len(),
            "the kit knows other generations: {known:?}"
        );
        for (name, generation) in generations() {
            let (words, large) = &known[name];
            assert_eq!(generation.workspace() > 16 << 20, *large, "{name}");
            for (other, another) in generations() {
                let alike = known[other].0[1..] == words[1..];
                assert_eq!(
                    alike,
                    generation.group() == another.group(),
                    "{name} and {other}: attention kernels {:?} and {:?}",
                    &words[1..],
                    &known[other].0[1..]
                );
            }
        }
        // A group is asked for by the name of one of its own.
        for group in Kernels::ALL {
            let named = generations()
                .into_iter()
                .find(|(name, _)| known[name].0[0] == group.as_str());
            assert_eq!(named.map(|(_, one)| one.group()), Some(group));
            assert_eq!(Kernels::from_word(group.as_str()), Some(group));
        }
    }

    #[test]
    fn the_kit_tells_cards_apart_by_the_same_names() {
        let table = DEVICES.split("_NAMES = (").nth(1).expect("a table");
        let rows = table.lines().take_while(|line| !line.starts_with(')'));
        let mut seen = 0;
        for row in rows.filter(|row| row.contains('"')) {
            let (_, own) = generations()
                .into_iter()
                .find(|(name, _)| row.contains(&format!("({name},")))
                .expect("a generation");
            for card in quoted(row) {
                assert_eq!(generation(card, ""), own, "{card}");
                seen += 1;
            }
        }
        assert!(seen >= 14, "{seen} names");
        assert_eq!(generation("a card of no name", ""), Generation::Ampere);
    }

    #[test]
    fn of_the_fleets_cards() {
        let class = |name: &str, backend| DeviceClass {
            name: name.to_owned(),
            backend,
            os: "linux".to_owned(),
            spills: false,
            simulated: false,
        };
        let kind = |name, backend| {
            let kind = CardKind::of(&class(name, backend));
            (kind.kernels.as_str(), kind.workspace.mib())
        };
        assert_eq!(
            kind("NVIDIA GeForce RTX 3070 Ti", Backend::Cuda),
            ("ampere", 8.125)
        );
        assert_eq!(
            kind("NVIDIA GeForce RTX 5060 Ti", Backend::Cuda),
            ("ampere", 32.0)
        );
        assert_eq!(kind("NVIDIA H200", Backend::Cuda), ("ampere", 32.0));
        assert_eq!(kind("Tesla T4", Backend::Cuda), ("turing", 8.125));
        assert_eq!(
            kind("AMD Radeon RX 7900 XTX", Backend::Rocm),
            ("rocm", 32.0)
        );
        // Whatever a driver calls it: the backend decides.
        assert_eq!(kind("gfx1100", Backend::Rocm), ("rocm", 32.0));
    }
}
