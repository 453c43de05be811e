//! `sweep history`: every attempt there ever was, newest first, by host, sweep, kind, outcome and time; or what their
//! programs observed, as the table of measured rows that the memory model reads. Only reads.

use clap::builder::PossibleValuesParser;
use jiff::Timestamp;
use jobs::{AttemptOutcome, Kind};
use proto::v1::{AttemptDocument, HistoryReply, HistoryRequest};

use crate::clients;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// List attempts, newest first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only on this host
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Only of this sweep
    #[arg(long, value_name = "SWEEP")]
    pub sweep: Option<String>,
    /// Only jobs of this kind
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::as_str)))]
    pub kind: Option<String>,
    /// Only attempts that ended so
    #[arg(long, value_name = "OUTCOME", value_parser = outcomes())]
    pub outcome: Option<String>,
    /// Not older: a time (RFC 3339), a date, or how long ago ("2d", "14h", "30m")
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<Timestamp>,
    /// Not newer: as --since
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub until: Option<Timestamp>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Go on from the `next_page` of an earlier answer
    #[arg(long, value_name = "PAGE")]
    pub page: Option<String>,
    /// Instead of the attempts: what their programs observed, one JSON line each, as `sweep vram evaluate` reads it
    #[arg(long)]
    pub observations: bool,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    if args.observations {
        return observations(args, context).await;
    }
    let request = request(args);
    let reply = clients::ask_existing(context, async |clients| {
        clients.sweeps().history(request).await
    })
    .await?;
    let reply: HistoryReply = reply.unwrap_or_default();
    out::document(context, &reply, |reply| {
        render::history::text(&reply.attempts)
    })?;
    if !reply.next_page.is_empty() {
        out::note(
            context,
            &format!("there are more: --page {}", reply.next_page),
        );
    }
    Ok(Exit::DONE)
}

/// Page after page: a filter that few attempts pass leaves short ones.
async fn observations(args: Args, context: &Context) -> Result<Exit, Error> {
    let mut left = args.limit;
    let mut request = request(args);
    while left > 0 {
        request.limit = left;
        let asked = request.clone();
        let reply = clients::ask_existing(context, async |clients| {
            clients.sweeps().history(asked).await
        });
        let reply: HistoryReply = reply.await?.unwrap_or_default();
        for attempt in &reply.attempts {
            out::json_line(&row(attempt)?)?;
        }
        left = left.saturating_sub(u32::try_from(reply.attempts.len()).unwrap_or(u32::MAX));
        if reply.next_page.is_empty() {
            return Ok(Exit::DONE);
        }
        request.page = reply.next_page;
    }
    out::note(context, &format!("there are more: --page {}", request.page));
    Ok(Exit::DONE)
}

/// What a program observed, and of which attempt it is.
fn row(attempt: &AttemptDocument) -> Result<serde_json::Value, Error> {
    let text = attempt.observation.as_deref().unwrap_or("{}");
    let unreadable = |error: serde_json::Error| {
        Error::Failed(format!(
            "the observation of {} cannot be read: {error}",
            attempt.id
        ))
    };
    let mut row: serde_json::Map<_, _> = serde_json::from_str(text).map_err(unreadable)?;
    let day = attempt.placed_at.split('T').next().unwrap_or_default();
    for (name, said) in [
        ("attempt", &*attempt.id),
        ("host", &attempt.host),
        ("date", day),
    ] {
        row.insert(name.to_owned(), said.into());
    }
    // A program's own words for how it ended may be missing; the attempt's are there.
    let outcome = attempt.outcome.as_deref().unwrap_or_default();
    row.entry("outcome").or_insert_with(|| outcome.into());
    Ok(row.into())
}

fn request(args: Args) -> HistoryRequest {
    let text = Option::unwrap_or_default;
    let time = |moment: Option<Timestamp>| {
        moment
            .map(|moment| format!("{moment:.3}"))
            .unwrap_or_default()
    };
    HistoryRequest {
        host: text(args.host),
        sweep: text(args.sweep),
        kind: text(args.kind),
        outcome: text(args.outcome),
        since: time(args.since),
        until: time(args.until),
        limit: args.limit,
        page: text(args.page),
        observed: args.observations,
    }
}

fn outcomes() -> PossibleValuesParser {
    PossibleValuesParser::new(AttemptOutcome::ALL.iter().map(|outcome| outcome.as_str()))
}

fn moment(text: &str) -> Result<Timestamp, String> {
    moment_at(text, Timestamp::now())
}

/// A point in time, or how long before `now`.
fn moment_at(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Some(seconds) = ago(text) {
        return now
            .checked_sub(jiff::SignedDuration::from_secs(seconds))
            .map_err(|error| error.to_string());
    }
    let wrong = || {
        "write a time like 2026-12-02T04:00:00Z, a date like 2026-12-02, or how long ago like 2d"
            .to_owned()
    };
    let ms = proto::time::parse(text).map_err(|_| wrong())?;
    let ms = i64::try_from(ms).map_err(|_| wrong())?;
    Timestamp::from_millisecond(ms).map_err(|_| wrong())
}

/// Seconds of `90s`, `30m`, `14h`, `2d`, `1w`.
fn ago(text: &str) -> Option<i64> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let number: i64 = text[..text.len() - 1].trim().parse().ok()?;
    number.checked_mul(seconds).filter(|total| *total >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_points_or_spans() {
        let now: Timestamp = "2026-12-02T12:00:00Z".parse().unwrap();
        let at = |text| moment_at(text, now).map(|moment| moment.to_string());
        assert_eq!(at("2d").as_deref(), Ok("2026-11-30T12:00:00Z"));
        assert_eq!(at("90s").as_deref(), Ok("2026-12-02T11:58:30Z"));
        assert_eq!(at("2026-12-01").as_deref(), Ok("2026-12-01T00:00:00Z"));
        assert_eq!(
            at("2026-12-01T01:00:00Z").as_deref(),
            Ok("2026-12-01T01:00:00Z")
        );
        for bad in ["yesterday", "d", "99999999999999999d", "-2d", "ä"] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }
}
