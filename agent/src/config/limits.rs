//! `[limits]` of a host's file: what one attempt may take of the host. Checks the numbers and fills in the defaults;
//! enforces nothing.

use serde::Deserialize;
use vram::Bytes;

use super::machine;
use crate::attempt::Limits;
use crate::size::Size;

/// Of the machine's memory, this part is left to the system and the agent where the file says nothing: an attempt that
/// runs away dies alone, before the machine begins to thrash.
const LEFT_TO_THE_SYSTEM: u64 = 16;
/// Threads count too: a loader with many workers on a machine with many cores has some thousands.
const PROCESSES: u32 = 16_384;
/// Below that no interpreter starts, and every attempt would end `host_oom`.
const LEAST_MEMORY: Bytes = Bytes(16 << 20);

/// As written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsFile {
    pub memory: Option<Size>,
    pub probe_memory: Option<Size>,
    pub cpu_weight: Option<u32>,
    pub processes: Option<u32>,
}

/// Of every attempt of this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLimits {
    pub any: Limits,
    /// Of probes, where that is less.
    pub probe_memory: Option<Bytes>,
}

impl HostLimits {
    #[must_use]
    pub fn of(&self, kind: jobs::Kind) -> Limits {
        let mut limits = self.any;
        if let (jobs::Kind::Probe, Some(probe)) = (kind, self.probe_memory) {
            limits.memory = Some(limits.memory.map_or(probe, |any| any.min(probe)));
        }
        limits
    }
}

impl LimitsFile {
    /// The error says what is wrong with which key.
    pub fn resolve(&self) -> Result<HostLimits, String> {
        let named = [("memory", self.memory), ("probe_memory", self.probe_memory)];
        for (key, size) in named {
            if let Some(size) = size.filter(|size| size.0 < LEAST_MEMORY) {
                return Err(format!(
                    "[limits] {key} = {} is too little for any program; {LEAST_MEMORY} is the least",
                    size.0
                ));
            }
        }
        if let Some(weight) = self.cpu_weight.filter(|one| !(1..=10_000).contains(one)) {
            return Err(format!(
                "[limits] cpu_weight = {weight} is not from 1 to 10000 (100 is that of other programs)"
            ));
        }
        if self.processes == Some(0) {
            return Err("[limits] processes must be at least 1".to_owned());
        }
        Ok(HostLimits {
            any: Limits {
                memory: self.memory.map(|size| size.0).or_else(most),
                cpu_weight: self.cpu_weight,
                processes: Some(self.processes.unwrap_or(PROCESSES)),
            },
            probe_memory: self.probe_memory.map(|size| size.0),
        })
    }
}

/// What an attempt may take where the file does not say. On Windows a limit counts what is promised, not what is used,
/// and frameworks have far more promised to them: there is none.
fn most() -> Option<Bytes> {
    let machine = machine::memory().filter(|_| !cfg!(windows))?;
    Some(Bytes(machine.0 - machine.0 / LEFT_TO_THE_SYSTEM))
}

#[cfg(test)]
mod tests {
    use jobs::Kind;

    use super::*;

    fn limits(text: &str) -> Result<HostLimits, String> {
        toml::from_str::<LimitsFile>(text)
            .map_err(|error| error.to_string())?
            .resolve()
    }

    #[test]
    fn a_probe_gets_less_where_the_file_says_so() {
        let host = limits(
            "memory = \"24 GiB\"\nprobe_memory = \"12 GiB\"\ncpu_weight = 50\nprocesses = 900",
        )
        .unwrap();
        let train = host.of(Kind::Train);
        assert_eq!(train.memory, Some(Bytes(24 << 30)));
        assert_eq!((train.cpu_weight, train.processes), (Some(50), Some(900)));
        assert_eq!(host.of(Kind::Probe).memory, Some(Bytes(12 << 30)));
        let less = limits("memory = \"8 GiB\"\nprobe_memory = \"12 GiB\"").unwrap();
        assert_eq!(less.of(Kind::Probe).memory, Some(Bytes(8 << 30)));
    }

    #[test]
    fn without_a_word_the_system_keeps_a_part() {
        let memory = limits("").unwrap().any.memory.unwrap();
        let machine = machine::memory().unwrap();
        assert!(memory < machine && memory.0 > machine.0 / 2);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_key() {
        for (text, word) in [
            ("memory = \"1 MiB\"", "memory = 1.0 MiB"),
            ("probe_memory = \"0 b\"", "probe_memory"),
            ("cpu_weight = 0", "1 to 10000"),
            ("cpu_weight = 10001", "1 to 10000"),
            ("processes = 0", "processes"),
            ("swap = 1", "unknown field `swap`"),
        ] {
            let error = limits(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
