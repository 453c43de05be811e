//! What would make it fit: changes to a workload that does not, smallest first, each replayed under the room there is.
//! Suggests nothing that its own verdict does not call `fits` and its own replay does not let through (what ran there
//! was measured, and a bake has nothing to replay), and nothing for a program that it cannot read.

use serde::{Deserialize, Serialize};

use crate::changes::{Change, kinds, together};
use crate::peak::followed;
use crate::replay::{ReplaySettings, ReplayStatus, replay};
use crate::streams::{self, Origin};
use crate::{
    Bytes, DeviceClass, DeviceLoad, Knowledge, Mode, Settings, Source, VerdictKind, Workload,
    estimate, verdict_of,
};

/// One changed setting or more, and what is needed then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    /// In words: `rank 96 instead of 112`.
    pub change: String,
    /// The settings to change, by name.
    pub settings: Settings,
    #[serde(rename = "need_mib", with = "crate::bytes::as_mib")]
    pub need: Bytes,
    #[serde(rename = "band_mib", with = "crate::bytes::as_mib")]
    pub band: Bytes,
    /// The training computes the same numbers, up to rounding.
    pub keeps_arithmetic: bool,
    #[serde(flatten)]
    pub rests_on: RestsOn,
}

/// What is predicted with a change, and from what.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestsOn {
    /// Peak allocated and reserved, as need is predicted from them.
    pub predicted_allocated_mib: f64,
    pub predicted_reserved_mib: f64,
    /// What the prediction rests on: what was `measured` on this class of device needs no replay.
    pub source: Source,
    /// Who made the stream that was replayed; absent where none was.
    pub stream: Option<Origin>,
}

impl Default for RestsOn {
    fn default() -> Self {
        Self {
            predicted_allocated_mib: 0.0,
            predicted_reserved_mib: 0.0,
            source: Source::Unknown,
            stream: None,
        }
    }
}

impl RestsOn {
    /// It ran there, or was replayed under the room there is.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.source == Source::Measured || self.stream.is_some()
    }
}

/// A change that was looked at, whatever came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    pub change: String,
    pub settings: Settings,
    pub keeps_arithmetic: bool,
    pub need_mib: f64,
    pub band_mib: f64,
    pub verdict: VerdictKind,
    /// The replay under the room less the context and a margin; absent where the verdict was enough to refuse it.
    pub allocated_mib: Option<f64>,
    pub reserved_mib: Option<f64>,
    pub status: Option<ReplayStatus>,
    pub oom_wanted_mib: Option<f64>,
    #[serde(flatten)]
    pub rests_on: RestsOn,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// As written.
    pub verdict: VerdictKind,
    pub need_mib: Option<f64>,
    pub band_mib: Option<f64>,
    pub room_mib: f64,
    /// What fits, those that keep the arithmetic first.
    pub suggestions: Vec<Suggestion>,
    pub tried: Vec<Tried>,
}

/// The suggestions of [`advise`].
#[must_use]
pub fn would_fit(
    workload: &Workload,
    class: &DeviceClass,
    load: &DeviceLoad,
    knowledge: &Knowledge,
) -> Vec<Suggestion> {
    advise(workload, class, load, knowledge).suggestions
}

/// Of each kind of change the smallest that fits; where none does, several at once.
#[must_use]
pub fn advise(
    workload: &Workload,
    class: &DeviceClass,
    load: &DeviceLoad,
    knowledge: &Knowledge,
) -> Advice {
    let known = estimate(workload, class, knowledge);
    let as_written = verdict_of(workload, known, class, load);
    let mut search = Search {
        workload,
        class,
        load,
        knowledge,
        tried: Vec::new(),
    };
    let mut suggestions = Vec::new();
    if let Some(recipe) = &workload.recipe {
        for (kind, alone) in kinds(workload, recipe, class).into_iter().zip(ALONE) {
            // Several at once only where one is not enough.
            if alone || suggestions.is_empty() {
                suggestions.extend(search.first_that_fits(kind));
            }
        }
        if suggestions.is_empty() {
            suggestions.extend(search.first_that_fits(together(workload, recipe, class)));
        }
    }
    let mib =
        |of: fn(&crate::Estimate) -> Bytes| as_written.estimate.as_ref().map(|one| of(one).mib());
    Advice {
        verdict: as_written.kind,
        need_mib: mib(crate::Estimate::need),
        band_mib: mib(|one| one.band),
        room_mib: load.room().mib(),
        suggestions,
        tried: search.tried,
    }
}

/// Which of the [`kinds`] are tried whatever was found before.
const ALONE: [bool; 9] = [true, false, true, true, true, true, true, true, true];

struct Search<'a> {
    workload: &'a Workload,
    class: &'a DeviceClass,
    load: &'a DeviceLoad,
    knowledge: &'a Knowledge,
    tried: Vec<Tried>,
}

impl Search<'_> {
    fn first_that_fits(&mut self, changes: Vec<Change>) -> Option<Suggestion> {
        changes.into_iter().find_map(|change| self.fits(change))
    }

    fn fits(&mut self, change: Change) -> Option<Suggestion> {
        let mut settings = self.workload.settings.clone();
        settings.extend(change.settings.clone());
        let mode = self.workload.mode;
        let smaller = Workload::new(mode, &settings, self.workload.declared).ok()?;
        let known = estimate(&smaller, self.class, self.knowledge)?;
        let kind = verdict_of(&smaller, Some(known.clone()), self.class, self.load).kind;
        let mut tried = Tried {
            change: change.words.clone(),
            settings: change.settings.clone(),
            keeps_arithmetic: change.keeps_arithmetic,
            need_mib: known.need().mib(),
            band_mib: known.band.mib(),
            verdict: kind,
            allocated_mib: None,
            reserved_mib: None,
            status: None,
            oom_wanted_mib: None,
            rests_on: RestsOn {
                predicted_allocated_mib: known.allocated.mib(),
                predicted_reserved_mib: known.reserved.mib(),
                source: known.source,
                stream: None,
            },
        };
        // What ran to its end on this very card needs no replay.
        let mut lets_through = known.source == Source::Measured;
        if kind == VerdictKind::Fits && !lets_through {
            lets_through = self.replayed(&smaller, known.context, &mut tried);
        }
        let rests_on = tried.rests_on;
        self.tried.push(tried);
        (kind == VerdictKind::Fits && lets_through).then(|| Suggestion {
            change: change.words,
            settings: change.settings,
            need: known.need(),
            band: known.band,
            keeps_arithmetic: change.keeps_arithmetic,
            rests_on,
        })
    }

    /// Replayed in less than the room there is, by the band of its stream: a recipe that the arithmetic lets in may
    /// still find no place for one block. A bake has no step to replay: its need is a sum of what stays.
    fn replayed(&self, smaller: &Workload, context: Bytes, tried: &mut Tried) -> bool {
        if smaller.mode == Mode::Bake {
            return true;
        }
        let Some(followed) = followed(smaller, self.class, self.knowledge) else {
            return false;
        };
        let room = self.load.room().saturating_sub(context).mib();
        let margin = streams::band(Origin::Rehearsed, &followed.stream, room);
        let recipe = smaller.recipe.as_ref();
        let settings = ReplaySettings {
            limit: Some(Bytes::from_mib(room * (1.0 - margin))),
            expandable_segments: recipe.is_some_and(|recipe| recipe.expandable_segments),
            alive_at_peak: false,
        };
        let answer = replay(&followed.stream, settings);
        tried.rests_on.stream = Some(followed.origin);
        tried.allocated_mib = Some(answer.allocated_mib);
        tried.reserved_mib = Some(answer.reserved_mib);
        tried.status = Some(answer.status);
        tried.oom_wanted_mib = answer.oom_wanted_mib;
        answer.status == ReplayStatus::Ok
    }
}
