//! A fleet file: several simulated hosts in one TOML text, and how its values become checked [`HostConfig`]s.
//! Describes simulated hosts only: a real host has its own file, and nothing here can make one look real. Every error
//! names file, line and column; unknown keys are refused, naming the nearest known one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

use crate::config::{ConfigError, DeviceFile, HostConfig, HostFile};
use crate::simulate::SEED_VARIABLE;
use crate::size::Size;

/// Simulated hosts, in the order of their file.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Simulated seconds per real second.
    pub time_scale: f64,
    /// What the simulation's noise starts from, beside each job's own seed.
    pub seed: u64,
    pub hosts: Vec<HostConfig>,
}

#[derive(Debug, Error)]
pub enum FleetError {
    #[error("read the fleet file {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("understand the fleet file {0}")]
    Text(Mistake),
    #[error(
        "find the host `{name}` in the fleet file: it has {known}{}",
        hint(nearest)
    )]
    UnknownHost {
        name: String,
        known: String,
        nearest: Option<String>,
    },
}

/// What is wrong and where; lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            message,
        } = self;
        write!(out, "{file}:{line}:{column}: {message}")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FleetText {
    time_scale: Option<Spanned<f64>>,
    seed: Option<u64>,
    #[serde(default)]
    host: Vec<HostText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostText {
    name: Spanned<String>,
    os: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    device: Vec<DeviceText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceText {
    name: Spanned<String>,
    kind: Option<String>,
    backend: Option<String>,
    id: Option<Spanned<String>>,
    total: Option<Size>,
    usable: Option<Size>,
    held: Option<Size>,
    #[serde(default)]
    spills: bool,
    slots: Option<u32>,
    speed: Option<f64>,
}

impl Fleet {
    pub fn read(path: &Path) -> Result<Self, FleetError> {
        let text = std::fs::read_to_string(path).map_err(|source| FleetError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// The same from text; `file` is the name that errors give.
    pub fn parse(file: &str, text: &str) -> Result<Self, FleetError> {
        let source = Source { file, text };
        let fleet: FleetText = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            source.mistake(&span, with_nearest(error.message()))
        })?;
        let time_scale = source.time_scale(fleet.time_scale)?;
        let seed = fleet.seed.unwrap_or(0);
        if fleet.host.is_empty() {
            return Err(source.mistake(&(0..0), "it has no [[host]]".to_owned()));
        }
        let mut names = BTreeSet::new();
        let mut hosts = Vec::new();
        for host in fleet.host {
            if !names.insert(host.name.get_ref().clone()) {
                let message = format!("two hosts are named `{}`", host.name.get_ref());
                return Err(source.mistake(&host.name.span(), message));
            }
            hosts.push(source.host(host, time_scale, seed)?);
        }
        Ok(Self {
            time_scale,
            seed,
            hosts,
        })
    }

    /// One host by name, or an error that names the nearest.
    pub fn host(&self, name: &str) -> Result<&HostConfig, FleetError> {
        let names = || self.hosts.iter().map(|host| host.name.as_str());
        let found = self.hosts.iter().find(|host| host.name == name);
        found.ok_or_else(|| FleetError::UnknownHost {
            name: name.to_owned(),
            known: names().collect::<Vec<_>>().join(", "),
            nearest: nearest(name, names()),
        })
    }
}

/// The text that errors point into.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn mistake(&self, span: &Range<usize>, message: String) -> FleetError {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        FleetError::Text(Mistake {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        })
    }

    fn time_scale(&self, given: Option<Spanned<f64>>) -> Result<f64, FleetError> {
        let Some(given) = given else {
            return Ok(1.0);
        };
        let scale = *given.get_ref();
        if scale.is_finite() && scale > 0.0 {
            return Ok(scale);
        }
        Err(self.mistake(&given.span(), "time_scale must be above 0".to_owned()))
    }

    fn host(&self, host: HostText, time_scale: f64, seed: u64) -> Result<HostConfig, FleetError> {
        let mut spans = BTreeMap::new();
        let mut devices = Vec::new();
        let name = host.name.get_ref();
        for (at, device) in host.device.into_iter().enumerate() {
            let span = device.name.span();
            let device = self.device(name, at, device)?;
            spans.insert(device.id.clone(), span);
            devices.push(device);
        }
        let file = HostFile {
            name: Some(name.clone()),
            labels: host.labels,
            env: BTreeMap::from([(SEED_VARIABLE.to_owned(), seed.to_string())]),
            os: Some(host.os.unwrap_or_else(|| "linux".to_owned())),
            simulated: true,
            time_scale: Some(time_scale),
            device: devices,
            ..HostFile::default()
        };
        file.resolve().map_err(|error| {
            let device = match &error {
                ConfigError::Device { device, .. } => spans.get(&Some(device.clone())),
                _ => None,
            };
            self.mistake(device.unwrap_or(&host.name.span()), error.to_string())
        })
    }

    fn device(&self, host: &str, at: usize, device: DeviceText) -> Result<DeviceFile, FleetError> {
        let id = match device.id {
            Some(id) if !id.get_ref().starts_with("sim-") => {
                let message = "the id of a simulated device begins with `sim-`".to_owned();
                return Err(self.mistake(&id.span(), message));
            }
            Some(id) => id.into_inner(),
            None => format!("sim-{host}-{at}"),
        };
        Ok(DeviceFile {
            kind: device.kind.unwrap_or_else(|| "gpu".to_owned()),
            id: Some(id),
            name: Some(device.name.into_inner()),
            backend: device.backend,
            total: device.total,
            usable: device.usable,
            held: device.held,
            spills: device.spills,
            slots: device.slots,
            simulated: Some(true),
            speed: device.speed,
        })
    }
}

fn hint(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|one| (strsim::damerau_levenshtein(word, one), one))
        .filter(|(distance, one)| *distance <= 1 + one.len() / 3)
        .min()
        .map(|(_, one)| one.to_owned())
}

/// Serde's words for an unknown key, with the nearest known one.
fn with_nearest(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((key, known)) if message.starts_with("unknown field") => {
            let near = nearest(key, known.iter().copied());
            format!(
                "unknown key `{key}`; known: {}{}",
                known.join(", "),
                hint(&near)
            )
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
time_scale = 60.0
seed = 3
[[host]]
name = "box"
labels = ["dataset:a", "rig"]
[[host.device]]
name = "NVIDIA GeForce RTX 3070 Ti"
backend = "cuda"
usable = "7.65 GiB"
held = "563 MiB"
[[host]]
name = "tower"
os = "windows"
[[host.device]]
name = "AMD Radeon RX 7900 XTX"
backend = "rocm"
usable = "24560 MiB"
spills = true
"#;

    fn mistake(text: &str) -> String {
        Fleet::parse("f.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn every_host_and_device_is_simulated() {
        let fleet = Fleet::parse("f.toml", TWO).unwrap();
        assert_eq!(
            (fleet.time_scale, fleet.seed, fleet.hosts.len()),
            (60.0, 3, 2)
        );
        for host in &fleet.hosts {
            assert!(host.simulated && host.time_scale == 60.0);
            for device in &host.devices {
                assert!(device.simulated && device.id.starts_with("sim-"));
            }
        }
        let tower = fleet.host("tower").unwrap();
        assert!(tower.os == "windows" && tower.devices[0].spills);
        let labels = fleet.host("box").unwrap().info().labels;
        assert_eq!(labels, ["dataset:a", "rig"]);
    }

    #[test]
    fn an_unknown_host_names_the_nearest() {
        let fleet = Fleet::parse("f.toml", TWO).unwrap();
        let error = fleet.host("towr").unwrap_err().to_string();
        assert!(
            error.contains("box, tower; did you mean `tower`?"),
            "{error}"
        );
    }

    #[test]
    fn mistakes_have_their_place() {
        let cases = [
            (
                "usable = \"7.65 GiB\"",
                "usabel = 1",
                "f.toml:10:1: unknown key `usabel`",
            ),
            ("usable = \"7.65 GiB\"", "usable = 8", "f.toml:10:10: "),
            (
                "time_scale = 60.0",
                "time_scale = 0.0",
                "f.toml:2:14: time_scale must be above 0",
            ),
            (
                "name = \"tower\"",
                "name = \"box\"",
                "f.toml:13:8: two hosts are named `box`",
            ),
            ("os = \"windows\"", "os = \"dos\"", "f.toml:13:8: "),
            ("backend = \"cuda\"", "backend = \"cuba\"", "f.toml:8:8: "),
            (
                "backend = \"cuda\"",
                "id = \"GPU-1\"",
                "f.toml:9:6: the id of a simulated",
            ),
        ];
        for (from, to, wanted) in cases {
            let error = mistake(&TWO.replace(from, to));
            assert!(error.contains(wanted), "{to}: {error}");
        }
        assert!(mistake("seed = 1").contains("f.toml:1:1: it has no [[host]]"));
    }
}
