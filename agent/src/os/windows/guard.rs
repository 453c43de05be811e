//! The agent's hold on a shepherd: an open handle, so that its end is known at once and its id stays its own.
//! Works the same for a shepherd that this agent started and for one it found.

use std::io::{self, PipeReader, Read};
use std::os::windows::io::OwnedHandle;
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tokio::sync::watch;
use windows::Win32::System::Threading::{
    CREATE_BREAKAWAY_FROM_JOB, CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW,
};

use super::console::keep_own_output;
use super::processes::{open_to_watch, started, wait};
use crate::attempt::Process;

/// At most this much of what a dying shepherd said is kept.
const WORDS: u64 = 64 << 10;
/// A thread that only waits.
const STACK: usize = 64 << 10;

pub struct Guard {
    ended: watch::Receiver<bool>,
    /// Only of a shepherd that this agent started.
    own: Option<(Child, PipeReader)>,
}

impl Guard {
    /// Starts `PROGRAM shepherd FOLDER`, in a console of its own that nobody sees: through it the program is asked to
    /// end, and no Ctrl-C or closed window of the agent's reaches it.
    pub fn start(program: &Path, folder: &Path) -> io::Result<Self> {
        let (words, said) = io::pipe()?;
        let mut command = Command::new(program);
        command
            .arg("shepherd")
            .arg(folder)
            // A folder that a process works in cannot be removed.
            .current_dir("/")
            .stdin(Stdio::null());
        // A program may look into the environment of the process that started it.
        for name in crate::trust::SECRETS {
            command.env_remove(name);
        }
        command.stdout(said.try_clone()?).stderr(said);
        keep_own_output();
        let child = apart(&mut command)?;
        // The command holds the pipe's other end: while it lives, reading the last words would never end.
        drop(command);
        Ok(Self {
            ended: watched(open_to_watch(child.id())?)?,
            own: Some((child, words)),
        })
    }

    /// Takes hold of a running shepherd; absent when it is gone.
    pub fn adopt(shepherd: Process) -> io::Result<Option<Self>> {
        const NO_SUCH_PROCESS: i32 = 87;
        let handle = match open_to_watch(shepherd.pid) {
            Ok(handle) => handle,
            Err(error) if code(&error) == Some(NO_SUCH_PROCESS) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Looked at after opening: whose id it is cannot change any more. One that has ended may still be opened.
        let is_it = started(&handle) == Some(shepherd.started);
        if !is_it || wait(&handle, Some(std::time::Duration::ZERO)) {
            return Ok(None);
        }
        Ok(Some(Self {
            ended: watched(handle)?,
            own: None,
        }))
    }

    /// Returns once it has ended.
    pub async fn ended(&self) -> io::Result<()> {
        let mut ended = self.ended.clone();
        let told = ended.wait_for(|ended| *ended).await;
        told.map(drop).map_err(io::Error::other)
    }

    /// Nothing here reaches one process of another console; the shepherd looks into its folder every second.
    pub fn wake(&self) {}

    /// Returns what it had to say: nothing, if all went well. Call it after [`Guard::ended`].
    pub fn last_words(self) -> String {
        let mut said = Vec::new();
        if let Some((mut child, mut words)) = self.own {
            let _ = child.wait();
            let _ = Read::by_ref(&mut words).take(WORDS).read_to_end(&mut said);
        }
        String::from_utf8_lossy(&said).trim().to_owned()
    }
}

/// Out of the box that this agent itself may be in (the task scheduler makes one), where that lets go.
fn apart(command: &mut Command) -> io::Result<Child> {
    let flags = (CREATE_NO_WINDOW | CREATE_NEW_PROCESS_GROUP).0;
    let leaving = command.creation_flags(flags | CREATE_BREAKAWAY_FROM_JOB.0);
    match leaving.spawn() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            command.creation_flags(flags).spawn()
        }
        other => other,
    }
}

/// The number of Windows in an error, whichever way it came.
fn code(error: &io::Error) -> Option<i32> {
    // The low half of what the windows crate reports is the plain number.
    error.raw_os_error().map(|code| code & 0xFFFF)
}

fn watched(process: OwnedHandle) -> io::Result<watch::Receiver<bool>> {
    let (tell, told) = watch::channel(false);
    std::thread::Builder::new()
        .name("shepherd".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            wait(&process, None);
            tell.send_replace(true);
        })?;
    Ok(told)
}
