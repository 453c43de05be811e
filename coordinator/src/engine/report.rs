//! What agents report of their attempts. A report counts only from the session of the host that owns the attempt;
//! it is acknowledged once its effect is durable.

use std::time::Instant;

use jobs::life::{Applied, Event};
use jobs::{AttemptId, AttemptOutcome, Ending, Kind};
use proto::convert;
use proto::v1::coordinator_message::Message;
use proto::v1::{self, EventAck};

use super::{OpenSweep, Refusal, State, Work};
use crate::store::AttemptRecord;

impl State {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_event(
        &mut self,
        host: &str,
        session: u64,
        event: &v1::Event,
        metrics: serde_json::Map<String, serde_json::Value>,
        at: u64,
        now: Instant,
        work: &mut Work,
    ) {
        if !self.hears(host, session, now) {
            return;
        }
        match event.attempt.parse::<AttemptId>() {
            Ok(id) => self.on_attempt_event(host, &id, event, metrics, at, work),
            Err(error) => tracing::warn!(host, %error, "an event that names no attempt is ignored"),
        }
        let (to, seq) = (host.to_owned(), event.seq);
        work.then(move |state| {
            if let Some(host) = state.hosts.get(&to) {
                host.send(Message::EventAck(EventAck { seq }));
            }
        });
    }

    /// Whether this session is the one that speaks for the host; if so, it has just been heard.
    pub(super) fn hears(&mut self, host: &str, session: u64, now: Instant) -> bool {
        let Some(host) = self.hosts.get_mut(host) else {
            return false;
        };
        let current = host
            .session
            .as_ref()
            .is_some_and(|one| one.number == session);
        if current {
            host.seen = now;
        }
        current
    }

    fn on_attempt_event(
        &mut self,
        host: &str,
        id: &AttemptId,
        event: &v1::Event,
        metrics: serde_json::Map<String, serde_json::Value>,
        at: u64,
        work: &mut Work,
    ) {
        if !self.owns(host, id) {
            tracing::warn!(host, attempt = %id, "an event for an attempt that is not this host's is ignored");
            return;
        }
        match &event.event {
            Some(v1::event::Event::Started(_)) => self.on_started(id, at, work),
            Some(v1::event::Event::Ended(ended)) => {
                let mut ending = convert::ended(ended).unwrap_or_else(|error| {
                    Ending::bare(
                        AttemptOutcome::Failed,
                        format!("its ending cannot be read: {error}"),
                    )
                });
                ending.metrics = metrics;
                fit_the_record(&mut ending);
                if let Some(host) = self.hosts.get_mut(host) {
                    work.dirty |= host.leaving.remove(id).is_some();
                }
                self.end(id, ending, at, work);
            }
            None => {
                tracing::warn!(host, attempt = %id, "an event of a kind that this version does not know")
            }
        }
    }

    fn owns(&self, host: &str, id: &AttemptId) -> bool {
        let Some(number) = self.by_id.get(&id.job.sweep) else {
            return false;
        };
        let Some(open) = self.open.get(number) else {
            // Of a settled sweep: only evidence can come of it, and `late_evidence` looks at the record itself.
            return true;
        };
        let job = open.life.job(id.job.trial, id.job.kind);
        let mut attempts = job.into_iter().flat_map(|job| &job.attempts);
        attempts.any(|one| one.number == id.number && &*one.placement.host == host)
    }

    /// The host of an attempt, of an open sweep or from the store; `None`: there is no such attempt.
    pub fn owner(&self, id: &AttemptId) -> Result<Option<String>, Refusal> {
        let Some(number) = self.by_id.get(&id.job.sweep) else {
            return Ok(None);
        };
        if let Some(open) = self.open.get(number) {
            let job = open.life.job(id.job.trial, id.job.kind);
            let mut attempts = job.into_iter().flat_map(|job| &job.attempts);
            let found = attempts.find(|one| one.number == id.number);
            return Ok(found.map(|one| one.placement.host.to_string()));
        }
        let kept = self
            .reader
            .sweep(*number)
            .map_err(|error| Refusal::from(&error))?;
        let mut attempts = kept.into_iter().flat_map(|kept| kept.attempts);
        let found = attempts.find(|one| {
            one.trial == id.job.trial && one.kind == id.job.kind.number() && one.number == id.number
        });
        Ok(found.map(|one| one.host))
    }

    fn on_started(&mut self, id: &AttemptId, at: u64, work: &mut Work) {
        let Some(open) = self.open_of(id) else {
            return;
        };
        let event = Event::Started {
            attempt: id.clone(),
            at,
        };
        if open.apply(&event) != Ok(Applied::Changed) {
            return;
        }
        let number = open.number;
        if let Some(record) = open.record_of(id) {
            let text = format!("{id} started on {}", place(&record));
            work.tell(number, at, &id.job, "started", text);
            work.write(record);
        }
    }

    fn open_of(&mut self, id: &AttemptId) -> Option<&mut OpenSweep> {
        let number = self.by_id.get(&id.job.sweep)?;
        self.open.get_mut(number)
    }

    /// Ends an attempt, whoever says so: its agent, or the coordinator that has given it up.
    pub(super) fn end(&mut self, id: &AttemptId, ending: Ending, at: u64, work: &mut Work) {
        let Some(open) = self.open_of(id) else {
            self.late_evidence(id, ending.outcome, work);
            return;
        };
        let (number, order) = (open.number, open.order);
        let event = Event::Ended {
            attempt: id.clone(),
            at,
            ending: Box::new(ending),
        };
        let applied = match open.apply(&event) {
            Ok(Applied::Already) => return,
            Ok(applied) => applied,
            Err(error) => {
                tracing::warn!(attempt = %id, %error, "an ending is ignored");
                return;
            }
        };
        if applied == Applied::Changed {
            let key = (id.job.trial, id.job.kind, id.number);
            open.orders.entry(key).or_default().1 = order;
        }
        let Some(record) = open.record_of(id) else {
            return;
        };
        work.tell(number, at, &id.job, "ended", ended_text(id, &record));
        work.dirty = true;
        let succeeded = record.outcome == AttemptOutcome::Succeeded.as_str();
        if let (Some(host), Applied::Changed) = (self.hosts.get_mut(&record.host), applied) {
            host.active.remove(id);
            host.total += 1;
            host.succeeded += u64::from(succeeded);
            if host.note_fault(&record.devices, &record.outcome) {
                work.write(host.record.clone());
            }
        }
        work.write(record);
        if applied == Applied::Changed {
            self.learn_from(id, at, work);
            self.settle(number, at, work);
        }
    }

    /// A word about an attempt of a sweep that has settled meanwhile: kept with the attempt, changes nothing.
    fn late_evidence(&self, id: &AttemptId, outcome: AttemptOutcome, work: &mut Work) {
        let number = self.by_id.get(&id.job.sweep).copied();
        let kept = number.and_then(|number| self.reader.sweep(number).ok().flatten());
        let found = kept.into_iter().flat_map(|kept| kept.attempts).find(|one| {
            one.trial == id.job.trial && one.kind == id.job.kind.number() && one.number == id.number
        });
        match found {
            Some(mut record)
                if record.outcome == AttemptOutcome::HostLost.as_str()
                    && record.late.is_empty() =>
            {
                record.late = outcome.to_string();
                work.write(record);
            }
            _ => {}
        }
    }
}

/// The store keeps small records: what a program says at length stays in its report and log, which are kept whole.
fn fit_the_record(ending: &mut Ending) {
    const VALUE_MAX: usize = 8 * 1024;
    const DETAIL_MAX: usize = 2 * 1024;
    const OBSERVATION_MAX: usize = 4 * 1024;
    let length = ending
        .result
        .as_ref()
        .map_or(0, |result| result.to_string().len());
    if length > VALUE_MAX {
        let note =
            format!("a result of {length} bytes: too long to keep here, it is in the report");
        ending.result = Some(serde_json::json!({ "too_long": note }));
    }
    if serde_json::Value::from(ending.metrics.clone())
        .to_string()
        .len()
        > VALUE_MAX
    {
        ending
            .metrics
            .retain(|name, _| name == "loss" || name == "step");
    }
    if ending.detail.len() > DETAIL_MAX {
        let end = (0..=DETAIL_MAX)
            .rev()
            .find(|at| ending.detail.is_char_boundary(*at));
        ending.detail.truncate(end.unwrap_or(0));
        ending.detail.push_str(" ...");
    }
    // The rows of the kit have 1.7 KB.
    let observed = ending.observation.as_ref().map(ToString::to_string);
    if observed.is_some_and(|text| text.len() > OBSERVATION_MAX) {
        ending.observation = None;
    }
}

/// Where an attempt is, for people: a simulated device is always called so.
pub(super) fn place(record: &AttemptRecord) -> String {
    let mark = if record.simulated { " (simulated)" } else { "" };
    format!("{} {}{mark}", record.host, record.device_name)
}

fn ended_text(id: &AttemptId, record: &AttemptRecord) -> String {
    let host = match record.simulated {
        true => format!("{} (simulated)", record.host),
        false => record.host.clone(),
    };
    if !record.late.is_empty() {
        return format!(
            "{id} on {host}: {} after it had been given up; not counted",
            record.late
        );
    }
    let detail = match record.detail.as_str() {
        "" => String::new(),
        detail => format!(": {detail}"),
    };
    format!("{id} on {host} {}{detail}", record.outcome)
}

impl OpenSweep {
    /// The record of an attempt as it is now.
    pub fn record_of(&self, id: &AttemptId) -> Option<AttemptRecord> {
        let (trial, kind): (u32, Kind) = (id.job.trial, id.job.kind);
        let job = self.life.job(trial, kind)?;
        let one = job.attempts.iter().find(|one| one.number == id.number)?;
        let settings = self.life.plan.settings(self.life.plan.trial(trial)?);
        let recipe = serde_json::to_string(&settings).unwrap_or_default();
        let mut record =
            convert::attempt_record(self.number, &self.life.id, trial, kind, one, recipe);
        let key = (trial, kind, id.number);
        (record.placed_order, record.ended_order) =
            self.orders.get(&key).copied().unwrap_or_default();
        record.stream = self.streams.get(&key).cloned().unwrap_or_default();
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_about_a_simulated_device_says_so() {
        let id: AttemptId = "a/1/train/1".parse().expect("an id");
        let mut record = AttemptRecord {
            host: "box".into(),
            device_name: "RTX 3070 Ti".into(),
            outcome: "succeeded".into(),
            simulated: true,
            ..AttemptRecord::default()
        };
        assert_eq!(place(&record), "box RTX 3070 Ti (simulated)");
        assert!(ended_text(&id, &record).contains("(simulated)"));
        record.late = "failed".into();
        assert!(ended_text(&id, &record).contains("(simulated)"));
        record.simulated = false;
        assert!(!place(&record).contains("simulated"));
        assert!(!ended_text(&id, &record).contains("simulated"));
    }

    #[test]
    fn what_is_said_at_length_is_cut_to_fit_a_record() {
        let mut ending = Ending::bare(AttemptOutcome::Succeeded, "\u{e4}".repeat(5000));
        ending.result = Some(serde_json::json!({ "text": "x".repeat(20_000) }));
        ending.metrics.insert("loss".into(), 0.5.into());
        ending
            .metrics
            .insert("noise".into(), "y".repeat(20_000).into());
        fit_the_record(&mut ending);
        assert!(ending.detail.len() < 3000);
        assert!(ending.result.expect("a note").get("too_long").is_some());
        assert_eq!(ending.metrics.keys().collect::<Vec<_>>(), ["loss"]);
    }
}
