//! A scheduling case as text: hosts, jobs, and what is to become of each job, one line each. Owns what a snapshot
//! borrows. Only for tests and benches; understands no more than they need.
//!
//! ```text
//! host box +data: 3070ti 7833, 3060ti 7843 held 563     (down, drained; slots N, used N, active N, speed N, spills, cpu, sick)
//! group 0: 7000±100 6500 !6000                          (pin NAME; ! is settled)
//! job 1/2/train 7000±100 group 0 prio 3                 (sizes: 7000±100~1.5, ?, 7000,3060ti=?; ! offloads)
//! 1/2/train -> box/3070ti                               (expected: the beginning of the line that comes out)
//! ```
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};

use coordinator::schedule::{
    Arm, ClassId, Decision, DeviceView, GroupId, GroupView, HostView, JobKey, JobView, NeedId,
    Rehearsal, Sizing, Snapshot, decide,
};
use jobs::spec::{DeviceKind, ProbeMode};
use vram::{Bytes, DeviceLoad, Source};

pub const MIB: u64 = 1 << 20;

#[derive(Clone, Debug, Default)]
pub struct World {
    pub hosts: Vec<Host>,
    pub jobs: Vec<Job>,
    pub groups: Vec<(Option<String>, Vec<Arm>)>,
    pub estimates: Vec<Vec<Option<Sizing>>>,
    pub classes: Vec<String>,
    pub unsettled: bool,
    pub needs: BTreeMap<String, u32>,
}

#[derive(Clone, Debug, Default)]
pub struct Host {
    pub name: String,
    pub down: bool,
    pub drained: bool,
    pub labels: BTreeSet<String>,
    pub devices: Vec<Device>,
}

#[derive(Clone, Debug)]
pub struct Device {
    pub id: String,
    pub class: u32,
    pub cpu: bool,
    pub spills: bool,
    pub usable: u64,
    pub held: u64,
    pub reserved: u64,
    pub active: u32,
    pub slots: u32,
    pub sick: bool,
    pub speed: f64,
    pub until: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Job {
    pub key: JobKey,
    pub priority: i32,
    pub need: u32,
    pub next: Option<u32>,
    pub probe: Option<ProbeMode>,
    pub whole: bool,
    pub require: Vec<String>,
    pub device: Option<DeviceKind>,
    pub gpus: u32,
    pub host: Option<String>,
    pub stay: Option<String>,
    pub prefer: Option<String>,
    pub avoid: Vec<(String, String)>,
    pub group: Option<u32>,
    pub after: u64,
    /// `queued`, `?HOST` while that one is finding out, or the host.
    pub rehearsal: Option<String>,
}

impl Job {
    pub fn new(key: JobKey, need: u32) -> Self {
        Self {
            key,
            priority: 0,
            need,
            next: None,
            probe: None,
            whole: false,
            require: Vec::new(),
            device: None,
            gpus: 1,
            host: None,
            stay: None,
            prefer: None,
            avoid: Vec::new(),
            group: None,
            after: 0,
            rehearsal: None,
        }
    }
}

pub fn key(text: &str) -> JobKey {
    let mut parts = text.split('/');
    let mut next = || {
        parts
            .next()
            .unwrap_or_else(|| panic!("`{text}` is not sweep/trial/kind"))
    };
    JobKey {
        sweep: next().parse().expect("sweep"),
        trial: next().parse().expect("trial"),
        kind: next().parse().expect("kind"),
    }
}

pub fn sizing(need_mib: u64, band_mib: u64, step_seconds: Option<f64>) -> Sizing {
    Sizing {
        offloads: false,
        need: Bytes(need_mib * MIB),
        band: Bytes(band_mib * MIB),
        allocated: Bytes(need_mib * MIB),
        source: Source::Computed,
        step_seconds,
    }
}

fn size(text: &str) -> Option<Sizing> {
    if text == "?" {
        return None;
    }
    let (text, offloads) = text
        .strip_suffix('!')
        .map_or((text, false), |text| (text, true));
    let (text, step) = text
        .split_once('~')
        .map_or((text, None), |(size, step)| (size, Some(step)));
    let (need, band) = text.split_once('±').unwrap_or((text, "0"));
    let number = |text: &str| {
        text.parse()
            .unwrap_or_else(|_| panic!("`{text}` is no size"))
    };
    let step = step.map(|step| step.parse().expect("step"));
    Some(Sizing {
        offloads,
        ..sizing(number(need), number(band), step)
    })
}

impl World {
    /// Reads everything but the expectations, which come back as they are.
    pub fn read(text: &str) -> (Self, Vec<String>) {
        let mut world = Self::default();
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let is = |word: &'static str| move |line: &&&str| line.starts_with(word);
        // Hosts first: a size may name a class.
        for line in lines.iter().filter(is("host ")) {
            world.host(line);
        }
        for line in lines.iter().filter(is("group ")) {
            world.group(line);
        }
        for line in lines.iter().filter(is("job ")) {
            world.job(line);
        }
        world.unsettled = lines.contains(&"unsettled");
        let expected = lines
            .iter()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        (world, expected.map(ToString::to_string).collect())
    }

    pub fn class(&mut self, name: &str) -> u32 {
        let known = self.classes.iter().position(|class| class == name);
        known.unwrap_or_else(|| {
            self.classes.push(name.to_owned());
            self.classes.len() - 1
        }) as u32
    }

    fn host(&mut self, line: &str) {
        let (head, devices) = line["host ".len()..]
            .split_once(':')
            .expect("host NAME: devices");
        let mut words = head.split_whitespace();
        let mut host = Host {
            name: words.next().expect("name").to_owned(),
            ..Host::default()
        };
        for word in words {
            match word {
                "down" => host.down = true,
                "drained" => host.drained = true,
                label => {
                    host.labels.insert(label.trim_start_matches('+').to_owned());
                }
            }
        }
        for device in devices.split(',').filter(|text| !text.trim().is_empty()) {
            let device = self.device(device);
            host.devices.push(device);
        }
        self.hosts.push(host);
    }

    fn device(&mut self, text: &str) -> Device {
        let mut words = text.split_whitespace();
        let id = words.next().expect("device").to_owned();
        let class = self.class(id.split('.').next().unwrap_or(&id));
        let usable: u64 = words
            .next()
            .and_then(|word| word.parse().ok())
            .expect("usable MiB");
        let mut device = Device {
            cpu: id.starts_with("cpu"),
            id,
            class,
            spills: false,
            usable: usable * MIB,
            held: 0,
            reserved: 0,
            active: 0,
            slots: 1,
            sick: false,
            speed: 1.0,
            until: None,
        };
        while let Some(word) = words.next() {
            let mut number = || {
                words
                    .next()
                    .and_then(|word| word.parse::<u64>().ok())
                    .expect(word)
            };
            match word {
                "spills" => device.spills = true,
                "sick" => device.sick = true,
                "held" => device.held = number() * MIB,
                "used" => device.reserved = number() * MIB,
                "active" => device.active = number() as u32,
                "slots" => device.slots = number() as u32,
                "speed" => device.speed = number() as f64,
                "until" => device.until = Some(number()),
                other => panic!("`{other}` of a device"),
            }
        }
        device
    }

    pub fn need(&mut self, text: &str) -> u32 {
        if let Some(known) = self.needs.get(text) {
            return *known;
        }
        let mut row = vec![None; self.classes.len()];
        for part in text.split(',') {
            match part.split_once('=') {
                None => row.fill(size(part)),
                Some((class, part)) => {
                    let class = self.class(class) as usize;
                    row.resize(row.len().max(class + 1), None);
                    row[class] = size(part);
                }
            }
        }
        self.estimates.push(row);
        let id = self.estimates.len() as u32 - 1;
        self.needs.insert(text.to_owned(), id);
        id
    }

    fn group(&mut self, line: &str) {
        let (head, arms) = line.split_once(':').expect("group N: arms");
        let pinned = head
            .split_once("pin ")
            .map(|(_, name)| name.trim().to_owned());
        let mut arm = |text: &str| Arm {
            need: NeedId(self.need(text.trim_start_matches('!'))),
            settled: text.starts_with('!'),
        };
        let arms: Vec<Arm> = arms.split_whitespace().map(&mut arm).collect();
        self.groups.push((pinned, arms));
    }

    fn job(&mut self, line: &str) {
        let mut words = line["job ".len()..].split_whitespace();
        let name = words.next().expect("job");
        let need = self.need(words.next().expect("size"));
        let mut job = Job::new(key(name), need);
        while let Some(word) = words.next() {
            let mut next = || {
                words
                    .next()
                    .unwrap_or_else(|| panic!("`{word}` of what?"))
                    .to_owned()
            };
            match word {
                "prio" => job.priority = next().parse().expect("priority"),
                "next" => job.next = Some(self.need(&next())),
                "rehearse" => job.probe = Some(ProbeMode::Rehearse),
                "card" => job.probe = Some(ProbeMode::Card),
                "both" => job.probe = Some(ProbeMode::Both),
                "none" => job.probe = Some(ProbeMode::None),
                "whole" => job.whole = true,
                "cpu" => job.device = Some(DeviceKind::Cpu),
                "gpu" => job.device = Some(DeviceKind::Gpu),
                "gpus" => job.gpus = next().parse().expect("gpus"),
                "host" => job.host = Some(next()),
                "stay" => job.stay = Some(next()),
                "prefer" => job.prefer = Some(next()),
                "avoid" => {
                    let place = next();
                    let (host, device) = place.split_once('/').expect("host/device");
                    job.avoid.push((host.to_owned(), device.to_owned()));
                }
                "group" => job.group = Some(next().parse().expect("group")),
                "rehearsed" => job.rehearsal = Some(next()),
                "after" => job.after = next().parse().expect("after"),
                label => job.require.push(label.trim_start_matches('+').to_owned()),
            }
        }
        self.jobs.push(job);
    }

    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            hosts: self.hosts.iter().map(|host| self.host_view(host)).collect(),
            jobs: self.jobs.iter().map(job_view).collect(),
            estimates: &self.estimates,
            groups: self.groups.iter().map(group_view).collect(),
            fleet_settled: !self.unsettled,
        }
    }

    fn host_view<'w>(&'w self, host: &'w Host) -> HostView<'w> {
        let device = |device: &'w Device| DeviceView {
            id: &device.id,
            name: device.id.split('.').next().unwrap_or_default(),
            kind: if device.cpu {
                DeviceKind::Cpu
            } else {
                DeviceKind::Gpu
            },
            class: ClassId(device.class),
            class_name: &self.classes[device.class as usize],
            spills: device.spills,
            load: DeviceLoad {
                usable: Bytes(device.usable),
                held: Bytes(device.held),
            },
            reserved: Bytes(device.reserved),
            active: device.active,
            slots: device.slots,
            quarantine: device.sick.then_some("two faults"),
            missing: None,
            owner: None,
            holders: "",
            speed: device.speed,
            busy_until_ms: device.until,
        };
        HostView {
            name: &host.name,
            generation: 1,
            up: !host.down,
            drained: host.drained,
            labels: &host.labels,
            packages_unknown: false,
            class: "class",
            devices: host.devices.iter().map(device).collect(),
        }
    }

    /// One line for each job, sorted.
    pub fn outcome(&self, now_ms: u64) -> Vec<String> {
        self.render(&decide(&self.snapshot(), now_ms))
    }

    pub fn render(&self, decision: &Decision) -> Vec<String> {
        let name = |key: &JobKey| format!("{}/{}/{}", key.sweep, key.trial, key.kind);
        let mut lines = Vec::new();
        for choice in &decision.placements {
            let host = &self.hosts[choice.host];
            let ids: Vec<&str> = choice
                .devices
                .iter()
                .map(|at| host.devices[*at].id.as_str())
                .collect();
            let (verdict, grant) = (choice.verdict.as_str(), choice.grant.0 / MIB);
            lines.push(format!(
                "{} -> {}/{} {verdict} {grant}",
                name(&choice.job),
                host.name,
                ids.join("+")
            ));
        }
        for ruling in &decision.rulings {
            lines.push(format!(
                "{} {}: {}",
                name(&ruling.job),
                ruling.outcome,
                ruling.reason
            ));
        }
        for (job, reason) in &decision.waiting {
            lines.push(format!("{} waits {}: {reason}", name(job), reason.code()));
        }
        lines.sort();
        lines
    }
}

fn job_view(job: &Job) -> JobView<'_> {
    let rehearsal = |word: &'_ String| match word.strip_prefix('?') {
        Some(_) => Rehearsal::Looking(&job.rehearsal.as_deref().unwrap_or_default()[1..]),
        None if word == "queued" => Rehearsal::Queued,
        None => Rehearsal::Running(job.rehearsal.as_deref().unwrap_or_default()),
    };
    JobView {
        rehearsal: job.rehearsal.as_ref().map(rehearsal),
        key: job.key,
        priority: job.priority,
        need: NeedId(job.need),
        next_need: job.next.map(NeedId),
        probe: job.probe,
        whole_device: job.whole,
        require: &job.require,
        device: job.device,
        gpus: job.gpus,
        host: job.host.as_deref(),
        stay: job.stay.as_deref(),
        prefer: job.prefer.as_deref(),
        avoid: &job.avoid,
        group: job.group.map(GroupId),
        after_ms: job.after,
    }
}

fn group_view((pinned, arms): &(Option<String>, Vec<Arm>)) -> GroupView<'_> {
    GroupView {
        pinned: pinned.as_deref(),
        arms: arms.clone(),
    }
}

/// Decides at 1,000 ms, and wants every expected line as the beginning of the line of its job.
#[track_caller]
pub fn case(text: &str) {
    let (world, expected) = World::read(text);
    assert_eq!(
        expected.len(),
        world.jobs.len(),
        "each job needs its expected line"
    );
    let lines = world.outcome(1_000);
    for wanted in &expected {
        let found = lines.iter().any(|line| line.starts_with(wanted.as_str()));
        assert!(found, "expected `{wanted}` of\n{}", lines.join("\n"));
    }
}
