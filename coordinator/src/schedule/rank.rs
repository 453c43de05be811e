//! Which of the devices that could take a job now: the one where it ends first, unless a job behind it in the queue
//! has less choice. Floats appear here only, where they choose between devices that are all feasible.

use std::cmp::Ordering;

use vram::Bytes;

use super::filter::{Opening, admit};
use super::fleet::{Device, Fleet, Load};
use super::queue::{Queue, Shape};

/// The host with the checkpoint wins if it is at most this much slower.
const PREFERRED: f64 = 0.8;

/// A device that could take the job now.
pub(super) struct Bid {
    /// Index into the fleet's devices.
    pub at: usize,
    pub opening: Opening,
    /// Somebody with less choice waits for it.
    pub kept_back: bool,
    /// Expected time, in a unit that is the same for all bids of one job.
    pub pace: f64,
    pub usable: Bytes,
}

impl Bid {
    /// Best first. Of equally fast devices the smallest that is large enough; then the fleet's own order.
    pub fn order(&self, other: &Self) -> Ordering {
        let by_time = self
            .kept_back
            .cmp(&other.kept_back)
            .then(self.pace.total_cmp(&other.pace));
        by_time
            .then(self.usable.cmp(&other.usable))
            .then(self.at.cmp(&other.at))
    }
}

/// How long things take on each class for one shape.
pub(super) struct Paces<'q, 's> {
    shape: &'q Shape<'s>,
    /// One job's work, in steps of a device of speed 1.
    work: f64,
}

impl<'q, 's> Paces<'q, 's> {
    pub fn of(shape: &'q Shape<'s>, fleet: &Fleet<'_>) -> Self {
        let measured = |(class, speed): (usize, &f64)| {
            let step = shape.sizing(class)?.step_seconds?;
            (*speed > 0.0).then_some(step * speed)
        };
        let work = fleet
            .speeds
            .iter()
            .enumerate()
            .find_map(measured)
            .unwrap_or(1.0);
        Self { shape, work }
    }

    /// Measured where it was measured, else by the device's speed; slower the more attempts share the device.
    pub fn on(&self, device: &Device<'_>, load: &Load) -> f64 {
        let known = self
            .shape
            .sizing(device.class)
            .and_then(|sizing| sizing.step_seconds);
        let speed = if device.view.speed > 0.0 {
            device.view.speed
        } else {
            1.0
        };
        let alone = known.unwrap_or(self.work / speed);
        let shared = alone * f64::from(load.active + 1);
        let preferred = self.shape.prefer == Some(device.on.name);
        if preferred {
            shared * PREFERRED
        } else {
            shared
        }
    }
}

/// For each bucket of the queue and each device: the least choice that a job of a later bucket has, if it could start
/// there now. Within one bucket the queue's own order sees to it.
pub(super) struct Wanted {
    by_bucket: Vec<Vec<u32>>,
}

impl Wanted {
    pub fn of(queue: &Queue<'_>, fleet: &Fleet<'_>, loads: &[Load], now_ms: u64) -> Self {
        let buckets = queue.entries.last().map_or(0, |entry| entry.bucket + 1);
        let nobody = vec![u32::MAX; fleet.devices.len()];
        let mut by_bucket = vec![nobody; buckets];
        let later = queue
            .entries
            .iter()
            .filter(|entry| entry.bucket > 0 && entry.after_ms <= now_ms);
        let open =
            |(device, load): (&Device<'_>, &Load)| device.live && load.active < device.view.slots;
        let open: Vec<bool> = fleet.devices.iter().zip(loads).map(open).collect();
        let mut seen = vec![usize::MAX; queue.shapes.len()];
        for entry in later {
            if std::mem::replace(&mut seen[entry.shape], entry.bucket) == entry.bucket {
                continue;
            }
            let (shape, outlook) = (&queue.shapes[entry.shape], &queue.outlooks[entry.shape]);
            for at in queue
                .devices(shape)
                .iter()
                .map(|at| *at as usize)
                .filter(|at| open[*at])
            {
                let wanted = &mut by_bucket[entry.bucket - 1][at];
                let families = outlook.families.as_deref();
                if outlook.breadth < *wanted
                    && admit(shape, families, &fleet.devices[at], &loads[at]).is_ok()
                {
                    *wanted = outlook.breadth;
                }
            }
        }
        for bucket in (1..buckets).rev() {
            let (earlier, later) = by_bucket.split_at_mut(bucket);
            for (one, other) in earlier[bucket - 1].iter_mut().zip(&later[0]) {
                *one = (*one).min(*other);
            }
        }
        Self { by_bucket }
    }

    /// The least choice of anybody behind this bucket who could use the device.
    pub fn least(&self, bucket: usize, at: usize) -> u32 {
        self.by_bucket[bucket][at]
    }
}
