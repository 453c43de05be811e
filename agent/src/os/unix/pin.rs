//! The word that pins a GPU in its backend's environment variable. A UUID pins itself; a PCI address is looked up
//! in what the driver shows of the card. Never an index: those change with the next card.

use std::fs;
use std::path::Path;

use vram::Backend;

use crate::devices::pci_address;

/// `GPU-...` for the device, or absent when the driver does not show it.
#[must_use]
pub fn gpu_pin(backend: Backend, id: &str) -> Option<String> {
    pin_in(Path::new("/"), backend, id)
}

fn pin_in(root: &Path, backend: Backend, id: &str) -> Option<String> {
    if id.starts_with("GPU-") || id.starts_with("MIG-") {
        return Some(id.to_owned());
    }
    let address = pci_address(id)?;
    match backend {
        Backend::Cuda => {
            let file = root.join("proc/driver/nvidia/gpus").join(address);
            let text = fs::read_to_string(file.join("information")).ok()?;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("GPU UUID:"))?;
            Some(line.trim().to_owned())
        }
        Backend::Rocm => {
            let file = root.join("sys/bus/pci/devices").join(address);
            let unique = fs::read_to_string(file.join("unique_id")).ok()?;
            Some(format!("GPU-{}", unique.trim()))
        }
        Backend::Cpu => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_pins_itself_and_an_address_is_looked_up() {
        let root = tempfile::tempdir().unwrap();
        let nvidia = root.path().join("proc/driver/nvidia/gpus/0000:0b:00.0");
        let amd = root.path().join("sys/bus/pci/devices/0000:03:00.0");
        fs::create_dir_all(&nvidia).unwrap();
        fs::create_dir_all(&amd).unwrap();
        let card = "Model: \t\t NVIDIA GeForce RTX 3070 Ti\nIRQ: 1\nGPU UUID: \t GPU-5b2a\n";
        fs::write(nvidia.join("information"), card).unwrap();
        fs::write(amd.join("unique_id"), "9f3b2c1d00aa55ee\n").unwrap();
        let pin = |backend, id| pin_in(root.path(), backend, id);
        assert_eq!(pin(Backend::Cuda, "GPU-1"), Some("GPU-1".into()));
        assert_eq!(
            pin(Backend::Cuda, "00000000:0B:00.0"),
            Some("GPU-5b2a".into())
        );
        assert_eq!(
            pin(Backend::Rocm, "03:00.0"),
            Some("GPU-9f3b2c1d00aa55ee".into())
        );
        assert_eq!(pin(Backend::Cuda, "0000:0c:00.0"), None);
        assert_eq!(pin(Backend::Cuda, "0"), None);
    }
}
