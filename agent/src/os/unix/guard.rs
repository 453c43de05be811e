//! The agent's hold on a shepherd: a pidfd, so that its end is known at once and a signal never hits another process.
//! Works the same for a shepherd that this agent started and for one it found.

use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;

use super::processes::{pid_of, started};
use crate::attempt::Process;

/// At most this much of what a dying shepherd said is kept.
const WORDS: u64 = 64 << 10;

pub struct Guard {
    pidfd: AsyncFd<OwnedFd>,
    /// Only of a shepherd that this agent started.
    own: Option<(Child, PipeReader)>,
}

impl Guard {
    /// Starts `PROGRAM shepherd FOLDER`. It leaves this process's session by itself.
    pub fn start(program: &Path, folder: &Path) -> io::Result<Self> {
        let (words, said) = io::pipe()?;
        let mut command = Command::new(program);
        command
            .arg("shepherd")
            .arg(folder)
            .current_dir("/")
            .stdin(Stdio::null());
        // A program may look into the environment of the process that started it.
        for name in crate::trust::SECRETS {
            command.env_remove(name);
        }
        command.stdout(said.try_clone()?).stderr(said);
        let child = command.spawn()?;
        // The command holds the pipe's other end: while it lives, reading the last words would never end.
        drop(command);
        let pidfd = open(child.id())?;
        Ok(Self {
            pidfd: watched(pidfd)?,
            own: Some((child, words)),
        })
    }

    /// Takes hold of a running shepherd; absent when it is gone.
    pub fn adopt(shepherd: Process) -> io::Result<Option<Self>> {
        let pidfd = match open(shepherd.pid) {
            Ok(pidfd) => pidfd,
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // Looked at after opening: what the pidfd holds cannot change any more.
        if started(shepherd.pid) != Some(shepherd.started) {
            return Ok(None);
        }
        Ok(Some(Self {
            pidfd: watched(pidfd)?,
            own: None,
        }))
    }

    /// Returns once it has ended.
    pub async fn ended(&self) -> io::Result<()> {
        self.pidfd.readable().await.map(drop)
    }

    /// Makes it look at what it is asked (SIGTERM).
    pub fn wake(&self) {
        let _ = pidfd_send_signal(self.pidfd.get_ref(), Signal::TERM);
    }

    /// Reaps it and returns what it had to say: nothing, if all went well. Call it after [`Guard::ended`].
    pub fn last_words(self) -> String {
        let mut said = Vec::new();
        if let Some((mut child, mut words)) = self.own {
            let _ = child.wait();
            let _ = Read::by_ref(&mut words).take(WORDS).read_to_end(&mut said);
        }
        String::from_utf8_lossy(&said).trim().to_owned()
    }
}

fn open(pid: u32) -> io::Result<OwnedFd> {
    let pid = pid_of(pid).ok_or_else(|| io::Error::other("no process id"))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Needs the runtime's context.
#[allow(unsafe_code)]
fn watched(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays open and the same until the AsyncFd drops it.
    let watched = unsafe { AsyncFd::register(pidfd) };
    Ok(watched?)
}
