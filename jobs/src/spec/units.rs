//! Durations such as `"1h30m"` and amounts of memory such as `"12 GiB"`. Refuses bare numbers and the units that
//! people read in two ways (MB, GB).

use std::time::Duration;

use vram::{Bytes, MIB};

/// Longer than any job should run; keeps all sums of times within range.
const LONGEST: u64 = 366 * 24 * 3600;

/// More memory than any host has, in MiB.
const LARGEST: f64 = 1024.0 * 1024.0 * 1024.0;

/// What is wrong with an amount, to follow the key's name, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub message: String,
    pub help: Option<String>,
}

fn wrong(message: impl Into<String>) -> Wrong {
    Wrong {
        message: message.into(),
        help: None,
    }
}

/// `"14h"`, `"10m"`, `"90s"`, `"1h30m"`, `"2d"`.
pub(crate) fn duration(text: &str) -> Result<Duration, Wrong> {
    let shape = || Wrong {
        message: format!("is not a time: {text}"),
        help: Some("a time is written \"90s\", \"10m\", \"1h30m\" or \"2d\"".to_owned()),
    };
    let mut seconds: u64 = 0;
    let mut rest = text.trim();
    let mut last_unit = u64::MAX;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().map_err(|_| shape())?;
        let mut after = rest[digits..].chars();
        let unit = match after.next() {
            Some('d') => 86_400,
            Some('h') => 3_600,
            Some('m') => 60,
            Some('s') => 1,
            _ => return Err(shape()),
        };
        if unit >= last_unit {
            return Err(shape());
        }
        last_unit = unit;
        seconds = number
            .checked_mul(unit)
            .and_then(|part| seconds.checked_add(part))
            .unwrap_or(u64::MAX);
        rest = after.as_str().trim_start();
    }
    match seconds {
        0 if text.trim().is_empty() => Err(shape()),
        0 => Err(wrong("must be longer than nothing")),
        _ if seconds > LONGEST => Err(wrong("must be at most 366 days")),
        _ => Ok(Duration::from_secs(seconds)),
    }
}

/// `"300 MiB"`, `"12 GiB"`, `"1.5 GiB"`.
pub(crate) fn memory(text: &str) -> Result<Bytes, Wrong> {
    let shape = || Wrong {
        message: format!("is not an amount of memory: {text}"),
        help: Some("memory is written \"300 MiB\" or \"12 GiB\"".to_owned()),
    };
    let trimmed = text.trim();
    let digits = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let number: f64 = trimmed[..digits].parse().map_err(|_| shape())?;
    let mib = match trimmed[digits..].trim() {
        "KiB" => number / 1024.0,
        "MiB" => number,
        "GiB" => number * 1024.0,
        "TiB" => number * 1024.0 * 1024.0,
        "MB" | "M" | "mb" | "Mb" | "mib" => return Err(in_binary(number, "MiB")),
        "GB" | "G" | "gb" | "Gb" | "gib" => return Err(in_binary(number, "GiB")),
        _ => return Err(shape()),
    };
    if mib * (MIB as f64) < 1.0 {
        return Err(wrong("must be more than nothing"));
    }
    if mib > LARGEST {
        return Err(wrong(format!("is more than any host has: {text}")));
    }
    Ok(Bytes::from_mib(mib))
}

fn in_binary(number: f64, unit: &str) -> Wrong {
    Wrong {
        message: "must be in MiB or GiB".to_owned(),
        help: Some(format!("write \"{number} {unit}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let seconds = |text| duration(text).map(|d| d.as_secs());
        assert_eq!(seconds("14h"), Ok(50_400));
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("1h30m"), Ok(5_400));
        assert_eq!(seconds("2d 1h"), Ok(176_400));
        for wrong in [
            "",
            "10",
            "h",
            "1.5h",
            "30m1h",
            "1h1h",
            "0s",
            "-1h",
            "10 min",
            "9999999999999999999d",
            "1ä",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_amounts() {
        assert_eq!(memory("300 MiB"), Ok(Bytes(300 << 20)));
        assert_eq!(memory("1.5GiB"), Ok(Bytes(1536 << 20)));
        for wrong in [
            "",
            "300",
            "MiB",
            "-1 MiB",
            "0 MiB",
            "1..2 GiB",
            "12 GB",
            "9e9 TiB",
            "99999999999 TiB",
        ] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }
}
