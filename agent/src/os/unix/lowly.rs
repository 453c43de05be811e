//! A child that nothing else may suffer from: lowest priority, the kernel's first choice when memory runs out, a
//! process group of its own, and gone with the agent, also if that was a kill -9.

use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, prlimit, setpriority_process, waitid,
};

use super::processes::{descendants, kill, kill_group, pid_of, resident, resident_peak};
use super::reins::die_with_parent;
use crate::os::Exit;

const LOWEST_PRIORITY: i32 = 19;
const FIRST_TO_DIE: &str = "1000";

pub struct Lowly {
    child: Child,
    pid: Pid,
}

impl Lowly {
    /// Its output comes through pipes; no file that it writes grows beyond `largest_file` bytes. It dies with the
    /// thread that calls this.
    pub fn start(command: &mut Command, largest_file: u64) -> io::Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        die_with_parent(command);
        let child = command.spawn()?;
        let pid = pid_of(child.id()).ok_or_else(|| io::Error::other("no process id"))?;
        // Neither of these is needed for it to run: a system that refuses them only makes it less modest.
        let _ = setpriority_process(Some(pid), LOWEST_PRIORITY);
        let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), FIRST_TO_DIE);
        let limit = Rlimit {
            current: Some(largest_file),
            maximum: Some(largest_file),
        };
        let _ = prlimit(Some(pid), Resource::Fsize, limit);
        Ok(Self { child, pid })
    }

    /// Once.
    pub fn output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Bytes resident now, of it and of everything below.
    #[must_use]
    pub fn resident(&self) -> u64 {
        let below = descendants(self.child.id());
        below.into_iter().map(resident).sum::<u64>() + resident(self.child.id())
    }

    /// Bytes that it alone had resident at its highest so far, by the kernel's own count.
    #[must_use]
    pub fn peak(&self) -> u64 {
        resident_peak(self.child.id())
    }

    /// It stays unburied until [`Lowly::end`], so that its group cannot become another's.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.pid), look), Ok(None))
    }

    /// Kills what is left of it and buries it.
    pub fn end(mut self) -> io::Result<Exit> {
        let below = descendants(self.child.id());
        kill_group(self.child.id(), Signal::KILL);
        for pid in below {
            kill(pid, Signal::KILL);
        }
        let status = self.child.wait()?;
        Ok(Exit {
            code: status.code(),
            signal: status.signal(),
        })
    }
}
