//! Unix milliseconds inside, RFC 3339 UTC outside.

use jiff::Timestamp;

/// `2026-12-02T03:49:40.123Z`; out of range is clamped, never a panic.
#[must_use]
pub fn rfc3339(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    let stamp = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    format!("{stamp:.3}")
}

/// Absent for 0, which stands for "not yet" in records.
#[must_use]
pub fn rfc3339_if(ms: u64) -> Option<String> {
    (ms > 0).then(|| rfc3339(ms))
}

/// What a person may write for a point in time: RFC 3339, or a date.
pub fn parse(text: &str) -> Result<u64, jiff::Error> {
    let stamp = match text.parse::<Timestamp>() {
        Ok(stamp) => stamp,
        Err(_) => {
            let date: jiff::civil::Date = text.parse()?;
            jiff::tz::TimeZone::UTC.to_timestamp(date.to_datetime(jiff::civil::Time::midnight()))?
        }
    };
    Ok(u64::try_from(stamp.as_millisecond()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_and_parse() {
        let text = rfc3339(1_796_000_000_123);
        assert_eq!(parse(&text).ok(), Some(1_796_000_000_123));
        assert_eq!(rfc3339_if(0), None);
        assert!(parse("2026-12-02").is_ok());
        assert!(parse("yesterday").is_err());
    }
}
