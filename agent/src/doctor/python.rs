//! The Python stack, on each real device as a job would see it: the kit's `selftest.py` with the device pinned, and
//! whether what it saw is that device and no other. Knows no package's needs: those are the self-test's.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use vram::{Backend, Bytes};

use super::Check;
use crate::attempt::command::{ALWAYS, pinned_by};
use crate::attempt::shepherd::passed;
use crate::config::{DeviceConfig, DeviceKind, HostConfig, backend_word};
use crate::os;
use crate::rehearsal::child::{Ended, Limits, Ran, run};

const LIMIT: Duration = Duration::from_secs(300);
const MEMORY: Bytes = Bytes(16 << 30);
const FILE: u64 = 64 << 20;

#[derive(Deserialize)]
struct Said {
    python: String,
    interpreter: String,
    checks: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    name: String,
    ok: bool,
    #[serde(default)]
    message: String,
    #[serde(flatten)]
    found: Map<String, Value>,
}

/// A stack that is the same for several cards is tested on each: a broken card is not a broken stack.
pub fn stacks(config: &HostConfig, folder: &Path, kit: &Path) -> Vec<Check> {
    let program = kit.join("selftest.py");
    if !program.is_file() {
        let says = format!("there is no {}", program.display());
        let fix = "name the kit's folder with SWEEP_KIT, or `kit` in the host's file";
        return vec![Check::failed("kit", says, fix)];
    }
    let real = config.devices.iter().filter(|device| !device.simulated);
    real.flat_map(|device| on_device(config, device, folder, &program))
        .collect()
}

fn on_device(
    config: &HostConfig,
    device: &DeviceConfig,
    folder: &Path,
    program: &Path,
) -> Vec<Check> {
    let pin = match device.kind {
        DeviceKind::Cpu => None,
        DeviceKind::Gpu => match os::gpu_pin(device.backend, &device.id) {
            Some(pin) => Some(pin),
            // Told already.
            None => return Vec::new(),
        },
    };
    let mut names: Vec<String> = ALWAYS.map(str::to_owned).into();
    names.extend(config.pass_env.clone());
    let mut command = Command::new(&config.python);
    command
        .arg(program)
        .args(["--stack", backend_word(device.backend)])
        .current_dir(folder)
        .env_clear()
        .envs(passed(&names, std::env::vars_os()))
        .envs(&config.env)
        .envs(pinned_by(device.backend, pin))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let stop = AtomicBool::new(false);
    let limits = Limits {
        time: LIMIT,
        memory: MEMORY,
        file: FILE,
        stop: &stop,
    };
    match run(&mut command, folder, &limits) {
        Ok(ran) => judge(config, device, &ran),
        Err(error) => vec![Check::failed(
            format!("{} python", device.id),
            format!("{}: {error}", config.python),
            "install Python, or name the environment's interpreter as `python` in the host's file",
        )],
    }
}

fn judge(config: &HostConfig, device: &DeviceConfig, ran: &Ran) -> Vec<Check> {
    let name = |part: &str| format!("{} {part}", device.id);
    let last = ran.said.lines().rev().find(|line| line.starts_with('{'));
    let said: Option<Said> = last.and_then(|line| serde_json::from_str(line).ok());
    let Some(said) = said else {
        let complaint = ran
            .complained
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty());
        let ended = match ran.ended {
            Ended::Itself(exit) => match (exit.code, exit.signal) {
                (Some(code), _) => format!("ended with {code}"),
                (None, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
            },
            Ended::OutOfTime => "took too long".to_owned(),
            Ended::OutOfMemory => "took too much memory".to_owned(),
            Ended::Stopped => "was stopped".to_owned(),
        };
        let says = format!(
            "selftest.py {ended} after {:.0} s and said nothing that can be read: {}",
            ran.seconds,
            complaint.unwrap_or("no word on standard error")
        );
        let fix = format!("run {} on selftest.py by hand", config.python);
        return vec![Check::failed(name("python"), says, fix)];
    };
    let mut checks = vec![Check::ok(
        name("python"),
        format!("{} ({})", said.python, said.interpreter),
    )];
    for part in &said.checks {
        checks.push(checked(device, &name(&part.name), part));
    }
    checks
}

fn checked(device: &DeviceConfig, name: &str, part: &Part) -> Check {
    if !part.ok {
        let fix = fix(&part.name, device.backend);
        // Without 4 bits everything else runs.
        if part.name.contains("nf4") {
            return Check::warning(name, part.message.clone(), fix);
        }
        return Check::failed(name, part.message.clone(), fix);
    }
    if part.name == "device" && device.kind == DeviceKind::Gpu {
        return seen(device, name, part);
    }
    let found = part.found.iter().filter(|(key, _)| *key != "seconds");
    let words: Vec<String> = found
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key} {text}"),
            Value::Null => format!("{key} missing"),
            other => format!("{key} {other}"),
        })
        .collect();
    Check::ok(name, words.join(", "))
}

/// A job that is given this card must see it and no other.
fn seen(device: &DeviceConfig, name: &str, part: &Part) -> Check {
    let cards = part.found.get("devices").and_then(Value::as_array);
    let cards: Vec<&Value> = cards.into_iter().flatten().collect();
    let shown = |card: &Value| card["name"].as_str().unwrap_or("a card").to_owned();
    let all: Vec<String> = cards.iter().map(|card| shown(card)).collect();
    let [card] = cards.as_slice() else {
        return Check::failed(
            name,
            format!(
                "a job pinned to it sees {} cards: {}",
                cards.len(),
                all.join(", ")
            ),
            "correct `id` in the host's file: a job must see its own card and no other",
        );
    };
    let total = Bytes(card["total_mib"].as_u64().unwrap_or(0) << 20);
    if !alike(&device.name, &all[0]) {
        return Check::failed(
            name,
            format!(
                "it is a {}, and the host's file says {}",
                all[0], device.name
            ),
            "correct `name` or `id` in the host's file: the memory model goes by the name",
        );
    }
    if device.usable > total {
        return Check::failed(
            name,
            format!(
                "it has {:.0} MiB, and the host's file says usable = {:.0} MiB",
                total.mib(),
                device.usable.mib()
            ),
            "correct `usable` in the host's file: no more than the card has, less what the driver keeps",
        );
    }
    Check::ok(name, format!("{}, {:.0} MiB, alone", all[0], total.mib()))
}

/// `RTX 3070 Ti` is the `NVIDIA GeForce RTX 3070 Ti`.
fn alike(said: &str, found: &str) -> bool {
    let plain = |name: &str| {
        name.to_lowercase()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let (said, found) = (plain(said), plain(found));
    said.is_empty()
        || found == said
        || found.ends_with(&format!(" {said}"))
        || said.ends_with(&format!(" {found}"))
}

fn fix(part: &str, backend: Backend) -> String {
    let stack = backend_word(backend);
    match part {
        "packages" => format!(
            "bash jobs/kit/setup {stack} makes an environment; name its bin/python as `python` in the host's file"
        ),
        "device" if backend == Backend::Rocm && os::is_services_session() => {
            "this is session 0, where Windows' services run, and AMD's driver often shows no GPU there: run the agent in \
             a user's session, with sweep agent install --mode logon-task"
                .to_owned()
        }
        "device" => format!(
            "look at the driver, and at PyTorch: it must be built for {stack} (jobs/kit/setup {stack})"
        ),
        "kernel" | "step" => {
            "this PyTorch does not compute right on this device: another version, or another driver".to_owned()
        }
        _ => "pip install bitsandbytes in that environment, in a version that knows this device; without it trials in \
              4 bits fail here"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn card() -> DeviceConfig {
        let text = "name = \"box\"\n[[device]]\nkind = \"gpu\"\nid = \"GPU-1\"\nname = \"RTX 3070 Ti\"\n\
                    backend = \"cuda\"\nusable = \"7550 MiB\"\n";
        HostConfig::parse(text).unwrap().devices.remove(0)
    }

    fn part(json: &str) -> Part {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_job_must_see_its_own_card_and_no_other() {
        let see = |devices: &str| {
            let part = part(&format!(
                r#"{{"name":"device","ok":true,"devices":{devices}}}"#
            ));
            checked(&card(), "x", &part)
        };
        let own = r#"{"name":"NVIDIA GeForce RTX 3070 Ti","total_mib":8192}"#;
        assert_eq!(see(&format!("[{own}]")).state, State::Ok);
        assert_eq!(see("[]").state, State::Failed);
        assert_eq!(see(&format!("[{own},{own}]")).state, State::Failed);
        let other = r#"[{"name":"NVIDIA GeForce RTX 3070","total_mib":8192}]"#;
        assert!(see(other).says.contains("it is a NVIDIA GeForce RTX 3070,"));
        let small = r#"[{"name":"NVIDIA GeForce RTX 3070 Ti","total_mib":4096}]"#;
        assert!(see(small).says.contains("4096 MiB"), "{}", see(small).says);
    }

    #[test]
    fn four_bits_are_not_everything() {
        let broken = |name: &str| {
            let json = format!(r#"{{"name":"{name}","ok":false,"message":"no such thing"}}"#);
            checked(&card(), "x", &part(&json))
        };
        assert_eq!(broken("nf4").state, State::Warning);
        assert_eq!(broken("kernel").state, State::Failed);
        assert!(broken("packages").fix.unwrap().contains("setup cuda"));
    }
}
