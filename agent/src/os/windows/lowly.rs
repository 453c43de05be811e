//! A child that nothing else may suffer from: lowest priority, in a Job Object that this process holds, and so gone
//! with the agent, however that ends. The size of its files is not bounded here: Windows has no such limit.

use std::io;
use std::os::windows::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

use windows::Win32::System::Threading::{CREATE_NO_WINDOW, CREATE_SUSPENDED, IDLE_PRIORITY_CLASS};

use super::console::keep_own_output;
use super::job::Job;
use super::processes::{let_run, resident, resident_of, wait};
use crate::os::Exit;

const KILLED: u32 = 137;

pub struct Lowly {
    child: Child,
    job: Job,
}

impl Lowly {
    /// Its output comes through pipes.
    pub fn start(command: &mut Command, _largest_file: u64) -> io::Result<Self> {
        let flags = CREATE_SUSPENDED | CREATE_NO_WINDOW | IDLE_PRIORITY_CLASS;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .creation_flags(flags.0);
        let job = Job::new()?;
        keep_own_output();
        let mut child = command.spawn()?;
        if let Err(error) = job.put_in(&child).and_then(|()| let_run(child.id())) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        Ok(Self { child, job })
    }

    /// Once.
    pub fn output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Bytes resident now, of it and of everything that it started.
    #[must_use]
    pub fn resident(&self) -> u64 {
        let members = self.job.members().into_iter();
        members.filter_map(resident).map(|(now, _)| now).sum()
    }

    /// Bytes that it alone had resident at its highest so far.
    #[must_use]
    pub fn peak(&self) -> u64 {
        resident_of(&self.child).map_or(0, |(_, peak)| peak)
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        wait(&self.child, Some(Duration::ZERO))
    }

    /// Ends what is left of it.
    pub fn end(mut self) -> io::Result<Exit> {
        // One that has ended by itself keeps its own code.
        self.job.empty(KILLED);
        let status = self.child.wait()?;
        Ok(Exit {
            code: status.code(),
            signal: None,
        })
    }
}
