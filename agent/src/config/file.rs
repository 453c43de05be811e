//! A host's TOML file, and how its values become a checked [`HostConfig`].
//! Refuses unknown keys, naming the nearest known one, and never invents what only the owner knows: a GPU without
//! an id, a backend or a memory size is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use vram::{Backend, Bytes};

use super::{ConfigError, DeviceConfig, DeviceKind, HostConfig, HostLimits, LimitsFile, machine};
use crate::devices;
use crate::evict::EvictFile;
use crate::owner::OwnerFile;
use crate::size::Size;

/// Of one rehearsal: gemma 3 4B with all its layers stays below 3 GiB.
const REHEARSAL_MEMORY: Bytes = Bytes(4 << 30);

/// As its installers name it.
const PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };

/// A driver that hangs must not keep the agent from what runs here already.
const LOOK: Duration = Duration::from_secs(10);

/// As written; a fleet file has several of them.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostFile {
    pub name: Option<String>,
    pub labels: Vec<String>,
    pub python: Option<String>,
    pub kit: Option<PathBuf>,
    pub datasets: BTreeMap<String, PathBuf>,
    pub models: BTreeMap<String, PathBuf>,
    pub env: BTreeMap<String, String>,
    pub pass_env: Vec<String>,
    pub secrets: BTreeMap<String, PathBuf>,
    pub os: Option<String>,
    pub simulated: bool,
    pub time_scale: Option<f64>,
    pub rehearsals: Option<u32>,
    pub rehearsal_memory: Option<Size>,
    /// GPUs that this machine should have.
    pub expect: Option<u32>,
    /// Whether the machine's drivers are asked for GPUs.
    pub discover: Option<bool>,
    /// A look that was written down takes the place of this machine's GPUs; its devices are simulated.
    pub recorded_devices: Option<PathBuf>,
    /// When the machine is its owner's.
    pub owner: Option<OwnerFile>,
    /// Who gives memory back when a job needs it.
    pub evict: Vec<EvictFile>,
    /// What one attempt may take of the host.
    pub limits: LimitsFile,
    pub device: Vec<DeviceFile>,
}

/// One `[[device]]` as written.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceFile {
    pub kind: String,
    pub id: Option<String>,
    pub name: Option<String>,
    pub backend: Option<String>,
    pub total: Option<Size>,
    pub usable: Option<Size>,
    pub held: Option<Size>,
    pub spills: bool,
    pub slots: Option<u32>,
    pub simulated: Option<bool>,
    pub speed: Option<f64>,
}

impl HostFile {
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error: toml::de::Error| ConfigError::Toml {
            place: place(text, error.span().map_or(0, |span| span.start)),
            what: with_nearest(&error.to_string()),
        })
    }

    /// Asks this machine's drivers, unless the file forbids it or the host is a simulated one; then as [`Self::resolve`].
    pub fn discover(mut self) -> Result<HostConfig, ConfigError> {
        let recorded = self.recorded_devices.clone();
        let wanted = self.discover.unwrap_or(true) && !self.simulated;
        if recorded.is_none() && !wanted {
            return self.resolve();
        }
        let look = devices::look_within(recorded.clone(), LOOK);
        let joined = devices::join(&mut self, &look);
        let mut host = self.resolve()?;
        for device in &mut host.devices {
            device.about = joined.about.get(&device.id).cloned().unwrap_or_default();
            device.missing = joined.missing.get(&device.id).cloned().unwrap_or_default();
            // Also one that no driver knows of yet: it may be slow to come up.
            device.watched = device.kind == DeviceKind::Gpu;
        }
        host.recorded_devices = recorded;
        host.degraded = joined.degraded;
        for what in &host.degraded {
            tracing::warn!(host = host.name, "{what}");
        }
        Ok(host)
    }

    /// Fills in the defaults and checks.
    pub fn resolve(self) -> Result<HostConfig, ConfigError> {
        let name = self.name.unwrap_or_else(machine::hostname);
        let refuse = |what: String| ConfigError::Host {
            host: name.clone(),
            what,
        };
        if !jobs::is_host_name(&name) {
            let what = "a name is letters, digits, - _ . and not dots alone: it is a folder's, too";
            return Err(refuse(what.to_owned()));
        }
        let time_scale = self.time_scale.unwrap_or(1.0);
        if !(time_scale.is_finite() && time_scale > 0.0) {
            return Err(refuse("time_scale must be above 0".to_owned()));
        }
        if time_scale != 1.0 && !self.simulated {
            return Err(refuse(
                "time_scale is for simulated hosts; add simulated = true or remove it".to_owned(),
            ));
        }
        let os = self.os.unwrap_or_else(|| std::env::consts::OS.to_owned());
        if !matches!(os.as_str(), "linux" | "windows") {
            return Err(refuse(format!("os `{os}` is not linux or windows")));
        }
        let owner = self.owner.map(OwnerFile::resolve).transpose();
        let owner = owner.map_err(|error| refuse(error.to_string()))?;
        let evict: Result<Vec<_>, _> = self.evict.into_iter().map(EvictFile::resolve).collect();
        let evict = evict.map_err(|error| refuse(error.to_string()))?;
        // What stands for a program on a simulated host needs no limit.
        let limits = match self.simulated {
            true => HostLimits::default(),
            false => self.limits.resolve().map_err(refuse)?,
        };
        let mut seen = BTreeSet::new();
        let mut devices = Vec::new();
        for file in self.device {
            let device = file.resolve(&name, self.simulated)?;
            if !seen.insert(device.id.clone()) {
                return Err(refuse(format!("two devices have the id `{}`", device.id)));
            }
            devices.push(device);
        }
        Ok(HostConfig {
            labels: self.labels,
            python: self.python.unwrap_or_else(|| PYTHON.to_owned()),
            kit: self.kit,
            datasets: self.datasets,
            models: self.models,
            env: self.env,
            pass_env: self.pass_env,
            secrets: self.secrets,
            os,
            simulated: self.simulated,
            time_scale,
            // A simulated host has no Python of its own.
            rehearsals: if self.simulated {
                0
            } else {
                self.rehearsals.unwrap_or(1)
            },
            rehearsal_memory: self
                .rehearsal_memory
                .map_or(REHEARSAL_MEMORY, |size| size.0),
            limits,
            devices,
            degraded: Vec::new(),
            owner,
            evict,
            recorded_devices: None,
            name,
        })
    }
}

impl DeviceFile {
    /// A device of which nothing but the kind is said.
    #[must_use]
    pub fn of_kind(kind: DeviceKind) -> Self {
        Self {
            kind: super::kind_word(kind).to_owned(),
            ..Self::default()
        }
    }

    fn resolve(self, host: &str, host_simulated: bool) -> Result<DeviceConfig, ConfigError> {
        let shown = self.id.clone().or_else(|| self.name.clone());
        let shown = shown.unwrap_or_else(|| self.kind.clone());
        let device = match self.kind.as_str() {
            "cpu" => self.cpu(host, host_simulated),
            "gpu" => self.gpu(host_simulated),
            other => Err(format!("kind `{other}` is not cpu or gpu")),
        };
        device
            .and_then(checked)
            .map_err(|what| ConfigError::Device {
                host: host.to_owned(),
                device: shown,
                what,
            })
    }

    fn cpu(self, host: &str, host_simulated: bool) -> Result<DeviceConfig, String> {
        let given = self.total.or(self.usable).map(|size| size.0);
        let total = given
            .or_else(machine::memory)
            .ok_or("this machine does not say how much memory it has; write usable = \"...\"")?;
        Ok(DeviceConfig {
            kind: DeviceKind::Cpu,
            id: self.id.unwrap_or_else(|| "cpu".to_owned()),
            name: self.name.unwrap_or_else(|| host.to_owned()),
            backend: Backend::Cpu,
            total,
            usable: self.usable.map_or(total, |size| size.0),
            held: self.held.map_or(Bytes::ZERO, |size| size.0),
            spills: self.spills,
            slots: self.slots.unwrap_or_else(machine::cores),
            simulated: self.simulated.unwrap_or(host_simulated),
            speed: self.speed.unwrap_or(0.0),
            about: String::new(),
            missing: String::new(),
            watched: false,
        })
    }

    fn gpu(self, host_simulated: bool) -> Result<DeviceConfig, String> {
        let id = self.id.ok_or(
            "a gpu needs its id: the UUID (nvidia-smi -L) or the PCI address (lspci -D | grep VGA)",
        )?;
        if id.chars().all(|one| one.is_ascii_digit()) {
            return Err(format!(
                "`{id}` is an index, which is another card after the next boot; give its UUID (nvidia-smi -L) or PCI address"
            ));
        }
        let name = self.name.unwrap_or_else(|| id.clone());
        let backend = match self.backend.as_deref() {
            Some("cuda") => Backend::Cuda,
            Some("rocm") => Backend::Rocm,
            Some(other) => return Err(format!("backend `{other}` is not cuda or rocm")),
            None => {
                return Err(
                    "a gpu that no driver shows here needs its backend: cuda or rocm".to_owned(),
                );
            }
        };
        let usable = self.usable.or(self.total).map(|size| size.0);
        let usable =
            usable.ok_or(
            "a gpu that no driver shows here needs usable = \"... GiB\", its memory for one process",
        )?;
        Ok(DeviceConfig {
            kind: DeviceKind::Gpu,
            id,
            name,
            backend,
            total: self.total.map_or(usable, |size| size.0),
            usable,
            held: self.held.map_or(Bytes::ZERO, |size| size.0),
            spills: self.spills,
            slots: self.slots.unwrap_or(1),
            simulated: self.simulated.unwrap_or(host_simulated),
            speed: self.speed.unwrap_or(0.0),
            about: String::new(),
            missing: String::new(),
            watched: false,
        })
    }
}

fn checked(device: DeviceConfig) -> Result<DeviceConfig, String> {
    if device.id.is_empty() || device.id.contains([',', '\n', '\0']) {
        return Err("an id is not empty and has no comma".to_owned());
    }
    if device.slots == 0 {
        return Err("slots must be at least 1".to_owned());
    }
    if device.usable > device.total {
        return Err(format!(
            "usable {} is more than the total {}",
            device.usable, device.total
        ));
    }
    if !(device.speed.is_finite() && device.speed >= 0.0) {
        return Err("speed must not be negative".to_owned());
    }
    Ok(device)
}

/// Line and column of a byte.
fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|one| *one != '\n').count() + 1;
    format!("{line}:{column}")
}

/// Adds the nearest known key to serde's "unknown field" message.
fn with_nearest(message: &str) -> String {
    let Some((before, after)) = message.split_once("unknown field `") else {
        return message.to_owned();
    };
    let Some((key, rest)) = after.split_once('`') else {
        return message.to_owned();
    };
    let known = rest.split('`').skip(1).step_by(2);
    let nearest = known
        .map(|word| (strsim::damerau_levenshtein(key, word), word))
        .filter(|(distance, word)| *distance <= 1 + word.len() / 3)
        .min();
    match nearest {
        Some((_, word)) => {
            format!("{before}unknown key `{key}`, did you mean `{word}`? (known{rest}")
                .trim_end()
                .to_owned()
                + ")"
        }
        None => message.to_owned(),
    }
}
