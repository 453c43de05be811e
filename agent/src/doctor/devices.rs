//! Whether this user may use the devices that the host's file names: the driver's device files, and that the driver
//! shows each card. Opens them and closes them again; computes nothing on them.

use vram::Backend;

use super::Check;
use crate::config::{DeviceConfig, DeviceKind, HostConfig};
use crate::os;

const MISSING: &str = "reseat the card, look at BIOS and PCIe (dmesg, lspci), or correct `expect` and `id` in the host's file";

pub fn access(config: &HostConfig) -> Vec<Check> {
    let gpus = config
        .devices
        .iter()
        .filter(|device| device.kind == DeviceKind::Gpu && !device.simulated);
    let degraded = config.degraded.iter();
    let mut checks: Vec<Check> = degraded
        .map(|what| Check::failed("devices", what.clone(), MISSING))
        .collect();
    let mut backends: Vec<Backend> = Vec::new();
    for gpu in gpus {
        if !backends.contains(&gpu.backend) {
            backends.push(gpu.backend);
            checks.extend(driver(gpu.backend));
        }
        checks.push(shown(gpu));
    }
    checks
}

fn driver(backend: Backend) -> Vec<Check> {
    os::device_files(backend)
        .into_iter()
        .map(|file| {
            let path = file.path.display().to_string();
            match file.trouble {
                None => Check::ok("device file", path),
                Some(error) => {
                    let fix = match error.kind() {
                        std::io::ErrorKind::NotFound => {
                            "load the driver (nvidia-modprobe -u -c 0, or modprobe amdgpu), then look again"
                        }
                        _ => "let the user that runs the agent open it: groups render and video, DeviceAllow in the unit",
                    };
                    Check::failed("device file", format!("{path}: {error}"), fix)
                }
            }
        })
        .collect()
}

fn shown(gpu: &DeviceConfig) -> Check {
    let what = format!("device {}", gpu.id);
    if !gpu.missing.is_empty() {
        return Check::failed(what, gpu.missing.clone(), MISSING);
    }
    match os::gpu_pin(gpu.backend, &gpu.id) {
        Some(pin) => Check::ok(what, format!("{}, pinned by {pin}", gpu.name)),
        None => Check::failed(
            what,
            format!("the driver shows no card {} ({})", gpu.id, gpu.name),
            "correct `id` in the host's file (nvidia-smi -L, rocminfo), or look why the card is missing",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_card_that_its_driver_does_not_show_has_failed() {
        let text = "name = \"box\"\n[[device]]\nkind = \"gpu\"\nid = \"GPU-1\"\nbackend = \"cuda\"\nusable = \"8 GiB\"\n";
        let mut host = HostConfig::parse(text).unwrap();
        let of = |host: &HostConfig| {
            let all = access(host);
            all.into_iter()
                .find(|one| one.name == "device GPU-1")
                .unwrap()
        };
        host.devices[0].missing.clear();
        assert_eq!(of(&host).state, State::Ok);
        host.devices[0].missing = "it does not enumerate".to_owned();
        assert_eq!(
            (of(&host).state, &*of(&host).says),
            (State::Failed, "it does not enumerate")
        );
    }
}
