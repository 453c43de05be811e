//! NVIDIA's GPUs through NVML, on Linux, Windows and WSL2. This file asks and keeps the answers as they came; what they
//! mean is in `facts`. A machine without the library has no NVIDIA GPU, and that is no error.

mod again;
mod facts;
mod faults;

use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use vram::Backend;

use self::again::Again;
use self::facts::{Raw, RawCard, RawError, RawMemory, RawProcess};
use super::{Fault, Look, Trouble, Watch};

/// Absent where the library is not installed.
#[must_use]
pub fn open() -> Option<Box<dyn Watch>> {
    let again = || {
        let nvml = init().map_err(|error| trouble(&error))?;
        Ok(Nvidia::of(nvml))
    };
    match init() {
        Ok(nvml) => Some(Box::new(Again::alive(Nvidia::of(nvml), again))),
        Err(NvmlError::LibloadingError(error)) => {
            tracing::debug!(%error, "no NVML here");
            None
        }
        Err(NvmlError::LibraryNotFound) => {
            tracing::debug!("no NVML here");
            None
        }
        Err(error) => Some(Box::new(Again::dead(trouble(&error), again))),
    }
}

fn init() -> Result<Nvml, NvmlError> {
    if cfg!(target_os = "linux") {
        // The name without a number comes with the developer's files only.
        let path = std::ffi::OsStr::new("libnvidia-ml.so.1");
        return Nvml::builder().lib_path(path).init();
    }
    Nvml::init()
}

struct Nvidia {
    nvml: Nvml,
    faults: faults::Listening,
}

impl Watch for Nvidia {
    fn look(&mut self) -> Look {
        let mut look = facts::look(&self.read());
        if let Err(error) = self.nvml.device_count() {
            look.troubles.push(trouble(&error));
        }
        look
    }

    fn faults(&mut self) -> Vec<Fault> {
        self.faults.take()
    }
}

impl Nvidia {
    fn of(nvml: Nvml) -> Self {
        Self {
            faults: faults::Listening::start(),
            nvml,
        }
    }

    fn read(&self) -> Raw {
        let mut raw = Raw {
            driver: self.nvml.sys_driver_version().ok(),
            cuda: self.nvml.sys_cuda_driver_version().ok(),
            ..Raw::default()
        };
        for index in 0..self.nvml.device_count().unwrap_or(0) {
            match self.nvml.device_by_index(index) {
                // It is listed, and answers nothing any more.
                Ok(device) if matches!(device.memory_info(), Err(NvmlError::GpuLost)) => {
                    raw.lost.push((index, NvmlError::GpuLost.to_string()));
                }
                Ok(device) => {
                    let mut card = self.card(&device);
                    card.mig = device.mig_mode().is_ok_and(|mode| mode.current == 1);
                    if card.mig {
                        card.instances = self.instances(&device);
                    }
                    raw.cards.push(card);
                }
                Err(error) => raw.lost.push((index, error.to_string())),
            }
        }
        raw
    }

    fn instances(&self, device: &Device<'_>) -> Vec<RawCard> {
        let most = device.mig_device_count().unwrap_or(0);
        // Not every place is taken.
        let instances = (0..most).filter_map(|at| device.mig_device_by_index(at).ok());
        instances.map(|one| self.card(&one)).collect()
    }

    fn card(&self, device: &Device<'_>) -> RawCard {
        let (memory, memory_error) = match device.memory_info() {
            Ok(memory) => {
                let memory = RawMemory {
                    total: memory.total,
                    used: memory.used,
                    reserved: memory.reserved,
                    free: memory.free,
                };
                (Some(memory), None)
            }
            Err(error) => (None, Some(raw_error(&error))),
        };
        let processes = |list: Result<Vec<ProcessInfo>, NvmlError>| {
            let list = list.ok()?;
            Some(list.iter().map(|one| self.process(one)).collect())
        };
        RawCard {
            uuid: device.uuid().ok(),
            bus_id: device.pci_info().ok().map(|pci| pci.bus_id),
            name: device.name().ok(),
            architecture: device.architecture().ok().map(|one| one.to_string()),
            memory,
            memory_error,
            compute: processes(device.running_compute_processes()),
            graphics: processes(device.running_graphics_processes()),
            pcie_generation: device.current_pcie_link_gen().ok(),
            pcie_width: device.current_pcie_link_width().ok(),
            max_pcie_generation: device.max_pcie_link_gen().ok(),
            max_pcie_width: device.max_pcie_link_width().ok(),
            temperature: device.temperature(TemperatureSensor::Gpu).ok(),
            throttle: device
                .current_throttle_reasons()
                .ok()
                .map(|bits| bits.bits()),
            display_active: device.is_display_active().ok(),
            display_connected: device.is_display_connected().ok(),
            mig: false,
            instances: Vec::new(),
        }
    }

    fn process(&self, process: &ProcessInfo) -> RawProcess {
        let name = crate::os::program_of(process.pid)
            .or_else(|| self.nvml.sys_process_name(process.pid, NAME).ok());
        RawProcess {
            pid: process.pid,
            bytes: match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => bytes,
                UsedGpuMemory::Unavailable => u64::MAX,
            },
            name: name.filter(|name| !name.is_empty()),
        }
    }
}

/// Of a program's path, as NVML gives it.
const NAME: usize = 256;

fn raw_error(error: &NvmlError) -> RawError {
    RawError {
        unknown_call: matches!(
            error,
            NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound
        ),
        what: error.to_string(),
    }
}

fn trouble(error: &NvmlError) -> Trouble {
    let hint = match error {
        NvmlError::DriverNotLoaded => {
            "is the driver installed for this kernel, and may this process see /dev/nvidia*?"
        }
        NvmlError::LibRmVersionMismatch => "the driver was upgraded: restart this machine",
        NvmlError::NoPermission | NvmlError::OperatingSystem => {
            "this process may not use the card: look at its groups and at DeviceAllow of its service"
        }
        _ => "look at `nvidia-smi` and `dmesg`",
    };
    Trouble {
        backend: Backend::Cuda,
        what: format!("the NVIDIA driver does not answer: {error}; {hint}"),
        one_card: false,
    }
}
