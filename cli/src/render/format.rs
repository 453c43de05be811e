//! Single values as people read them: memory, durations, times, names. Never cuts a number; a name that is too long
//! loses its middle, because its ends tell names apart.

use jiff::Timestamp;
use jiff::tz::Offset;
use serde_json::Value;

/// Whole MiB; under 100 with one decimal.
pub fn mib(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A figure that may not be known.
pub fn mib_if(value: Option<f64>) -> String {
    value.map_or_else(unknown, mib)
}

/// Of a file.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.0} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

pub fn unknown() -> String {
    "-".to_owned()
}

/// `3.2s`, `42s`, `3m 12s`, `14h 03m`, `2d 04h`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return unknown();
    }
    if seconds < 9.95 {
        return format!("{seconds:.1}s");
    }
    let whole = seconds.round() as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match whole {
        0..60 => format!("{whole}s"),
        60..3600 => format!("{minutes}m {:02}s", whole % 60),
        3600..86_400 => format!("{hours}h {minutes:02}m"),
        _ => format!("{days}d {hours:02}h"),
    }
}

pub fn duration_if(seconds: Option<f64>) -> String {
    seconds.map_or_else(unknown, duration)
}

/// `12-02 04:08:31`, in UTC; what is no time is shown as it is.
pub fn time(rfc3339: &str) -> String {
    in_utc(rfc3339, "%m-%d %H:%M:%S")
}

fn in_utc(rfc3339: &str, format: &str) -> String {
    match rfc3339.parse::<Timestamp>() {
        Ok(stamp) => Offset::UTC.to_datetime(stamp).strftime(format).to_string(),
        Err(_) => rfc3339.to_owned(),
    }
}

pub fn time_if(rfc3339: Option<&str>) -> String {
    rfc3339.map_or_else(unknown, time)
}

/// `12-02 04:08`, in UTC.
pub fn minute(rfc3339: &str) -> String {
    in_utc(rfc3339, "%m-%d %H:%M")
}

/// `04:08:31`, in UTC.
pub fn time_of_day(rfc3339: &str) -> String {
    in_utc(rfc3339, "%H:%M:%S")
}

/// `rank=96 dropout=0.1` from a JSON object.
pub fn params(json: &str) -> String {
    match serde_json::from_str::<Value>(json) {
        Ok(Value::Object(map)) => {
            let pairs: Vec<String> = map
                .iter()
                .map(|(name, value)| format!("{name}={}", plain(value)))
                .collect();
            pairs.join(" ")
        }
        _ => json.to_owned(),
    }
}

/// Text without quotes, everything else as JSON.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// At most `width` characters, the middle left out.
pub fn short(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width || width < 5 {
        return text.to_owned();
    }
    let tail = (width - 1) / 2;
    let head = width - 1 - tail;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}…{end}")
}

/// At most `width` characters of prose, the end left out.
pub fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// A device without its maker: `RTX 3070 Ti`, `RX 7900 XTX`, `GPU-8c3f…91d2`.
pub fn device(name: &str) -> String {
    let makers = ["NVIDIA GeForce ", "NVIDIA ", "AMD Radeon ", "AMD "];
    let bare = makers
        .iter()
        .find_map(|maker| name.strip_prefix(maker))
        .unwrap_or(name);
    short(bare, 20)
}

/// A host's name as a table shows it.
pub fn host(name: &str) -> String {
    short(name, 16)
}

/// A trial's or job's id without its sweep, which the heading names: `3`, `3/train`.
pub fn within<'i>(id: &'i str, sweep: &str) -> &'i str {
    id.strip_prefix(sweep)
        .and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(id)
}

/// A score between 0 and 1.
pub fn score(value: f64) -> String {
    format!("{value:.4}")
}

/// `3 trials`, `1 trial`.
pub fn count(number: impl Into<u64>, one: &str) -> String {
    let number = number.into();
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{number} {one}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_never_cut() {
        assert_eq!(mib(7833.6), "7834");
        assert_eq!(mib(56.3), "56.3");
        assert_eq!(mib(0.0), "0");
        assert_eq!(mib(99.97), "100");
        assert_eq!(mib_if(None), "-");
    }

    #[test]
    fn durations_have_two_units() {
        for (seconds, text) in [
            (0.04, "0.0s"),
            (3.21, "3.2s"),
            (59.4, "59s"),
            (59.6, "1m 00s"),
            (192.0, "3m 12s"),
            (50_580.0, "14h 03m"),
            (187_300.0, "2d 04h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        assert_eq!(duration(f64::NAN), "-");
    }

    #[test]
    fn names_keep_their_ends() {
        assert_eq!(short("dropout-ab-k3f9q2", 20), "dropout-ab-k3f9q2");
        assert_eq!(short("a-very-long-name-of-a-sweep", 11), "a-ver…sweep");
        assert_eq!(short("ä-very-long-näme", 9).chars().count(), 9);
        assert_eq!(device("NVIDIA GeForce RTX 3070 Ti"), "RTX 3070 Ti");
        assert_eq!(device("AMD Radeon RX 7900 XTX"), "RX 7900 XTX");
        assert_eq!(within("ab-x/3/train", "ab-x"), "3/train");
        assert_eq!(within("ab-xy/3", "ab-x"), "ab-xy/3");
    }

    #[test]
    fn times_are_short_and_utc() {
        assert_eq!(time("2026-12-02T04:08:31.120Z"), "12-02 04:08:31");
        assert_eq!(time_of_day("2026-12-02T04:08:31.120Z"), "04:08:31");
        assert_eq!(time("soon"), "soon");
        assert_eq!(time_if(None), "-");
    }

    #[test]
    fn parameters_read_as_pairs() {
        assert_eq!(
            params(r#"{"rank":96,"lr":1e-5,"kind":"a b"}"#),
            "kind=a b lr=0.00001 rank=96"
        );
        assert_eq!(params("{}"), "");
        assert_eq!(count(1_u32, "trial"), "1 trial");
    }
}
