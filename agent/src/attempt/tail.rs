//! How far an attempt's log and report have gone to the coordinator: what was sent, what was acknowledged, how much
//! may be under way. Bytes go in order and never beyond the window, so a slow coordinator costs no memory here.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use proto::v1::{Channel, Chunk};

use crate::session::Link;

/// Largest chunk: one arrives every few seconds on a link of 100 kbit/s, and the coordinator hears the host by it.
const CHUNK: u64 = 64 << 10;
/// Sent and not yet acknowledged, both channels together.
const WINDOW: u64 = 1 << 20;

#[derive(Clone, Debug)]
struct Tail {
    channel: Channel,
    path: PathBuf,
    sent: u64,
    acked: u64,
    /// It cannot be read: what is missing stays missing in this session, and neither the other file nor the ending
    /// waits for it.
    unreadable: bool,
}

#[derive(Clone, Debug)]
pub struct Tails {
    attempt: String,
    tails: [Tail; 2],
}

impl Tails {
    #[must_use]
    pub fn new(attempt: String, log: PathBuf, report: PathBuf) -> Self {
        let tail = |channel, path| Tail {
            channel,
            path,
            sent: 0,
            acked: 0,
            unreadable: false,
        };
        Self {
            attempt,
            tails: [tail(Channel::Log, log), tail(Channel::Report, report)],
        }
    }

    /// A new session: on from what the coordinator has.
    pub fn rewind(&mut self, link: &Link) {
        for tail in &mut self.tails {
            tail.unreadable = false;
            let has = link.offset(&self.attempt, tail.channel);
            (tail.sent, tail.acked) = (has, has);
        }
    }

    pub fn on_ack(&mut self, channel: Channel, bytes: u64) {
        for tail in self.tails.iter_mut().filter(|tail| tail.channel == channel) {
            tail.acked = tail.acked.max(bytes);
            tail.sent = tail.sent.max(tail.acked);
        }
    }

    /// Bytes that may be sent now.
    fn room(&self) -> u64 {
        let under_way: u64 = self
            .tails
            .iter()
            .map(|tail| tail.sent.saturating_sub(tail.acked))
            .sum();
        WINDOW.saturating_sub(under_way)
    }

    /// True when everything that is in the files now has been sent.
    #[must_use]
    pub fn is_even(&self) -> bool {
        let mut tails = self.tails.iter();
        tails.all(|tail| tail.unreadable || length(&tail.path) <= tail.sent)
    }

    /// True when there is something to send and room to send it.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.room() > 0 && !self.is_even()
    }

    /// The next bytes of both files, and what could not be read. Blocks on the disk.
    pub fn next(&mut self) -> (Vec<Chunk>, Option<io::Error>) {
        let (mut chunks, mut trouble) = (Vec::new(), None);
        for index in 0..self.tails.len() {
            loop {
                let room = self.room().min(CHUNK);
                let tail = &mut self.tails[index];
                if room == 0 || tail.unreadable {
                    break;
                }
                let data = match read(&tail.path, tail.sent, room) {
                    Ok(data) => data,
                    Err(error) => {
                        tail.unreadable = true;
                        trouble = Some(error);
                        break;
                    }
                };
                if data.is_empty() {
                    break;
                }
                let offset = tail.sent;
                tail.sent += data.len() as u64;
                chunks.push(Chunk {
                    attempt: self.attempt.clone(),
                    channel: tail.channel.into(),
                    offset,
                    data,
                });
            }
        }
        (chunks, trouble)
    }

    /// Lengths of log and report.
    #[must_use]
    pub fn lengths(&self) -> (u64, u64) {
        (length(&self.tails[0].path), length(&self.tails[1].path))
    }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Nothing when the file is not there: a program need not report.
fn read(path: &Path, from: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(from))?;
    let mut data = Vec::new();
    file.take(most).read_to_end(&mut data)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_in_order_and_within_the_window() {
        let folder = tempfile::tempdir().unwrap();
        let (log, report) = (folder.path().join("log"), folder.path().join("report"));
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&log, &bytes).unwrap();
        std::fs::write(&report, b"{}\n").unwrap();
        let mut tails = Tails::new("a/1/train/1".into(), log, report);
        let mut got = Vec::new();
        let mut rounds = 0;
        while !tails.is_even() {
            let (chunks, _) = tails.next();
            let sum: usize = chunks.iter().map(|chunk| chunk.data.len()).sum();
            assert!(
                sum as u64 <= WINDOW && chunks.iter().all(|chunk| chunk.data.len() as u64 <= CHUNK)
            );
            for chunk in &chunks {
                let end = chunk.offset + chunk.data.len() as u64;
                if chunk.channel() == Channel::Log {
                    assert_eq!(chunk.offset as usize, got.len());
                    got.extend_from_slice(&chunk.data);
                }
                tails.on_ack(chunk.channel(), end);
            }
            rounds += 1;
        }
        assert_eq!((got == bytes, rounds), (true, 3));
        assert_eq!(tails.lengths(), (3_000_000, 3));
    }

    #[test]
    fn without_acknowledgements_it_stops_and_a_new_session_goes_on_from_its_offset() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        std::fs::write(&log, vec![b'x'; 2 << 20]).unwrap();
        let mut tails = Tails::new("a/1/train/1".into(), log, folder.path().join("none"));
        assert_eq!(tails.next().0.len(), 16);
        assert!(tails.next().0.is_empty() && !tails.has_more() && !tails.is_even());
        let (out, _keep) = tokio::sync::mpsc::unbounded_channel();
        let offsets = [(("a/1/train/1".to_owned(), Channel::Log), (2 << 20) - 5)];
        tails.rewind(&Link {
            out,
            offsets: std::sync::Arc::new(offsets.into()),
        });
        let (chunks, _) = tails.next();
        assert_eq!((chunks.len(), chunks[0].data.len()), (1, 5));
        assert!(tails.is_even());
    }
    #[test]
    fn a_report_that_cannot_be_read_holds_back_neither_the_log_nor_the_ending() {
        let folder = tempfile::tempdir().unwrap();
        let (log, report) = (folder.path().join("log"), folder.path().join("report"));
        std::fs::write(&log, b"important\n").unwrap();
        std::fs::create_dir(&report).unwrap();
        let mut tails = Tails::new("a/1/train/1".into(), log, report);
        let (chunks, trouble) = tails.next();
        assert_eq!((chunks.len(), trouble.is_some()), (1, true));
        assert_eq!(chunks[0].data, b"important\n");
        assert!(tails.is_even());
    }
}
