//! From what NVML answered to what is found. Pure; the answers are kept as they came, so that a recording of a real
//! card is a test. Memory is NVML's second version only: the first counts the driver's own reserve as used, and the two
//! must never meet in one figure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use vram::Backend;

use crate::devices::{Found, Live, Look, Memory, Pcie, Process, Trouble, pci_address};

/// What a driver too old for memory v2 is told with.
pub const TOO_OLD: &str = "this NVIDIA driver does not tell what it reserves of a card's memory (NVML memory v2); \
     install driver 510 or newer";

/// Answers about the whole driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raw {
    pub driver: Option<String>,
    /// `13000` is 13.0
    pub cuda: Option<i32>,
    pub cards: Vec<RawCard>,
    /// Indexes that could not be opened, with what NVML said.
    pub lost: Vec<(u32, String)>,
}

/// Answers about one card or instance; absent where NVML gave an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawCard {
    pub uuid: Option<String>,
    /// As NVML writes it: `00000000:0B:00.0`
    pub bus_id: Option<String>,
    pub name: Option<String>,
    pub architecture: Option<String>,
    pub memory: Option<RawMemory>,
    pub memory_error: Option<RawError>,
    /// Absent: cannot be listed here.
    pub compute: Option<Vec<RawProcess>>,
    pub graphics: Option<Vec<RawProcess>>,
    pub pcie_generation: Option<u32>,
    pub pcie_width: Option<u32>,
    pub max_pcie_generation: Option<u32>,
    pub max_pcie_width: Option<u32>,
    pub temperature: Option<u32>,
    /// NVML's bits.
    pub throttle: Option<u64>,
    pub display_active: Option<bool>,
    pub display_connected: Option<bool>,
    pub mig: bool,
    pub instances: Vec<RawCard>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawMemory {
    pub total: u64,
    pub used: u64,
    pub reserved: u64,
    pub free: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawError {
    /// The driver has no such function.
    pub unknown_call: bool,
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawProcess {
    pub pid: u32,
    /// `u64::MAX`: not available.
    pub bytes: u64,
    #[serde(default)]
    pub name: Option<String>,
}

#[must_use]
pub fn look(raw: &Raw) -> Look {
    let mut look = Look {
        answered: BTreeSet::from([Backend::Cuda]),
        ..Look::default()
    };
    for (index, what) in &raw.lost {
        look.trouble(format!(
            "the NVIDIA driver lists GPU {index} and cannot open it: {what}; look at `dmesg` for Xid lines, \
             then at its seat and its power cables"
        ));
    }
    for card in &raw.cards {
        let Some(mut found) = found(raw, card, None) else {
            look.trouble("the NVIDIA driver shows a GPU without a UUID; it is left out".to_owned());
            continue;
        };
        found.divided = card.mig;
        let parent = found.id.clone();
        look.found.push(found);
        let instances = card.instances.iter();
        look.found
            .extend(instances.filter_map(|one| self::found(raw, one, Some((card, &parent)))));
    }
    look
}

impl Look {
    fn trouble(&mut self, what: String) {
        self.troubles.push(Trouble {
            backend: Backend::Cuda,
            what,
            one_card: true,
        });
    }
}

fn found(raw: &Raw, card: &RawCard, parent: Option<(&RawCard, &str)>) -> Option<Found> {
    let id = card.uuid.clone()?;
    let whole = parent.map_or(card, |(whole, _)| whole);
    Some(Found {
        pci: whole.bus_id.as_deref().and_then(pci_address),
        name: card.name.clone().unwrap_or_else(|| id.clone()),
        architecture: whole.architecture.clone().filter(|one| one != "Unknown"),
        backend: Backend::Cuda,
        driver: raw.driver.clone(),
        cuda: raw
            .cuda
            .map(|version| format!("{}.{}", version / 1000, version % 1000 / 10)),
        pcie: pcie(whole),
        display: match (whole.display_active, whole.display_connected) {
            (None, None) => None,
            (active, connected) => Some(active == Some(true) || connected == Some(true)),
        },
        divided: false,
        part_of: parent.map(|(_, id)| id.to_owned()),
        now: live(&id, card),
        id,
    })
}

fn pcie(card: &RawCard) -> Option<Pcie> {
    let pcie = Pcie {
        generation: card.pcie_generation,
        width: card.pcie_width,
        max_generation: card.max_pcie_generation,
        max_width: card.max_pcie_width,
    };
    (pcie != Pcie::default()).then_some(pcie)
}

fn live(id: &str, card: &RawCard) -> Live {
    let trouble = card
        .memory_error
        .as_ref()
        .map(|error| match error.unknown_call {
            true => TOO_OLD.to_owned(),
            false => format!(
                "the NVIDIA driver does not tell the card's memory: {}",
                error.what
            ),
        });
    Live {
        id: id.to_owned(),
        memory: card.memory.map(|memory| Memory {
            total: memory.total,
            used: memory.used,
            reserved: Some(memory.reserved),
        }),
        processes: processes(card),
        temperature: card.temperature,
        throttled: card.throttle.map(throttled).unwrap_or_default(),
        shared: None,
        trouble,
    }
}

/// A program that computes and draws is in both lists, each time with all that it holds.
fn processes(card: &RawCard) -> Option<Vec<Process>> {
    let lists = [card.compute.as_ref(), card.graphics.as_ref()];
    if lists.iter().all(Option::is_none) {
        return None;
    }
    let mut all: Vec<Process> = Vec::new();
    for raw in lists.into_iter().flatten().flatten() {
        let bytes = (raw.bytes != u64::MAX).then_some(raw.bytes);
        match all.iter_mut().find(|one| one.pid == raw.pid) {
            Some(one) => one.bytes = one.bytes.max(bytes),
            None => all.push(Process {
                pid: raw.pid,
                name: raw.name.clone(),
                bytes,
            }),
        }
    }
    all.sort_by_key(|one| one.pid);
    Some(all)
}

/// NVML's bits in words. An idle card and clocks that its owner chose are no trouble.
fn throttled(bits: u64) -> Vec<String> {
    const WORDS: [(u64, &str); 7] = [
        (0x4, "power_cap"),
        (0x8, "hardware_slowdown"),
        (0x10, "sync_boost"),
        (0x20, "thermal"),
        (0x40, "hardware_thermal"),
        (0x80, "power_brake"),
        (0x100, "display_clocks"),
    ];
    let set = WORDS.iter().filter(|(bit, _)| bits & bit != 0);
    set.map(|(_, word)| (*word).to_owned()).collect()
}

/// What an Xid means, of those that a person can do something about.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only Linux tells of Xid errors")
)]
#[must_use]
pub fn xid(code: u64) -> String {
    let what = match code {
        13 => "a program's own fault: an illegal access in a kernel",
        31 => "a program's own fault: an illegal memory access",
        43 => "a program's own fault: its channel was reset",
        45 => "a program was ended while it computed",
        48 | 63 | 64 | 94 | 95 => {
            "an error in the card's memory (ECC); see `nvidia-smi -q -d ECC,ROW_REMAPPER`"
        }
        62 | 119 | 120 => {
            "the card's own processor hangs; the driver needs a restart, or the card a reset"
        }
        74 => "an NVLink error; look at its bridge",
        79 => "the card has fallen off the bus; look at its seat, its riser and its power",
        _ => "see NVIDIA's table of Xid errors",
    };
    format!("Xid {code}: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(text: &str) -> Look {
        look(&serde_json::from_str(text).unwrap())
    }

    const RIG: &str = include_str!("../../../tests/devices/nvml-rig.json");
    const MIG: &str = include_str!("../../../tests/devices/nvml-mig.json");

    #[test]
    fn a_card_is_what_the_driver_said() {
        let look = recorded(RIG);
        let card = &look.found[0];
        assert_eq!(card.id, "GPU-0c11a6a2-9d3c-4e0e-8f60-0d4f1f2a7b01");
        assert_eq!(card.pci.as_deref(), Some("0000:01:00.0"));
        assert_eq!(card.architecture.as_deref(), Some("Blackwell"));
        assert_eq!(
            (card.driver.as_deref(), card.cuda.as_deref()),
            (Some("570.133.07"), Some("12.8"))
        );
        assert_eq!(card.pcie.unwrap().width, Some(8));
        assert_eq!(card.display, Some(true));
        let memory = card.now.memory.unwrap();
        assert_eq!(memory.free(), 15_636_365_312, "what NVML itself calls free");
        assert_eq!(card.now.throttled, ["power_cap"]);
    }

    #[test]
    fn a_process_is_counted_once_and_a_figure_that_is_not_there_is_no_huge_one() {
        let look = recorded(RIG);
        let processes = look.found[0].now.processes.as_ref().unwrap();
        let said: Vec<_> = processes.iter().map(|one| (one.pid, one.bytes)).collect();
        assert_eq!(said, [(1500, Some(104_857_600)), (2204, None)]);
        assert_eq!(
            look.found[1].now.processes, None,
            "not listed is not nobody"
        );
    }

    #[test]
    fn a_driver_without_memory_v2_gives_no_memory_and_says_why() {
        let card = &recorded(RIG).found[1];
        assert_eq!(card.now.memory, None);
        assert_eq!(card.now.trouble.as_deref(), Some(TOO_OLD));
    }

    #[test]
    fn a_card_that_cannot_be_opened_is_said_and_the_others_are_there() {
        let look = recorded(RIG);
        assert_eq!(look.found.len(), 2);
        assert!(look.troubles[0].what.contains("GPU 2"), "{look:?}");
        assert!(look.troubles[0].what.contains("power"), "{look:?}");
    }

    #[test]
    fn instances_are_devices_of_their_own_and_their_card_is_none() {
        let look = recorded(MIG);
        let ids: Vec<_> = look
            .found
            .iter()
            .map(|one| (one.id.as_str(), one.divided))
            .collect();
        assert_eq!(
            ids,
            [("GPU-aa", true), ("MIG-bb", false), ("MIG-cc", false)]
        );
        let part = &look.found[1];
        assert_eq!(part.part_of.as_deref(), Some("GPU-aa"));
        assert_eq!(part.name, "NVIDIA H200 MIG 1g.18gb");
        assert_eq!(part.architecture.as_deref(), Some("Hopper"));
        assert_eq!(part.now.memory.unwrap().total, 17_179_869_184);
    }

    #[test]
    fn an_idle_card_is_not_throttled() {
        assert!(throttled(0x1).is_empty());
        assert_eq!(throttled(0x48), ["hardware_slowdown", "hardware_thermal"]);
    }

    #[test]
    fn an_xid_says_what_to_do() {
        assert!(xid(79).contains("fallen off the bus"));
        assert!(xid(12345).starts_with("Xid 12345"));
    }
}
