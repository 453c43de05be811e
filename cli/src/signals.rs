//! Being asked to end: Ctrl-C, and SIGTERM from a service manager. Each call of [`Asked::again`] waits for the next
//! one, so a caller can be gentle at the first and quick at the second. Ends nothing by itself.

use crate::error::Error;

pub struct Asked {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Asked {
    /// From here on these signals no longer end the process.
    pub fn listen() -> Result<Self, Error> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let on =
                |kind| signal(kind).map_err(|source| Error::io("listen for", "signals", source));
            Ok(Self {
                terminate: on(SignalKind::terminate())?,
                interrupt: on(SignalKind::interrupt())?,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Resolves when asked to end. Safe to drop and call again: no request is lost.
    #[cfg(unix)]
    pub async fn again(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub async fn again(&mut self) {
        // Without a console there is no Ctrl-C; then only the service manager ends us.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
