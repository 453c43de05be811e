//! The request to end (SIGTERM, on Windows Ctrl-Break), as something that a sleeping player wakes up from.
//! Only passes it on; what to save before the end is the player's business.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::clock::monotonic;

pub(super) struct Stop(Receiver<()>);

impl Stop {
    /// Listens from now on, in a thread of its own.
    pub fn listen() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut asked = {
            let _inside = runtime.enter();
            requests()?
        };
        let (send, receive) = channel();
        std::thread::Builder::new()
            .name("stop".to_owned())
            .spawn(move || {
                runtime.block_on(asked.recv());
                // The player may have ended first.
                let _ = send.send(());
            })?;
        Ok(Self(receive))
    }

    /// Sleeps until `due`; true as soon as the end is asked for.
    pub fn asked_by(&self, due: Instant) -> bool {
        let rest = due.saturating_duration_since(monotonic());
        match self.0.recv_timeout(rest) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(due.saturating_duration_since(monotonic()));
                false
            }
        }
    }

    /// Sleeps until the end is asked for.
    pub fn wait(&self) {
        while !self.asked_by(monotonic() + Duration::from_secs(3600)) {}
    }
}

#[cfg(unix)]
fn requests() -> io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
}

#[cfg(windows)]
fn requests() -> io::Result<tokio::signal::windows::CtrlBreak> {
    tokio::signal::windows::ctrl_break()
}
