//! AMD's GPUs on Linux: what amdgpu and KFD show as files below /sys and /proc, no library. The root is an argument, so a
//! copied tree is a test. Other makers' cards and AMD's without an amdgpu driver are not looked at; a processor's own
//! graphics without memory of its own is no card to train on, and is left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use vram::Backend;

use super::{Found, Live, Look, Memory, Pcie, Process, Watch};

const AMD: &str = "0x1002";
/// Below that it is a processor's graphics, which computes in the system's memory.
const LEAST: u64 = 2 << 30;

/// Absent where no amdgpu driver is loaded.
#[must_use]
pub fn open() -> Option<Box<dyn Watch>> {
    let root = Path::new("/");
    let loaded = cfg!(target_os = "linux") && root.join("sys/module/amdgpu").is_dir();
    loaded.then(|| Box::new(Amd(root.to_owned())) as Box<dyn Watch>)
}

struct Amd(PathBuf);

impl Watch for Amd {
    fn look(&mut self) -> Look {
        look(&self.0)
    }
}

fn look(root: &Path) -> Look {
    let nodes = nodes(root);
    let cards = root.join("sys/class/drm");
    let mut names: Vec<String> = fs::read_dir(&cards)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        // `card0`, not its connector `card0-DP-1`.
        .filter(|name| name.starts_with("card") && !name.contains('-'))
        .collect();
    names.sort();
    let found = names
        .iter()
        .filter_map(|name| card(root, &cards.join(name), name, &nodes));
    Look {
        answered: [Backend::Rocm].into(),
        found: found.collect(),
        ..Look::default()
    }
}

fn card(root: &Path, card: &Path, name: &str, nodes: &BTreeMap<String, Node>) -> Option<Found> {
    let device = card.join("device");
    if text(&device.join("vendor"))? != AMD {
        return None;
    }
    let total = number(&device.join("mem_info_vram_total"))?;
    if total < LEAST {
        return None;
    }
    let pci = line_of(&text(&device.join("uevent"))?, "PCI_SLOT_NAME=")?;
    let node = nodes.get(&pci);
    // Older cards have no number of their own; their place on the bus is as stable.
    let unique = text(&device.join("unique_id")).filter(|id| !id.chars().all(|c| c == '0'));
    let id = unique.map_or_else(|| pci.clone(), |id| format!("GPU-{id}"));
    let product = text(&device.join("product_name")).filter(|name| !name.is_empty());
    let architecture = node.map(|node| node.architecture.clone());
    let chip = text(&device.join("device")).unwrap_or_default();
    Some(Found {
        name: product.unwrap_or_else(|| {
            let kind = architecture.as_deref().unwrap_or("GPU");
            format!("AMD {kind} {chip}").trim_end().to_owned()
        }),
        architecture,
        backend: Backend::Rocm,
        driver: driver(root),
        cuda: None,
        pcie: pcie(&device),
        display: display(root, name),
        divided: false,
        part_of: None,
        now: Live {
            id: id.clone(),
            memory: number(&device.join("mem_info_vram_used")).map(|used| Memory {
                total,
                used,
                // What firmware keeps is not in the total to begin with.
                reserved: None,
            }),
            processes: Some(processes(root, &pci, node)),
            temperature: temperature(&device),
            throttled: Vec::new(),
            shared: number(&device.join("mem_info_gtt_used")),
            trouble: None,
        },
        pci: Some(pci),
        id,
    })
}

/// One of KFD's, by PCI address.
struct Node {
    /// `gfx1100`
    architecture: String,
    /// Names this GPU in a process's folder.
    gpu_id: Option<u64>,
}

fn nodes(root: &Path) -> BTreeMap<String, Node> {
    let folder = root.join("sys/class/kfd/kfd/topology/nodes");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| node(&entry.path())).collect()
}

fn node(folder: &Path) -> Option<(String, Node)> {
    let properties = fs::read_to_string(folder.join("properties")).ok()?;
    let version = property(&properties, "gfx_target_version").filter(|version| *version > 0)?;
    let place = property(&properties, "location_id")?;
    let domain = property(&properties, "domain").unwrap_or(0);
    let pci = format!(
        "{domain:04x}:{:02x}:{:02x}.{:x}",
        place >> 8 & 0xff,
        place >> 3 & 0x1f,
        place & 7
    );
    let node = Node {
        architecture: gfx(version),
        gpu_id: number(&folder.join("gpu_id")),
    };
    Some((pci, node))
}

/// `110000` is gfx1100, `90010` is gfx90a: major, minor and stepping in decimal, written with the last two in hex.
fn gfx(version: u64) -> String {
    format!(
        "gfx{}{:x}{:x}",
        version / 10_000,
        version / 100 % 100,
        version % 100
    )
}

fn property(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
}

/// Of the module; in a kernel's own one it is the kernel's.
fn driver(root: &Path) -> Option<String> {
    text(&root.join("sys/module/amdgpu/version")).or_else(|| {
        let kernel = text(&root.join("proc/sys/kernel/osrelease"))?;
        Some(format!("amdgpu of {kernel}"))
    })
}

fn pcie(device: &Path) -> Option<Pcie> {
    let generation = |file: &str| {
        let speed = text(&device.join(file))?;
        Some(match speed.split(' ').next()? {
            "2.5" => 1,
            "5.0" | "5" => 2,
            "8.0" | "8" => 3,
            "16.0" | "16" => 4,
            "32.0" | "32" => 5,
            "64.0" | "64" => 6,
            _ => return None,
        })
    };
    let width = |file: &str| u32::try_from(number(&device.join(file))?).ok();
    let pcie = Pcie {
        generation: generation("current_link_speed"),
        width: width("current_link_width"),
        max_generation: generation("max_link_speed"),
        max_width: width("max_link_width"),
    };
    (pcie != Pcie::default()).then_some(pcie)
}

fn display(root: &Path, card: &str) -> Option<bool> {
    let prefix = format!("{card}-");
    let entries = fs::read_dir(root.join("sys/class/drm")).ok()?.flatten();
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    let states: Vec<String> = own
        .filter_map(|entry| text(&entry.path().join("status")))
        .collect();
    (!states.is_empty()).then(|| states.iter().any(|state| state == "connected"))
}

fn temperature(device: &Path) -> Option<u32> {
    let sensors = fs::read_dir(device.join("hwmon")).ok()?.flatten();
    let mut readings = sensors.filter_map(|one| number(&one.path().join("temp1_input")));
    u32::try_from(readings.next()? / 1000).ok()
}

/// Those that compute, from KFD; those that draw, from what each of their open files says.
fn processes(root: &Path, pci: &str, node: Option<&Node>) -> Vec<Process> {
    let mut held: BTreeMap<u32, u64> = BTreeMap::new();
    if let Some(id) = node.and_then(|node| node.gpu_id) {
        for (pid, folder) in numbered(&root.join("sys/class/kfd/kfd/proc")) {
            if let Some(bytes) =
                number(&folder.join(format!("vram_{id}"))).filter(|bytes| *bytes > 0)
            {
                held.insert(pid, bytes);
            }
        }
    }
    for (pid, folder) in numbered(&root.join("proc")) {
        let bytes = drawn(&folder, pci);
        if bytes > 0 {
            // A program that does both has what it computes with in both.
            let entry = held.entry(pid).or_default();
            *entry = bytes.max(*entry);
        }
    }
    let process = |(pid, bytes)| Process {
        pid,
        name: text(&root.join("proc").join(pid.to_string()).join("comm")),
        bytes: Some(bytes),
    };
    held.into_iter().map(process).collect()
}

/// Bytes of this card's memory by the open files of a process: one client may have several files.
fn drawn(process: &Path, pci: &str) -> u64 {
    let mut clients: BTreeMap<String, u64> = BTreeMap::new();
    for file in fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let is_card = fs::read_link(file.path()).is_ok_and(|target| target.starts_with("/dev/dri"));
        if !is_card {
            continue;
        }
        let Ok(text) = fs::read_to_string(process.join("fdinfo").join(file.file_name())) else {
            continue;
        };
        if let Some((client, bytes)) = client(&text, pci) {
            clients.insert(client, bytes);
        }
    }
    clients.values().sum()
}

/// One open file's client and what it holds of the card.
fn client(fdinfo: &str, pci: &str) -> Option<(String, u64)> {
    let of = |name: &str| line_of(fdinfo, name).map(|value| value.trim().to_owned());
    if of("drm-pdev:")? != pci {
        return None;
    }
    let memory = of("drm-memory-vram:").or_else(|| of("drm-resident-vram:"))?;
    let (figure, unit) = memory.split_once(' ').unwrap_or((&memory, ""));
    let factor = match unit.trim() {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => 1,
    };
    Some((
        of("drm-client-id:")?,
        figure.parse::<u64>().ok()?.saturating_mul(factor),
    ))
}

fn numbered(folder: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}

fn line_of(text: &str, start: &str) -> Option<String> {
    text.lines()
        .find_map(|line| line.strip_prefix(start))
        .map(str::to_owned)
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

#[cfg(all(test, unix))]
#[path = "amd_linux_tests.rs"]
mod tests;
