//! What one host says about itself: interpreter, data sets, environment, secrets by name, devices.
//! A checked value; `file` is the TOML that it comes from. Holds no secret, only the paths of their files, and
//! shows no environment in its Debug, because people put tokens there.

mod file;
mod limits;
mod machine;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub use file::{DeviceFile, HostFile};
pub use jobs::spec::DeviceKind;
pub use limits::{HostLimits, LimitsFile};
pub use machine::{cores, hostname, memory};
use proto::v1::{DeviceInfo, HostInfo};
use thiserror::Error;
use vram::{Backend, Bytes};

use crate::evict::EvictRule;
use crate::owner::OwnerRule;

/// One host, every default filled in.
#[derive(Clone, PartialEq)]
pub struct HostConfig {
    pub name: String,
    /// As written; what data sets and models add comes with [`HostConfig::info`].
    pub labels: Vec<String>,
    /// What `{python}` stands for.
    pub python: String,
    /// What `{kit}` stands for; absent: the folder that the caller of [`crate::run`] gives.
    pub kit: Option<PathBuf>,
    /// What `{dataset}` stands for, by the name that the sweep gives.
    pub datasets: BTreeMap<String, PathBuf>,
    /// Weights of models: what `{model_path}` stands for, by the name that the sweep gives.
    pub models: BTreeMap<String, PathBuf>,
    /// Given to every job.
    pub env: BTreeMap<String, String>,
    /// Names of the agent's own variables that every job gets too.
    pub pass_env: Vec<String>,
    /// Variable -> file whose content it gets.
    pub secrets: BTreeMap<String, PathBuf>,
    /// `linux` or `windows`.
    pub os: String,
    pub simulated: bool,
    /// Simulated seconds per real second; 1 for a real host.
    pub time_scale: f64,
    /// Training steps rehearsed at a time, on the CPU; 0: none here.
    pub rehearsals: u32,
    /// A rehearsal that takes more is ended.
    pub rehearsal_memory: Bytes,
    /// What one attempt may take of the host.
    pub limits: HostLimits,
    pub devices: Vec<DeviceConfig>,
    /// What was expected here and cannot be used, for people.
    pub degraded: Vec<String>,
    /// Nothing starts while the owner is there.
    pub owner: Option<OwnerRule>,
    /// Who gives memory back when a job needs it.
    pub evict: Vec<EvictRule>,
    /// Stands for this machine's GPUs.
    pub recorded_devices: Option<PathBuf>,
}

/// One device of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceConfig {
    pub kind: DeviceKind,
    /// GPU uuid, PCI address, or `cpu`.
    pub id: String,
    pub name: String,
    pub backend: Backend,
    pub total: Bytes,
    /// What the framework can reserve on the empty card, context included.
    pub usable: Bytes,
    /// By processes that are not ours.
    pub held: Bytes,
    /// Pages to system memory instead of failing.
    pub spills: bool,
    /// Attempts at a time.
    pub slots: u32,
    pub simulated: bool,
    /// Steps per second relative to the others; 0 when not known.
    pub speed: f64,
    /// One line about the card, as its driver tells it; empty: nobody asked.
    pub about: String,
    /// Why it is not there; empty: it is, or nobody can tell.
    pub missing: String,
    /// A driver answers for it: what others hold of it is measured.
    pub watched: bool,
}

#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("read the host's file {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("understand the host's file {place}: {what}")]
    Toml {
        /// `box.toml:7:9`, or line and column alone.
        place: String,
        what: String,
    },
    #[error("{source}; in {}", path.display())]
    In {
        path: PathBuf,
        source: Box<ConfigError>,
    },
    #[error("accept the host `{host}`: {what}")]
    Host { host: String, what: String },
    #[error("accept device `{device}` of host `{host}`: {what}")]
    Device {
        host: String,
        device: String,
        what: String,
    },
}

impl ConfigError {
    fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Toml { place, what } => Self::Toml {
                place: format!("{}:{place}", path.display()),
                what,
            },
            other => Self::In {
                path: path.to_owned(),
                source: Box::new(other),
            },
        }
    }
}

impl HostConfig {
    /// Reads a host's TOML file, and asks the machine's drivers what its GPUs are.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let read = HostFile::parse(&text).and_then(HostFile::discover);
        read.map_err(|error| error.in_file(path))
    }

    /// From text, without a look at the machine.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        HostFile::parse(text)?.resolve()
    }

    /// This machine with nothing but its CPU: what a sweep gets that names no host.
    pub fn this_machine() -> Result<Self, ConfigError> {
        let cpu = DeviceFile::of_kind(DeviceKind::Cpu);
        HostFile {
            device: vec![cpu],
            ..HostFile::default()
        }
        .resolve()
    }

    /// What the coordinator is told.
    #[must_use]
    pub fn info(&self) -> HostInfo {
        let datasets = self.datasets.keys().map(|name| format!("dataset:{name}"));
        let models = self.models.keys().map(|name| format!("model:{name}"));
        let own = self.labels.iter().cloned();
        let mut labels: Vec<String> = own.chain(datasets).chain(models).collect();
        labels.sort();
        labels.dedup();
        HostInfo {
            name: self.name.clone(),
            os: self.os.clone(),
            labels,
            devices: self.devices.iter().map(DeviceConfig::info).collect(),
            simulated: self.simulated,
            time_scale: self.time_scale,
            rehearsals: self.rehearsals,
            rehearsal_memory_bytes: self.rehearsal_memory.0,
            degraded: self.degraded.clone(),
        }
    }

    /// What lets every job fail here: an interpreter that the file names by its path, and that is not there.
    #[must_use]
    pub fn python_trouble(&self) -> Option<String> {
        let path = Path::new(&self.python);
        let gone = !self.simulated && path.is_absolute() && !path.exists();
        gone.then(|| {
            format!(
                "the host file's python {} does not exist: make the environment (kit/setup), or correct the path",
                self.python
            )
        })
    }

    #[must_use]
    pub fn device(&self, id: &str) -> Option<&DeviceConfig> {
        self.devices.iter().find(|device| device.id == id)
    }
}

impl DeviceConfig {
    #[must_use]
    pub fn info(&self) -> DeviceInfo {
        DeviceInfo {
            id: self.id.clone(),
            name: self.name.clone(),
            kind: kind_word(self.kind).to_owned(),
            backend: backend_word(self.backend).to_owned(),
            total_bytes: self.total.0,
            usable_bytes: self.usable.0,
            held_bytes: self.held.0,
            spills: self.spills,
            slots: self.slots,
            simulated: self.simulated,
            speed: self.speed,
            about: self.about.clone(),
            holders: String::new(),
            missing: self.missing.clone(),
            owner: String::new(),
            watched: self.watched,
        }
    }
}

/// `cpu` or `gpu`, as on the wire.
#[must_use]
pub fn kind_word(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Cpu => "cpu",
        DeviceKind::Gpu => "gpu",
    }
}

/// `cuda`, `rocm` or `cpu`, as on the wire.
#[must_use]
pub fn backend_word(backend: Backend) -> &'static str {
    match backend {
        Backend::Cuda => "cuda",
        Backend::Rocm => "rocm",
        Backend::Cpu => "cpu",
    }
}

impl fmt::Debug for HostConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HostConfig")
            .field("name", &self.name)
            .field("labels", &self.labels)
            .field("python", &self.python)
            .field("kit", &self.kit)
            .field("datasets", &self.datasets)
            .field("models", &self.models)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("secrets", &self.secrets.keys().collect::<Vec<_>>())
            .field("os", &self.os)
            .field("simulated", &self.simulated)
            .field("time_scale", &self.time_scale)
            .field("rehearsals", &self.rehearsals)
            .field("rehearsal_memory", &self.rehearsal_memory)
            .field("limits", &self.limits)
            .field("devices", &self.devices)
            .field("degraded", &self.degraded)
            .field("owner", &self.owner)
            .field("evict", &self.evict)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_named_with_file_line_and_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box.toml");
        let said = |text: &str| {
            std::fs::write(&path, text).unwrap();
            HostConfig::read(&path).unwrap_err().to_string()
        };
        let what = said("name = \"box\"\n[limits]\nmemry = \"1 GiB\"\n");
        assert!(what.contains("box.toml:3:1: "), "{what}");
        assert!(what.contains("did you mean `memory`"), "{what}");
        let what = said("discover = false\n[owner]\nidle = \"soon\"\n");
        assert!(
            what.contains("[owner] idle `soon`") && what.ends_with("box.toml"),
            "{what}"
        );
    }
}
