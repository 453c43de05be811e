//! The allocation streams that attempts left in `$SWEEP_STREAM_FILE`, on their way to the coordinator: one at a time,
//! after the ending of its attempt was acknowledged, and again with each session until the coordinator has said what
//! becomes of it. What is owed lies in the attempts' folders, so a killed agent loses nothing.
//! Refuses to judge a stream beyond its size and kind of file: no attempt waits for it or ends otherwise because of it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use jobs::AttemptId;
use proto::v1::{Recorded, agent_message};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;

use crate::folder::AgentFolder;
use crate::rehearsal::STREAM_MAX;
use crate::session::{Links, Outgoing};

const GZIP: [u8; 2] = [0x1f, 0x8b];

enum Note {
    /// Its ending was acknowledged; whether it left a stream is to be seen.
    Ended(AttemptId),
    /// Found at the start.
    Owed(Vec<AttemptId>),
    Told(AttemptId, String),
}

/// The handle of the keeper.
pub struct Recordings {
    notes: UnboundedSender<Note>,
    keeper: JoinHandle<()>,
}

/// What attempts and sessions tell the keeper.
#[derive(Clone)]
pub struct Offering(UnboundedSender<Note>);

impl Offering {
    /// Of an attempt whose ending the coordinator has.
    pub fn offer(&self, id: AttemptId) {
        // A keeper that has ended belongs to an agent that ends; the next one finds the file.
        let _ = self.0.send(Note::Ended(id));
    }

    /// The coordinator has said what became of it.
    pub fn told(&self, attempt: &str, note: String) {
        if let Ok(id) = attempt.parse() {
            let _ = self.0.send(Note::Told(id, note));
        }
    }
}

impl Recordings {
    #[must_use]
    pub fn start(folder: AgentFolder, links: Links) -> Self {
        let (notes, inbox) = mpsc::unbounded_channel();
        let found = (folder.clone(), notes.clone());
        tokio::task::spawn_blocking(move || {
            let (folder, notes) = found;
            let all = folder.list().into_iter();
            let owed = all.filter(|(_, at)| at.owes_stream()).map(|(id, _)| id);
            let owed = owed.collect();
            let _ = notes.send(Note::Owed(owed));
        });
        let keeper = Keeper {
            folder,
            links,
            owed: BTreeSet::new(),
            under_way: None,
        };
        Self {
            notes,
            keeper: tokio::spawn(keeper.run(inbox)),
        }
    }

    #[must_use]
    pub fn offering(&self) -> Offering {
        Offering(self.notes.clone())
    }

    pub fn end(self) {
        self.keeper.abort();
    }
}

struct Keeper {
    folder: AgentFolder,
    links: Links,
    owed: BTreeSet<AttemptId>,
    /// Sent on this session and not answered yet.
    under_way: Option<AttemptId>,
}

impl Keeper {
    async fn run(mut self, mut inbox: UnboundedReceiver<Note>) {
        let mut links = self.links.clone();
        loop {
            tokio::select! {
                note = inbox.recv() => match note {
                    None => return,
                    Some(note) => self.on_note(note),
                },
                changed = links.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    links.borrow_and_update();
                    self.under_way = None;
                }
            }
            self.send_next().await;
        }
    }

    fn on_note(&mut self, note: Note) {
        match note {
            Note::Ended(id) => {
                if self.folder.attempt(&id).owes_stream() {
                    self.owed.insert(id);
                }
            }
            Note::Owed(all) => self.owed.extend(all),
            Note::Told(id, note) => {
                tracing::info!(attempt = %id, note, "its allocation stream");
                if let Err(error) = self.folder.attempt(&id).write_stream_told(&note) {
                    tracing::warn!(%error, attempt = %id, "its stream will be sent once more after a restart");
                }
                self.owed.remove(&id);
                if self.under_way.as_ref() == Some(&id) {
                    self.under_way = None;
                }
            }
        }
    }

    /// One at a time: a stream may have megabytes, and what runs now has logs to send.
    async fn send_next(&mut self) {
        let linked = self.links.borrow().clone();
        let (None, Some(link), Some(id)) = (&self.under_way, linked, self.owed.first().cloned())
        else {
            return;
        };
        let path = self.folder.attempt(&id).stream();
        let attempt = id.to_string();
        let read = tokio::task::spawn_blocking(move || recorded(attempt, &path)).await;
        // Only an agent that ends breaks off a read.
        let Ok(message) = read else { return };
        let message = Box::new(agent_message::Message::Recorded(message));
        // A session that is ending takes nothing; with the next one it is sent again.
        let _ = link.out.send(Outgoing::Message(message));
        self.under_way = Some(id);
    }
}

/// The file's bytes, or why they are not sent.
fn recorded(attempt: String, path: &Path) -> Recorded {
    let refused = |error: &str, message: String| Recorded {
        attempt: attempt.clone(),
        error: error.to_owned(),
        message,
        ..Recorded::default()
    };
    match read(path) {
        Err(error) => refused("unreadable", error.to_string()),
        Ok(bytes) if bytes.len() as u64 > STREAM_MAX => {
            let most = STREAM_MAX >> 20;
            refused("too_large", format!("it has more than {most} MiB"))
        }
        Ok(bytes) if !bytes.starts_with(&GZIP) => {
            refused("garbage", "it is not packed with gzip".to_owned())
        }
        Ok(stream) => Recorded {
            attempt,
            stream,
            ..Recorded::default()
        },
    }
}

/// No more than tells that it is too large. A pipe or a device in the file's place would never end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(STREAM_MAX + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_stream_by_its_looks_is_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stream.gz");
        let error = |path: &Path| recorded("a/1/probe/1".into(), path).error;
        assert_eq!(error(&path), "unreadable");
        fs::write(&path, "a 512\n").unwrap();
        assert_eq!(error(&path), "garbage");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(error(&path), "too_large");
        fs::write(&path, [0x1f, 0x8b, 8]).unwrap();
        let sent = recorded("a/1/probe/1".into(), &path);
        assert_eq!((sent.error.as_str(), sent.stream.len()), ("", 3));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(error(&path), "unreadable");
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_or_a_link_in_its_place_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stream.gz");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(recorded("a/1/probe/1".into(), &path).error, "unreadable");
    }
}
