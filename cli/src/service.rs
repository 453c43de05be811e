//! What a service manager is told (systemd's notify protocol; Windows' service control manager): ready, still alive,
//! stopping. Silent where none asks. Alive means that `beat` came back: the coordinator's is a round through its one writer of
//! state; the agent's only shows that its process runs and takes up tasks.

#[cfg(windows)]
mod events;
#[cfg(windows)]
mod scm;

use std::time::Duration;

use tokio::task::JoinHandle;

use crate::error::{Error, Exit};

/// Of Windows' service and of its task at logon.
#[cfg_attr(not(windows), allow(dead_code))]
pub const SERVICE: &str = "sweep-agent";

/// Who started this server, where nobody sees what it says on its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Under {
    /// Windows' service control manager
    Service,
    /// Windows' task scheduler, when a user logs on
    LogonTask,
}

/// Does the work of this process: as a service where Windows started it as one, otherwise as it is.
pub fn carry(
    under: Option<Under>,
    work: impl FnOnce() -> Exit + Send + 'static,
) -> Result<Exit, Error> {
    match under {
        None => Ok(work()),
        Some(under) => carried(under, work),
    }
}

#[cfg(windows)]
fn carried(under: Under, work: impl FnOnce() -> Exit + Send + 'static) -> Result<Exit, Error> {
    match under {
        Under::Service => scm::run(work),
        Under::LogonTask => {
            crate::signals::leave_console();
            Ok(work())
        }
    }
}

#[cfg(not(windows))]
fn carried(_under: Under, _work: impl FnOnce() -> Exit) -> Result<Exit, Error> {
    Err(Error::Refused("--under is for Windows".to_owned()))
}

/// Told until it is dropped.
pub struct Told {
    pulse: Option<JoinHandle<()>>,
}

impl Told {
    /// The server answers from here on. `beat` is asked before each word that it is alive.
    pub fn ready<B, F>(beat: B) -> Self
    where
        B: Fn() -> F + Send + 'static,
        F: Future<Output = ()> + Send,
    {
        say(Word::Ready);
        let pulse = watchdog().map(|limit| {
            tokio::spawn(async move {
                // Twice late and it still is in time.
                let mut tick = tokio::time::interval(limit / 3);
                tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                loop {
                    tick.tick().await;
                    beat().await;
                    say(Word::Alive);
                }
            })
        });
        Self { pulse }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(pulse) = &self.pulse {
            pulse.abort();
        }
        say(Word::Stopping);
    }
}

enum Word {
    Ready,
    Alive,
    Stopping,
}

#[cfg(unix)]
fn say(word: Word) {
    use sd_notify::NotifyState;
    let state = match word {
        Word::Ready => NotifyState::Ready,
        Word::Alive => NotifyState::Watchdog,
        Word::Stopping => NotifyState::Stopping,
    };
    // A manager that does not listen ends nothing.
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "the service manager could not be told");
    }
}

#[cfg(unix)]
fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero())
}

#[cfg(windows)]
fn say(word: Word) {
    scm::say(&word);
}

#[cfg(windows)]
fn watchdog() -> Option<Duration> {
    None
}
