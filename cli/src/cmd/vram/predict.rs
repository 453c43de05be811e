//! `sweep vram predict`: the memory that a recipe needs on a device, term by term, whether it fits, and what would
//! make it fit. On the shipped measurements, or (`--ask`) on all that a coordinator has learned. Places nothing; a
//! model that nothing is known of is refused rather than guessed.

use std::path::PathBuf;

use clap::ValueEnum;
use jobs::spec::nearest_help;
use proto::v1::{PredictDevice, PredictRequest, Predicted};
use serde::Serialize;
use serde_json::json;
use vram::{Knowledge, Prediction, Workload};

use super::rows;
use super::settings::Recipe;
use super::target::{Device, Target};
use crate::clients::{self, Clients};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// Say how much memory a recipe needs, and whether it fits
///
/// Without a device: on every card known by name; with --ask: on the devices of the coordinator's hosts.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub recipe: Recipe,
    /// What is done with the memory
    #[arg(long, default_value = "train")]
    pub mode: Mode,
    #[command(flatten)]
    pub target: Target,
    /// Table of measured steps (JSON lines) to learn from besides; may be repeated
    #[arg(long, value_name = "ROWS.jsonl")]
    pub learn_from: Vec<PathBuf>,
    /// Ask the coordinator, which has learned from every attempt
    #[arg(long, conflicts_with = "learn_from")]
    pub ask: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Mode {
    /// Training runs with their optimizer
    Train,
    /// One forward and backward on the longest example
    Probe,
    /// Evaluation: the model and its KV cache
    Bake,
}

impl Mode {
    pub fn of_model(self) -> vram::Mode {
        match self {
            Self::Train => vram::Mode::Train,
            Self::Probe => vram::Mode::Probe,
            Self::Bake => vram::Mode::Bake,
        }
    }
}

/// What is printed where no device was named.
#[derive(Debug, Serialize)]
pub struct Predictions {
    pub predictions: Vec<Found>,
}

#[derive(Debug, Serialize)]
pub struct Found {
    /// Of a coordinator's device; absent for a card known by name.
    pub host: Option<String>,
    /// So many alike.
    pub devices: u32,
    pub simulated: bool,
    #[serde(flatten)]
    pub prediction: Prediction,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let settings = args.recipe.read()?;
    let workload = Workload::new(args.mode.of_model(), &settings, None)
        .map_err(|error| Error::BadInput(error.to_string()))?;
    if !args.ask {
        known(&workload)?;
    }
    let one = args.target.one()?;
    let devices: Vec<Device> = match &one {
        Some(one) => vec![one.device.clone()],
        None => args.target.all()?,
    };
    let of_hosts = one.is_none() && args.target.is_open();
    let asked = if args.ask {
        ask(&workload, &devices, of_hosts, context).await?
    } else {
        None
    };
    let mut found = match asked {
        Some(found) => found,
        None => here(
            &workload,
            &devices,
            &rows::knowledge(&args.learn_from, context)?,
        ),
    };
    let heading = format!(
        "{} of {}",
        render::vram::word(&workload.mode),
        args.recipe.name()
    );
    match (one, found.len()) {
        (Some(one), 1) => {
            let prediction = found.remove(0).prediction;
            out::document(context, &prediction, |prediction| {
                render::vram::predict::one(&heading, prediction, one.card)
            })?;
        }
        _ => {
            let document = Predictions { predictions: found };
            out::document(context, &document, |document| {
                render::vram::predict::many(&heading, &document.predictions)
            })?;
        }
    }
    note_what_is_missing(&workload, context);
    Ok(Exit::DONE)
}

/// Refuses a model whose shape nobody has given.
pub fn known(workload: &Workload) -> Result<(), Error> {
    let Some(recipe) = workload.recipe.as_ref() else {
        return Ok(());
    };
    if recipe.architecture().is_some() {
        return Ok(());
    }
    let name = &recipe.model;
    let names: Vec<&str> = vram::known_models().collect();
    let help = nearest_help(name.rsplit('/').next().unwrap_or(name), &names);
    Err(Error::BadInput(format!(
        "no model is known as `{name}`; {help} Or give its config.json with --config; `sweep vram models` lists all"
    )))
}

/// On what this program knows by itself.
fn here(workload: &Workload, devices: &[Device], knowledge: &Knowledge) -> Vec<Found> {
    let each = devices.iter().map(|(class, load)| Found {
        host: None,
        devices: 1,
        simulated: class.simulated,
        prediction: vram::predict(workload, class, load, knowledge),
    });
    each.collect()
}

/// On what the coordinator knows; nothing where there is neither one nor a store, and so nothing but the shipped
/// measurements to know.
async fn ask(
    workload: &Workload,
    devices: &[Device],
    of_hosts: bool,
    context: &Context,
) -> Result<Option<Vec<Found>>, Error> {
    let Some(open) = clients::open_existing(context).await? else {
        let folder = context.data.display();
        out::note(
            context,
            &format!("{folder} holds no sweeps: the shipped measurements are all that is known"),
        );
        return Ok(None);
    };
    let answer = answers(&open.clients, workload, devices, of_hosts).await;
    open.close().await?;
    answer.map(Some)
}

async fn answers(
    clients: &Clients,
    workload: &Workload,
    devices: &[Device],
    of_hosts: bool,
) -> Result<Vec<Found>, Error> {
    if of_hosts {
        let found = answer(clients, workload, &[]).await?;
        if !found.is_empty() {
            return Ok(found);
        }
        // It knows of no host with a GPU: the cards known by name, as without it.
    }
    answer(clients, workload, devices).await
}

async fn answer(
    clients: &Clients,
    workload: &Workload,
    devices: &[Device],
) -> Result<Vec<Found>, Error> {
    let request = PredictRequest {
        mode: render::vram::word(&workload.mode),
        settings: json!(workload.settings).to_string(),
        devices: devices.iter().map(wire).collect(),
    };
    let reply = clients.vram().predict(request).await?.into_inner();
    reply.predictions.into_iter().map(found).collect()
}

fn wire((class, load): &Device) -> PredictDevice {
    PredictDevice {
        class: json!(class).to_string(),
        usable_mib: load.usable.mib(),
        held_mib: load.held.mib(),
    }
}

fn found(predicted: Predicted) -> Result<Found, Error> {
    let prediction = serde_json::from_str(&predicted.prediction).map_err(|error| {
        Error::Failed(format!(
            "failed to read the coordinator's prediction: {error}"
        ))
    })?;
    Ok(Found {
        host: (!predicted.host.is_empty()).then_some(predicted.host),
        devices: predicted.devices,
        simulated: predicted.simulated,
        prediction,
    })
}

/// Why nothing could be said, where that is in the user's hands.
fn note_what_is_missing(workload: &Workload, context: &Context) {
    let Some(recipe) = workload.recipe.as_ref() else {
        return;
    };
    let missing = match recipe.architecture() {
        None => {
            "the coordinator's knowledge is all there is of this model; give its config.json with --config"
        }
        Some(shape) if !shape.family.is_known() => {
            "the activations of this family of models are not known, so only a measurement tells its need"
        }
        Some(_) if recipe.seq_len.is_none() && workload.context_len.is_none() => {
            "how long the examples are decides the need: give --set seq_len=N"
        }
        Some(_) => return,
    };
    out::note(context, missing);
}
