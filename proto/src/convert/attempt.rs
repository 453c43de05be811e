//! Attempts and their endings.

use jobs::life::{Attempt, AttemptState, Placement};
use jobs::{AttemptOutcome, Ending, Kind, Peaks, SweepId};
use vram::{Bytes, Source, VerdictKind};

use super::{Unreadable, some_if, unreadable};
use crate::store::v1::AttemptRecord;
use crate::v1;

/// The record of an attempt as it is now. `recipe` is the trial's settings as JSON, for history.
#[must_use]
pub fn attempt_record(
    sweep: u64,
    id: &SweepId,
    trial: u32,
    kind: Kind,
    one: &Attempt,
    recipe: String,
) -> AttemptRecord {
    let placed = &one.placement;
    let mut record = AttemptRecord {
        sweep,
        sweep_id: id.to_string(),
        trial,
        kind: kind.number(),
        number: one.number,
        host: placed.host.to_string(),
        devices: placed.devices.iter().map(ToString::to_string).collect(),
        device_name: placed.device_name.to_string(),
        host_class: placed.host_class.to_string(),
        simulated: placed.simulated,
        generation: placed.generation,
        grant_bytes: placed.grant.0,
        predicted_bytes: placed.predicted.unwrap_or_default().0,
        verdict: placed.verdict.as_str().into(),
        source: placed.source.as_str().into(),
        placed_ms: one.placed_at,
        started_ms: one.started_at().unwrap_or(0),
        ended_ms: one.ended_at().unwrap_or(0),
        late: one.late.map(|late| late.to_string()).unwrap_or_default(),
        recipe,
        ..AttemptRecord::default()
    };
    if let Some(ending) = one.ending() {
        put_ending(&mut record, ending);
    }
    record
}

fn put_ending(record: &mut AttemptRecord, ending: &Ending) {
    record.outcome = ending.outcome.to_string();
    record.exit = ending.exit;
    record.signal = ending.signal;
    record.detail.clone_from(&ending.detail);
    record.ran_ms = ending.ran_ms;
    record.host_ended_ms = ending.host_ended_ms;
    record.peak_allocated_bytes = ending.peaks.allocated.unwrap_or_default().0;
    record.peak_reserved_bytes = ending.peaks.reserved.unwrap_or_default().0;
    record.peak_resident_bytes = ending.peaks.resident.unwrap_or_default().0;
    record.step_seconds = ending.step_seconds.unwrap_or(0.0);
    record.result = ending
        .result
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    record.observation = ending
        .observation
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    if !ending.metrics.is_empty() {
        record.metrics = serde_json::Value::from(ending.metrics.clone()).to_string();
    }
}

/// The attempt that a record describes.
pub fn attempt(record: &AttemptRecord) -> Result<Attempt, Unreadable> {
    Ok(Attempt {
        number: record.number,
        placement: placement(record)?,
        placed_at: record.placed_ms,
        state: state(record)?,
        late: if record.late.is_empty() {
            None
        } else {
            Some(outcome("late", &record.late)?)
        },
    })
}

fn placement(record: &AttemptRecord) -> Result<Placement, Unreadable> {
    let verdict = one_word(
        "verdict",
        &record.verdict,
        &[
            VerdictKind::Fits,
            VerdictKind::Uncertain,
            VerdictKind::TooLarge,
            VerdictKind::Spills,
            VerdictKind::Offloads,
        ],
        VerdictKind::as_str,
    )?;
    let sources = [
        Source::Measured,
        Source::Replayed,
        Source::Learned,
        Source::Computed,
        Source::Declared,
        Source::Unknown,
    ];
    Ok(Placement {
        host: record.host.as_str().into(),
        generation: record.generation,
        devices: record.devices.iter().map(|id| id.as_str().into()).collect(),
        device_name: record.device_name.as_str().into(),
        host_class: record.host_class.as_str().into(),
        simulated: record.simulated,
        grant: Bytes(record.grant_bytes),
        predicted: some_if(record.predicted_bytes).map(Bytes),
        verdict,
        source: one_word("source", &record.source, &sources, Source::as_str)?,
    })
}

fn one_word<T: Copy>(
    field: &'static str,
    text: &str,
    all: &[T],
    word: fn(T) -> &'static str,
) -> Result<T, Unreadable> {
    all.iter()
        .copied()
        .find(|one| word(*one) == text)
        .ok_or_else(|| unreadable("an attempt's record", field, text))
}

fn outcome(field: &'static str, text: &str) -> Result<AttemptOutcome, Unreadable> {
    text.parse()
        .map_err(|_| unreadable("an attempt's record", field, text))
}

fn state(record: &AttemptRecord) -> Result<AttemptState, Unreadable> {
    if record.outcome.is_empty() {
        return Ok(match some_if(record.started_ms) {
            Some(since) => AttemptState::Running { since },
            None => AttemptState::Placed,
        });
    }
    let json = |field, text: &str| {
        serde_json::from_str::<serde_json::Value>(text)
            .map_err(|_| unreadable("an attempt's record", field, text))
    };
    let metrics = match record.metrics.as_str() {
        "" => serde_json::Map::new(),
        text => json("metrics", text)?
            .as_object()
            .cloned()
            .unwrap_or_default(),
    };
    let result = match record.result.as_str() {
        "" => None,
        text => Some(json("result", text)?),
    };
    Ok(AttemptState::Ended {
        since: some_if(record.started_ms),
        at: record.ended_ms,
        ending: Box::new(Ending {
            outcome: outcome("outcome", &record.outcome)?,
            exit: record.exit,
            signal: record.signal,
            detail: record.detail.clone(),
            ran_ms: record.ran_ms,
            host_ended_ms: record.host_ended_ms,
            peaks: Peaks {
                allocated: some_if(record.peak_allocated_bytes).map(Bytes),
                reserved: some_if(record.peak_reserved_bytes).map(Bytes),
                resident: some_if(record.peak_resident_bytes).map(Bytes),
            },
            metrics,
            result,
            step_seconds: (record.step_seconds > 0.0).then_some(record.step_seconds),
            observation: match record.observation.as_str() {
                "" => None,
                text => Some(json("observation", text)?),
            },
        }),
    })
}

/// The ending that an agent reports.
pub fn ended(message: &v1::Ended) -> Result<Ending, Unreadable> {
    let wire = |field, value: &str| unreadable("an ending from an agent", field, value);
    let json = |field, text: &str| match text {
        "" => Ok(None),
        text => serde_json::from_str(text)
            .map(Some)
            .map_err(|_| wire(field, text)),
    };
    let memory = message.memory.clone().unwrap_or_default();
    Ok(Ending {
        outcome: message
            .outcome
            .parse()
            .map_err(|_| wire("outcome", &message.outcome))?,
        exit: message.exit,
        signal: message.signal,
        detail: message.detail.clone(),
        ran_ms: message.ran_ms,
        host_ended_ms: message.at_ms,
        peaks: Peaks {
            allocated: memory.allocated_bytes.map(Bytes),
            reserved: memory.reserved_bytes.map(Bytes),
            resident: memory.resident_bytes.map(Bytes),
        },
        metrics: serde_json::Map::new(),
        result: json("result", &message.result)?,
        step_seconds: message.step_seconds,
        observation: json("observation", &memory.observation)?,
    })
}

/// The other way round, for agents. The number of log and report bytes is the caller's to add.
#[must_use]
pub fn ended_message(ending: &Ending) -> v1::Ended {
    let text = |value: &Option<serde_json::Value>| {
        value.as_ref().map(ToString::to_string).unwrap_or_default()
    };
    v1::Ended {
        at_ms: ending.host_ended_ms,
        ran_ms: ending.ran_ms,
        outcome: ending.outcome.to_string(),
        exit: ending.exit,
        signal: ending.signal,
        detail: ending.detail.clone(),
        memory: Some(v1::Memory {
            allocated_bytes: ending.peaks.allocated.map(|b| b.0),
            reserved_bytes: ending.peaks.reserved.map(|b| b.0),
            resident_bytes: ending.peaks.resident.map(|b| b.0),
            observation: text(&ending.observation),
        }),
        result: text(&ending.result),
        log_bytes: 0,
        report_bytes: 0,
        step_seconds: ending.step_seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Attempt {
        let mut ending = Ending::bare(AttemptOutcome::GpuOom, "tried 72 MiB");
        ending.exit = Some(1);
        ending.peaks.allocated = Some(Bytes::from_mib(7054.5));
        ending.metrics.insert("loss".into(), 0.5.into());
        ending.result = Some(serde_json::json!({"held_out": 0.9}));
        Attempt {
            number: 2,
            placement: Placement {
                host: "box".into(),
                generation: 3,
                devices: vec!["GPU-1".into()],
                device_name: "RTX".into(),
                host_class: "RTX/linux".into(),
                simulated: true,
                grant: Bytes::from_mib(7400.0),
                predicted: Some(Bytes::from_mib(7000.0)),
                verdict: VerdictKind::Fits,
                source: Source::Learned,
            },
            placed_at: 5,
            state: AttemptState::Ended {
                since: Some(6),
                at: 7,
                ending: Box::new(ending),
            },
            late: Some(AttemptOutcome::Succeeded),
        }
    }

    #[test]
    fn an_attempt_comes_back_from_its_record() {
        let id = SweepId::new("a", "b");
        let record = attempt_record(4, &id, 1, Kind::Train, &sample(), "{}".into());
        assert_eq!(attempt(&record), Ok(sample()));
    }

    #[test]
    fn a_record_that_cannot_be_read_says_which_field() {
        let id = SweepId::new("a", "b");
        let mut record = attempt_record(4, &id, 1, Kind::Train, &sample(), "{}".into());
        record.outcome = "exploded".into();
        let error = attempt(&record).expect_err("no such outcome");
        assert_eq!((error.field, error.value.as_str()), ("outcome", "exploded"));
    }

    #[test]
    fn an_ending_comes_back_from_the_wire() {
        let mut ending = sample().ending().expect("ended").clone();
        ending.metrics.clear();
        assert_eq!(ended(&ended_message(&ending)), Ok(ending));
    }
}
