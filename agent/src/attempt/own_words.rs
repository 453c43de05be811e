//! The failure that a program names itself: the last line of its log that is a JSON object with `error` and `message`,
//! as jobs/kit/README.md has it. Pure. What a program says of itself without failing means nothing here.

use jobs::AttemptOutcome;
use serde::Deserialize;

/// A longer message is cut.
const LONGEST: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OwnWords {
    #[serde(rename = "error")]
    pub name: String,
    pub message: String,
}

/// The last one in a log.
#[must_use]
pub fn own_words(log: &str) -> Option<OwnWords> {
    let lines = log.lines().rev().map(str::trim);
    let mut objects = lines.filter(|line| line.starts_with('{') && line.contains("\"error\""));
    let mut words: OwnWords = objects.find_map(|line| serde_json::from_str(line).ok())?;
    if let Some((cut, _)) = words.message.char_indices().nth(LONGEST) {
        words.message.truncate(cut);
        words.message.push_str("...");
    }
    Some(words)
}

impl OwnWords {
    /// What the attempt came to, and the sentence. `is_gpu`: it had a card.
    #[must_use]
    pub fn outcome(&self, exit: i32, is_gpu: bool) -> (AttemptOutcome, String) {
        let Self { name, message } = self;
        let outcome = match name.as_str() {
            "host_oom" => AttemptOutcome::HostOom,
            "gpu_oom" if is_gpu => AttemptOutcome::GpuOom,
            "gpu_fault" if is_gpu => AttemptOutcome::GpuFault,
            // Another's failure, which may be over soon.
            "server_error" => AttemptOutcome::Interrupted,
            _ => AttemptOutcome::Failed,
        };
        (outcome, format!("{message} ({name}, exit {exit})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_form_counts_and_others_do_not() {
        let log = "{\"error\": \"gpu_oom\", \"message\": \"first\"}\nwords\n\
                   {\"error\": \"host_oom\", \"message\": \"512 MiB are free\", \"more\": 1}\n\
                   {\"error\": 7}\n{\"loss\": 1}\n{\"error\": \"half";
        let words = own_words(log).unwrap();
        assert_eq!(words.name, "host_oom");
        assert_eq!(
            words.outcome(71, true),
            (
                AttemptOutcome::HostOom,
                "512 MiB are free (host_oom, exit 71)".to_owned()
            )
        );
        assert_eq!(own_words("Traceback\nValueError: x"), None);
    }

    #[test]
    fn names_decide_where_they_are_known() {
        let outcome = |name: &str, is_gpu| {
            let words = OwnWords {
                name: name.to_owned(),
                message: String::new(),
            };
            words.outcome(1, is_gpu).0
        };
        assert_eq!(outcome("gpu_oom", true), AttemptOutcome::GpuOom);
        assert_eq!(outcome("gpu_oom", false), AttemptOutcome::Failed);
        assert_eq!(outcome("gpu_fault", true), AttemptOutcome::GpuFault);
        assert_eq!(outcome("server_error", false), AttemptOutcome::Interrupted);
        assert_eq!(outcome("missing_package", true), AttemptOutcome::Failed);
    }
}
