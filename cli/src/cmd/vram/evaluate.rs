//! `sweep vram evaluate ROWS.jsonl`: predictions for a table of measured steps, beside what was measured; from the
//! shapes, or from rehearsals of the same code. Learns from other tables or from rows of this one, if asked to; from
//! nothing else, not even the shipped measurements.

use std::path::PathBuf;

use serde::Serialize;
use vram::{Evaluation, LearnFrom};

use super::input;
use super::rehearse::{Rehearsed, Rehearsing, rehearse};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// Predict a table of measured steps, and say how far off the predictions are
///
/// One JSON object a line: docs/commands.md lists the fields. Nothing is learned unless asked for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Table of measured steps (JSON lines); - for standard input
    #[arg(value_name = "ROWS.jsonl")]
    pub rows: PathBuf,
    /// Table of other steps to learn from; may be repeated
    #[arg(long, value_name = "ROWS.jsonl")]
    pub learn_from: Vec<PathBuf>,
    /// Learn from the other rows of the table, for each row
    #[arg(long)]
    pub leave_one_out: bool,
    /// Learn from the first row of each model, card and program, for the rows after it
    #[arg(long, conflicts_with = "leave_one_out")]
    pub learn_first: bool,
    #[command(flatten)]
    pub rehearsing: Rehearsing,
}

#[derive(Serialize)]
pub struct Document {
    #[serde(flatten)]
    pub evaluation: Evaluation,
    /// Only with `--rehearse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<Rehearsed>,
}

pub fn run(args: &Args, context: &Context) -> Result<Exit, Error> {
    let rows = input::table(&args.rows)?;
    let others: Vec<String> = args
        .learn_from
        .iter()
        .map(|path| input::table(path))
        .collect::<Result<_, _>>()?;
    let texts: Vec<&str> = others.iter().map(String::as_str).collect();
    let learn = LearnFrom {
        tables: &texts,
        other_rows: args.leave_one_out,
        first_row: args.learn_first,
    };
    let (streams, rehearsal) = if args.rehearsing.rehearse {
        let (streams, rehearsal) = rehearse(&args.rehearsing, &args.rows, &rows, context)?;
        (streams, Some(rehearsal))
    } else {
        Default::default()
    };
    let evaluation = vram::evaluate_with(&rows, streams, learn).map_err(|error| {
        // Which of the tables it stands in is found by reading them one by one, in their order.
        let paths = std::iter::once(&args.rows).chain(&args.learn_from);
        let tables = paths.zip(std::iter::once(rows.as_str()).chain(texts.iter().copied()));
        let mut wrong = tables.filter(|(_, text)| vram::evaluate(text, &[], false).is_err());
        let path = wrong.next().map_or(&args.rows, |(path, _)| path);
        Error::BadInput(format!(
            "{}:{}: {}",
            input::name(path),
            error.line,
            in_its_line(&error.message)
        ))
    })?;
    let document = Document {
        evaluation,
        rehearsal,
    };
    out::document(context, &document, render::vram::evaluate::text)?;
    // What could not be rehearsed is said row by row; with no row at all there is nothing to go by.
    let nothing = |made: &Rehearsed| made.streams == 0 && !made.failed.is_empty();
    Ok(if document.rehearsal.as_ref().is_some_and(nothing) {
        Exit::NOT_SUCCEEDED
    } else {
        Exit::DONE
    })
}

/// Each row was read by itself, so the reader's own line is always the first.
pub fn in_its_line(message: &str) -> String {
    message.replace(" at line 1 column ", " at column ")
}
