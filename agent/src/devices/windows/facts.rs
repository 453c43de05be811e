//! From DXGI's adapters and the performance counters to what is found, joined on the LUID. Pure. Software adapters and
//! processors' graphics are left out. Counters that are not there (as under Wine) leave the figures absent.
#![cfg_attr(
    not(windows),
    allow(dead_code, reason = "called on Windows, tested everywhere")
)]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vram::Backend;

use super::counters::{Instance, Luid};
use crate::devices::{Found, Live, Look, Memory, Process, pci_address};

const AMD: u32 = 0x1002;
/// Below that it is a processor's graphics.
const LEAST: u64 = 2 << 30;

/// What Windows answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raw {
    pub adapters: Vec<Adapter>,
    /// Instance and value of each counter; absent: the counter is not there.
    pub adapter_dedicated: Option<Vec<(String, u64)>>,
    pub adapter_shared: Option<Vec<(String, u64)>>,
    pub process_dedicated: Option<Vec<(String, u64)>>,
    /// Names of the processes among them.
    pub programs: BTreeMap<u32, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    pub luid: Luid,
    /// As DXGI gives it, which may have garbage behind its end.
    pub description: String,
    pub vendor: u32,
    pub device: u32,
    pub dedicated: u64,
    pub software: bool,
    /// Where Windows says the adapter's place: `0000:03:00.0`.
    #[serde(default)]
    pub pci: Option<String>,
}

#[must_use]
pub fn look(raw: &Raw) -> Look {
    let mut look = Look::default();
    for (_, adapter) in cards(&raw.adapters) {
        look.answered.insert(Backend::Rocm);
        let found = found(raw, adapter, Backend::Rocm, &look.found);
        look.found.push(found);
    }
    look
}

/// AMD's cards, each with its place among all adapters of AMD: HIP counts a processor's graphics too. NVIDIA's are
/// found by NVML, under ids of their own: here they would be there twice.
fn cards(adapters: &[Adapter]) -> impl Iterator<Item = (usize, &Adapter)> {
    let of_amd = adapters
        .iter()
        .filter(|one| one.vendor == AMD && !one.software);
    of_amd.enumerate().filter(|(_, one)| one.dedicated >= LEAST)
}

/// The place that [`cards`] gives to the card with this id.
#[must_use]
pub fn amd_index(adapters: &[Adapter], id: &str) -> Option<usize> {
    let raw = Raw {
        adapters: adapters.to_vec(),
        ..Raw::default()
    };
    let at = look(&raw).found.iter().position(|one| one.is(id))?;
    cards(adapters).nth(at).map(|(index, _)| index)
}

fn found(raw: &Raw, adapter: &Adapter, backend: Backend, before: &[Found]) -> Found {
    let description = adapter.description.split('\0').next().unwrap_or_default();
    let pci = adapter.pci.as_deref().and_then(pci_address);
    // Without a place: vendor and device, and which of several alike. A LUID would be another one tomorrow.
    let id = pci.clone().unwrap_or_else(|| {
        let kind = format!("pci-{:04x}-{:04x}", adapter.vendor, adapter.device);
        let alike = before
            .iter()
            .filter(|one| one.id.starts_with(&kind))
            .count();
        format!("{kind}-{alike}")
    });
    let of = |counter: &Option<Vec<(String, u64)>>| {
        let all = counter.as_ref()?.iter();
        all.filter_map(|(name, value)| Some((Instance::parse(name)?, *value)))
            .find(|(instance, _)| instance.pid.is_none() && instance.luid == adapter.luid)
            .map(|(_, value)| value)
    };
    let used = of(&raw.adapter_dedicated);
    Found {
        name: description.trim().to_owned(),
        architecture: None,
        backend,
        driver: None,
        cuda: None,
        pcie: None,
        display: None,
        divided: false,
        part_of: None,
        now: Live {
            id: id.clone(),
            memory: used.map(|used| Memory {
                total: adapter.dedicated,
                used,
                reserved: None,
            }),
            processes: processes(raw, adapter.luid),
            shared: of(&raw.adapter_shared),
            trouble: used.is_none().then(|| {
                "Windows does not tell how much of the adapter's memory is in use: the counter \"GPU Adapter Memory\" \
                 is not there; `lodctr /r` as administrator repairs counters"
                    .to_owned()
            }),
            ..Live::default()
        },
        pci,
        id,
    }
}

/// What a process has committed, which may be more than the card holds.
fn processes(raw: &Raw, luid: Luid) -> Option<Vec<Process>> {
    let counter = raw.process_dedicated.as_ref()?;
    let on = counter.iter().filter_map(|(name, bytes)| {
        let instance = Instance::parse(name).filter(|one| one.luid == luid)?;
        Some((instance.pid?, *bytes))
    });
    let mut held: BTreeMap<u32, u64> = BTreeMap::new();
    for (pid, bytes) in on.filter(|(_, bytes)| *bytes > 0) {
        *held.entry(pid).or_default() += bytes;
    }
    let process = |(pid, bytes)| Process {
        pid,
        name: raw.programs.get(&pid).cloned(),
        bytes: Some(bytes),
    };
    Some(held.into_iter().map(process).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> Raw {
        serde_json::from_str(include_str!("../../../tests/devices/windows-tower.json")).unwrap()
    }

    #[test]
    fn an_adapter_is_joined_with_its_counters_by_its_luid() {
        let look = look(&raw());
        let [card] = look.found.as_slice() else {
            panic!("{look:#?}");
        };
        assert_eq!(card.name, "AMD Radeon RX 7800 XT");
        assert_eq!(card.id, "pci-1002-747e-0");
        assert_eq!(card.backend, Backend::Rocm);
        let memory = card.now.memory.unwrap();
        assert_eq!((memory.total, memory.used), (17_095_983_104, 3_221_225_472));
        assert_eq!(card.now.shared, Some(134_217_728));
        let processes = card.now.processes.as_ref().unwrap();
        let said: Vec<_> = processes
            .iter()
            .map(|one| (one.pid, one.name.as_deref(), one.bytes))
            .collect();
        assert_eq!(
            said,
            [
                (812, Some("dwm.exe"), Some(536_870_912)),
                (5544, Some("game.exe"), Some(2_415_919_104)),
            ]
        );
    }

    /// The LUID is another one after each boot.
    #[test]
    fn the_id_does_not_change_with_the_luid() {
        let mut changed = raw();
        changed.adapters[0].luid.low += 1;
        assert_eq!(look(&raw()).found[0].id, look(&changed).found[0].id);
        assert_eq!(
            look(&changed).found[0].now.memory,
            None,
            "its counters are another adapter's"
        );
    }

    #[test]
    fn without_counters_the_figures_are_absent_and_it_is_said() {
        let mut without = raw();
        (without.adapter_dedicated, without.process_dedicated) = (None, None);
        let look = look(&without);
        let now = &look.found[0].now;
        assert_eq!((now.memory, &now.processes), (None, &None));
        assert!(now.trouble.as_ref().unwrap().contains("GPU Adapter Memory"));
    }

    #[test]
    fn a_card_has_its_place_behind_the_processors_graphics() {
        let mut all = raw().adapters;
        assert_eq!(amd_index(&all, "pci-1002-747e-0"), Some(0));
        let mut graphics = all[0].clone();
        (graphics.device, graphics.dedicated) = (0x164e, 512 << 20);
        all.insert(0, graphics);
        assert_eq!(amd_index(&all, "pci-1002-747e-0"), Some(1));
        assert_eq!(amd_index(&all, "pci-1002-164e-0"), None);
    }

    #[test]
    fn two_alike_are_two() {
        let mut two = raw();
        let mut second = two.adapters[0].clone();
        second.luid.low += 7;
        two.adapters.push(second);
        let ids: Vec<_> = look(&two).found.into_iter().map(|one| one.id).collect();
        assert_eq!(ids, ["pci-1002-747e-0", "pci-1002-747e-1"]);
    }
}
