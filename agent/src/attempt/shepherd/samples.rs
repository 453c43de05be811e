//! Resident memory over time: the peak, and the file `samples` with a line wherever it changed.
//! Looks often at first and then a few times a second; a file that cannot be written costs the lines, not the peak.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(10);
const LATER: Duration = Duration::from_millis(200);
/// Without a change a line is written after so many milliseconds all the same.
const QUIET_MS: u64 = 60_000;

pub struct Samples {
    path: PathBuf,
    file: Option<File>,
    peak: u64,
    written: Option<(u64, u64)>,
    pause: Duration,
}

impl Samples {
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            peak: 0,
            written: None,
            pause: FIRST,
        }
    }

    /// How long until the next look.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.pause
    }

    #[must_use]
    pub fn peak(&self) -> u64 {
        self.peak
    }

    pub fn add(&mut self, at_ms: u64, resident: u64) {
        self.peak = self.peak.max(resident);
        self.pause = (self.pause * 2).min(LATER);
        if resident > 0 && worth_a_line(self.written, at_ms, resident) {
            self.written = Some((at_ms, resident));
            self.write(at_ms, resident);
        }
    }

    fn write(&mut self, at_ms: u64, resident: u64) {
        if self.file.is_none() {
            let opened = OpenOptions::new()
                .create(true)
                .append(true)
                .open(&self.path);
            self.file = opened.ok();
        }
        if let Some(file) = &mut self.file {
            // Evidence for people; the peak is in the ending.
            let _ = file.write_all(format!("{at_ms} {resident}\n").as_bytes());
        }
    }
}

/// Changed by 2 % or more, or quiet for a minute.
fn worth_a_line(written: Option<(u64, u64)>, at_ms: u64, resident: u64) -> bool {
    written.is_none_or(|(last_ms, last)| {
        resident.abs_diff(last) > last / 50 || at_ms.saturating_sub(last_ms) >= QUIET_MS
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_changes_and_the_peak_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples");
        let mut samples = Samples::new(path.clone());
        for (at, resident) in [
            (10, 1000),
            (30, 1001),
            (70, 3000),
            (150, 2000),
            (61_000, 2000),
        ] {
            samples.add(at, resident);
        }
        assert_eq!(samples.peak(), 3000);
        assert_eq!(samples.pause(), LATER);
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text, "10 1000\n70 3000\n150 2000\n61000 2000\n");
    }
}
