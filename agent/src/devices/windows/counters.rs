//! The names of performance counters' instances, in which Windows says what a figure is of:
//! `luid_0x00000000_0x0000D4A9_phys_0` of an adapter, with `pid_1234_` before it of one process on it. What is not
//! understood is none of the two. Asks nothing of Windows.
#![cfg_attr(
    not(windows),
    allow(dead_code, reason = "called on Windows, tested everywhere")
)]

/// An adapter until the next boot. It is not kept beyond one look.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Luid {
    pub high: u32,
    pub low: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Absent: the whole adapter.
    pub pid: Option<u32>,
    pub luid: Luid,
}

impl Instance {
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (pid, rest) = match name.strip_prefix("pid_") {
            Some(rest) => {
                let (pid, rest) = rest.split_once('_')?;
                (Some(pid.parse().ok()?), rest)
            }
            None => (None, name),
        };
        let mut words = rest.strip_prefix("luid_")?.split('_');
        let mut part = || u32::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let luid = Luid {
            high: part()?,
            low: part()?,
        };
        // Several physical adapters behind one LUID, and engines, come after `phys`.
        (words.next()? == "phys").then_some(Self { pid, luid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_process_and_adapter() {
        let luid = Luid {
            high: 0,
            low: 0xD4A9,
        };
        let adapter = Instance::parse("luid_0x00000000_0x0000D4A9_phys_0");
        assert_eq!(adapter, Some(Instance { pid: None, luid }));
        let process = Instance::parse("pid_12345_luid_0x00000000_0x0000d4a9_phys_0");
        assert_eq!(
            process,
            Some(Instance {
                pid: Some(12345),
                luid
            })
        );
    }

    #[test]
    fn other_names_are_neither() {
        for name in [
            "",
            "_Total",
            "pid_",
            "pid_x_luid_0x0_0x1_phys_0",
            "luid_0x00000000_phys_0",
            "luid_0x0_0x1",
            "pid_-1_luid_0x0_0x1_phys_0",
            "luid_0_1_phys_0",
        ] {
            assert_eq!(Instance::parse(name), None, "{name}");
        }
    }
}
