//! `sweep vram predict|advise|evaluate|replay|explain|report|models|cards`: the memory model by itself, without a sweep. Runs
//! nothing on any card and changes nothing; only `--ask` and `report` need a coordinator's knowledge.

mod advise;
pub mod evaluate;
mod explain;
mod input;
mod known;
mod predict;
pub mod rehearse;
mod replay;
mod report;
mod rows;
mod settings;
mod target;

pub use known::KnownModel;
pub use predict::Found;

use crate::context::Context;
use crate::error::{Error, Exit};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    Predict(predict::Args),
    Advise(advise::Args),
    Evaluate(evaluate::Args),
    Replay(replay::Args),
    Explain(explain::Args),
    Report(report::Args),
    /// List the models known by name
    Models,
    /// List the cards known by name, with the source of each number
    Cards,
}

pub async fn run(verb: Verb, context: &Context) -> Result<Exit, Error> {
    match verb {
        Verb::Predict(args) => predict::run(args, context).await,
        Verb::Advise(args) => advise::run(&args, context),
        Verb::Evaluate(args) => evaluate::run(&args, context),
        Verb::Replay(args) => replay::run(&args, context),
        Verb::Explain(args) => explain::run(&args, context),
        Verb::Report(args) => report::run(&args, context).await,
        Verb::Models => known::models(context),
        Verb::Cards => known::cards(context),
    }
}
