//! `sweep vram models` and `sweep vram cards`: what is known by name. Nothing is asked and nothing computed.

use serde::Serialize;
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// One entry of `sweep vram models --json`.
#[derive(Debug, Serialize)]
pub struct KnownModel {
    pub name: &'static str,
    /// What decides how its activations are counted.
    pub family: String,
    pub layers: u64,
    pub hidden: u64,
    /// Of the linear layers and the embedding of its text part.
    pub parameters: u64,
}

pub fn models(context: &Context) -> Result<Exit, Error> {
    let models: Vec<KnownModel> = vram::known_models()
        .filter_map(|name| {
            let shape = vram::known_model(name)?;
            Some(KnownModel {
                name,
                family: render::vram::word(&shape.family).to_lowercase(),
                layers: shape.layers,
                hidden: shape.hidden,
                parameters: shape.linear_parameters() + shape.embedding_parameters(),
            })
        })
        .collect();
    out::document(context, &json!({ "models": models }), |_| {
        render::vram::known::models(&models)
    })?;
    Ok(Exit::DONE)
}

pub fn cards(context: &Context) -> Result<Exit, Error> {
    let cards = vram::known_cards();
    out::document(context, &json!({ "cards": cards }), |_| {
        render::vram::known::cards(cards)
    })?;
    Ok(Exit::DONE)
}
