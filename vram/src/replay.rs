//! A stream through the allocator's model against a limit: the peaks, whether it runs out and wanting what, and what
//! is alive at the peak. Peaks and limit count from mark 1 on (the step), as a recorded run's do; from the start
//! where a stream has no such mark. What a stream frees without having made it is passed over: reading one refuses it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::allocator::{Allocator, AllocatorSettings};
use crate::step::AFTER_LOAD;
use crate::stream::{Event, Stream};
use crate::{Bytes, MIB};

/// What a replay is to stand for.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplaySettings {
    /// Most that may be reserved: usable memory less context and others.
    pub limit: Option<Bytes>,
    pub expandable_segments: bool,
    /// Whether to say what is alive at the peak (costs a second pass).
    pub alive_at_peak: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayStatus {
    Ok,
    Oom,
}

/// Blocks of one label at the peak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alive {
    pub label: String,
    pub mib: f64,
    pub blocks: u64,
}

/// The answer of `sweep vram replay --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayAnswer {
    pub allocated_mib: f64,
    pub reserved_mib: f64,
    pub status: ReplayStatus,
    pub oom_wanted_mib: Option<f64>,
    pub events: usize,
    /// By label, largest first; for a stream without labels by size.
    pub alive_at_peak: Vec<Alive>,
}

pub(crate) struct Peaks {
    pub allocated: u64,
    pub reserved: u64,
    pub wanted: Option<u64>,
    /// Events up to the one after which allocated was highest.
    pub at: usize,
    pub events: usize,
    /// Allocated at mark 1 and after loading.
    pub pre_step: u64,
    pub after_load: u64,
    /// The most until the ends of the first forward and backward, where the replay came so far.
    pub forward: Option<u64>,
    pub backward: Option<u64>,
}

#[must_use]
pub fn replay(stream: &Stream, settings: ReplaySettings) -> ReplayAnswer {
    let peaks = run(stream, settings);
    let alive = if settings.alive_at_peak {
        alive(stream, peaks.at)
    } else {
        Vec::new()
    };
    ReplayAnswer {
        allocated_mib: tenth(peaks.allocated),
        reserved_mib: tenth(peaks.reserved),
        status: if peaks.wanted.is_some() {
            ReplayStatus::Oom
        } else {
            ReplayStatus::Ok
        },
        oom_wanted_mib: peaks.wanted.map(tenth),
        events: peaks.events,
        alive_at_peak: alive,
    }
}

fn tenth(bytes: u64) -> f64 {
    (bytes as f64 / MIB as f64 * 10.0).round() / 10.0
}

/// No block: freed, or of no bytes.
const NONE: u32 = u32::MAX;

pub(crate) fn run(stream: &Stream, settings: ReplaySettings) -> Peaks {
    let has_step = stream
        .events
        .iter()
        .any(|event| matches!(event, Event::Mark(1)));
    let limit = settings.limit.map(|limit| limit.0);
    let kind = AllocatorSettings {
        expandable_segments: settings.expandable_segments,
    };
    let mut memory = Allocator::new(kind, limit.filter(|_| !has_step));
    let mut handles: Vec<u32> = Vec::with_capacity(stream.events.len() / 2);
    let (mut pre_step, mut after_load) = (0, 0);
    let (mut forward, mut backward) = (None, None);
    let (mut at, mut top, mut wanted, mut done) = (0, 0, None, stream.events.len());
    for (place, event) in stream.events.iter().enumerate() {
        match *event {
            Event::Alloc { bytes: 0, .. } => handles.push(NONE),
            Event::Alloc { bytes, .. } => match memory.malloc(bytes) {
                Ok(handle) => {
                    handles.push(handle);
                    if memory.allocated > top {
                        (top, at) = (memory.allocated, place + 1);
                    }
                }
                Err(error) => {
                    (wanted, done) = (Some(error.wanted), place);
                    break;
                }
            },
            Event::Free { alloc } => {
                let handle = handles.get_mut(alloc as usize);
                let handle = handle.map_or(NONE, |handle| std::mem::replace(handle, NONE));
                if handle != NONE {
                    memory.release(handle);
                }
            }
            Event::EmptyCache => memory.empty_cache(),
            Event::Mark(1) => {
                memory.limit = limit;
                memory.reset_peaks();
                pre_step = memory.allocated;
                (top, at) = (memory.allocated, place + 1);
            }
            Event::Mark(AFTER_LOAD) => after_load = memory.allocated,
            Event::Mark(2) => forward = forward.or(Some(memory.peak_allocated)),
            Event::Mark(3) => backward = backward.or(Some(memory.peak_allocated)),
            Event::Mark(_) => {}
        }
    }
    Peaks {
        allocated: memory.peak_allocated,
        reserved: memory.peak_reserved,
        wanted,
        at,
        events: done,
        pre_step,
        after_load,
        forward,
        backward,
    }
}

/// A block that lives at some moment of a stream.
pub(crate) struct Living {
    pub bytes: u64,
    /// A place in [`Stream::labels`].
    pub label: u32,
    /// Asked for after mark 1.
    pub in_step: bool,
}

/// What lives after the first `at` events.
pub(crate) fn living(stream: &Stream, at: usize) -> Vec<Living> {
    let mut blocks: Vec<Option<Living>> = Vec::new();
    let mut in_step = false;
    for event in stream.events.iter().take(at) {
        match *event {
            Event::Alloc { bytes, label } => blocks.push(Some(Living {
                bytes,
                label,
                in_step,
            })),
            Event::Free { alloc } => {
                if let Some(block) = blocks.get_mut(alloc as usize) {
                    *block = None;
                }
            }
            Event::Mark(1) => in_step = true,
            Event::EmptyCache | Event::Mark(_) => {}
        }
    }
    blocks.into_iter().flatten().collect()
}

/// The label of a block, or its size where it has none.
pub(crate) fn name_of(stream: &Stream, bytes: u64, label: u32) -> String {
    match stream.labels.get(label as usize) {
        Some(name) if !name.is_empty() => name.clone(),
        _ => format!("{bytes} bytes"),
    }
}

/// What a block takes of the allocator.
pub(crate) fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(512).saturating_mul(512)
}

fn alive(stream: &Stream, at: usize) -> Vec<Alive> {
    let mut groups: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for block in living(stream, at) {
        let name = name_of(stream, block.bytes, block.label);
        let group = groups.entry(name).or_default();
        group.0 = group.0.saturating_add(rounded(block.bytes));
        group.1 += 1;
    }
    let mut groups: Vec<(String, (u64, u64))> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
    let shown = groups.into_iter().map(|(label, (bytes, count))| Alive {
        label,
        mib: (bytes as f64 / MIB as f64 * 100.0).round() / 100.0,
        blocks: count,
    });
    shown.collect()
}
