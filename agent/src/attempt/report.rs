//! What a program said in its report file: one JSON object per line. Pure.
//! A line that is not JSON is counted and shown, never fatal: one bad print must not cost a night's result.

use std::io::{self, BufRead};

use serde_json::Value;
use vram::Bytes;

/// A longer line is not read further; it counts as broken.
const LONGEST_LINE: u64 = 16 << 20;
const SHOWN: usize = 80;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The last `{"result": ...}`.
    pub result: Option<Value>,
    /// The last `{"memory": {...}}`.
    pub memory: Option<Value>,
    pub spilled: bool,
    pub allocated: Option<Bytes>,
    pub reserved: Option<Bytes>,
    pub step_seconds: Option<f64>,
    pub broken: u32,
    /// Number and beginning of the first broken line.
    pub first_broken: Option<(u32, String)>,
}

impl Report {
    /// Reads a whole report.
    pub fn read(mut lines: impl BufRead) -> io::Result<Self> {
        let mut report = Self::default();
        let mut line = Vec::new();
        let mut number = 0_u32;
        loop {
            line.clear();
            let mut piece = io::Read::take(&mut lines, LONGEST_LINE);
            if piece.read_until(b'\n', &mut line)? == 0 {
                return Ok(report);
            }
            number = number.saturating_add(1);
            if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
                report.on_broken(number, &line);
                skip_line(&mut lines)?;
                continue;
            }
            report.on_line(number, &line);
        }
    }

    fn on_line(&mut self, number: u32, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match serde_json::from_slice::<Value>(line) {
            Ok(Value::Object(mut said)) => {
                let memory = said.remove("memory").filter(Value::is_object);
                let step = [
                    said.get("step_seconds"),
                    said.get("metric")
                        .and_then(|metric| metric.get("step_seconds")),
                ];
                self.on_step(step.into_iter().flatten());
                if let Some(memory) = memory {
                    self.on_memory(memory);
                }
                if let Some(result) = said.remove("result") {
                    self.result = Some(result);
                }
            }
            _ => self.on_broken(number, line),
        }
    }

    fn on_memory(&mut self, memory: Value) {
        let peak = |name: &str| {
            memory
                .get(name)
                .and_then(Value::as_f64)
                .filter(|mib| *mib > 0.0)
                .map(Bytes::from_mib)
        };
        self.allocated = self.allocated.max(peak("peak_allocated_mib"));
        self.reserved = self.reserved.max(peak("peak_reserved_mib"));
        self.spilled |= memory.get("spilled") == Some(&Value::Bool(true));
        self.on_step(memory.get("step_seconds").into_iter());
        self.memory = Some(memory);
    }

    fn on_step<'a>(&mut self, values: impl Iterator<Item = &'a Value>) {
        let seconds = values
            .filter_map(Value::as_f64)
            .filter(|seconds| *seconds > 0.0);
        self.step_seconds = seconds.last().or(self.step_seconds);
    }

    fn on_broken(&mut self, number: u32, line: &[u8]) {
        self.broken = self.broken.saturating_add(1);
        if self.first_broken.is_none() {
            let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]);
            let text: String = text
                .trim()
                .chars()
                .filter(|c| !c.is_control())
                .take(SHOWN)
                .collect();
            self.first_broken = Some((number, text));
        }
    }

    /// `3 lines of the report are not JSON objects (the first is line 2: nope)`
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let (number, text) = self.first_broken.as_ref()?;
        Some(match self.broken {
            1 => format!("1 line of the report is not a JSON object (line {number}: {text})"),
            many => format!(
                "{many} lines of the report are not JSON objects (the first is line {number}: {text})"
            ),
        })
    }
}

fn skip_line(lines: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = lines.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let (used, found) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        lines.consume(used);
        if found {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Report {
        Report::read(text).unwrap()
    }

    #[test]
    fn the_last_result_and_the_highest_peaks_count() {
        let report = read(
            br#"{"metric": {"loss": 0.4, "step_seconds": 2.0}, "step": 25}
{"memory": {"peak_allocated_mib": 100.5, "peak_reserved_mib": 120, "step_seconds": 1.5}}
{"memory": {"peak_allocated_mib": 90, "peak_reserved_mib": 130}}
{"result": {"score": 1}}
{"checkpoint": "c/200", "step": 200}
{"result": {"score": 2}}"#,
        );
        assert_eq!(report.result, Some(serde_json::json!({"score": 2})));
        assert_eq!(report.allocated, Some(Bytes::from_mib(100.5)));
        assert_eq!(report.reserved, Some(Bytes::from_mib(130.0)));
        assert_eq!(report.step_seconds, Some(1.5));
        assert!(!report.spilled);
        assert_eq!(report.complaint(), None);
        assert_eq!(report.memory.unwrap()["peak_allocated_mib"], 90);
    }

    #[test]
    fn broken_lines_are_counted_and_shown() {
        let report = read(
            b"{\"result\": 1}\nnope \xff\n[1]\n\n{\"metric\"\n{\"memory\": {\"spilled\": true}}\n",
        );
        assert_eq!(report.broken, 3);
        let complaint = report.complaint().unwrap();
        assert_eq!(
            complaint,
            "3 lines of the report are not JSON objects (the first is line 2: nope \u{fffd})"
        );
        assert!(report.spilled && report.result.is_some());
    }

    #[test]
    fn an_endless_line_is_one_broken_line() {
        let mut text = vec![b'x'; usize::try_from(LONGEST_LINE).unwrap() + 10];
        text.extend_from_slice(b"\n{\"result\": 5}\n");
        let report = read(&text);
        assert_eq!((report.broken, report.result), (1, Some(5.into())));
    }
}
