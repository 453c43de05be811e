//! The shepherd's hold on its program: own session, child subreaper (so that whatever the program starts and
//! abandons comes back here), SIGTERM as a readable pipe, one process group, the control groups that hold its program
//! and not itself, and the end of everything below.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{
    PidfdFlags, Signal, WaitOptions, getpid, getppid, pidfd_open, set_child_subreaper,
    set_parent_process_death_signal, setsid, wait, waitpid,
};

use super::groups::Group;
use super::processes::{Stat, descendants, kill, kill_group, marked, pid_of, resident, started};
use crate::attempt::{Contained, Limits, Process};
use crate::clock;
use crate::os::{Exit, Woken};

const ROUND: Duration = Duration::from_millis(2);
/// A process in an uninterruptible wait (a hung driver) may never go.
const PATIENCE: Duration = Duration::from_secs(10);

/// When the whole machine runs out of memory a job goes before the agent, its shepherds and whatever else runs here.
const BEFORE_OTHERS: &[u8] = b"500";

pub struct Reins {
    asked: UnixStream,
    own: u32,
    group: Group,
}

pub struct Program {
    child: Child,
    pidfd: OwnedFd,
}

impl Reins {
    /// Makes this process a shepherd.
    pub fn take() -> io::Result<Self> {
        // Fails for the leader of a process group, which is detached already or started by hand.
        let _ = setsid();
        set_child_subreaper(Some(getpid()))?;
        let (asked, ask) = UnixStream::pair()?;
        asked.set_nonblocking(true)?;
        for signal in [
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGHUP,
        ] {
            signal_hook::low_level::pipe::register(signal, ask.try_clone()?)?;
        }
        Ok(Self {
            asked,
            own: std::process::id(),
            group: Group::default(),
        })
    }

    /// Holds the program that is started next within these limits. What cannot be set is returned: the program runs
    /// without it then.
    pub fn hold(&mut self, limits: &Limits, group: &Group) -> Option<String> {
        self.group = group.clone();
        let made = self.group.make(limits).err()?;
        // Half a group would hold what nothing limits.
        let _ = std::mem::take(&mut self.group).end();
        Some(format!("its limits could not be set: {made}"))
    }

    /// What was counted of it so far; absent where nothing holds it.
    #[must_use]
    pub fn contained(&self) -> Option<Contained> {
        self.group.contained()
    }

    /// Whether the kernel has killed a part of it for want of memory.
    #[must_use]
    pub fn is_over_memory(&self) -> bool {
        self.group.has_oom_kill()
    }

    /// Ends whatever is left in what holds it, and removes that; returns how many processes would not go.
    #[must_use]
    pub fn let_go(&mut self) -> usize {
        std::mem::take(&mut self.group).end()
    }

    #[must_use]
    pub fn own(&self) -> Process {
        Process {
            pid: self.own,
            started: started(self.own).unwrap_or(0),
        }
    }

    /// Starts the program in a process group of its own; it dies with this shepherd.
    pub fn start(&self, command: &mut Command) -> io::Result<Program> {
        command.process_group(0);
        die_with_parent(command);
        go_in(command, self.group.doors().map_err(io::Error::other)?);
        let mut child = command.spawn()?;
        let pid = pid_of(child.id()).ok_or_else(|| io::Error::other("no process id"))?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Program { child, pidfd }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// Waits for the program's end, a request, or the time.
    pub fn wait(&mut self, program: &Program, longest: Duration) -> Woken {
        let mut fds = [
            PollFd::new(&program.pidfd, PollFlags::IN),
            PollFd::new(&self.asked, PollFlags::IN),
        ];
        let longest = Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&longest)) {
            Ok(0) | Err(_) => return Woken::Time,
            Ok(_) => {}
        }
        let (ended, asked) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if asked {
            let mut all = [0; 64];
            while self.asked.read(&mut all).is_ok_and(|read| read > 0) {}
        }
        if ended { Woken::Ended } else { Woken::Asked }
    }

    /// Resident bytes of everything below, and buries what has died there.
    pub fn look(&self, program: &Program) -> u64 {
        let mut total = 0;
        for pid in descendants(self.own) {
            let held = resident(pid);
            total += held;
            if held == 0 && pid != program.child.id() {
                bury(self.own, pid);
            }
        }
        total
    }

    /// True when something still runs below after the program has ended.
    #[must_use]
    pub fn left_something(&self) -> bool {
        // Buries every dead child first. No child at all is the usual case, and costs one call.
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Asks everything below to end.
    pub fn ask_rest(&self) {
        for pid in descendants(self.own) {
            kill(pid, Signal::TERM);
        }
    }

    /// Waits until nothing runs below, at most for `longest`.
    pub fn wait_rest(&self, longest: Duration) -> bool {
        let begin = clock::monotonic();
        while self.left_something() {
            if begin.elapsed() >= longest {
                return false;
            }
            std::thread::sleep(ROUND);
        }
        true
    }

    /// Kills everything below and everything with the mark; returns how many would not go.
    pub fn kill_rest(&self, mark: &str) -> usize {
        let begin = clock::monotonic();
        loop {
            let mut found = descendants(self.own);
            found.extend(marked(mark));
            // First what holds it: nothing in there can start another one any more.
            self.group.kill();
            for pid in &found {
                kill(*pid, Signal::KILL);
            }
            if !self.left_something() && marked(mark).is_empty() {
                return 0;
            }
            if begin.elapsed() >= PATIENCE {
                return found.len();
            }
            std::thread::sleep(ROUND);
        }
    }

    /// How many processes run below.
    #[must_use]
    pub fn count_rest(&self) -> usize {
        let alive = |pid: &u32| started(*pid).is_some();
        descendants(self.own).into_iter().filter(alive).count()
    }

    /// Largest resident memory of any one process that has ended below.
    #[must_use]
    pub fn children_peak(&self) -> Option<u64> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
        u64::try_from(usage.max_rss()).ok().map(|kib| kib * 1024)
    }
}

impl Program {
    #[must_use]
    pub fn process(&self) -> Process {
        let pid = self.child.id();
        Process {
            pid,
            started: started(pid).unwrap_or(0),
        }
    }

    /// Asks its process group to end (SIGTERM).
    pub fn ask(&self) {
        kill_group(self.child.id(), Signal::TERM);
    }

    /// Ends its process group (SIGKILL).
    pub fn kill(&self) {
        kill_group(self.child.id(), Signal::KILL);
        kill(self.child.id(), Signal::KILL);
    }

    /// Call it after [`Woken::Ended`].
    pub fn exit(&mut self) -> io::Result<Exit> {
        let status = self.child.wait()?;
        Ok(Exit {
            code: status.code(),
            signal: status.signal(),
        })
    }
}

/// Takes the exit status of a dead child of ours that is not the program.
fn bury(own: u32, pid: u32) {
    if Stat::read(pid).is_some_and(|stat| stat.state == 'Z' && stat.parent == own) {
        let _ = waitpid(pid_of(pid), WaitOptions::NOHANG);
    }
}

/// The kernel kills the program when the thread that starts it dies, even if that was a kill -9.
#[allow(unsafe_code)]
pub(super) fn die_with_parent(command: &mut Command) {
    let shepherd = getpid();
    let set = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have died before the line above.
        if getppid() != Some(shepherd) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only two plain system calls are made; nothing allocates or takes a lock. There is
    // no safe way to run something in the child.
    unsafe {
        command.pre_exec(set);
    }
}

/// Before it becomes the program, the child goes into its control groups and offers itself to the kernel's choice.
#[allow(unsafe_code)]
fn go_in(command: &mut Command, doors: Vec<File>) {
    let enter = move || {
        for door in &doors {
            rustix::io::write(door, b"0")?;
        }
        // A system that refuses this only makes it less modest.
        let own = rustix::fs::open(
            c"/proc/self/oom_score_adj",
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let _ = own.and_then(|file| rustix::io::write(&file, BEFORE_OTHERS));
        Ok(())
    };
    // SAFETY: between fork and exec only plain system calls are made on descriptors and on a path that is a constant;
    // nothing allocates or takes a lock. There is no safe way to run something in the child.
    unsafe {
        command.pre_exec(enter);
    }
}
