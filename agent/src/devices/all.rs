//! Which ways to learn of GPUs there are on this machine, as one. A recording takes their place only where somebody
//! names it. Nothing here knows a platform's figures.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use vram::Backend;

use super::{Fault, Live, Look, Recorded, Trouble, Watch};

/// This machine's own drivers; those that are not here cost nothing.
#[must_use]
pub fn real() -> Box<dyn Watch> {
    let mut ways: Vec<Box<dyn Watch>> = Vec::new();
    if let Some(nvidia) = super::nvidia::open() {
        ways.push(nvidia);
    }
    ways.extend(super::amd_linux::open());
    ways.extend(super::windows::open());
    Box::new(All(ways))
}

/// The recording, if there is one to read; this machine otherwise.
#[must_use]
pub fn watch(recorded: Option<&Path>) -> Box<dyn Watch> {
    match recorded {
        Some(path) => Box::new(Recorded::new(path.to_owned())),
        None => real(),
    }
}

/// One look, unless a driver hangs in it: then that is the trouble, and the thread is left to it.
#[must_use]
pub fn look_within(recorded: Option<PathBuf>, limit: Duration) -> Look {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        // Whoever waited may have gone.
        let _ = tell.send(watch(recorded.as_deref()).look());
    });
    told.recv_timeout(limit).unwrap_or_else(|_| Look {
        troubles: vec![Trouble {
            backend: Backend::Cuda,
            what: format!(
                "a GPU driver did not answer within {} s; look at dmesg and nvidia-smi, then start the agent again",
                limit.as_secs()
            ),
            one_card: false,
        }],
        ..Look::default()
    })
}

struct All(Vec<Box<dyn Watch>>);

impl Watch for All {
    fn look(&mut self) -> Look {
        let mut all = Look::default();
        for way in &mut self.0 {
            let look = way.look();
            all.answered.extend(look.answered);
            all.troubles.extend(look.troubles);
            for found in look.found {
                // The first way knows more of it: on Windows NVIDIA's driver before the system's list of adapters.
                let known = |one: &super::Found| {
                    one.id == found.id || found.pci.as_deref().is_some_and(|pci| one.is(pci))
                };
                if found.part_of.is_some() || !all.found.iter().any(known) {
                    all.found.push(found);
                }
            }
        }
        all
    }

    fn live(&mut self) -> Vec<Live> {
        self.0.iter_mut().flat_map(|way| way.live()).collect()
    }

    fn faults(&mut self) -> Vec<Fault> {
        self.0.iter_mut().flat_map(|way| way.faults()).collect()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A pipe that nobody writes to is a driver that does not come back.
    #[test]
    fn a_driver_that_hangs_is_left_to_itself() {
        let room = tempfile::tempdir().unwrap();
        let pipe = room.path().join("recorded.json");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let look = look_within(Some(pipe), Duration::from_millis(200));
        assert!(look.found.is_empty() && look.answered.is_empty());
        assert!(look.troubles[0].what.contains("did not answer"), "{look:?}");
    }
}
