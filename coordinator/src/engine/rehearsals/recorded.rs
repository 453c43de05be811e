//! Streams that attempts recorded on a card. Each is judged once, after its attempt ended: kept and learned, or refused
//! with a sentence; either way it is on the disk before the agent hears of it. Refuses to change anything of the attempt
//! but that sentence, and to learn from simulated devices or from what did not run to its end.

use std::time::Instant;

use jobs::{AttemptId, AttemptOutcome, Kind};
use proto::store::v1::{AttemptRecord, RehearsalRecord};
use proto::v1::coordinator_message::Message;
use proto::v1::{Recorded, RecordedAck};
use vram::{Backend, Bytes, CardKind, DeviceClass, Workload};

use super::content::{Unpacked, made_of, mode_word, recorded_key, settings_of};
use super::{SETTINGS_MAX, Subject};
use crate::engine::{State, Work};
use crate::store::Store;

/// An attempt of a sweep that is not in memory any more, read by somebody who had the time.
#[derive(Default)]
pub struct Settled {
    pub record: AttemptRecord,
    pub workload: Option<Workload>,
}

/// What the engine did with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Done,
    /// Its sweep has settled: its attempt is to be looked for in the store first.
    NeedsRecord,
}

/// A stream may have a little less than was measured: rounding, and other tensors than the step's.
const SHORT_OF: f64 = 0.95;

impl State {
    #[allow(clippy::too_many_arguments)]
    pub(in crate::engine) fn on_recorded(
        &mut self,
        (host, session): (&str, u64),
        recorded: &Recorded,
        unpacked: &Result<Unpacked, String>,
        settled: Option<Box<Settled>>,
        store: &mut dyn Store,
        (at, now): (u64, Instant),
        work: &mut Work,
    ) -> Taken {
        if !self.hears(host, session, now) {
            return Taken::Done;
        }
        let id = recorded.attempt.parse::<AttemptId>().ok();
        let number = id.as_ref().and_then(|id| self.by_id.get(&id.job.sweep));
        let (Some(id), Some(number)) = (id.as_ref(), number.copied()) else {
            acknowledge(host, &recorded.attempt, "no such attempt is known", work);
            return Taken::Done;
        };
        let is_open = self.open.contains_key(&number);
        let known = match (is_open, settled) {
            (true, _) => self.in_memory(number, id),
            (false, Some(settled)) => Some(*settled),
            (false, None) => return Taken::NeedsRecord,
        };
        let Some(mut known) = known.filter(|one| one.record.host == host) else {
            acknowledge(
                host,
                &recorded.attempt,
                "no such attempt of this host",
                work,
            );
            return Taken::Done;
        };
        if known.record.outcome.is_empty() {
            // Not what an agent does: it sends a stream once the ending was acknowledged.
            tracing::warn!(host, attempt = %id, "a stream of an attempt that runs is ignored");
            return Taken::Done;
        }
        if known.record.stream.is_empty() {
            let refused = refusal(&known.record, recorded, unpacked);
            let taken = match refused {
                Some(why) => Err(why),
                None => match unpacked {
                    Ok(one) => self.keep_recorded(id, &known, one, recorded, store, at, work),
                    Err(why) => Err(Refused::Stream(why.clone())),
                },
            };
            known.record.stream = match taken {
                Ok(said) => said,
                // Nothing was said, so it is sent again.
                Err(Refused::ByDisk) => return Taken::Done,
                Err(Refused::Stream(why)) => format!("its stream is not used: {why}"),
            };
            tracing::info!(attempt = %id, note = known.record.stream, "a recorded stream");
            let note = known.record.stream.clone();
            if let Some(open) = self.open.get_mut(&number) {
                let key = (id.job.trial, id.job.kind, id.number);
                open.streams.insert(key, note.clone());
            }
            work.tell(number, at, &id.job, "stream", format!("{id}: {note}"));
            work.write(known.record.clone());
        }
        acknowledge(host, &recorded.attempt, &known.record.stream, work);
        Taken::Done
    }

    fn in_memory(&self, number: u64, id: &AttemptId) -> Option<Settled> {
        let open = self.open.get(&number)?;
        let need = open.need(id.job.trial, id.job.kind);
        Some(Settled {
            record: open.record_of(id)?,
            workload: need.map(|need| self.sizes.workload(need).clone()),
        })
    }

    /// On the disk, then in the memory model; what follows from it is replayed aside. What is said of it.
    #[allow(clippy::too_many_arguments)]
    fn keep_recorded(
        &mut self,
        id: &AttemptId,
        known: &Settled,
        unpacked: &Unpacked,
        recorded: &Recorded,
        store: &mut dyn Store,
        at: u64,
        work: &mut Work,
    ) -> Result<String, Refused> {
        let refused = |why: &str| Refused::Stream(why.to_owned());
        let class = self.class_of_record(&known.record);
        let class = class.ok_or_else(|| refused("its device is not known any more"))?;
        if class.simulated || class.backend == Backend::Cpu {
            return Err(refused("it is of no real card"));
        }
        let workload = known.workload.as_ref();
        let workload = workload.filter(|_| id.job.kind != Kind::Bake);
        let of = workload.and_then(|workload| Some((workload, workload.family()?)));
        let Some((workload, (family, rank))) = of else {
            return Err(refused("the memory model knows no such recipe"));
        };
        let card = CardKind::of(&class);
        let subject = Subject {
            family: family.into(),
            kernels: card.kernels,
        };
        let record = record(id, &known.record, workload, card, at)?;
        let blob = store.put_blob(&recorded.stream).map_err(|error| {
            tracing::warn!(attempt = %id, %error, "its stream cannot be kept now");
            Refused::ByDisk
        })?;
        let record = RehearsalRecord { blob, ..record };
        let stream = unpacked.stream.clone();
        if !self.sizes.learn_stream(workload, made_of(&record), stream) {
            return Err(refused("it has no step"));
        }
        work.unused.extend(self.book.blob_of(&subject, &record.key));
        self.book.remember(record.clone());
        self.book.read(&record);
        work.write(record);
        self.warm(&subject, &known.record.host, false, work);
        let (mode, cards) = (mode_word(workload.mode), card.kernels.as_str());
        let peak = unpacked.peak.mib();
        Ok(format!(
            "its stream is learned: {mode} at rank {rank}, for cards like {} (kernels as on {cards}), {peak:.0} MiB at its peak",
            class.name
        ))
    }

    fn class_of_record(&self, record: &AttemptRecord) -> Option<DeviceClass> {
        let host = self.hosts.get(&record.host)?;
        let first = record.devices.first()?;
        let mut devices = host.record.devices.iter();
        let at = devices.position(|known| known.id == *first)?;
        host.classes.get(at).cloned()
    }
}

enum Refused {
    Stream(String),
    /// It could not be written.
    ByDisk,
}

/// Why it is not to be used, by the attempt and the stream alone.
fn refusal(
    attempt: &AttemptRecord,
    recorded: &Recorded,
    unpacked: &Result<Unpacked, String>,
) -> Option<Refused> {
    let why = match unpacked {
        _ if !recorded.error.is_empty() => {
            // Of an agent, but shown to people: no more than a sentence.
            let message: String = recorded.message.chars().take(SENTENCE).collect();
            format!("{message} ({})", recorded.error)
        }
        _ if attempt.simulated => "it is of a simulated device".to_owned(),
        _ if attempt.outcome != AttemptOutcome::Succeeded.as_str() => {
            format!("its attempt ended {}", attempt.outcome)
        }
        _ if attempt.devices.len() > 1 => "its attempt ran on several cards".to_owned(),
        Err(why) => why.chars().take(SENTENCE).collect(),
        Ok(one) if !one.whole => {
            "it does not go from mark 1, before the step, to mark 4".to_owned()
        }
        Ok(one) => {
            let measured = Bytes(attempt.peak_allocated_bytes).mib();
            if one.peak.mib() >= measured * SHORT_OF {
                return None;
            }
            let peak = one.peak.mib();
            format!("it has {peak:.0} MiB at its peak, and {measured:.0} MiB were measured")
        }
    };
    Some(Refused::Stream(why))
}

const SENTENCE: usize = 300;

fn record(
    id: &AttemptId,
    attempt: &AttemptRecord,
    workload: &Workload,
    card: CardKind,
    at: u64,
) -> Result<RehearsalRecord, Refused> {
    // A model that is known by its name alone has no configuration to be kept.
    let settings = settings_of(workload);
    let settings = settings.or_else(|| Some(workload.recipe.as_ref()?.settings()));
    let settings = serde_json::to_string(&settings.unwrap_or_default()).unwrap_or_default();
    if settings.len() > SETTINGS_MAX {
        let why = "the configuration of its model is too long".to_owned();
        return Err(Refused::Stream(why));
    }
    Ok(RehearsalRecord {
        key: recorded_key(&settings, workload.mode, card.kernels),
        settings,
        mode: mode_word(workload.mode).to_owned(),
        workspace_bytes: card.workspace.0,
        host: attempt.host.clone(),
        seconds: attempt.ran_ms as f64 / 1000.0,
        at_ms: at,
        kernels: card.kernels.as_str().to_owned(),
        attempt: id.to_string(),
        ..RehearsalRecord::default()
    })
}

fn acknowledge(host: &str, attempt: &str, note: &str, work: &mut Work) {
    let ack = RecordedAck {
        attempt: attempt.to_owned(),
        note: note.to_owned(),
    };
    let host = host.to_owned();
    work.then(move |state| {
        if let Some(host) = state.hosts.get(&host) {
            host.send(Message::RecordedAck(ack));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt() -> AttemptRecord {
        AttemptRecord {
            outcome: "succeeded".into(),
            devices: vec!["GPU-1".into()],
            peak_allocated_bytes: 2 << 20,
            ..AttemptRecord::default()
        }
    }

    fn why(attempt: &AttemptRecord, recorded: &Recorded, stream: &[u8]) -> String {
        match refusal(attempt, recorded, &Unpacked::read(stream)) {
            None => String::new(),
            Some(Refused::Stream(why)) => why,
            Some(Refused::ByDisk) => "disk".to_owned(),
        }
    }

    const WHOLE: &[u8] = b"a 1048576\nm 1\na 1048576\nf 1\nm 4\n";

    #[test]
    fn a_whole_stream_of_a_real_card_is_taken() {
        assert_eq!(why(&attempt(), &Recorded::default(), WHOLE), "");
    }

    #[test]
    fn whatever_else_comes_is_refused_with_its_reason() {
        let plain = Recorded::default();
        let simulated = AttemptRecord {
            simulated: true,
            ..attempt()
        };
        let failed = AttemptRecord {
            outcome: "gpu_oom".into(),
            ..attempt()
        };
        let several = AttemptRecord {
            devices: vec!["a".into(), "b".into()],
            ..attempt()
        };
        let larger = AttemptRecord {
            peak_allocated_bytes: 3 << 20,
            ..attempt()
        };
        let long = Recorded {
            error: "too_large".into(),
            message: "it has more than 8 MiB".into(),
            ..Recorded::default()
        };
        let cases = [
            (&simulated, &plain, WHOLE, "simulated device"),
            (&failed, &plain, WHOLE, "ended gpu_oom"),
            (&several, &plain, WHOLE, "several cards"),
            (
                &larger,
                &plain,
                WHOLE,
                "2 MiB at its peak, and 3 MiB were measured",
            ),
            (&attempt(), &plain, b"a 512\nm 1\n", "from mark 1"),
            (&attempt(), &plain, b"\x1f\x8b\x08\x00", "unpack the stream"),
            (&attempt(), &plain, b"x", "unknown event"),
            (&attempt(), &long, b"", "it has more than 8 MiB (too_large)"),
        ];
        for (attempt, recorded, stream, says) in cases {
            let why = why(attempt, recorded, stream);
            assert!(why.contains(says), "{why}");
        }
    }
}
