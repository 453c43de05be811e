//! The shepherd's hold on its program: a Job Object that the program is put into before it runs, with all that it will
//! start. The shepherd has the only handle, so when it ends, be it by a crash, the kernel ends everything in the job.

use std::cell::Cell;
use std::io;
use std::os::windows::process::CommandExt;
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;

use vram::Bytes;
use windows::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED};

use super::console::{ask, keep_own_output};
use super::grounds::Group;
use super::job::Job;
use super::processes::{let_run, open_to_watch, resident, resident_of, started, wait};
use crate::attempt::{Contained, Limits, Process};
use crate::clock;
use crate::os::{Exit, Woken};

const ROUND: Duration = Duration::from_millis(5);
/// A process that waits for a driver may not go at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a program that is killed ends with: the number that a shell says for it.
const KILLED: u32 = 137;

pub struct Reins {
    job: Rc<Job>,
    limits: Limits,
    /// The last program's process group.
    group: Cell<Option<u32>>,
    /// Largest working set of any one process that was seen.
    peak: Rc<Cell<u64>>,
}

pub struct Program {
    child: Child,
    job: Rc<Job>,
    peak: Rc<Cell<u64>>,
}

impl Reins {
    /// Makes this process a shepherd.
    pub fn take() -> io::Result<Self> {
        keep_own_output();
        Ok(Self {
            job: Rc::new(Job::new()?),
            limits: Limits::default(),
            group: Cell::new(None),
            peak: Rc::default(),
        })
    }

    /// What starts from here on is held to its limits; the job is there already. Returns what of it Windows refused.
    pub fn hold(&mut self, limits: &Limits, _group: &Group) -> Option<String> {
        self.limits = *limits;
        let memory = limits.memory.map(|bytes| bytes.0);
        let bounded = self.job.limit(memory, limits.processes);
        let weighed = limits.cpu_weight.map_or(Ok(()), |one| self.job.weigh(one));
        let failed = |what: &str, error: io::Error| format!("could not set {what}: {error}");
        let said = [
            bounded
                .err()
                .map(|error| failed("the limits of its job", error)),
            weighed.err().map(|error| failed("its cpu_weight", error)),
        ];
        let said: Vec<String> = said.into_iter().flatten().collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// What Windows counted for it. Absent where nothing was limited.
    #[must_use]
    pub fn contained(&self) -> Option<Contained> {
        if self.limits.is_none() {
            return None;
        }
        let refused = self.job.refused();
        Some(Contained {
            memory_limit: self.limits.memory,
            memory_peak: self.job.peak().map(Bytes),
            refused_memory: refused.memory,
            process_limit: self.limits.processes,
            refused: refused.processes,
            ..Contained::default()
        })
    }

    /// Windows kills nothing at a limit: the program is refused, and says so itself.
    #[must_use]
    pub fn is_over_memory(&self) -> bool {
        false
    }

    /// The job goes with this process.
    pub fn let_go(&mut self) -> usize {
        0
    }

    #[must_use]
    pub fn own(&self) -> Process {
        process(std::process::id())
    }

    /// Starts the program in a process group of its own, in the job from its first instruction; it dies with this
    /// shepherd.
    pub fn start(&self, command: &mut Command) -> io::Result<Program> {
        command.creation_flags((CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP).0);
        let mut child = command.spawn()?;
        let begun = self.job.put_in(&child).and_then(|()| let_run(child.id()));
        if let Err(error) = begun {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        self.group.set(Some(child.id()));
        Ok(Program {
            child,
            job: Rc::clone(&self.job),
            peak: Rc::clone(&self.peak),
        })
    }

    /// Waits for the program's end, or the time. Nobody can ask: what is asked stands in the folder.
    pub fn wait(&mut self, program: &Program, longest: Duration) -> Woken {
        match wait(&program.child, Some(longest)) {
            true => Woken::Ended,
            false => Woken::Time,
        }
    }

    /// Bytes of all working sets together.
    pub fn look(&self, _program: &Program) -> u64 {
        let mut total = 0;
        for (now, peak) in self.job.members().into_iter().filter_map(resident) {
            total += now;
            self.peak.set(self.peak.get().max(peak));
        }
        total
    }

    /// True when something still runs after the program has ended.
    #[must_use]
    pub fn left_something(&self) -> bool {
        self.job.count() > 0
    }

    /// Asks everything that is left to end. What has left the program's process group does not hear it.
    pub fn ask_rest(&self) {
        if let Some(group) = self.group.get() {
            ask(group);
        }
    }

    /// Waits until nothing is left, at most for `longest`.
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

    /// Ends everything that is left; returns how many would not go. The job knows them: no mark is needed.
    pub fn kill_rest(&self, _mark: &str) -> usize {
        self.job.empty(KILLED);
        match self.wait_rest(PATIENCE) {
            true => 0,
            false => self.job.count(),
        }
    }

    /// How many processes are left.
    #[must_use]
    pub fn count_rest(&self) -> usize {
        self.job.count()
    }

    /// Largest resident memory of any one process that was seen.
    #[must_use]
    pub fn children_peak(&self) -> Option<u64> {
        Some(self.peak.get()).filter(|peak| *peak > 0)
    }
}

impl Program {
    #[must_use]
    pub fn process(&self) -> Process {
        process(self.child.id())
    }

    /// Asks its process group to end (Ctrl-Break).
    pub fn ask(&self) {
        ask(self.child.id());
    }

    /// Ends it with all that it started.
    pub fn kill(&self) {
        self.job.empty(KILLED);
    }

    /// Call it after [`Woken::Ended`].
    pub fn exit(&mut self) -> io::Result<Exit> {
        let status = self.child.wait()?;
        // Its handle tells its highest still, also of one that ended before anybody looked.
        if let Some((_, peak)) = resident_of(&self.child) {
            self.peak.set(self.peak.get().max(peak));
        }
        Ok(Exit {
            code: status.code(),
            signal: None,
        })
    }
}

fn process(pid: u32) -> Process {
    let handle = open_to_watch(pid).ok();
    Process {
        pid,
        started: handle.and_then(|handle| started(&handle)).unwrap_or(0),
    }
}
