//! One attempt as a document: from a sweep in memory, or from a record of history.

use jobs::AttemptId;
use jobs::life::Attempt;
use proto::store::v1::AttemptRecord;
use proto::time::{rfc3339, rfc3339_if};
use proto::v1::AttemptDocument;
use vram::Bytes;

use super::mib;
use crate::live::Live;

/// `live` has what a running attempt said last.
pub fn from_life(id: &AttemptId, one: &Attempt, live: &Live) -> AttemptDocument {
    let recipe = String::new();
    let record =
        proto::convert::attempt_record(0, &id.job.sweep, id.job.trial, id.job.kind, one, recipe);
    let mut document = from_record(&record, id);
    if let Some(said) = live.get(id).filter(|_| one.is_active()) {
        document.progress = said.progress;
        document.metrics = Some(serde_json::Value::from(said.metrics).to_string());
    }
    document
}

pub fn from_record(record: &AttemptRecord, id: &AttemptId) -> AttemptDocument {
    let some_mib = |bytes: u64| (bytes > 0).then(|| mib(Bytes(bytes)));
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    AttemptDocument {
        id: id.to_string(),
        host: record.host.clone(),
        device: record.device_name.clone(),
        simulated: record.simulated,
        predicted_mib: some_mib(record.predicted_bytes),
        peak_allocated_mib: some_mib(record.peak_allocated_bytes),
        peak_reserved_mib: some_mib(record.peak_reserved_bytes),
        outcome: text(&record.outcome),
        placed_at: rfc3339(record.placed_ms),
        started_at: rfc3339_if(record.started_ms),
        ended_at: rfc3339_if(record.ended_ms),
        exit: record.exit,
        signal: record.signal,
        detail: text(&record.detail),
        result: text(&record.result),
        metrics: text(&record.metrics),
        progress: None,
        late: (!record.late.is_empty()).then_some(true),
        seconds: (record.ran_ms > 0).then_some(record.ran_ms as f64 / 1000.0),
        sweep: id.job.sweep.to_string(),
        trial: id.job.trial().to_string(),
        kind: id.job.kind.to_string(),
        recipe: text(&record.recipe),
        host_class: record.host_class.clone(),
        grant_mib: some_mib(record.grant_bytes),
        step_seconds: (record.step_seconds > 0.0).then_some(record.step_seconds),
        stream: text(&record.stream),
        observation: None,
    }
}
