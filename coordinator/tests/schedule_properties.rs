//! What holds of every decision, whatever the snapshot: nothing over-granted, no job lost, the same answer in any
//! order, comparisons on one class, nothing started where it cannot fit.

mod schedule_world;

use std::collections::{BTreeMap, BTreeSet};

use coordinator::schedule::{Arm, Decision, JobKey, NeedId, decide, explain};
use jobs::Kind;
use jobs::spec::ProbeMode;
use proptest::prelude::*;
use schedule_world::{Device, Host, Job, MIB, World, sizing};
use vram::VerdictKind;

const CLASSES: u32 = 3;
const NEEDS: u32 = 8;
const GROUPS: u32 = 3;

fn device() -> impl Strategy<Value = (u32, [u64; 4], u32, u32, [bool; 3], u64)> {
    let sizes = [1_000..16_000_u64, 0..2_000, 0..6_000, 0..9_000];
    let flags = [
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
    ];
    (0..CLASSES, sizes, 1..4_u32, 0..3_u32, flags, 0..5_u64)
}

fn host() -> impl Strategy<Value = Host> {
    let devices = prop::collection::vec(device(), 0..4);
    let labels = prop::collection::btree_set("[ab]", 0..2);
    (
        devices,
        labels,
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(devices, labels, down, drained)| Host {
            name: String::new(),
            down,
            drained,
            labels,
            devices: devices.into_iter().enumerate().map(one_device).collect(),
        })
}

type Raw = (u32, [u64; 4], u32, u32, [bool; 3], u64);

/// What is granted already never exceeds what is there.
fn one_device(
    (at, (class, [usable, held, used, until], slots, active, [spills, sick, cpu], speed)): (
        usize,
        Raw,
    ),
) -> Device {
    let active = active.min(slots);
    let room = usable.saturating_sub(held);
    Device {
        id: format!("d{at}"),
        class,
        cpu,
        spills,
        usable: usable * MIB,
        held: held * MIB,
        reserved: if active > 0 { used.min(room) * MIB } else { 0 },
        active,
        slots,
        sick,
        speed: speed as f64,
        until: (active > 0).then_some(until),
    }
}

type RawJob = (
    (u64, u8, i32, u32),
    (u8, u32, bool, u8),
    (Option<u8>, Option<u8>, Option<u8>),
    (Option<u32>, bool, u64),
);

fn raw_job() -> impl Strategy<Value = RawJob> {
    let rare = |range: std::ops::Range<u8>| prop::option::weighted(0.2, range);
    (
        (1..12_u64, 0..3_u8, 0..2_i32, 0..NEEDS),
        (0..4_u8, 1..3_u32, prop::bool::weighted(0.2), 0..3_u8),
        (rare(0..4), rare(0..4), rare(0..4)),
        (
            prop::option::weighted(0.5, 0..GROUPS),
            prop::bool::weighted(0.2),
            0..2_000_u64,
        ),
    )
}

fn one_job(trial: usize, raw: RawJob) -> Job {
    let (
        (sweep, kind, priority, need),
        (mode, gpus, whole, device),
        (pin, stay, avoid),
        (group, label, after),
    ) = raw;
    let kind = Kind::ALL[usize::from(kind)];
    let key = JobKey {
        sweep,
        trial: trial as u32 + 1,
        kind,
    };
    let host = |at: u8| format!("h{at}");
    let modes = [
        ProbeMode::Rehearse,
        ProbeMode::Card,
        ProbeMode::Both,
        ProbeMode::None,
    ];
    let mut job = Job::new(key, need);
    job.priority = priority;
    job.gpus = gpus;
    job.group = group;
    job.after = after;
    job.host = pin.map(host);
    job.avoid = avoid
        .map(|at| (host(at), "d0".to_owned()))
        .into_iter()
        .collect();
    job.require = label.then(|| "a".to_owned()).into_iter().collect();
    job.device = [
        None,
        Some(jobs::spec::DeviceKind::Gpu),
        Some(jobs::spec::DeviceKind::Cpu),
    ][usize::from(device)];
    if kind == Kind::Probe {
        job.probe = Some(modes[usize::from(mode)]);
        job.next = Some((need + u32::from(mode)) % NEEDS);
    } else {
        job.whole = whole;
        job.stay = stay.map(host);
    }
    job
}

fn world() -> impl Strategy<Value = World> {
    let size = prop::option::weighted(
        0.85,
        (500..16_000_u64, 0..800_u64, prop::option::of(0.1..9.0)),
    );
    let row = prop::collection::vec(size, CLASSES as usize);
    let rows = prop::collection::vec(row, NEEDS as usize);
    let arm = (0..NEEDS, prop::bool::weighted(0.2));
    let group = (
        prop::option::weighted(0.3, 0..CLASSES),
        prop::collection::vec(arm, 1..4),
    );
    let groups = prop::collection::vec(group, GROUPS as usize);
    let jobs = prop::collection::vec(raw_job(), 0..25);
    (
        prop::collection::vec(host(), 0..5),
        jobs,
        rows,
        groups,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(mut hosts, jobs, rows, groups, unsettled)| {
            for (at, host) in hosts.iter_mut().enumerate() {
                host.name = format!("h{at}");
            }
            let class = |at: u32| format!("c{at}");
            let arm = |(need, settled)| Arm {
                need: NeedId(need),
                settled,
            };
            let size = |cell: Option<(u64, u64, Option<f64>)>| {
                cell.map(|(need, band, step)| sizing(need, band, step))
            };
            World {
                hosts,
                jobs: jobs
                    .into_iter()
                    .enumerate()
                    .map(|(at, raw)| one_job(at, raw))
                    .collect(),
                groups: groups
                    .into_iter()
                    .map(|(pin, arms)| (pin.map(class), arms.into_iter().map(arm).collect()))
                    .collect(),
                estimates: rows
                    .into_iter()
                    .map(|row| row.into_iter().map(size).collect())
                    .collect(),
                classes: (0..CLASSES).map(class).collect(),
                unsettled,
                ..World::default()
            }
        })
}

fn job<'w>(world: &'w World, key: &JobKey) -> &'w Job {
    world
        .jobs
        .iter()
        .find(|job| job.key == *key)
        .expect("a job of the snapshot")
}

fn nothing_is_over_granted(world: &World, decision: &Decision) {
    let mut granted: BTreeMap<(usize, usize), (u64, u32)> = BTreeMap::new();
    for choice in &decision.placements {
        let distinct: BTreeSet<_> = choice.devices.iter().collect();
        assert_eq!(distinct.len(), job(world, &choice.job).gpus as usize);
        for at in &choice.devices {
            let (bytes, count) = granted.entry((choice.host, *at)).or_default();
            *bytes += choice.grant.0;
            *count += 1;
        }
    }
    for ((host, device), (bytes, count)) in granted {
        let host = &world.hosts[host];
        let device = &host.devices[device];
        assert!(!host.down && !host.drained && !device.sick);
        assert!(bytes + device.reserved + device.held <= device.usable);
        assert!(count + device.active <= device.slots);
    }
}

fn nothing_starts_where_it_cannot_fit(world: &World, decision: &Decision) {
    for choice in &decision.placements {
        let job = job(world, &choice.job);
        let measures = job.probe.is_some() || job.whole;
        assert!(
            choice.verdict == VerdictKind::Fits
                || (measures && choice.verdict == VerdictKind::Uncertain)
        );
        for at in &choice.devices {
            let device = &world.hosts[choice.host].devices[*at];
            let size = world.estimates[job.need as usize][device.class as usize];
            let least = size.map_or(0, |size| size.need.saturating_sub(size.band).0);
            assert!(least <= choice.grant.0);
            if choice.verdict == VerdictKind::Fits {
                assert!(size.is_some_and(|size| size.need.0 + size.band.0 <= choice.grant.0));
            } else {
                assert_eq!((device.active, device.reserved), (0, 0));
                let here = |other: &&coordinator::schedule::Choice| {
                    other.host == choice.host && other.devices.contains(at)
                };
                assert_eq!(decision.placements.iter().filter(here).count(), 1);
            }
        }
    }
}

fn comparisons_are_not_split(world: &World, decision: &Decision) {
    let mut classes: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for choice in decision
        .placements
        .iter()
        .filter(|choice| choice.job.kind == Kind::Train)
    {
        let Some(group) = job(world, &choice.job).group else {
            continue;
        };
        let devices = choice
            .devices
            .iter()
            .map(|at| &world.hosts[choice.host].devices[*at]);
        let names = devices.map(|device| world.classes[device.class as usize].as_str());
        classes.entry(group).or_default().extend(names);
    }
    for (group, names) in classes {
        let pinned = world.groups[group as usize].0.as_deref();
        let chosen = decision
            .pins
            .iter()
            .find(|(id, _)| id.0 == group)
            .map(|(_, name)| name.as_str());
        let class = pinned
            .or(chosen)
            .expect("a comparison that trains has a class");
        assert!(pinned.is_none() || chosen.is_none(), "pinned twice");
        assert_eq!(names, BTreeSet::from([class]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_decision_is_safe(world in world()) {
        let decision = decide(&world.snapshot(), 1_000);
        nothing_is_over_granted(&world, &decision);
        nothing_starts_where_it_cannot_fit(&world, &decision);
        comparisons_are_not_split(&world, &decision);
    }

    #[test]
    fn every_job_has_exactly_one_answer(world in world()) {
        let decision = decide(&world.snapshot(), 1_000);
        let placed = decision.placements.iter().map(|choice| choice.job);
        let ruled = decision.rulings.iter().map(|ruling| ruling.job);
        let waiting = decision.waiting.iter().map(|(key, _)| *key);
        let mut answered: Vec<JobKey> = placed.chain(ruled).chain(waiting).collect();
        answered.sort();
        let mut asked: Vec<JobKey> = world.jobs.iter().map(|job| job.key).collect();
        asked.sort();
        prop_assert_eq!(answered, asked);
    }

    #[test]
    fn the_order_of_the_snapshot_is_nothing(world in world(), seed in any::<u64>()) {
        let mut shuffled = world.clone();
        let turn = |length: usize| if length == 0 { 0 } else { seed as usize % length };
        shuffled.jobs.rotate_left(turn(world.jobs.len()));
        shuffled.jobs.reverse();
        shuffled.hosts.rotate_left(turn(world.hosts.len()));
        for host in &mut shuffled.hosts {
            host.devices.reverse();
        }
        prop_assert_eq!(world.outcome(1_000), shuffled.outcome(1_000));
        let (one, other) = (decide(&world.snapshot(), 1_000), decide(&shuffled.snapshot(), 1_000));
        prop_assert_eq!(one.pins, other.pins);
    }

    #[test]
    fn what_was_placed_first_is_explained_as_open(world in world()) {
        let snapshot = world.snapshot();
        let decision = decide(&snapshot, 1_000);
        if let Some(choice) = decision.placements.first() {
            let rows = explain(&snapshot, choice.job);
            for at in &choice.devices {
                let row = rows.iter().find(|row| (row.host, row.device) == (choice.host, *at));
                prop_assert!(row.is_some_and(|row| row.reason.is_none()), "{:?}", row);
            }
        }
    }

    /// What is infeasible would not start on an empty, healthy fleet either.
    #[test]
    fn infeasible_means_never(world in world()) {
        let decision = decide(&world.snapshot(), 1_000);
        let never: BTreeSet<JobKey> = decision
            .rulings
            .iter()
            .filter(|ruling| ruling.outcome == jobs::Outcome::Infeasible)
            .map(|ruling| ruling.job)
            .collect();
        let mut empty = world.clone();
        for host in &mut empty.hosts {
            (host.down, host.drained) = (false, false);
            for device in &mut host.devices {
                (device.held, device.reserved, device.active, device.sick) = (0, 0, 0, false);
            }
        }
        empty.jobs.retain(|job| never.contains(&job.key));
        let again = decide(&empty.snapshot(), 1_000);
        prop_assert!(again.placements.is_empty(), "{:?}", again.placements);
    }

    /// No starvation at rest: an idle fleet of which nothing is in the way always starts something, if anything may.
    #[test]
    fn an_idle_fleet_does_not_wait_for_itself(world in world()) {
        let mut idle = world.clone();
        for host in &mut idle.hosts {
            (host.down, host.drained) = (false, false);
            for device in &mut host.devices {
                (device.held, device.reserved, device.active, device.sick) = (0, 0, 0, false);
            }
        }
        let decision = decide(&idle.snapshot(), 5_000);
        let blocked = decision.waiting.iter().any(|(_, reason)| {
            matches!(reason.code(), "busy" | "reserved" | "not_alone" | "kept_for" | "waits_for_arms")
        });
        prop_assert!(!blocked || !decision.placements.is_empty() || unmeasured_elsewhere(&decision), "{:?}", decision);
    }
}

/// Arms whose probes are not in the snapshot: somebody else is to measure them.
fn unmeasured_elsewhere(decision: &Decision) -> bool {
    decision
        .waiting
        .iter()
        .all(|(_, reason)| reason.code() != "busy" && reason.code() != "kept_for")
}
