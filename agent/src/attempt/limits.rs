//! What an attempt may take of its host, and what was seen of that at its end. Plain numbers: how they are enforced is
//! the system's business ([`crate::os`]). A number that is absent is no limit.

use serde::{Deserialize, Serialize};
use vram::Bytes;

/// Of one attempt, with everything that it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Of the host's memory; swap is none of it.
    pub memory: Option<Bytes>,
    /// Its share of the cores when others want them too: 1 to 10000, where 100 is that of every other program.
    pub cpu_weight: Option<u32>,
    /// Processes and threads at a time.
    pub processes: Option<u32>,
}

impl Limits {
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What the kernel counted for one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Contained {
    pub memory_limit: Option<Bytes>,
    /// All that counts against the limit, at its highest: cached files among it.
    pub memory_peak: Option<Bytes>,
    /// Processes that the kernel killed because the limit was reached.
    pub oom_kills: u64,
    /// How often it was refused memory because of that: a Windows kernel kills nothing.
    pub refused_memory: u64,
    pub process_limit: Option<u32>,
    /// How often a process or thread was refused because of that.
    pub refused: u64,
}

/// Who dies within this part of its limit died of the limit: the kernel counts in batches.
const NEAR: u64 = 32;

impl Contained {
    #[must_use]
    pub fn was_out_of_memory(&self) -> bool {
        self.oom_kills > 0 || self.refused_memory > 0
    }

    /// `its limit of 2048.0 MiB was reached (peak 2048.0 MiB, 1 process killed by the kernel)`
    #[must_use]
    pub fn memory_sentence(&self) -> String {
        let below = |limit: Bytes| {
            self.memory_peak
                .is_some_and(|peak| peak.0 < limit.0 - limit.0 / NEAR)
        };
        let limit = match self.memory_limit {
            Some(limit) if below(limit) => {
                format!("the host itself had none left, below the attempt's limit of {limit}")
            }
            Some(limit) => format!("its limit of {limit} was reached"),
            None => "the host itself had none left".to_owned(),
        };
        let peak = self
            .memory_peak
            .map_or_else(String::new, |peak| format!("peak {peak}, "));
        if self.oom_kills == 0 {
            return format!("{limit} ({peak}and no more was given)");
        }
        let processes = if self.oom_kills == 1 {
            "process"
        } else {
            "processes"
        };
        format!(
            "{limit} ({peak}{} {processes} killed by the kernel)",
            self.oom_kills
        )
    }

    /// Nothing where nothing was refused.
    #[must_use]
    pub fn process_sentence(&self) -> Option<String> {
        let limit = self.process_limit.filter(|_| self.refused > 0)?;
        let times = match self.refused {
            1 => "once".to_owned(),
            many => format!("{many} times"),
        };
        Some(format!(
            "it was refused another process or thread {times}: {limit} is its limit"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentences_have_the_numbers() {
        let mut seen = Contained {
            memory_limit: Some(Bytes(2 << 30)),
            memory_peak: Some(Bytes((2 << 30) - 4096)),
            oom_kills: 1,
            refused_memory: 0,
            process_limit: Some(64),
            refused: 0,
        };
        assert_eq!(
            seen.memory_sentence(),
            "its limit of 2048.0 MiB was reached (peak 2048.0 MiB, 1 process killed by the kernel)"
        );
        assert_eq!(seen.process_sentence(), None);
        seen.memory_peak = Some(Bytes(1 << 30));
        let said = seen.memory_sentence();
        assert!(
            said.starts_with("the host itself had none left, below"),
            "{said}"
        );
        assert!(
            said.ends_with("(peak 1024.0 MiB, 1 process killed by the kernel)"),
            "{said}"
        );
        seen.memory_peak = seen.memory_limit;
        (seen.oom_kills, seen.refused_memory) = (0, 2);
        assert!(seen.was_out_of_memory());
        assert_eq!(
            seen.memory_sentence(),
            "its limit of 2048.0 MiB was reached (peak 2048.0 MiB, and no more was given)"
        );
        seen.refused = 3;
        assert_eq!(
            seen.process_sentence().unwrap(),
            "it was refused another process or thread 3 times: 64 is its limit"
        );
    }

    #[test]
    fn an_order_of_an_older_version_has_no_limit() {
        assert!(serde_json::from_str::<Limits>("{}").unwrap().is_none());
    }
}
