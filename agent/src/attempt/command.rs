//! From what the coordinator asks and what the host's file says to a complete order: arguments, environment, pinned
//! devices. Pure: reads no variable and no file, and leaves nothing for the shepherd to choose.
//!
//! A simulated device gets `sweep simulate` in the program's place; everything else stays the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jobs::AttemptId;
use jobs::plan::{HostValues, Unresolved, resolve_host, resolve_host_text, resolve_stage};
use proto::v1::Start;
use serde_json::{Map, Value, json};
use thiserror::Error;
use vram::Backend;

use super::AttemptFolder;
use super::Limits;
use super::order::{GRACE_MS, Order};
use crate::config::{DeviceConfig, DeviceKind, HostConfig};
use crate::os::Group;

#[derive(Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    #[error("this host has no device `{0}`; its file has changed since the attempt was placed")]
    NoDevice(String),
    #[error(
        "the driver does not show the GPU {0}; is it still there, and is its id right in the host's file?"
    )]
    NoPin(String),
    #[error("this host has no dataset `{0}`; add it to [datasets] in the host's file")]
    NoDataset(String),
    #[error("this host has no weights of the model `{0}`; add it to [models] in the host's file")]
    NoModel(String),
    #[error("the coordinator sent a configuration that is no JSON object")]
    Config,
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
}

/// What the order is made from.
pub struct Request<'a> {
    pub start: &'a Start,
    pub id: &'a AttemptId,
    pub config: &'a HostConfig,
    pub folder: &'a AttemptFolder,
    /// What the jobs of the trial share.
    pub work: &'a Path,
    pub kit: &'a Path,
    /// Files of the sweep: name -> path on this host.
    pub files: &'a BTreeMap<String, String>,
    pub program: &'a Path,
    /// Of this machine.
    pub cores: u32,
    /// Where Python keeps what it compiled.
    pub byte_code: &'a Path,
    /// What programs of this host keep for each other.
    pub made: &'a Path,
    /// What the attempt is to be held in.
    pub group: Group,
    /// The word that pins a device: [`crate::os::gpu_pin`].
    pub pin: &'a dyn Fn(Backend, &str) -> Option<String>,
}

/// Says to Python where its byte code goes: nothing is written beside programs (staged ones are checked before each use),
/// and nothing is compiled twice (for PyTorch and transformers that is ten seconds).
pub(crate) const PYTHON_CACHE: &str = "PYTHONPYCACHEPREFIX";

/// Always there for a program, whatever the host's file says.
pub(crate) const ALWAYS: [&str; 30] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "LD_LIBRARY_PATH",
    "SystemRoot",
    "SystemDrive",
    "windir",
    "PATHEXT",
    "COMSPEC",
    "USERPROFILE",
    "USERNAME",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "ProgramData",
    "ProgramFiles",
    "PROCESSOR_ARCHITECTURE",
    "HIP_PATH",
    "NUMBER_OF_PROCESSORS",
    "SSL_CERT_FILE",
];

/// The order, and the configuration that its program gets.
pub fn build(request: &Request<'_>) -> Result<(Order, String), CommandError> {
    let start = request.start;
    let devices = devices(request)?;
    let values = values(request)?;
    let config = configuration(request, &values)?;
    let argv = resolve_host(&start.argv, &values)?;
    let mut env = request.config.env.clone();
    for (name, text) in &start.env {
        env.insert(name.clone(), resolve_host_text(text, &values)?);
    }
    both_allocator_names(&mut env);
    env.entry(PYTHON_CACHE.to_owned())
        .or_insert_with(|| text(request.byte_code));
    if let Some(threads) = threads(&devices, request.cores) {
        env.entry("OMP_NUM_THREADS".to_owned())
            .or_insert_with(|| threads.to_string());
    }
    env.extend(own_variables(request));
    let simulated = devices.iter().find(|device| device.simulated);
    let argv = match simulated {
        Some(device) => {
            env.insert(
                "SWEEP_SIMULATE".to_owned(),
                simulation(request.config, device, &argv),
            );
            vec![text(request.program), "simulate".to_owned()]
        }
        None => {
            env.extend(pinning(request, &devices)?);
            argv
        }
    };
    let resident_counts =
        |device: &&DeviceConfig| device.kind == DeviceKind::Cpu && !device.simulated;
    // What stands for a program needs little and harms nobody.
    let (limits, group) = match simulated {
        Some(_) => (Limits::default(), Group::default()),
        None => (
            request.config.limits.of(request.id.job.kind),
            request.group.clone(),
        ),
    };
    let order = Order {
        argv,
        env,
        pass_env: ALWAYS
            .map(str::to_owned)
            .into_iter()
            .chain(request.config.pass_env.clone())
            .collect(),
        secrets: request.config.secrets.clone(),
        resident_counts: devices.iter().all(resident_counts),
        limits,
        group,
        ..bare(start, request.work)
    };
    Ok((order, config))
}

/// What only the host knows comes into it: where the sweep's files lie, and the host's own resources.
fn configuration(request: &Request<'_>, values: &HostValues) -> Result<String, CommandError> {
    let config = serde_json::from_str::<Map<String, Value>>(&request.start.config);
    let mut config = config.map_err(|_| CommandError::Config)?;
    if let Some(stage) = config.get_mut("stage") {
        resolve_stage(stage, &values.files)?;
    }
    let named = [("dataset", &values.dataset), ("model", &values.model_path)];
    let known = named
        .into_iter()
        .filter_map(|(name, path)| Some((name.to_owned(), Value::from(path.clone()?))));
    config.insert("resources".to_owned(), known.collect::<Map<_, _>>().into());
    Ok(Value::from(config).to_string())
}

/// An order that says whose it is and no more: of an attempt that could not be made into a command.
#[must_use]
pub fn bare(start: &Start, work: &Path) -> Order {
    Order {
        attempt: start.attempt.clone(),
        generation: start.generation,
        argv: Vec::new(),
        env: BTreeMap::new(),
        pass_env: Vec::new(),
        secrets: BTreeMap::new(),
        folder: work.to_owned(),
        time_limit_ms: start.time_limit_ms,
        grace_ms: GRACE_MS,
        resident_counts: false,
        limits: Limits::default(),
        group: Group::default(),
        devices: start.devices.clone(),
    }
}

/// What marks every process of an attempt, unlike any other on this machine: its environment has this.
#[must_use]
pub fn mark(folder: &AttemptFolder) -> String {
    format!("SWEEP_REPORT={}", text(&folder.report()))
}

fn devices<'a>(request: &Request<'a>) -> Result<Vec<&'a DeviceConfig>, CommandError> {
    let known = |id: &String| {
        let device = request.config.device(id);
        device.ok_or_else(|| CommandError::NoDevice(id.clone()))
    };
    request.start.devices.iter().map(known).collect()
}

fn values(request: &Request<'_>) -> Result<HostValues, CommandError> {
    let name = &request.start.dataset;
    let dataset = request.config.datasets.get(name);
    let simulated = request.config.simulated;
    if dataset.is_none() && !name.is_empty() && !simulated && names(request.start, "{dataset}") {
        return Err(CommandError::NoDataset(name.clone()));
    }
    let model = &request.start.model;
    let weights = request.config.models.get(model);
    if weights.is_none() && !model.is_empty() && !simulated && names(request.start, "{model_path}")
    {
        return Err(CommandError::NoModel(model.clone()));
    }
    // A simulated host has no files: the name stands for them.
    let named = |name: &String| (simulated && !name.is_empty()).then(|| PathBuf::from(name));
    Ok(HostValues {
        kit: text(request.kit),
        python: request.config.python.clone(),
        dataset: dataset
            .cloned()
            .or_else(|| named(name))
            .map(|path| text(&path)),
        model_path: weights
            .cloned()
            .or_else(|| named(model))
            .map(|path| text(&path)),
        files: request.files.clone(),
        sweep_dir: text(request.work),
        seed: request.start.seed,
    })
}

fn names(start: &Start, placeholder: &str) -> bool {
    let texts = start.argv.iter().chain(start.env.values());
    texts.into_iter().any(|text| text.contains(placeholder))
}

/// The allocator setting has an old and a new name; a program may read either.
fn both_allocator_names(env: &mut BTreeMap<String, String>) {
    const NAMES: [&str; 2] = ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"];
    let given = NAMES.iter().find_map(|name| env.get(*name).cloned());
    if let Some(given) = given {
        for name in NAMES {
            env.entry(name.to_owned()).or_insert_with(|| given.clone());
        }
    }
}

fn own_variables(request: &Request<'_>) -> BTreeMap<String, String> {
    let id = request.id;
    let trial = id.job.trial().to_string();
    [
        ("SWEEP_ID", id.job.sweep.to_string()),
        ("SWEEP_TRIAL_ID", trial),
        ("SWEEP_JOB_ID", id.job.to_string()),
        ("SWEEP_ATTEMPT", id.to_string()),
        ("SWEEP_DIR", text(request.work)),
        ("SWEEP_CACHE_DIR", text(request.made)),
        ("SWEEP_CONFIG", text(&request.folder.config())),
        ("SWEEP_REPORT", text(&request.folder.report())),
        ("SWEEP_STREAM_FILE", text(&request.folder.stream())),
        (
            "SWEEP_CHECKPOINT_DIR",
            text(&request.work.join("checkpoints")),
        ),
        ("SWEEP_SEED", request.start.seed.to_string()),
        ("SWEEP_RESUME", u8::from(request.start.resume).to_string()),
        // Output must reach the log while the program runs, not when it ends.
        ("PYTHONUNBUFFERED", "1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Of a numeric library of a job on a CPU. Threads of jobs side by side that each take every core wait for each other
/// at every barrier: beside another busy program, a training step of 5 s was seen to take 44 s.
fn threads(devices: &[&DeviceConfig], cores: u32) -> Option<u32> {
    let slots = devices.iter().map(|device| device.slots).max()?;
    let cpu = devices
        .iter()
        .all(|device| device.kind == DeviceKind::Cpu && !device.simulated);
    cpu.then(|| (cores / slots.max(1)).max(1))
}

fn pinning(
    request: &Request<'_>,
    devices: &[&DeviceConfig],
) -> Result<Vec<(String, String)>, CommandError> {
    let gpus: Vec<&&DeviceConfig> = devices
        .iter()
        .filter(|device| device.kind == DeviceKind::Gpu)
        .collect();
    let Some(first) = gpus.first() else {
        return Ok(pinned_by(Backend::Cpu, None));
    };
    let pin = |device: &&&DeviceConfig| {
        let pin = (request.pin)(device.backend, &device.id);
        pin.ok_or_else(|| CommandError::NoPin(device.id.clone()))
    };
    let pins = gpus
        .iter()
        .map(pin)
        .collect::<Result<Vec<_>, _>>()?
        .join(",");
    Ok(pinned_by(first.backend, Some(pins)))
}

/// The variables that show a program these devices and no other; without any it sees no GPU.
pub(crate) fn pinned_by(backend: Backend, pins: Option<String>) -> Vec<(String, String)> {
    let variables = match (pins, backend) {
        (None, _) => vec![
            ("CUDA_VISIBLE_DEVICES", "-1".to_owned()),
            ("HIP_VISIBLE_DEVICES", "-1".to_owned()),
            ("ROCR_VISIBLE_DEVICES", "-1".to_owned()),
        ],
        (Some(pins), Backend::Cuda) => vec![
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
            ("CUDA_VISIBLE_DEVICES", pins),
        ],
        (Some(pins), Backend::Rocm | Backend::Cpu) => vec![(crate::os::ROCM_MASK, pins)],
    };
    let owned = variables.into_iter();
    owned
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// What `sweep simulate` needs to know of the host and of the program it stands for.
fn simulation(config: &HostConfig, device: &DeviceConfig, argv: &[String]) -> String {
    json!({
        "device": device.info(),
        "host": config.name,
        "os": config.os,
        "time_scale": config.time_scale,
        "argv": argv,
    })
    .to_string()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
