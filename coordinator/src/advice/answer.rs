//! The questions asked of the memory model, one after the other: each is a search with a replay for every change that it
//! looks at, so this is called beside the engine's thread. Decides nothing: what is asked was selected before.

use vram::{Advice, Knowledge, Peak, Suggestion};

use super::{Question, Snapshot, Wanted, select};

/// A question with its answer.
#[derive(Clone, Debug)]
pub struct Answered {
    pub question: Question,
    pub advice: Advice,
}

impl Answered {
    /// The smallest change that leaves the arithmetic as it is; else, if that is enough, the smallest of all. Only what
    /// was replayed to fit, or was measured.
    pub fn first(&self, keeps_arithmetic: bool) -> Option<&Suggestion> {
        let mut shown = self.advice.suggestions.iter();
        shown.find(|one| one.rests_on.is_shown() && (one.keeps_arithmetic || !keeps_arithmetic))
    }
}

pub fn answer(
    snapshot: &Snapshot,
    questions: Vec<Question>,
    knowledge: &Knowledge,
) -> Vec<Answered> {
    let each = questions.into_iter().map(|question| {
        let workload = &snapshot.trials[question.at].workload;
        let device = &snapshot.devices[question.device];
        let advice = vram::advise(workload, &device.class, &device.load, knowledge);
        Answered { question, advice }
    });
    each.collect()
}

/// What explains one trial that does not fit some device.
#[derive(Debug, Default)]
pub struct Found {
    /// And the device it is about.
    pub peak: Option<(usize, Peak)>,
    /// The nearest class first.
    pub answered: Vec<Answered>,
}

/// Classes that are searched for one trial, the nearest to holding it.
const CLASSES_MAX: usize = 16;

/// The first trial's peak on the device that it failed on, or on the one that is nearest to holding it; and advice for
/// each class that does not hold it, that of this device first.
pub fn find(snapshot: &Snapshot, failed_on: Option<usize>, knowledge: &Knowledge) -> Found {
    let mut questions = select(snapshot, Wanted::Anywhere).questions;
    questions.truncate(CLASSES_MAX);
    let about = failed_on.or(questions.first().map(|one| one.device));
    let (Some(device), Some(trial)) = (about, snapshot.trials.first()) else {
        return Found::default();
    };
    let class = &snapshot.devices[device].class;
    questions.sort_by_key(|one| snapshot.devices[one.device].class != *class);
    let load = &snapshot.devices[device].load;
    let peak = vram::peak(&trial.workload, class, load, knowledge);
    Found {
        peak: peak.map(|peak| (device, peak)),
        answered: answer(snapshot, questions, knowledge),
    }
}

/// What would make a trial fit somewhere, in a sentence: the first change for each class of device, in the fleet's order.
pub fn would_fit(snapshot: &Snapshot, answered: &[Answered], trial: u32) -> Option<String> {
    let own = answered
        .iter()
        .filter(|one| one.question.trials.contains(&trial));
    let mut own: Vec<&Answered> = own.collect();
    own.sort_by_key(|one| one.question.device);
    let each = own.into_iter().filter_map(|one| {
        let first = one.advice.suggestions.first()?;
        let device = &snapshot.devices[one.question.device];
        let (host, name, change) = (&device.host, &device.name, &first.change);
        let need = (first.need + first.band).mib();
        Some(format!("{change} on {host} {name} (need {need:.0} MiB)"))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vram::{Backend, Bytes, DeviceClass, DeviceLoad, Mode, Source, VerdictKind, Workload};

    use super::super::{Device, Seen, Trial};
    use super::*;

    fn answered(changes: &[(&str, bool, Option<&str>)]) -> Answered {
        let suggestion = |(change, keeps, stream): &(&str, bool, Option<&str>)| {
            json!({"change": change, "settings": {}, "need_mib": 7000.0, "band_mib": 90.0, "keeps_arithmetic": keeps,
                "stream": stream, "source": "learned"})
        };
        let suggestions: Vec<_> = changes.iter().map(suggestion).collect();
        let advice = json!({"verdict": "too_large", "need_mib": 7912.0, "band_mib": 78.0, "room_mib": 7834.0,
            "suggestions": suggestions, "tried": []});
        Answered {
            question: Question {
                at: 0,
                trials: vec![3, 4],
                device: 0,
                hosts: vec!["box".into()],
                fits_elsewhere: false,
            },
            advice: serde_json::from_value(advice).expect("advice"),
        }
    }

    fn fleet(room_mib: f64) -> Snapshot {
        let class = DeviceClass {
            name: "NVIDIA GeForce RTX 3070 Ti".into(),
            backend: Backend::Cuda,
            os: "linux".into(),
            spills: false,
            simulated: false,
        };
        let load = DeviceLoad {
            usable: Bytes::from_mib(room_mib),
            held: Bytes::ZERO,
        };
        let settings = json!({"model": "gemma-3-4b-it", "quant": "nf4", "seq_len": 7177, "rank": 112, "dropout": 0.1,
            "response_len": 237, "optimizer": "adamw_8bit",
            "memory_fixes": ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"]});
        let settings = serde_json::from_value(settings).expect("settings");
        let seen = Seen {
            device: 0,
            kind: VerdictKind::Fits,
            least: Bytes::ZERO,
        };
        Snapshot {
            devices: vec![Device {
                host: "box".into(),
                name: class.name.clone(),
                class,
                load,
            }],
            trials: vec![Trial {
                index: 3,
                workload: Workload::new(Mode::Train, &settings, None).expect("a workload"),
                seen: vec![seen],
            }],
        }
    }

    #[test]
    fn the_first_change_keeps_the_arithmetic_and_was_replayed() {
        let one = answered(&[
            ("never replayed", true, None),
            ("no dropout", false, Some("shapes")),
            ("paged optimizer state", true, Some("rehearsed")),
        ]);
        let first = |keeps| one.first(keeps).map(|one| one.change.as_str());
        assert_eq!(first(true), Some("paged optimizer state"));
        assert_eq!(first(false), Some("no dropout"));
        assert!(
            answered(&[("never replayed", true, None)])
                .first(false)
                .is_none()
        );
        let said = would_fit(
            &fleet(7834.0),
            &[answered(&[("no dropout", false, Some("shapes"))])],
            4,
        );
        let wanted = "no dropout on box NVIDIA GeForce RTX 3070 Ti (need 7090 MiB)";
        assert_eq!(said.as_deref(), Some(wanted));
        assert_eq!(would_fit(&fleet(7834.0), &[one], 5), None);
    }

    /// The model may still believe that it fits, as after a failure on a simulated card.
    #[test]
    fn a_failure_is_explained_whatever_the_verdict_is() {
        let mut snapshot = fleet(7833.6);
        let knowledge = Knowledge::seeds();
        assert!(find(&snapshot, None, &knowledge).peak.is_none());
        snapshot.note_failure(0);
        let found = find(&snapshot, Some(0), &knowledge);
        let (device, peak) = found.peak.expect("a peak");
        let wanted = peak.out_of_memory.expect("a failure").wanted;
        assert_eq!((device, wanted.mib), (0, 1280.3));
        let first = found.answered[0].first(true).expect("a change");
        assert_eq!(first.change, "paged optimizer state");
        assert_ne!(first.rests_on.source, Source::Unknown);
    }
}
