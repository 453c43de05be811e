//! What a service manager is told (systemd's notify protocol): ready, still alive, stopping. Silent where none asks,
//! and on systems without it. Alive means that `beat` came back: the coordinator's is a round through its one writer of
//! state; the agent's only shows that its process runs and takes up tasks.

use std::time::Duration;

use tokio::task::JoinHandle;

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

#[cfg(not(unix))]
fn say(_word: Word) {}

#[cfg(not(unix))]
fn watchdog() -> Option<Duration> {
    None
}
