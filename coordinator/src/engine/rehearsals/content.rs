//! What a stream is of: the recipe in the memory model's words, the cards, and the key of everything that the stream
//! depends on. Pure.

use proto::store::v1::RehearsalRecord;
use sha2::{Digest, Sha256};
use vram::{
    Bytes, CardKind, Event, Kernels, Made, Mode, Origin, ReplaySettings, Settings, Stream, Workload,
};

use super::{Subject, WORKSPACE};
use crate::store::hex;

/// A stream as it came, read by somebody who had the time.
pub struct Unpacked {
    pub stream: Stream,
    /// Peak allocated, by a replay in all the room there is.
    pub peak: Bytes,
    /// From before the step to after the last one.
    pub whole: bool,
}

impl Unpacked {
    /// Takes a while, and memory.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let stream = Stream::read(bytes).map_err(|error| error.to_string())?;
        let roomy = ReplaySettings {
            limit: None,
            expandable_segments: false,
            alive_at_peak: false,
        };
        let peak = Bytes::from_mib(vram::replay(&stream, roomy).allocated_mib);
        let at = |mark| {
            stream
                .events
                .iter()
                .position(|one| *one == Event::Mark(mark))
        };
        let whole = at(1).is_some_and(|begin| at(4).is_some_and(|end| begin < end));
        Ok(Self {
            stream,
            peak,
            whole,
        })
    }
}

/// What it is of, as the memory model knows it.
pub(super) fn workload_of(record: &RehearsalRecord) -> Option<Workload> {
    let settings: Settings = serde_json::from_str(&record.settings).ok()?;
    Workload::new(mode_of(&record.mode)?, &settings, None).ok()
}

/// Older records say nothing of the cards: they were made for those of the Ampere years.
pub(super) fn kernels_of(record: &RehearsalRecord) -> Kernels {
    Kernels::from_word(&record.kernels).unwrap_or_default()
}

pub(super) fn is_recorded(record: &RehearsalRecord) -> bool {
    !record.attempt.is_empty()
}

pub(super) fn subject_of(record: &RehearsalRecord) -> Option<(Subject, u64)> {
    let (family, rank) = workload_of(record)?.family()?;
    let subject = Subject {
        family: family.into(),
        kernels: kernels_of(record),
    };
    Some((subject, rank))
}

/// How the memory model is to take it.
pub(super) fn made_of(record: &RehearsalRecord) -> Made {
    Made {
        origin: match is_recorded(record) {
            true => Origin::Recorded,
            false => Origin::Rehearsed,
        },
        card: CardKind {
            kernels: kernels_of(record),
            workspace: Bytes(record.workspace_bytes),
        },
        by: record.stack.clone(),
        doubtful: !record.doubts.is_empty(),
    }
}

pub(super) fn mode_of(word: &str) -> Option<Mode> {
    match word {
        "train" => Some(Mode::Train),
        "probe" => Some(Mode::Probe),
        _ => None,
    }
}

pub(super) fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Probe => "probe",
        Mode::Train | Mode::Bake => "train",
    }
}

/// Everything that a rehearsed stream depends on.
pub(super) fn key(settings: &str, mode: Mode, kernels: Kernels, stack: &str) -> String {
    let workspace = WORKSPACE.0.to_string();
    let cards = kernels.as_str();
    hashed(&[settings, mode_word(mode), &workspace, stack, cards])
}

/// One recipe on one group of cards has one recorded stream: the newest.
pub(super) fn recorded_key(settings: &str, mode: Mode, kernels: Kernels) -> String {
    hashed(&[settings, mode_word(mode), "recorded", kernels.as_str()])
}

fn hashed(parts: &[&str]) -> String {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update(part.len().to_be_bytes());
        sum.update(part.as_bytes());
    }
    let mut key = hex(&sum.finalize());
    key.truncate(32);
    key
}

/// The recipe in the memory model's words, with the model's configuration, so that no host has to look for it.
pub(super) fn settings_of(workload: &Workload) -> Option<Settings> {
    let recipe = workload.recipe.as_ref()?;
    let given = workload.settings.get("model_config");
    let config = given.filter(|config| !config.is_null()).cloned();
    let config = config.or_else(|| vram::known_model_config(&recipe.model))?;
    let mut settings = recipe.settings();
    settings.insert("model_config".into(), config);
    Some(settings)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub fn workload(more: &serde_json::Value) -> Workload {
        let mut all =
            json!({"model": "unsloth/gemma-3-4b-it", "rank": 8, "seq_len": 512, "quant": "4bit"});
        for (name, value) in more.as_object().expect("an object") {
            all[name] = value.clone();
        }
        let settings = serde_json::from_value(all).expect("settings");
        Workload::new(Mode::Train, &settings, None).expect("a workload")
    }

    #[test]
    fn the_key_tells_apart_what_the_stream_depends_on_and_nothing_else() {
        let key_of = |more, stack| {
            let settings = serde_json::to_string(&settings_of(&workload(&more))).expect("text");
            key(&settings, Mode::Train, Kernels::Ampere, stack)
        };
        let base = key_of(json!({}), "torch 2.15");
        assert_eq!(base.len(), 32);
        assert_eq!(
            base,
            key_of(
                json!({"quant": "nf4", "learning_rate": 1e-4, "seed": 9}),
                "torch 2.15"
            )
        );
        assert_ne!(base, key_of(json!({}), "torch 2.16"));
        assert_ne!(base, key_of(json!({"rank": 9}), "torch 2.15"));
        assert_ne!(base, key_of(json!({"dropout": 0.1}), "torch 2.15"));
        let settings = serde_json::to_string(&settings_of(&workload(&json!({})))).expect("text");
        let turing = key(&settings, Mode::Train, Kernels::Turing, "torch 2.15");
        assert_ne!(base, turing);
        assert_ne!(
            recorded_key(&settings, Mode::Train, Kernels::Turing),
            turing
        );
    }

    #[test]
    fn a_record_of_an_older_version_is_of_the_ampere_years() {
        let record = RehearsalRecord::default();
        assert_eq!(kernels_of(&record), Kernels::Ampere);
        assert!(!is_recorded(&record));
        assert_eq!(made_of(&record).origin, Origin::Rehearsed);
    }

    #[test]
    fn a_stream_is_whole_from_before_the_step_to_after_it() {
        let read = |text: &[u8]| Unpacked::read(text).map(|one| (one.whole, one.peak));
        let whole = read(b"a 1048576\nm 1\na 1048576\nf 1\nm 4\n");
        assert_eq!(whole, Ok((true, Bytes(2 << 20))));
        assert_eq!(read(b"a 512\nm 1\na 512\n").map(|one| one.0), Ok(false));
        assert_eq!(read(b"a 512\nm 4\nm 1\n").map(|one| one.0), Ok(false));
        assert!(Unpacked::read(&[0x1f, 0x8b, 8, 0]).is_err());
    }
}
