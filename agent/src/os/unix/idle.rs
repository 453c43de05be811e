//! How long nobody has touched this machine, by logind: it knows of desktops what they tell it, and of terminals and
//! SSH when something was last typed. Reads no input itself.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::os::Idle;

#[must_use]
pub fn idle() -> Idle {
    let sessions = match loginctl(&["list-sessions", "--no-legend"]) {
        Ok(text) => text,
        Err(why) => return Idle::Unknown(why),
    };
    let ids: Vec<&str> = sessions
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    if ids.is_empty() {
        return Idle::Nobody;
    }
    let mut ask = vec!["show-session"];
    ask.extend(&ids);
    ask.extend([
        "-p",
        "Class",
        "-p",
        "IdleHint",
        "-p",
        "IdleSinceHintMonotonic",
    ]);
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = Duration::new(
        u64::try_from(now.tv_sec).unwrap_or(0),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    );
    match loginctl(&ask) {
        Ok(text) => of_sessions(&text, now),
        // One that ended in between.
        Err(why) => Idle::Unknown(why),
    }
}

/// It asks logind over the bus, which may hang.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);

fn loginctl(words: &[&str]) -> Result<String, String> {
    let told = Command::new("loginctl")
        .args(words)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            // A few lines, which its pipes hold.
            let mut left = PATIENCE;
            while child.try_wait()?.is_none() {
                if left.is_zero() {
                    child.kill()?;
                    child.wait()?;
                    let what = format!("it does not answer within {} s", PATIENCE.as_secs());
                    return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, what));
                }
                std::thread::sleep(LOOK);
                left = left.saturating_sub(LOOK);
            }
            child.wait_with_output()
        })
        .map_err(|error| {
            format!("loginctl, which tells how long nobody used this machine: {error}")
        })?;
    if told.status.success() {
        Ok(String::from_utf8_lossy(&told.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&told.stderr);
        Err(format!("loginctl: {}", said.trim()))
    }
}

/// The session that was used last decides. Login screens and the user's own manager are nobody.
fn of_sessions(text: &str, now: Duration) -> Idle {
    let mut least: Option<Duration> = None;
    for session in text.split("\n\n") {
        let value = |key: &str| {
            session
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        };
        if value("Class") != Some("user") {
            continue;
        }
        let since = value("IdleSinceHintMonotonic").and_then(|text| text.parse().ok());
        let idle = match (value("IdleHint"), since) {
            (Some("yes"), Some(micros)) => now.saturating_sub(Duration::from_micros(micros)),
            _ => Duration::ZERO,
        };
        least = Some(least.map_or(idle, |least| least.min(idle)));
    }
    least.map_or(Idle::Nobody, Idle::Since)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(10_000);

    /// As loginctl 252 prints it.
    #[test]
    fn the_session_that_was_used_last_decides() {
        let idle = "IdleHint=yes\nIdleSinceHintMonotonic=9100000000\nClass=user\n";
        let greeter = "IdleHint=no\nIdleSinceHintMonotonic=0\nClass=greeter\n";
        let active = "IdleHint=no\nIdleSinceHintMonotonic=9999000000\nClass=user\n";
        let since = |seconds| Idle::Since(Duration::from_secs(seconds));
        assert_eq!(of_sessions(idle, NOW), since(900));
        assert_eq!(of_sessions(&format!("{idle}\n{greeter}"), NOW), since(900));
        assert_eq!(of_sessions(&format!("{idle}\n{active}"), NOW), since(0));
        assert_eq!(of_sessions(greeter, NOW), Idle::Nobody);
    }
}
