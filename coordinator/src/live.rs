//! What running attempts say of themselves at this moment: newest metrics, progress. Read from the report lines as
//! they arrive; gone when the attempt has ended. Never a source of decisions, only of what is shown.

use std::collections::HashMap;
use std::sync::Mutex;

use jobs::AttemptId;
use serde_json::{Map, Value};

/// A line longer than this is not looked at; the file keeps it.
const LINE_MAX: usize = 64 * 1024;

#[derive(Default)]
pub struct Live {
    attempts: Mutex<HashMap<AttemptId, Said>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    pub metrics: Map<String, Value>,
    pub progress: Option<f64>,
    /// Bytes of the report seen so far.
    seen: u64,
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
}

impl Said {
    /// Takes the next bytes of a report. Lines that are not JSON objects are passed over: the file keeps them.
    fn take(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        for byte in bytes {
            if *byte != b'\n' {
                if self.rest.len() <= LINE_MAX {
                    self.rest.push(*byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.rest);
            if let Ok(Value::Object(line)) = serde_json::from_slice(&line) {
                self.line(line);
            }
        }
    }

    fn line(&mut self, line: Map<String, Value>) {
        if let Some(progress) = line.get("progress").and_then(Value::as_f64) {
            self.progress = Some(progress.clamp(0.0, 1.0));
        }
        if let Some(Value::Object(metrics)) = line.get("metric") {
            for (name, value) in metrics {
                self.metrics.insert(name.clone(), value.clone());
            }
            if let Some(step) = line.get("step") {
                self.metrics.insert("step".into(), step.clone());
            }
        }
    }
}

impl Live {
    /// Bytes of a report as they arrive. `whole` hands over the file from its start, piece by piece, for an attempt
    /// that is new here.
    pub fn take(
        &self,
        id: &AttemptId,
        offset: u64,
        bytes: &[u8],
        whole: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) {
        let Ok(mut attempts) = self.attempts.lock() else {
            return;
        };
        let said = attempts.entry(id.clone()).or_default();
        let end = offset + bytes.len() as u64;
        if offset > said.seen {
            *said = Said::default();
            whole(&mut |bytes| said.take(bytes));
        } else if end > said.seen {
            let new = usize::try_from(said.seen - offset).unwrap_or(usize::MAX);
            said.take(bytes.get(new..).unwrap_or_default());
        }
    }

    pub fn get(&self, id: &AttemptId) -> Option<Said> {
        self.attempts.lock().ok()?.get(id).cloned()
    }

    /// The attempt has ended: its last words.
    pub fn close(&self, id: &AttemptId) -> Option<Said> {
        self.attempts.lock().ok()?.remove(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> AttemptId {
        "a/1/train/1".parse().expect("an id")
    }

    #[test]
    fn lines_split_over_chunks_and_sent_twice_count_once() {
        let live = Live::default();
        let text = b"{\"metric\":{\"loss\":0.5},\"step\":1}\n{\"progress\":0.25}\nnot json\n";
        live.take(&id(), 0, &text[..10], |_| ());
        live.take(&id(), 0, &text[..20], |_| ());
        live.take(&id(), 20, &text[20..], |_| ());
        let said = live.get(&id()).expect("said");
        assert_eq!(
            (said.metrics["loss"].as_f64(), said.progress),
            (Some(0.5), Some(0.25))
        );
        assert_eq!(said.seen, text.len() as u64);
    }

    #[test]
    fn after_a_restart_the_file_is_read_from_its_start() {
        let live = Live::default();
        live.take(&id(), 100, b"x", |give| {
            give(b"{\"metric\":{\"lo");
            give(b"ss\":0.1}}\n");
        });
        assert_eq!(
            live.close(&id()).map(|said| said.metrics["loss"].as_f64()),
            Some(Some(0.1))
        );
        assert!(live.get(&id()).is_none());
    }
}
