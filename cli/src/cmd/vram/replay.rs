//! `sweep vram replay --from STREAM`: an allocation stream through the allocator's model, against a limit. Two streams
//! of one recipe at two ranks give that of a third. Out of memory is an answer, not a failure.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use vram::{Bytes, ReplaySettings, Stream, scale};

use super::{input, target};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// As long as what a packed stream may unfold to.
const LARGEST_STREAM: u64 = 400 << 20;
/// As for the setting `rank`.
const LARGEST_RANK: u64 = 100_000_000;

/// Replay an allocation stream: its peaks, and whether it fits in a limit
///
/// Streams are text, plain or gzip: `a SIZE [LABEL]`, `f N`, `E`, `m K`, one event a line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A stream; or two of one recipe at two ranks, each as rank=N:PATH, with --for
    #[arg(long, value_name = "[rank=N:]STREAM", required = true)]
    pub from: Vec<From>,
    /// The rank to scale two streams to
    #[arg(long = "for", value_name = "rank=N", value_parser = rank)]
    pub rank: Option<u64>,
    /// Most that may be reserved: usable memory less context and what others hold
    #[arg(long, value_name = "MIB", value_parser = target::mib)]
    pub limit_mib: Option<f64>,
    /// As with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    #[arg(long)]
    pub expandable_segments: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct From {
    rank: Option<u64>,
    path: PathBuf,
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = text
            .starts_with("rank=")
            .then(|| text.split_once(':'))
            .flatten();
        let (given, path) = match named {
            Some((given, path)) => (Some(rank(given)?), path),
            None => (None, text),
        };
        if path.is_empty() {
            return Err("the path is missing".to_owned());
        }
        Ok(Self {
            rank: given,
            path: path.into(),
        })
    }
}

pub fn rank(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix("rank=").and_then(|n| n.parse().ok());
    number
        .filter(|rank| (1..=LARGEST_RANK).contains(rank))
        .ok_or_else(|| format!("`{text}` is no rank: write rank=N, N from 1 to {LARGEST_RANK}"))
}

pub fn run(args: &Args, context: &Context) -> Result<Exit, Error> {
    let stream = stream(&args.from, args.rank)?;
    let settings = ReplaySettings {
        limit: args.limit_mib.map(Bytes::from_mib),
        expandable_segments: args.expandable_segments,
        alive_at_peak: true,
    };
    let answer = vram::replay(&stream, settings);
    out::document(context, &answer, |answer| {
        render::vram::replay::text(answer, args.limit_mib)
    })?;
    Ok(Exit::DONE)
}

pub fn stream(from: &[From], wanted: Option<u64>) -> Result<Stream, Error> {
    let bad = |text: &str| Err(Error::BadInput(text.to_owned()));
    match (from, wanted) {
        ([one], None) => read(&one.path),
        ([_], Some(_)) => {
            bad("--for scales two streams: give another --from of the same recipe at another rank")
        }
        ([one, two], Some(wanted)) => match (one.rank, two.rank) {
            (Some(rank_one), Some(rank_two)) => {
                let (a, b) = (read(&one.path)?, read(&two.path)?);
                scale((&a, rank_one), (&b, rank_two), wanted)
                    .map_err(|error| Error::BadInput(format!("failed to {error}")))
            }
            _ => bad("of two streams each needs its rank: --from rank=N:STREAM"),
        },
        ([_, _], None) => {
            bad("two streams are scaled to a third rank: say which with --for rank=N")
        }
        _ => bad("at most two streams can be given with --from"),
    }
}

fn read(path: &Path) -> Result<Stream, Error> {
    let bytes = input::bytes(path, LARGEST_STREAM, "an allocation stream")?;
    Stream::read(&bytes)
        .map_err(|error| Error::BadInput(format!("{}: failed to {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_may_carry_its_rank() {
        let read = |text: &str| text.parse::<From>().map(|from| (from.rank, from.path));
        assert_eq!(
            read("rank=104:a/b.gz"),
            Ok((Some(104), PathBuf::from("a/b.gz")))
        );
        assert_eq!(read("a:b"), Ok((None, PathBuf::from("a:b"))));
        assert_eq!(read("rank=104"), Ok((None, PathBuf::from("rank=104"))));
        for bad in [
            "rank=0:a",
            "rank=x:a",
            "rank=:a",
            "rank=-1:a",
            "rank=1:",
            "",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(rank("rank=80"), Ok(80));
        assert!(rank("80").is_err());
    }
}
