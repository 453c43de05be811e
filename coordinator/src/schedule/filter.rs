//! May this job start on this device now? The one answer, for deciding and for explaining alike: an opening with its
//! grant, or the first thing that stands against it. Ranks nothing.

use vram::{Bytes, VerdictKind};

use super::fleet::{Device, Load};
use super::queue::Shape;
use super::reason::WaitReason;
use super::size::Size;

/// Room for one job on one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opening {
    pub grant: Bytes,
    pub verdict: VerdictKind,
    /// Takes the device whole, because its size is not certain.
    pub alone: bool,
}

/// What stands against a device, the nearest to being lifted first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Block {
    Kept,
    Reserved,
    NotAlone,
    Busy,
    PackagesUnknown,
    HeldByOthers,
    Owner,
    Missing,
    Quarantined,
    Drained,
    Silent,
    OtherClass,
    Uncertain,
    TooLarge,
    Avoided,
}

impl Block {
    /// Only our own attempts stand against it: it is lifted when they end.
    pub fn is_ours(self) -> bool {
        self <= Self::Busy
    }
}

/// Good enough to be placed, if it has the device for itself.
pub(super) fn acceptable(shape: &Shape<'_>, verdict: VerdictKind) -> bool {
    verdict == VerdictKind::Fits || (shape.measures && verdict == VerdictKind::Uncertain)
}

/// The verdict with nothing held and nothing reserved.
pub(super) fn when_empty(shape: &Shape<'_>, device: &Device<'_>) -> VerdictKind {
    shape
        .size(device.class)
        .judge(device.view.spills, device.usable)
}

/// What its class as a whole says of a device: what size the job has there, and whether it may go there at all.
pub(super) fn admit_class(
    shape: &Shape<'_>,
    families: Option<&[u32]>,
    family: u32,
    size: Size,
    usable: Bytes,
) -> Result<(), Block> {
    let empty = size.judge(false, usable);
    if !acceptable(shape, empty) {
        let uncertain = empty == VerdictKind::Uncertain;
        return Err(if uncertain {
            Block::Uncertain
        } else {
            Block::TooLarge
        });
    }
    let barred = families.is_some_and(|allowed| !allowed.contains(&family));
    if barred {
        Err(Block::OtherClass)
    } else {
        Ok(())
    }
}

pub(super) fn admit(
    shape: &Shape<'_>,
    families: Option<&[u32]>,
    device: &Device<'_>,
    load: &Load,
) -> Result<Opening, Block> {
    let size = shape.size(device.class);
    if shape.avoids(device) {
        return Err(Block::Avoided);
    }
    admit_class(shape, families, device.family, size, device.usable)?;
    admit_device(shape, size, device, load)
}

/// The rest of the answer, of a device whose class is admitted.
pub(super) fn admit_device(
    shape: &Shape<'_>,
    size: Size,
    device: &Device<'_>,
    load: &Load,
) -> Result<Opening, Block> {
    if shape.avoids(device) {
        return Err(Block::Avoided);
    }
    if size.least > device.usable {
        return Err(Block::TooLarge);
    }
    if !device.live {
        return Err(standing(device));
    }
    if shape.packaged && device.on.packages_unknown {
        return Err(Block::PackagesUnknown);
    }
    let alone = size.judge(false, device.free);
    if !acceptable(shape, alone) || device.free == Bytes::ZERO {
        return Err(too_little(shape, size, device));
    }
    if load.active >= device.view.slots {
        return Err(Block::Busy);
    }
    let left = device.free.saturating_sub(load.reserved);
    let whole = size.most > left;
    if whole && alone == VerdictKind::Fits {
        return Err(Block::Reserved);
    }
    if whole && (load.active > 0 || load.reserved > Bytes::ZERO) {
        return Err(Block::NotAlone);
    }
    if load.kept.is_some() {
        return Err(Block::Kept);
    }
    Ok(Opening {
        grant: if whole { left } else { size.most },
        verdict: if whole { alone } else { VerdictKind::Fits },
        alone: whole,
    })
}

fn standing(device: &Device<'_>) -> Block {
    if !device.on.up {
        Block::Silent
    } else if device.on.drained {
        Block::Drained
    } else if device.view.missing.is_some() {
        Block::Missing
    } else if device.view.owner.is_some() {
        Block::Owner
    } else {
        Block::Quarantined
    }
}

/// Others hold the room, or it was never there.
fn too_little(shape: &Shape<'_>, size: Size, device: &Device<'_>) -> Block {
    match size.judge(false, device.usable) {
        verdict if acceptable(shape, verdict) => Block::HeldByOthers,
        VerdictKind::Uncertain => Block::Uncertain,
        _ => Block::TooLarge,
    }
}

/// The block in words and numbers.
pub(super) fn tell(
    block: Block,
    shape: &Shape<'_>,
    device: &Device<'_>,
    load: &Load,
    class: Option<&str>,
) -> WaitReason {
    let (host, name) = (device.on.name.to_owned(), device.view.name.to_owned());
    match block {
        Block::Silent => WaitReason::HostSilent { host },
        Block::Drained => WaitReason::Drained { host },
        Block::Quarantined => WaitReason::Quarantined {
            host,
            device: name,
            why: device.view.quarantine.unwrap_or_default().to_owned(),
        },
        Block::Missing => WaitReason::Missing {
            host,
            device: name,
            why: device.view.missing.unwrap_or_default().to_owned(),
        },
        Block::PackagesUnknown => WaitReason::PackagesUnknown { host },
        Block::Owner => WaitReason::OwnerPresent {
            host,
            device: name,
            why: device.view.owner.unwrap_or_default().to_owned(),
        },
        Block::Avoided => WaitReason::Avoided { host, device: name },
        Block::Busy => WaitReason::Busy {
            host,
            device: name,
            active: load.active,
            until_ms: device.view.busy_until_ms,
        },
        Block::NotAlone => WaitReason::NotAlone {
            host,
            device: name,
            active: load.active,
        },
        Block::Kept => match load.kept {
            Some(job) => WaitReason::KeptFor {
                host,
                device: name,
                job,
            },
            None => WaitReason::FleetSettling,
        },
        Block::OtherClass => WaitReason::ComparisonElsewhere {
            class: class.unwrap_or("another class of device").to_owned(),
        },
        sized => tell_sized(sized, shape, device, load),
    }
}

fn tell_sized(block: Block, shape: &Shape<'_>, device: &Device<'_>, load: &Load) -> WaitReason {
    let (host, name) = (device.on.name.to_owned(), device.view.name.to_owned());
    let Some(known) = shape.telling(device.class) else {
        return WaitReason::NeedsProbe { host, device: name };
    };
    let (need, band, device_name) = (known.need, known.band, name);
    match block {
        Block::HeldByOthers => WaitReason::HeldByOthers {
            host,
            device: device_name,
            need,
            band,
            usable: device.usable,
            held: device.view.load.held,
            holders: device.view.holders.to_owned(),
        },
        Block::Reserved => WaitReason::Reserved {
            host,
            device: device_name,
            need,
            band,
            room: device.free.saturating_sub(load.reserved),
            reserved: load.reserved,
        },
        Block::Uncertain => WaitReason::Uncertain {
            host,
            device: device_name,
            need,
            band,
            room: device.usable,
        },
        _ => WaitReason::TooLarge {
            host,
            device: device_name,
            need,
            band,
            room: device.usable,
        },
    }
}
