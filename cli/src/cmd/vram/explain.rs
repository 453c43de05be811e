//! `sweep vram explain --from STREAM`: what is alive at a stream's peak, by module and line of code, and how allocated
//! and reserved memory went over the step. Explains streams that somebody recorded or rehearsed; makes none.

use std::path::PathBuf;

use vram::{Bytes, ReplaySettings, explain, timeline_svg};

use super::replay::{self, From};
use super::{report, target};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// Explain the peak of an allocation stream: what is alive there, and the way to it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A stream, as `rehearse.py` or `record.py` of the kit write it; or two, each as rank=N:PATH, with --for
    #[arg(long, value_name = "[rank=N:]STREAM", required = true)]
    pub from: Vec<From>,
    /// The rank to scale two streams to
    #[arg(long = "for", value_name = "rank=N", value_parser = replay::rank)]
    pub rank: Option<u64>,
    /// Most that may be reserved: usable memory less context and what others hold
    #[arg(long, value_name = "MIB", value_parser = target::mib)]
    pub limit_mib: Option<f64>,
    /// As with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    #[arg(long)]
    pub expandable_segments: bool,
    /// Write a drawing of allocated and reserved memory over the step
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

pub fn run(args: &Args, context: &Context) -> Result<Exit, Error> {
    let stream = replay::stream(&args.from, args.rank)?;
    let settings = ReplaySettings {
        limit: args.limit_mib.map(Bytes::from_mib),
        expandable_segments: args.expandable_segments,
        alive_at_peak: true,
    };
    let explained = explain(&stream, settings);
    if let Some(path) = &args.svg {
        report::write(path, timeline_svg(&explained).as_bytes())
            .map_err(|source| Error::io("write", path.display().to_string(), source))?;
    }
    out::document(context, &explained, render::vram::explain::text)?;
    Ok(Exit::DONE)
}
