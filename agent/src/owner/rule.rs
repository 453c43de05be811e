//! When an owner is there. Pure: how long nobody has touched the machine and what the clock shows are arguments.

use std::time::Duration;

use jiff::civil::Time;
use serde::Deserialize;
use thiserror::Error;

use crate::os::Idle;
use crate::size;

/// `[owner]` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnerFile {
    pub idle: Option<String>,
    pub away: Option<String>,
}

#[derive(Debug, Error)]
pub enum BadOwner {
    #[error("[owner] idle `{0}` is not a time above zero; write it like \"15m\" or \"1h\"")]
    Idle(String),
    #[error(
        "[owner] away `{0}` is not a span of the day; write it like \"23:00-07:00\", in this machine's time"
    )]
    Away(String),
    #[error("[owner] says neither idle nor away; give one of them or remove it")]
    Nothing,
}

/// Nothing starts unless nobody has touched the machine for `idle`, or the time lies in `away`.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerRule {
    idle: Option<Duration>,
    away: Option<(Time, Time)>,
    words: String,
}

impl OwnerFile {
    pub fn resolve(self) -> Result<OwnerRule, BadOwner> {
        let idle = match &self.idle {
            Some(text) => Some(size::time(text).ok_or_else(|| BadOwner::Idle(text.clone()))?),
            None => None,
        };
        let away = match &self.away {
            Some(text) => Some(span(text).ok_or_else(|| BadOwner::Away(text.clone()))?),
            None => None,
        };
        // The words do not change from minute to minute: each change makes the coordinator look at its queue.
        let words = match (&self.idle, &self.away) {
            (Some(idle), None) => format!("somebody used it less than {idle} ago"),
            (None, Some(away)) => format!("it is free for jobs at {away} only"),
            (Some(idle), Some(away)) => {
                format!("somebody used it less than {idle} ago, and it is not {away}")
            }
            (None, None) => return Err(BadOwner::Nothing),
        };
        Ok(OwnerRule { idle, away, words })
    }
}

fn span(text: &str) -> Option<(Time, Time)> {
    let (from, to) = text.split_once('-')?;
    let span = (
        from.trim().parse::<Time>().ok()?,
        to.trim().parse::<Time>().ok()?,
    );
    (span.0 != span.1).then_some(span)
}

impl OwnerRule {
    #[must_use]
    pub fn asks_for_idle(&self) -> bool {
        self.idle.is_some()
    }

    /// Why nothing may start. `now` is this machine's time of day.
    #[must_use]
    pub fn present(&self, idle: &Idle, now: Time) -> Option<String> {
        let untouched = match (self.idle, idle) {
            (None, _) => false,
            (Some(_), Idle::Nobody) => true,
            (Some(wanted), Idle::Since(time)) => *time >= wanted,
            // What cannot be told keeps nobody from a night's work, unless there are hours to go by.
            (Some(_), Idle::Unknown(_)) => self.away.is_none(),
        };
        let away = self.away.is_some_and(|(from, to)| {
            if from < to {
                from <= now && now < to
            } else {
                from <= now || now < to
            }
        });
        (!untouched && !away).then(|| self.words.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(idle: Option<&str>, away: Option<&str>) -> Result<OwnerRule, BadOwner> {
        OwnerFile {
            idle: idle.map(str::to_owned),
            away: away.map(str::to_owned),
        }
        .resolve()
    }

    fn since(minutes: u64) -> Idle {
        Idle::Since(Duration::from_secs(60 * minutes))
    }

    fn at(text: &str) -> Time {
        text.parse().unwrap()
    }

    #[test]
    fn idle_alone() {
        let rule = rule(Some("15m"), None).unwrap();
        let noon = at("12:00");
        assert_eq!(
            rule.present(&since(14), noon).unwrap(),
            "somebody used it less than 15m ago"
        );
        assert_eq!(rule.present(&since(15), noon), None);
        assert_eq!(rule.present(&Idle::Nobody, noon), None);
        assert_eq!(rule.present(&Idle::Unknown(String::new()), noon), None);
    }

    #[test]
    fn hours_alone_over_midnight_and_within_a_day() {
        let night = rule(None, Some("23:00-07:00")).unwrap();
        for (time, away) in [
            ("22:59", false),
            ("23:00", true),
            ("00:00", true),
            ("06:59", true),
            ("07:00", false),
        ] {
            assert_eq!(
                night.present(&Idle::Nobody, at(time)).is_none(),
                away,
                "{time}"
            );
        }
        let office = rule(None, Some("09:00 - 17:00")).unwrap();
        assert_eq!(office.present(&since(0), at("12:00")), None);
        assert!(
            office
                .present(&since(0), at("17:00"))
                .unwrap()
                .contains("09:00 - 17:00 only")
        );
    }

    #[test]
    fn either_is_enough() {
        let rule = rule(Some("1h"), Some("23:00-07:00")).unwrap();
        assert_eq!(rule.present(&since(0), at("03:00")), None);
        assert_eq!(rule.present(&since(60), at("12:00")), None);
        assert!(rule.present(&since(59), at("12:00")).is_some());
        // Nobody knows, so the hours decide.
        assert!(
            rule.present(&Idle::Unknown(String::new()), at("12:00"))
                .is_some()
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (idle, away) in [
            (None, None),
            (Some("0s"), None),
            (Some("-5m"), None),
            (Some("15"), None),
            (None, Some("23:00")),
            (None, Some("07:00-07:00")),
            (None, Some("25:00-07:00")),
        ] {
            assert!(rule(idle, away).is_err(), "{idle:?} {away:?}");
        }
    }
}
