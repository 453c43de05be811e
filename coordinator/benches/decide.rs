//! How long one scheduling round takes: 10,000 queued jobs, 100 hosts of two devices. Four queues: few needs, all
//! needs distinct, every device busy, and 5,000 comparisons of two arms. Aim: under 50 ms each.

#[path = "../tests/schedule_world/mod.rs"]
mod schedule_world;

use std::hint::black_box;

use coordinator::schedule::{Arm, JobKey, NeedId, decide};
use criterion::{Criterion, criterion_group, criterion_main};
use jobs::Kind;
use schedule_world::{Device, Host, Job, MIB, World, sizing};

const HOSTS: u32 = 100;
const JOBS: u32 = 10_000;
const CLASSES: u32 = 8;

fn device(host: u32, at: u32, busy: bool) -> Device {
    let class = (host * 2 + at) % CLASSES;
    let usable = u64::from(7_800 + class * 2_300) * MIB;
    Device {
        id: format!("gpu{at}"),
        class,
        cpu: false,
        spills: class == 3,
        usable,
        held: u64::from(at) * 300 * MIB,
        reserved: if busy { usable / 2 } else { 0 },
        active: u32::from(busy),
        slots: 1,
        sick: false,
        speed: f64::from(1 + class),
        until: busy.then_some(1_000),
    }
}

/// `needs` different sizes, `sweeps` of equal length.
fn world(needs: u32, sweeps: u32, busy: bool) -> World {
    let host = |at: u32| Host {
        name: format!("host-{at:03}"),
        labels: ["dataset:2026-09-21".to_owned()].into(),
        devices: (0..2)
            .map(|device_at| device(at, device_at, busy))
            .collect(),
        ..Host::default()
    };
    let row = |need: u32| {
        let mib = 3_000 + u64::from(need) * 22_000 / u64::from(needs);
        (0..CLASSES)
            .map(|class| Some(sizing(mib + u64::from(class), 150, None)))
            .collect()
    };
    let job = |at: u32| {
        let key = JobKey {
            sweep: u64::from(1 + at * sweeps / JOBS),
            trial: 1 + at,
            kind: Kind::Train,
        };
        let mut job = Job::new(key, at % needs);
        job.require = vec!["dataset:2026-09-21".to_owned()];
        job
    };
    World {
        hosts: (0..HOSTS).map(host).collect(),
        jobs: (0..JOBS).map(job).collect(),
        estimates: (0..needs).map(row).collect(),
        classes: (0..CLASSES).map(|class| format!("class {class}")).collect(),
        ..World::default()
    }
}

/// Every two jobs are the arms of one comparison.
fn compared() -> World {
    let mut world = world(JOBS, 10, false);
    let arm = |need: u32| Arm {
        need: NeedId(need),
        settled: false,
    };
    world.groups = (0..JOBS / 2)
        .map(|group| (None, vec![arm(group * 2), arm(group * 2 + 1)]))
        .collect();
    for (at, job) in (0..).zip(&mut world.jobs) {
        job.group = Some(at / 2);
    }
    world
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide");
    group.sample_size(20);
    let cases = [
        ("40 needs", world(40, 10, false)),
        ("40 needs, all devices busy", world(40, 10, true)),
        ("10000 needs", world(JOBS, 10, false)),
        ("10000 needs, all devices busy", world(JOBS, 10, true)),
        ("5000 comparisons", compared()),
    ];
    for (name, world) in &cases {
        let snapshot = world.snapshot();
        group.bench_function(*name, |run| {
            run.iter(|| decide(black_box(&snapshot), 1_000))
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
