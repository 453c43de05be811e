//! Being asked to end: Ctrl-C, and SIGTERM from a service manager; on Windows Ctrl-C, Ctrl-Break, a closed window and the
//! service control manager. Each call of [`Asked::again`] waits for the next one, so a caller can be gentle at the first
//! and quick at the second. Ends nothing by itself.

#[cfg(windows)]
pub use windows::{Asked, ask, leave_console};

#[cfg(unix)]
pub use unix::Asked;

#[cfg(unix)]
mod unix {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    use crate::error::Error;

    pub struct Asked {
        terminate: Signal,
        interrupt: Signal,
    }

    impl Asked {
        /// From here on these signals no longer end the process.
        pub fn listen() -> Result<Self, Error> {
            let on =
                |kind| signal(kind).map_err(|source| Error::io("listen for", "signals", source));
            Ok(Self {
                terminate: on(SignalKind::terminate())?,
                interrupt: on(SignalKind::interrupt())?,
            })
        }

        /// Resolves when asked to end. Safe to drop and call again: no request is lost.
        pub async fn again(&mut self) {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
        }
    }
}

#[cfg(windows)]
mod windows {
    use tokio::signal::windows::{
        CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
    };
    use tokio::sync::Notify;

    use crate::error::Error;

    static BY_MANAGER: Notify = Notify::const_new();

    /// As the service control manager does, from a thread of its own.
    pub fn ask() {
        BY_MANAGER.notify_one();
    }

    /// Closes the window that the task scheduler opens for a console program; nothing is said there any more.
    #[allow(unsafe_code, reason = "Windows' own call has no safe form")]
    pub fn leave_console() {
        // SAFETY: no arguments. Without a console there is nothing to leave.
        let _ = unsafe { windows::Win32::System::Console::FreeConsole() };
    }

    pub struct Asked {
        interrupt: CtrlC,
        stop: CtrlBreak,
        close: CtrlClose,
        shutdown: CtrlShutdown,
    }

    impl Asked {
        /// From here on these no longer end the process.
        pub fn listen() -> Result<Self, Error> {
            let failed = |source| Error::io("listen for", "Ctrl-C", source);
            Ok(Self {
                interrupt: ctrl_c().map_err(failed)?,
                stop: ctrl_break().map_err(failed)?,
                close: ctrl_close().map_err(failed)?,
                shutdown: ctrl_shutdown().map_err(failed)?,
            })
        }

        /// Resolves when asked to end. Safe to drop and call again: no request is lost.
        pub async fn again(&mut self) {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.stop.recv() => {}
                _ = self.close.recv() => {}
                _ = self.shutdown.recv() => {}
                () = BY_MANAGER.notified() => {}
            }
        }
    }
}
