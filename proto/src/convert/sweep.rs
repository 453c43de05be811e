//! Rulings and marks of a sweep.

use jobs::Kind;
use jobs::life::{Event, Mark, MarkKind, Ruling, Scope};

use super::{Unreadable, unreadable};
use crate::store::v1::{MarkRecord, RulingRecord};

#[must_use]
pub fn ruling_record(sweep: u64, order: u64, trial: u32, kind: Kind, one: &Ruling) -> RulingRecord {
    RulingRecord {
        sweep,
        trial,
        kind: kind.number(),
        outcome: one.outcome.to_string(),
        reason: one.reason.to_string(),
        at_ms: one.at,
        order,
    }
}

/// The event that a ruling's record stands for.
pub fn ruling(record: &RulingRecord) -> Result<Event, Unreadable> {
    let bad = |field, value: &str| unreadable("a ruling's record", field, value);
    Ok(Event::Ruled {
        trial: record.trial,
        kind: known_kind("a ruling's record", record.kind)?,
        outcome: record
            .outcome
            .parse()
            .map_err(|_| bad("outcome", &record.outcome))?,
        reason: record.reason.clone(),
        at: record.at_ms,
    })
}

#[must_use]
pub fn mark_record(sweep: u64, order: u64, mark: &Mark) -> MarkRecord {
    let (trial, kind) = match mark.scope {
        Scope::Sweep => (0, 0),
        Scope::Trial(trial) => (trial, 0),
        Scope::Job(trial, kind) => (trial, kind.number()),
    };
    let what = match mark.kind {
        MarkKind::Cancel => "cancel",
        MarkKind::Retry => "retry",
    };
    MarkRecord {
        sweep,
        order,
        what: what.into(),
        trial,
        kind,
        at_ms: mark.at,
    }
}

pub fn mark(record: &MarkRecord) -> Result<Mark, Unreadable> {
    let kind = match record.what.as_str() {
        "cancel" => MarkKind::Cancel,
        "retry" => MarkKind::Retry,
        other => return Err(unreadable("a mark's record", "what", other)),
    };
    let scope = match (record.trial, record.kind) {
        (0, _) => Scope::Sweep,
        (trial, 0) => Scope::Trial(trial),
        (trial, kind) => Scope::Job(trial, known_kind("a mark's record", kind)?),
    };
    Ok(Mark {
        kind,
        scope,
        at: record.at_ms,
    })
}

fn known_kind(message: &'static str, number: u32) -> Result<Kind, Unreadable> {
    Kind::from_number(number).ok_or_else(|| unreadable(message, "kind", number))
}
