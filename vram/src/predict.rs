//! The answer of `sweep vram predict`: every term of one recipe's need on one device, with what it rests on; and, where
//! the recipe can be rehearsed, its whole stream replayed against the device's room.

use serde::{Deserialize, Serialize};

use crate::footprint::footprint_of;
use crate::recipe::{Quant, Recipe};
use crate::replay::{ReplayAnswer, ReplaySettings, replay};
use crate::step::stream;
use crate::{
    Bytes, DeviceClass, DeviceLoad, Knowledge, Mark, Mode, Source, Suggestion, VerdictKind,
    Workload, estimate, planning, verdict_of, would_fit,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedTerm {
    pub name: String,
    /// Absent where it is marked unknown.
    pub mib: Option<f64>,
    pub mark: Mark,
}

/// The largest live bytes of one stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedStage {
    pub name: String,
    pub allocated_mib: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub key: String,
    pub mode: Mode,
    pub device: String,
    pub source: Source,
    pub verdict: VerdictKind,
    pub terms: Vec<PredictedTerm>,
    pub allocated_mib: Option<f64>,
    pub reserved_mib: Option<f64>,
    pub context_mib: Option<f64>,
    pub need_mib: Option<f64>,
    pub band_mib: Option<f64>,
    pub usable_mib: f64,
    pub held_mib: f64,
    /// Stages of the closed form, uncorrected; the largest decides.
    pub stages: Vec<PredictedStage>,
    pub after_load_mib: Option<f64>,
    pub pre_step_mib: Option<f64>,
    /// The rehearsed stream against the device's room less the context.
    pub replayed: Option<ReplayAnswer>,
    /// What would make it fit, where it does not.
    pub would_fit: Vec<Suggestion>,
}

#[must_use]
pub fn predict(
    workload: &Workload,
    class: &DeviceClass,
    load: &DeviceLoad,
    knowledge: &Knowledge,
) -> Prediction {
    let answer = verdict_of(workload, estimate(workload, class, knowledge), class, load);
    let known = answer.estimate.as_ref();
    let mib = |of: fn(&crate::Estimate) -> Bytes| known.map(|known| tenth(of(known)));
    let recipe = workload
        .recipe
        .as_ref()
        .filter(|_| workload.mode != Mode::Bake);
    let plan = recipe.and_then(|recipe| planning::plan(recipe, workload.mode, class));
    let plan = plan.filter(planning::is_reasonable);
    let footprint = plan.as_ref().map(footprint_of);
    let context = known.map_or(Bytes::ZERO, |known| known.context);
    let replayed = plan.as_ref().map(|plan| {
        let settings = ReplaySettings {
            limit: Some(load.room().saturating_sub(context)),
            expandable_segments: recipe.is_some_and(|recipe| recipe.expandable_segments),
            alive_at_peak: true,
        };
        replay(&stream(plan), settings)
    });
    let suggestions = if answer.kind == VerdictKind::Fits {
        Vec::new()
    } else {
        would_fit(workload, class, load, knowledge)
    };
    Prediction {
        key: workload.key.clone(),
        mode: workload.mode,
        device: class.name.clone(),
        source: known.map_or(Source::Unknown, |known| known.source),
        verdict: answer.kind,
        terms: known.map_or_else(
            || unknown(recipe),
            |known| {
                let terms = known.terms.iter();
                terms
                    .map(|term| PredictedTerm {
                        name: term.name.clone(),
                        mib: Some(tenth(term.bytes)),
                        mark: term.mark,
                    })
                    .collect()
            },
        ),
        allocated_mib: mib(|known| known.allocated),
        reserved_mib: mib(|known| known.reserved),
        context_mib: mib(|known| known.context),
        need_mib: mib(crate::Estimate::need),
        band_mib: mib(|known| known.band),
        usable_mib: tenth(load.usable),
        held_mib: tenth(load.held),
        stages: footprint.as_ref().map_or_else(Vec::new, |footprint| {
            let stages = footprint.stages.iter();
            stages
                .map(|stage| PredictedStage {
                    name: stage.name.to_owned(),
                    allocated_mib: tenth(Bytes(stage.total())),
                })
                .collect()
        }),
        after_load_mib: footprint
            .as_ref()
            .map(|footprint| tenth(Bytes(footprint.after_load))),
        pre_step_mib: footprint
            .as_ref()
            .map(|footprint| tenth(Bytes(footprint.pre_step))),
        replayed,
        would_fit: suggestions,
    }
}

/// Of a model whose layers are not known (a mixture of experts, a family of its own) the weights can be counted, every
/// matrix as the recipe holds its linear layers; what its activations take nobody knows before it was probed.
fn unknown(recipe: Option<&Recipe>) -> Vec<PredictedTerm> {
    let shaped = recipe.and_then(|recipe| Some((recipe, recipe.architecture()?)));
    let Some((recipe, shape)) = shaped.filter(|(_, shape)| !shape.family.is_known()) else {
        return Vec::new();
    };
    let linear = shape.linear_parameters();
    let held = match recipe.quant {
        Quant::Nf4 | Quant::Fp4 => linear / 2 + linear / 64,
        Quant::Int8 => linear,
        Quant::Bf16 | Quant::Fp16 => linear.saturating_mul(2),
        Quant::Fp32 => linear.saturating_mul(4),
    };
    let weights = held.saturating_add(shape.embedding_parameters().saturating_mul(2));
    let term = |name: &str, mib, mark| PredictedTerm {
        name: name.to_owned(),
        mib,
        mark,
    };
    vec![
        term("weights", Some(tenth(Bytes(weights))), Mark::Computed),
        term("activations", None, Mark::Unknown),
    ]
}

fn tenth(bytes: Bytes) -> f64 {
    (bytes.mib() * 10.0).round() / 10.0
}
