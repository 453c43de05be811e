//! A look that was written down as JSON (`sweep agent devices --json`), read again each time, for tests and for machines
//! without a GPU. What it shows is no card of this machine, so its devices are simulated ones: see `join`.

use std::path::{Path, PathBuf};

use vram::Backend;

use super::{Fault, Look, Trouble, Watch};

pub struct Recorded {
    path: PathBuf,
    last: Look,
    /// So many of its reports have been told.
    told: usize,
}

impl Recorded {
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            last: Look::default(),
            told: 0,
        }
    }

    fn read(path: &Path) -> Result<Look, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }
}

impl Watch for Recorded {
    fn look(&mut self) -> Look {
        match Self::read(&self.path) {
            Ok(look) => self.last = look,
            // Half of a file that is just being written is not a machine without cards.
            Err(error) if !self.last.found.is_empty() => {
                tracing::warn!(error, path = %self.path.display(), "the recording of devices cannot be read");
            }
            Err(error) => {
                let path = self.path.display();
                self.last = Look {
                    troubles: vec![Trouble {
                        backend: Backend::Cuda,
                        what: format!(
                            "failed to read the recording of devices {path}: {error}; \
                             record one with `sweep agent devices --json`"
                        ),
                        one_card: false,
                    }],
                    ..Look::default()
                };
            }
        }
        self.last.clone()
    }

    /// A recording that grows has new ones; of one that is begun anew all are.
    fn faults(&mut self) -> Vec<Fault> {
        let all = &self.last.faults;
        let new = all.get(self.told..).unwrap_or(all).to_vec();
        self.told = all.len();
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_recording_changes_nothing_and_none_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cards.json");
        let mut recorded = Recorded::new(path.clone());
        let look = recorded.look();
        assert!(look.found.is_empty());
        assert!(look.troubles[0].what.contains("sweep agent devices"));
        let whole = include_str!("../../tests/devices/desktop.json");
        std::fs::write(&path, whole).unwrap();
        let look = recorded.look();
        assert_eq!(look.found.len(), 2);
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(recorded.look(), look);
        assert_eq!(recorded.live().len(), 2);
        assert_eq!(recorded.faults(), []);
        let fault = Fault {
            id: "GPU-1".to_owned(),
            code: 79,
            what: "Xid 79".to_owned(),
        };
        let with = Look {
            faults: vec![fault.clone()],
            ..look
        };
        std::fs::write(&path, serde_json::to_string(&with).unwrap()).unwrap();
        recorded.look();
        assert_eq!(recorded.faults(), [fault]);
        recorded.look();
        assert_eq!(recorded.faults(), [], "told once");
    }
}
