//! The host's file and what was found, as one: what the file leaves out of a card is completed, cards that it does not
//! list are added if it lists none, and what it expects and is not there is said. The file's own words always win.
//! Pure. A card that no driver shows is missing, also where no driver is: it gets no job.

use std::collections::BTreeMap;

use vram::{Backend, Bytes};

use super::{Found, Look};
use crate::config::{DeviceFile, HostFile, backend_word};
use crate::size::Size;

/// What the file does not say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// What is expected and cannot be used, for people.
    pub degraded: Vec<String>,
    /// By device id: why it is not there.
    pub missing: BTreeMap<String, String>,
    /// By device id: one line about the card.
    pub about: BTreeMap<String, String>,
}

/// Completes the file's devices.
pub fn join(file: &mut HostFile, look: &Look) -> Joined {
    let mut joined = Joined::default();
    let recorded = file.recorded_devices.is_some();
    let listed = file.device.iter().any(is_real_gpu);
    let mut devices = Vec::new();
    for mut device in std::mem::take(&mut file.device) {
        if !is_real_gpu(&device) || complete(&mut device, look, recorded, &mut joined) {
            devices.push(device);
        }
    }
    if !listed {
        for found in look.found.iter().filter(|found| !found.divided) {
            devices.extend(announced(found, recorded, &mut joined));
        }
    }
    file.device = devices;
    let troubles = look.troubles.iter().map(|trouble| trouble.what.clone());
    joined.degraded.extend(troubles);
    let there = file.device.iter().filter(|one| is_gpu(one)).count() - joined.missing.len();
    if let Some(expected) = file.expect.filter(|expected| there < *expected as usize) {
        joined.degraded.push(format!(
            "{expected} GPUs are expected and {there} are there; look at the cards' seats and power, at the firmware's \
             list of PCI devices and at `dmesg`, then restart the agent"
        ));
    }
    joined
}

fn is_gpu(device: &DeviceFile) -> bool {
    device.kind == "gpu"
}

/// A simulated card is nobody's to find.
fn is_real_gpu(device: &DeviceFile) -> bool {
    is_gpu(device) && device.simulated != Some(true)
}

/// Whether the device can be announced.
fn complete(device: &mut DeviceFile, look: &Look, recorded: bool, joined: &mut Joined) -> bool {
    let Some(id) = device.id.clone() else {
        return true;
    };
    if let Some(found) = look.found.iter().find(|found| found.is(&id)) {
        if found.divided {
            joined.degraded.push(format!(
                "{id} is divided into MIG instances: list those by their MIG- ids, or none at all"
            ));
            return false;
        }
        fill(device, found, recorded);
        joined.about.insert(id, found.about());
        return true;
    }
    let backend = device.backend.as_deref();
    let answered = |one: &Backend| backend.is_none_or(|word| backend_word(*one) == word);
    let mut troubles = look.troubles.iter();
    let trouble = troubles.find(|trouble| answered(&trouble.backend));
    let why = match trouble {
        Some(trouble) => trouble.what.clone(),
        None if !look.answered.iter().any(answered) => format!(
            "no driver here shows {id}: load it (`nvidia-smi`, `rocminfo`), or write discover = false where the file is to \
             be believed"
        ),
        None => format!(
            "the driver does not show {id}; look at its seat and power, at `lspci` and at `dmesg`, and compare \
             `sweep agent devices`"
        ),
    };
    if device.usable.is_none() && device.total.is_none() || device.backend.is_none() {
        // Nobody knows its size: there is nothing to announce.
        joined.degraded.push(format!("{id} is missing: {why}"));
        return false;
    }
    joined.missing.insert(id, why);
    true
}

fn fill(device: &mut DeviceFile, found: &Found, recorded: bool) {
    device.name.get_or_insert_with(|| found.name.clone());
    device
        .backend
        .get_or_insert_with(|| backend_word(found.backend).to_owned());
    if let Some(memory) = found.now.memory {
        if device.usable.is_none() && device.total.is_none() {
            device.usable = Some(Size(Bytes(memory.usable())));
        }
        let total = Size(Bytes(memory.total));
        // A total below what the owner calls usable would be refused: then his word stands alone.
        if device
            .usable
            .as_ref()
            .is_none_or(|usable| usable.0 <= total.0)
        {
            device.total.get_or_insert(total);
        }
    }
    if recorded {
        device.simulated = Some(true);
    }
}

fn announced(found: &Found, recorded: bool, joined: &mut Joined) -> Option<DeviceFile> {
    if found.now.memory.is_none() {
        let why = found
            .now
            .trouble
            .as_deref()
            .unwrap_or("its driver does not tell its memory");
        joined.degraded.push(format!(
            "{} ({}) cannot be used: {why}",
            found.name, found.id
        ));
        return None;
    }
    let mut device = DeviceFile {
        kind: "gpu".to_owned(),
        id: Some(found.id.clone()),
        // Windows' drivers page to system memory unless their owner says otherwise.
        spills: cfg!(windows),
        ..DeviceFile::default()
    };
    fill(&mut device, found, recorded);
    joined.about.insert(found.id.clone(), found.about());
    Some(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TI: &str = "GPU-5b2a6f01-0000-1111-2222-333344445555";
    const OTHER: &str = "GPU-77aa0b02-0000-1111-2222-333344445555";

    fn desktop() -> Look {
        serde_json::from_str(include_str!("../../tests/devices/desktop.json")).unwrap()
    }

    fn joined(text: &str, look: &Look) -> (HostFile, Joined) {
        let mut file = HostFile::parse(text).unwrap();
        let joined = join(&mut file, look);
        (file, joined)
    }

    fn gpus(file: HostFile) -> Vec<(String, String, u64)> {
        let host = file.resolve().unwrap();
        let gpus = host
            .devices
            .iter()
            .filter(|one| one.kind == crate::config::DeviceKind::Gpu);
        gpus.map(|one| (one.id.clone(), one.name.clone(), one.usable.0))
            .collect()
    }

    #[test]
    fn a_file_without_gpus_gets_those_that_are_found() {
        let (file, joined) = joined("[[device]]\nkind = \"cpu\"\nusable = \"1 GiB\"", &desktop());
        assert!(joined.degraded.is_empty() && joined.missing.is_empty());
        assert!(joined.about[TI].contains("driver 570.133.07"));
        let total = 8_589_934_592;
        assert_eq!(
            gpus(file),
            [
                (
                    TI.to_owned(),
                    "NVIDIA GeForce RTX 3070 Ti".to_owned(),
                    total - 356_515_840
                ),
                (
                    OTHER.to_owned(),
                    "NVIDIA GeForce RTX 3060 Ti".to_owned(),
                    total - 346_030_080
                ),
            ]
        );
    }

    #[test]
    fn a_listed_card_is_completed_and_the_owners_words_stay() {
        let text = "[[device]]\nkind = \"gpu\"\nid = \"0b:00.0\"\nusable = \"7.65 GiB\"";
        let (file, _) = joined(text, &desktop());
        let usable = crate::size::parse("7.65 GiB").unwrap().0;
        let name = "NVIDIA GeForce RTX 3070 Ti".to_owned();
        assert_eq!(gpus(file), [("0b:00.0".to_owned(), name, usable)]);
    }

    #[test]
    fn without_a_driver_a_listed_card_keeps_its_place_and_is_missing() {
        let text =
            "[[device]]\nkind = \"gpu\"\nid = \"GPU-1\"\nbackend = \"cuda\"\nusable = \"8 GiB\"";
        let (file, joined) = joined(text, &Look::default());
        assert!(joined.missing["GPU-1"].contains("no driver here shows GPU-1"));
        assert_eq!(gpus(file).len(), 1);
    }

    #[test]
    fn a_card_that_does_not_enumerate_is_missing_and_the_others_go_on() {
        let gone = "GPU-99990000-0000-1111-2222-333344445555";
        let text = format!(
            "expect = 2\n[[device]]\nkind = \"gpu\"\nid = \"{TI}\"\n\
             [[device]]\nkind = \"gpu\"\nid = \"{gone}\"\nbackend = \"cuda\"\nusable = \"8 GiB\""
        );
        let (file, with_size) = joined(&text, &desktop());
        assert!(with_size.missing[gone].contains("dmesg"));
        assert!(
            with_size.degraded[0].contains("2 GPUs are expected and 1 are there"),
            "{with_size:?}"
        );
        assert_eq!(gpus(file).len(), 2, "its place is kept");
        let text = format!(
            "[[device]]\nkind = \"gpu\"\nid = \"{TI}\"\n[[device]]\nkind = \"gpu\"\nid = \"{gone}\""
        );
        let (file, without) = joined(&text, &desktop());
        assert!(without.degraded[0].contains(gone), "{without:?}");
        assert_eq!(gpus(file).len(), 1);
    }

    #[test]
    fn a_card_of_a_maker_whose_driver_is_not_there_is_missing() {
        let text =
            "[[device]]\nkind = \"gpu\"\nid = \"03:00.0\"\nbackend = \"rocm\"\nusable = \"16 GiB\"";
        let (_, joined) = joined(text, &desktop());
        assert!(joined.missing["03:00.0"].contains("no driver here shows 03:00.0"));
    }

    #[test]
    fn a_recorded_card_is_a_simulated_one() {
        let (file, _) = joined("recorded_devices = \"cards.json\"", &desktop());
        assert!(
            file.resolve()
                .unwrap()
                .devices
                .iter()
                .all(|one| one.simulated)
        );
    }
}
