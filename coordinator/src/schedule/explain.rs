//! One job against every device: the verdict with what is free now, and what stands against it. What a round would
//! place before it is left out, so this says where it could go, not whose turn it is.

use super::compare::Gate;
use super::filter::{admit, tell};
use super::fleet::{Device, Fleet};
use super::queue::Queue;
use super::site::Wish;
use super::{Explained, JobKey, Snapshot, WaitReason};

/// Empty if the job is not in the snapshot. In the order of the fleet: host name, device id.
#[must_use]
pub fn explain(snapshot: &Snapshot<'_>, job: JobKey) -> Vec<Explained> {
    let Some(view) = snapshot.jobs.iter().find(|view| view.key == job) else {
        return Vec::new();
    };
    let fleet = Fleet::of(snapshot);
    let queue = Queue::of(snapshot, &fleet);
    let Some(entry) = queue.entries.iter().find(|entry| entry.key == job) else {
        return Vec::new();
    };
    let shape = &queue.shapes[entry.shape];
    let loads = fleet.loads();
    let limited = queue.outlooks[entry.shape].families.as_deref();
    let (families, arms) = match queue.comparisons.gate(shape) {
        Gate::Choose(families) => (Some(families), None),
        Gate::Wait {
            unsettled,
            uncertain,
        } => (
            None,
            Some(WaitReason::WaitsForArms {
                unsettled,
                uncertain,
            }),
        ),
        Gate::Open | Gate::Pinned(_) => (limited, None),
    };
    let class = families
        .and_then(|some| some.first())
        .and_then(|at| fleet.families.get(*at as usize));
    let wish = Wish::of(view);
    let one = |(device, load): (&Device<'_>, _)| {
        let lacks = wish.lacks(device.on).or_else(|| {
            let kind = WaitReason::NoDevice { kind: wish.device };
            (!wish.takes(device.view.kind)).then_some(kind)
        });
        let blocked = || admit(shape, families, device, load).err();
        let reason = lacks
            .or_else(|| blocked().map(|block| tell(block, shape, device, load, class.copied())))
            .or_else(|| arms.clone());
        let sizing = shape.telling(device.class);
        let left = device.free.saturating_sub(device.view.reserved);
        Explained {
            host: device.host,
            device: device.device,
            verdict: shape.size(device.class).judge(device.view.spills, left),
            need: sizing.map(|known| known.need),
            band: sizing.map(|known| known.band),
            source: sizing.map_or(vram::Source::Unknown, |known| known.source),
            usable: device.usable,
            held: device.view.load.held,
            reserved: device.view.reserved,
            expected_seconds: shape
                .sizing(device.class)
                .and_then(|known| known.step_seconds),
            reason,
        }
    };
    fleet.devices.iter().zip(&loads).map(one).collect()
}
