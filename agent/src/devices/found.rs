//! What a look at this machine's GPUs gives: plain values, written and read as JSON, so that what one machine said can
//! be looked at on another. A figure that the platform does not give is absent, never zero. Asks no driver.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use vram::Backend;

/// One look at everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Look {
    /// Whose driver answers on this machine, with cards or without: `cuda`, `rocm`.
    pub answered: BTreeSet<Backend>,
    pub found: Vec<Found>,
    /// What went wrong while looking, for people.
    pub troubles: Vec<Trouble>,
    /// Of a recording: all that the driver has reported so far. A machine's own reports come one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

/// A driver that is there and does not do what it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trouble {
    pub backend: Backend,
    /// What, where and what to do.
    pub what: String,
    /// It is about one card: the driver itself answers, and what is there is told.
    #[serde(default)]
    pub one_card: bool,
}

/// One GPU, or one MIG instance of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The same after the next boot: `GPU-...`, `MIG-...`, or the PCI address. On Windows without NVIDIA's driver the
    /// adapter's place on the bus; never its LUID.
    pub id: String,
    /// `0000:0b:00.0`
    #[serde(default)]
    pub pci: Option<String>,
    pub name: String,
    /// `Hopper`, `gfx1100`
    #[serde(default)]
    pub architecture: Option<String>,
    /// What a framework computes with here.
    pub backend: Backend,
    #[serde(default)]
    pub driver: Option<String>,
    /// The newest CUDA that the driver serves: `13.0`.
    #[serde(default)]
    pub cuda: Option<String>,
    #[serde(default)]
    pub pcie: Option<Pcie>,
    /// A monitor is attached or in use: a desktop may take memory at any time.
    #[serde(default)]
    pub display: Option<bool>,
    /// The card is cut into instances, which are devices of their own; it is none then.
    #[serde(default)]
    pub divided: bool,
    /// Of a MIG instance: the id of its card.
    #[serde(default)]
    pub part_of: Option<String>,
    pub now: Live,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pcie {
    /// Of this moment: cards lower it when idle.
    pub generation: Option<u32>,
    pub width: Option<u32>,
    pub max_generation: Option<u32>,
    pub max_width: Option<u32>,
}

/// What changes from one moment to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Live {
    /// [`Found::id`]
    pub id: String,
    pub memory: Option<Memory>,
    /// Absent: the driver lists none, which is not the same as nobody.
    pub processes: Option<Vec<Process>>,
    /// Degrees Celsius.
    pub temperature: Option<u32>,
    /// Why it runs slower than it could: `power_cap`, `thermal`, ...
    pub throttled: Vec<String>,
    /// Device memory that lies in the system's memory: growth is a spill. Windows, and AMD's GTT.
    pub shared: Option<u64>,
    /// Why figures are missing, or what is wrong with the card.
    pub trouble: Option<String>,
}

/// Bytes. `used` is what processes hold; `reserved` is what the driver keeps for itself and is in no process's figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub total: u64,
    pub used: u64,
    #[serde(default)]
    pub reserved: Option<u64>,
}

impl Memory {
    /// What processes could have of the empty card.
    #[must_use]
    pub fn usable(&self) -> u64 {
        self.total.saturating_sub(self.reserved.unwrap_or(0))
    }

    #[must_use]
    pub fn free(&self) -> u64 {
        self.usable().saturating_sub(self.used)
    }
}

/// A process on a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// As the driver counts: the host's, also inside a container.
    pub pid: u32,
    /// Of its program, without folders.
    #[serde(default)]
    pub name: Option<String>,
    /// Absent where the driver does not say, as on Windows.
    #[serde(default)]
    pub bytes: Option<u64>,
}

/// Something that a driver reported by itself, such as NVIDIA's Xid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// [`Found::id`]
    pub id: String,
    pub code: u64,
    /// For people.
    pub what: String,
}

impl Found {
    /// Whether an owner who wrote `written` means this one: its id, its bare unique number, or its PCI address in any
    /// of the ways in which tools print it.
    #[must_use]
    pub fn is(&self, written: &str) -> bool {
        let bare = self.id.strip_prefix("GPU-").unwrap_or(&self.id);
        if self.id.eq_ignore_ascii_case(written) || bare.eq_ignore_ascii_case(written) {
            return true;
        }
        // All instances of a divided card have its address: it means none of them.
        let own = self.pci.as_deref().filter(|_| self.part_of.is_none());
        match (own.and_then(pci_address), pci_address(written)) {
            (Some(own), Some(written)) => own == written,
            _ => false,
        }
    }

    /// One line for people.
    #[must_use]
    pub fn about(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.pci.clone());
        parts.extend(self.architecture.clone());
        parts.extend(
            self.driver
                .as_ref()
                .map(|version| format!("driver {version}")),
        );
        parts.extend(self.cuda.as_ref().map(|version| format!("CUDA {version}")));
        if let Some(pcie) = self.pcie {
            let of =
                |figure: Option<u32>| figure.map_or_else(|| "?".to_owned(), |one| one.to_string());
            let generation = of(pcie.max_generation.or(pcie.generation));
            parts.push(format!("PCIe {generation} x{}", of(pcie.width)));
            // A card in a slot with fewer lanes than it has: seldom meant, and slow to load models.
            if let (Some(width), Some(most)) = (pcie.width, pcie.max_width)
                && width < most
            {
                parts.push(format!("of x{most}"));
            }
        }
        if self.display == Some(true) {
            parts.push("display attached".to_owned());
        }
        parts.join(", ").replace(", of x", " of x")
    }
}

/// `0000:0b:00.0`, also from `0b:00.0` and `00000000:0B:00.0`.
#[must_use]
pub fn pci_address(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let parts: Vec<&str> = text.split(':').collect();
    let (domain, bus, slot) = match parts.as_slice() {
        [bus, slot] => ("0", *bus, *slot),
        [domain, bus, slot] => (*domain, *bus, *slot),
        _ => return None,
    };
    let domain = u32::from_str_radix(domain, 16).ok()?;
    let bus = u8::from_str_radix(bus, 16).ok()?;
    let (device, function) = slot.split_once('.')?;
    let device = u8::from_str_radix(device, 16).ok()?;
    let function = u8::from_str_radix(function, 16).ok()?;
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn card(id: &str, pci: &str) -> Found {
        let text = serde_json::json!({
            "id": id, "pci": pci, "name": "a card", "backend": "cuda", "now": {"id": id}
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_card_is_known_by_its_id_and_by_every_spelling_of_its_address() {
        let found = card("GPU-5b2A", "00000000:0B:00.0");
        for written in [
            "GPU-5b2a",
            "5b2a",
            "0b:00.0",
            "0000:0B:00.0",
            "00000000:0b:00.0",
        ] {
            assert!(found.is(written), "{written}");
        }
        for other in ["GPU-5b2", "0000:0c:00.0", "0", "", "0001:0b:00.0"] {
            assert!(!found.is(other), "{other}");
        }
        let mut part = card("MIG-1", "0000:0b:00.0");
        part.part_of = Some("GPU-5b2A".into());
        assert!(part.is("MIG-1") && !part.is("0000:0b:00.0"));
    }

    #[test]
    fn free_is_what_neither_processes_nor_the_driver_have() {
        let memory = Memory {
            total: 1000,
            used: 300,
            reserved: Some(100),
        };
        assert_eq!((memory.usable(), memory.free()), (900, 600));
    }

    #[test]
    fn a_narrow_slot_is_said() {
        let mut found = card("GPU-1", "0000:0b:00.0");
        found.driver = Some("580.1".into());
        found.pcie = Some(Pcie {
            generation: Some(1),
            width: Some(4),
            max_generation: Some(4),
            max_width: Some(16),
        });
        assert_eq!(
            found.about(),
            "0000:0b:00.0, driver 580.1, PCIe 4 x4 of x16"
        );
    }
}
