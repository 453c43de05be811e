//! What an attempt came to: from what the shepherd saw, the end of the log and the report to one outcome with a
//! sentence. Pure. What was asked from outside comes first, then the program's own words, then its exit.

use jobs::{AttemptOutcome, Ending, Peaks};
use serde_json::{Map, Value};
use vram::Bytes;

use super::facts::{Facts, Why};
use super::oom::{self, OutOfMemory};
use super::own_words::own_words;
use super::report::Report;
use super::wording::{duration, exit_words, last_line, signal_name};
use crate::devices::spill;

/// The program has checkpointed and wants to be started again.
const REQUEUE: i32 = 75;
/// By sysexits.h: the user's mistake.
const USERS_MISTAKE: std::ops::RangeInclusive<i32> = 64..=78;

/// Everything that an outcome is decided from.
pub struct Evidence<'a> {
    pub facts: &'a Facts,
    /// What drivers reported of its devices meanwhile.
    pub faults: &'a [String],
    /// The end of the log, as text.
    pub log: &'a str,
    pub report: &'a Report,
    /// The peak that counts is resident memory: a real CPU device.
    pub resident_counts: bool,
    pub time_limit_ms: u64,
}

#[must_use]
pub fn classify(evidence: &Evidence<'_>) -> Ending {
    let facts = evidence.facts;
    let (outcome, what) = outcome(evidence);
    let oom = (outcome == AttemptOutcome::GpuOom)
        .then(|| oom::out_of_memory(evidence.log))
        .flatten();
    Ending {
        outcome,
        exit: facts.exit,
        signal: facts.signal,
        detail: detail(what, evidence),
        ran_ms: facts.ran_ms,
        host_ended_ms: facts.ended_ms,
        peaks: peaks(evidence, oom.as_ref()),
        metrics: serde_json::Map::new(),
        result: evidence.report.result.clone(),
        step_seconds: evidence.report.step_seconds,
        observation: observation(evidence, oom.as_ref()),
    }
}

/// The program's own observation, with the numbers of its out of memory where it gave none: they say how much room
/// there was better than anything that was believed before.
fn observation(evidence: &Evidence<'_>, oom: Option<&OutOfMemory>) -> Option<Value> {
    let mut said = evidence.report.memory.clone();
    let numbers = oom.map_or([("", None); 2], |oom| {
        [("oom_wanted_mib", oom.tried), ("oom_free_mib", oom.free)]
    });
    for (name, bytes) in numbers {
        let Some(bytes) = bytes else { continue };
        let all = said.get_or_insert_with(|| Value::Object(Map::new()));
        if let Some(all) = all.as_object_mut() {
            all.entry(name).or_insert_with(|| bytes.mib().into());
        }
    }
    said
}

fn outcome(evidence: &Evidence<'_>) -> (AttemptOutcome, String) {
    let facts = evidence.facts;
    if let Some(why) = facts.why {
        return ended_from_outside(why, evidence);
    }
    if let Some(what) = &facts.not_staged {
        // Not its program's failure: it is tried again.
        let what = format!("its files could not be brought to this host: {what}");
        return (AttemptOutcome::Interrupted, what);
    }
    if let Some(what) = &facts.held_back {
        // Nobody's failure, and no retry is spent: it waits until the device is free.
        return (AttemptOutcome::Suspended, format!("held back: {what}"));
    }
    if let Some(what) = &facts.not_started {
        return (AttemptOutcome::Failed, what.clone());
    }
    let spilled = evidence
        .faults
        .iter()
        .find(|what| what.starts_with(spill::MARK));
    if evidence.report.spilled || spilled.is_some() {
        let what = "it went on in system memory instead of the card's, several times slower";
        let seen = spilled.map_or_else(String::new, |seen| format!(" ({seen})"));
        return (
            AttemptOutcome::Spilled,
            what.to_owned() + &seen.replace(spill::MARK, ""),
        );
    }
    if facts.exit == Some(0) {
        return (AttemptOutcome::Succeeded, String::new());
    }
    if was_killed(facts) && facts.contained.is_some_and(|seen| seen.was_out_of_memory()) {
        return host_oom(facts);
    }
    if !evidence.resident_counts {
        if let Some(oom) = oom::out_of_memory(evidence.log) {
            return (AttemptOutcome::GpuOom, oom.sentence());
        }
        let line = oom::fault(evidence.log);
        if line.is_some() || !evidence.faults.is_empty() {
            let all: Vec<String> = evidence.faults.iter().cloned().chain(line).collect();
            let what = format!("the device failed: {}", all.join("; "));
            return (AttemptOutcome::GpuFault, what);
        }
    }
    failed(evidence)
}

fn ended_from_outside(why: Why, evidence: &Evidence<'_>) -> (AttemptOutcome, String) {
    let (outcome, what) = match why {
        Why::TimeLimit => {
            let limit = duration(evidence.time_limit_ms);
            (
                AttemptOutcome::TimedOut,
                format!("ended at its time limit of {limit}"),
            )
        }
        Why::Cancelled => (AttemptOutcome::Cancelled, "cancelled".to_owned()),
        Why::Fenced => (
            AttemptOutcome::Interrupted,
            "given up by the coordinator".to_owned(),
        ),
        Why::Suspended => (
            AttemptOutcome::Suspended,
            "suspended, to be continued".to_owned(),
        ),
        Why::DeviceFault => {
            let what = format!("the device failed: {}", evidence.faults.join("; "));
            (AttemptOutcome::GpuFault, what)
        }
        Why::Terminated => {
            let what = "its shepherd was asked to end (SIGTERM): the host went down, or somebody did it by hand";
            (AttemptOutcome::Interrupted, what.to_owned())
        }
        Why::ShepherdLost => {
            let what =
                "its shepherd was killed or lost with the host, and what it had started was ended";
            let nothing_ran = evidence.facts.not_started.as_deref();
            (
                AttemptOutcome::Interrupted,
                nothing_ran.unwrap_or(what).to_owned(),
            )
        }
    };
    let killed = if evidence.facts.killed {
        "; it did not end when asked and was killed"
    } else {
        ""
    };
    (outcome, what + killed)
}

/// By SIGKILL, as a program says it or as its shell does.
fn was_killed(facts: &Facts) -> bool {
    facts.signal == Some(9) || facts.exit == Some(137)
}

fn host_oom(facts: &Facts) -> (AttemptOutcome, String) {
    let what = match facts.contained.filter(|seen| seen.was_out_of_memory()) {
        Some(seen) => format!("out of host memory: {}", seen.memory_sentence()),
        None => {
            let peak = facts
                .peak_resident
                .map(|bytes| format!(" with {} resident", Bytes(bytes)));
            format!(
                "the kernel killed it for want of host memory{}",
                peak.unwrap_or_default()
            )
        }
    };
    (AttemptOutcome::HostOom, what)
}

/// The program's own failure.
fn failed(evidence: &Evidence<'_>) -> (AttemptOutcome, String) {
    let facts = evidence.facts;
    let last = last_line(evidence.log);
    let said = |what: String| {
        if last.is_empty() {
            what
        } else {
            format!("{what}; last line: {last}")
        }
    };
    let killed = was_killed(facts) || facts.contained.is_some_and(|seen| seen.was_out_of_memory());
    if let (Some(code), false) = (facts.exit.filter(|code| *code != REQUEUE), killed)
        && let Some(words) = own_words(evidence.log)
    {
        return words.outcome(code, !evidence.resident_counts);
    }
    match (facts.exit, facts.signal) {
        (Some(REQUEUE), _) => (
            AttemptOutcome::Interrupted,
            "it asked to be started again (exit 75)".to_owned(),
        ),
        (Some(137), _) | (None, Some(9)) if facts.oom_kill => host_oom(facts),
        // A part of it was killed, and the program fell over that.
        _ if facts.contained.is_some_and(|seen| seen.was_out_of_memory()) => host_oom(facts),
        (Some(137), _) | (None, Some(9)) => {
            let what = "killed (SIGKILL) by something else than sweep; the kernel counts no out-of-memory kill";
            (AttemptOutcome::Failed, said(what.to_owned()))
        }
        (Some(code), _) if USERS_MISTAKE.contains(&code) => (
            AttemptOutcome::Failed,
            said(format!("it refused its input (exit {code})")),
        ),
        (Some(127), _) => (
            AttemptOutcome::Failed,
            said("a command was not found (exit 127)".to_owned()),
        ),
        (Some(code), _) => (AttemptOutcome::Failed, said(exit_words(code))),
        (None, Some(signal)) => (
            AttemptOutcome::Failed,
            said(format!("ended by {}", signal_name(signal))),
        ),
        (None, None) => (
            AttemptOutcome::Failed,
            said("nobody saw how it ended".to_owned()),
        ),
    }
}

/// The sentence of the outcome, and whatever else is worth knowing.
fn detail(what: String, evidence: &Evidence<'_>) -> String {
    let facts = evidence.facts;
    let left = (facts.left > 0).then(|| match facts.left {
        1 => "1 process that it left running was ended".to_owned(),
        many => format!("{many} processes that it left running were ended"),
    });
    let refused = facts.contained.and_then(|seen| seen.process_sentence());
    let parts = [
        (!what.is_empty()).then_some(what),
        refused,
        left,
        evidence.report.complaint(),
    ];
    let parts = parts
        .into_iter()
        .flatten()
        .chain(facts.trouble.iter().cloned());
    parts.collect::<Vec<_>>().join("; ")
}

fn peaks(evidence: &Evidence<'_>, oom: Option<&OutOfMemory>) -> Peaks {
    let resident = evidence.facts.peak_resident.map(Bytes);
    if evidence.resident_counts {
        // Measured from outside: the program's word does not replace it.
        return Peaks {
            allocated: resident,
            reserved: None,
            resident,
        };
    }
    let report = evidence.report;
    Peaks {
        allocated: report.allocated.max(oom.and_then(|oom| oom.allocated)),
        reserved: report.reserved.max(oom.and_then(|oom| oom.reserved)),
        resident,
    }
}

#[cfg(test)]
mod tests;
