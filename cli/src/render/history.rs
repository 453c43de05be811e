//! `sweep history` for people: attempts, newest first.

use proto::v1::AttemptDocument;

use super::SIMULATED;
use super::format::{device, duration_if, mib_if, minute, short, unknown};
use super::paint::paint;
use super::table::{Kind, Table};

pub fn text(attempts: &[AttemptDocument]) -> String {
    if attempts.is_empty() {
        return "no attempts".to_owned();
    }
    let mut table = Table::new(&[
        ("ATTEMPT", Kind::Word),
        ("HOST", Kind::Text),
        ("DEVICE", Kind::Text),
        ("STARTED UTC", Kind::Word),
        ("TIME", Kind::Figure),
        ("PEAK MiB", Kind::Figure),
        ("EXIT", Kind::Figure),
        ("OUTCOME", Kind::Word),
    ]);
    for attempt in attempts {
        table.row(cells(attempt));
    }
    let mut text = paint(&table.to_string());
    if attempts.iter().any(|attempt| attempt.simulated) {
        text.push_str(SIMULATED);
    }
    text
}

fn cells(attempt: &AttemptDocument) -> [String; 8] {
    let mark = if attempt.simulated { " *" } else { "" };
    [
        short(&attempt.id, 26),
        short(&attempt.host, 12),
        format!("{}{mark}", device(&attempt.device)),
        minute(attempt.started_at.as_deref().unwrap_or(&attempt.placed_at)),
        duration_if(attempt.seconds),
        mib_if(attempt.peak_allocated_mib),
        exit(attempt),
        outcome(attempt),
    ]
}

/// The exit code, or the signal: `137`, `sig 9`.
fn exit(attempt: &AttemptDocument) -> String {
    match (attempt.exit, attempt.signal) {
        (Some(exit), _) => exit.to_string(),
        (None, Some(signal)) => format!("sig {signal}"),
        (None, None) => unknown(),
    }
}

fn outcome(attempt: &AttemptDocument) -> String {
    let outcome = match (&attempt.outcome, &attempt.started_at) {
        (Some(outcome), _) => outcome.as_str(),
        (None, Some(_)) => "running",
        (None, None) => "placed",
    };
    // Ended after it was given up: evidence, never counted.
    if attempt.late == Some(true) {
        format!("{outcome} late")
    } else {
        outcome.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn an_attempt_is_a_row() {
        let text = sample::plain(&super::text(&[sample::attempt()]));
        sample::assert_fits(&text);
        assert!(
            text.contains("dropout-ab-k3f9q2/1/train/1") || text.contains('…'),
            "{text}"
        );
        assert!(
            text.contains("12-02 04:08") && text.contains("7298"),
            "{text}"
        );
        assert_eq!(super::text(&[]), "no attempts");
    }

    #[test]
    fn a_signal_is_no_exit_code() {
        let attempt = AttemptDocument {
            signal: Some(9),
            late: Some(true),
            outcome: Some("host_lost".into()),
            ..AttemptDocument::default()
        };
        assert_eq!(exit(&attempt), "sig 9");
        assert_eq!(outcome(&attempt), "host_lost late");
    }
}
