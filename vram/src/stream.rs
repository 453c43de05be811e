//! An allocation stream: every block that a program asked its framework for and gave back, in order, with marks.
//! Reads the text form, plain or gzip. Refuses what cannot be true (a free of what is not allocated, sizes beyond
//! any machine, text that ends inside a line's meaning) and what would not end (a gzip that unfolds without bound).

use std::io::Read;

use thiserror::Error;

/// No machine has a block of 256 TiB.
const LARGEST_BLOCK: u64 = 1 << 48;
/// All blocks of a run together, given back or not: a thousand times what a day of the largest machines asks for, and far
/// enough from 64 bits for every address and every sum of segments.
const LARGEST_SUM: u64 = 1 << 60;
/// A stream of 161,000 events is 1.4 MB.
const LONGEST_TEXT: u64 = 400 << 20;
/// Two hundred steps of such a stream. Each event takes more memory than the two bytes of text that can ask for it.
const MOST_EVENTS: usize = 1 << 24;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A block of this many bytes; label is a place in [`Stream::labels`].
    Alloc { bytes: u64, label: u32 },
    /// The end of the block of the n-th allocation, counted from zero.
    Free { alloc: u32 },
    /// The cache was emptied on request.
    EmptyCache,
    /// A stage began or ended: 1 before the step, 2 after forward, 3 after backward, 4 after the last step.
    Mark(u8),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    pub events: Vec<Event>,
    /// What the labels of the allocations stand for; the first is the empty label.
    pub labels: Vec<String>,
    /// Reserved memory as the real allocator had it after mark 1, at its highest, where the stream says.
    pub real_reserved: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    #[error("read line {line} of the stream: {message}")]
    Line { line: usize, message: String },
    #[error("unpack the stream: {0}")]
    Gzip(String),
    #[error("read the stream: it holds no allocation")]
    Empty,
    #[error("read the stream: {0} is no run of one step or a few")]
    TooLong(String),
    #[error("match the two streams: {0}")]
    Mismatch(String),
}

impl StreamError {
    fn line(line: usize, message: impl Into<String>) -> Self {
        Self::Line {
            line,
            message: message.into(),
        }
    }
}

impl Stream {
    /// From the bytes of a file, gzip or text.
    pub fn read(bytes: &[u8]) -> Result<Self, StreamError> {
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            if bytes.len() as u64 > LONGEST_TEXT {
                return Err(StreamError::TooLong(format!(
                    "more than {} MiB of text",
                    LONGEST_TEXT >> 20
                )));
            }
            let stream = Reader::default().read(bytes)?;
            // Whoever writes a stream ends its last line; what was cut off would pass for a smaller step. A packed one
            // says itself whether it is whole.
            if bytes.last() != Some(&b'\n') {
                let last = bytes.split(|byte| *byte == b'\n').count();
                let message = "the stream ends in the middle of a line: it was cut off";
                return Err(StreamError::line(last, message));
            }
            return Ok(stream);
        }
        let mut text = Vec::new();
        let mut unpacked = flate2::read::MultiGzDecoder::new(bytes).take(LONGEST_TEXT + 1);
        unpacked
            .read_to_end(&mut text)
            .map_err(|error| StreamError::Gzip(error.to_string()))?;
        if text.len() as u64 > LONGEST_TEXT {
            let most = LONGEST_TEXT >> 20;
            return Err(StreamError::Gzip(format!(
                "it unfolds to more than {most} MiB"
            )));
        }
        Reader::default().read(&text)
    }

    #[must_use]
    pub fn allocations(&self) -> usize {
        let allocs = self.events.iter();
        allocs
            .filter(|event| matches!(event, Event::Alloc { .. }))
            .count()
    }
}

/// What a line may begin with.
const EVENTS: &[u8] = b"afmESF";

/// A real recorder writes its marks as small allocations and its `empty_cache()` as a run of given-back segments.
#[derive(Default)]
struct Reader {
    out: Stream,
    /// Of each allocation, by its number, whether it is still there.
    alive: Vec<bool>,
    /// Bytes of all allocations together.
    sum: u64,
    rehearsed: bool,
    before_step: bool,
    in_given_back: bool,
    real: u64,
    real_peak: u64,
    real_seen: bool,
}

impl Reader {
    fn read(mut self, text: &[u8]) -> Result<Stream, StreamError> {
        self.out.labels.push(String::new());
        self.before_step = true;
        // A rehearsal writes E; only a real recorder takes a block for a mark.
        self.rehearsed = !text
            .split(|byte| *byte == b'\n')
            .any(|line| line.first() == Some(&b'S'));
        let mut labels = std::collections::HashMap::new();
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            // Written on Windows, a line may end in two characters.
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                self.line(at + 1, line, &mut labels)?;
            }
            if self.out.events.len() > MOST_EVENTS {
                return Err(StreamError::TooLong(format!(
                    "more than {MOST_EVENTS} events"
                )));
            }
        }
        if self.alive.is_empty() {
            return Err(StreamError::Empty);
        }
        self.out.real_reserved = self.real_seen.then_some(self.real_peak);
        Ok(self.out)
    }

    fn line(
        &mut self,
        at: usize,
        line: &[u8],
        labels: &mut std::collections::HashMap<Vec<u8>, u32>,
    ) -> Result<(), StreamError> {
        let kind = line[0];
        if line.get(1).is_some_and(|byte| *byte != b' ') && EVENTS.contains(&kind) {
            let kind = char::from(kind);
            return Err(StreamError::line(
                at,
                format!("expected a space after `{kind}`"),
            ));
        }
        let rest = line.get(2..).unwrap_or_default();
        let end = rest
            .iter()
            .position(|byte| *byte == b' ')
            .unwrap_or(rest.len());
        let (number, label) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
        let given_back = kind == b'F';
        match kind {
            b'a' => {
                let bytes = size(at, number)?;
                let label = self.label(label, labels);
                self.sum = self.sum.saturating_add(bytes);
                if self.sum > LARGEST_SUM {
                    let message = "all blocks together are beyond any machine";
                    return Err(StreamError::line(at, message));
                }
                self.alloc(bytes, label);
            }
            b'f' => self.free(at, digits(at, number)?)?,
            b'm' => self.mark(mark(at, number)?),
            b'E' => self.out.events.push(Event::EmptyCache),
            b'S' => self.segment(size(at, number)?),
            b'F' => {
                if self.before_step && !self.in_given_back {
                    self.out.events.push(Event::EmptyCache);
                }
                self.real = self.real.saturating_sub(size(at, number)?);
            }
            other => {
                let known = "a, f, m, E, S and F";
                let found = char::from(other).escape_default();
                return Err(StreamError::line(
                    at,
                    format!("unknown event `{found}`; known: {known}"),
                ));
            }
        }
        self.in_given_back = given_back;
        Ok(())
    }

    fn label(&mut self, label: &[u8], known: &mut std::collections::HashMap<Vec<u8>, u32>) -> u32 {
        if label.is_empty() {
            return 0;
        }
        if let Some(found) = known.get(label) {
            return *found;
        }
        let next = self.out.labels.len() as u32;
        self.out
            .labels
            .push(String::from_utf8_lossy(label).into_owned());
        known.insert(label.to_vec(), next);
        next
    }

    fn alloc(&mut self, bytes: u64, label: u32) {
        self.alive.push(true);
        self.out.events.push(Event::Alloc { bytes, label });
    }

    fn free(&mut self, at: usize, number: u64) -> Result<(), StreamError> {
        let alloc = u32::try_from(number).unwrap_or(u32::MAX);
        match self.alive.get_mut(alloc as usize) {
            Some(alive) if *alive => *alive = false,
            Some(_) => {
                return Err(StreamError::line(
                    at,
                    format!("allocation {number} was freed before"),
                ));
            }
            None => {
                return Err(StreamError::line(
                    at,
                    format!("allocation {number} was never made"),
                ));
            }
        }
        self.out.events.push(Event::Free { alloc });
        Ok(())
    }

    fn mark(&mut self, mark: u8) {
        if mark == 1 {
            self.before_step = false;
            self.real_peak = self.real;
        }
        self.out.events.push(Event::Mark(mark));
        if !self.rehearsed {
            self.alloc(100 + u64::from(mark), 0);
        }
    }

    fn segment(&mut self, bytes: u64) {
        self.real_seen = true;
        self.real = self.real.saturating_add(bytes);
        self.real_peak = self.real_peak.max(self.real);
    }
}

fn digits(at: usize, text: &[u8]) -> Result<u64, StreamError> {
    let shown = || String::from_utf8_lossy(&text[..text.len().min(24)]).into_owned();
    if text.is_empty() || text.len() > 20 {
        return Err(StreamError::line(
            at,
            format!("expected a number, found `{}`", shown()),
        ));
    }
    let mut value: u64 = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(StreamError::line(
                at,
                format!("expected a number, found `{}`", shown()),
            ));
        }
        let next = value
            .checked_mul(10)
            .and_then(|ten| ten.checked_add(u64::from(digit)));
        value =
            next.ok_or_else(|| StreamError::line(at, format!("`{}` is beyond 64 bits", shown())))?;
    }
    Ok(value)
}

fn mark(at: usize, text: &[u8]) -> Result<u8, StreamError> {
    let number = digits(at, text)?;
    let bad = |_| {
        StreamError::line(
            at,
            format!("mark {number} is none; marks are from 0 to 255"),
        )
    };
    u8::try_from(number).map_err(bad)
}

fn size(at: usize, text: &[u8]) -> Result<u64, StreamError> {
    let bytes = digits(at, text)?;
    if bytes > LARGEST_BLOCK {
        return Err(StreamError::line(
            at,
            format!("a block of {bytes} bytes is beyond any machine"),
        ));
    }
    Ok(bytes)
}

/// The stream of `rank`, between or beyond two streams of one recipe at two ranks: each size is a line in the rank.
pub fn scale(a: (&Stream, u64), b: (&Stream, u64), rank: u64) -> Result<Stream, StreamError> {
    let ((one, rank_one), (two, rank_two)) = (a, b);
    if rank_one == rank_two {
        return Err(StreamError::Mismatch(format!(
            "both are of rank {rank_one}; two ranks are needed"
        )));
    }
    let mut events = Vec::with_capacity(one.events.len());
    let (mut rest_one, mut rest_two) = (one.events.iter().peekable(), two.events.iter().peekable());
    loop {
        let at = events.len();
        let pair = match (rest_one.peek(), rest_two.peek()) {
            // Where the cache held nothing, emptying it has left no trace in a recording.
            (Some(Event::EmptyCache), Some(other)) if **other != Event::EmptyCache => {
                (rest_one.next(), Some(&Event::EmptyCache))
            }
            (Some(other), Some(Event::EmptyCache)) if **other != Event::EmptyCache => {
                (Some(&Event::EmptyCache), rest_two.next())
            }
            _ => (rest_one.next(), rest_two.next()),
        };
        let (Some(one), Some(two)) = pair else {
            break;
        };
        events.push(match (one, two) {
            (Event::Alloc { bytes: one, label }, Event::Alloc { bytes: two, .. }) => {
                let (low, high) = (i128::from(*one), i128::from(*two));
                let (from, to) = (i128::from(rank_one), i128::from(rank_two));
                let steps = i128::from(rank) - from;
                let scaled = (high - low)
                    .checked_mul(steps)
                    .map(|rise| low + rise.div_euclid(to - from));
                let fits = scaled
                    .and_then(|scaled| u64::try_from(scaled).ok())
                    .filter(|bytes| *bytes <= LARGEST_BLOCK);
                let bytes = fits.ok_or_else(|| {
                    let size = scaled.map_or("far too many".to_owned(), |size| size.to_string());
                    StreamError::Mismatch(format!(
                        "event {at} would be of {size} bytes at rank {rank}"
                    ))
                })?;
                Event::Alloc {
                    bytes,
                    label: *label,
                }
            }
            // Blocks that die together (a cache cleared) die in any order, and each run in its own.
            (Event::Free { alloc }, Event::Free { .. }) => Event::Free { alloc: *alloc },
            (one, two) if one == two => *one,
            (one, two) => {
                return Err(StreamError::Mismatch(format!(
                    "event {at} is {one:?} in one and {two:?} in the other"
                )));
            }
        });
    }
    // A run that ended early (out of memory) is a beginning of the other; the shorter one is what is known.
    Ok(Stream {
        events,
        labels: one.labels.clone(),
        real_reserved: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Stream::read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn bad_streams_are_clear_errors() {
        assert_eq!(
            error("a 10\nf 1\n"),
            "read line 2 of the stream: allocation 1 was never made"
        );
        assert_eq!(
            error("a 10\nf 0\nf 0\n"),
            "read line 3 of the stream: allocation 0 was freed before"
        );
        assert_eq!(
            error("a 9223372036854775808\n"),
            "read line 1 of the stream: a block of 9223372036854775808 bytes is beyond any machine"
        );
        assert!(error("a 99999999999999999999\n").contains("beyond 64 bits"));
        assert!(error("a -4\n").contains("expected a number"));
        assert!(error("a\n").contains("expected a number"));
        assert!(error("x 4\n").contains("unknown event `x`"));
        assert!(error("\u{1F600}\n").contains("unknown event"));
        assert_eq!(error(""), "read the stream: it holds no allocation");
    }

    #[test]
    fn a_truncated_gzip_is_an_error() {
        let whole = include_bytes!("../fixtures/gemma3-4b-r96-limit-oom.gz");
        assert!(matches!(
            Stream::read(&whole[..whole.len() / 2]),
            Err(StreamError::Gzip(_))
        ));
    }

    #[test]
    fn a_text_without_the_end_of_its_last_line_is_an_error() {
        let whole = "a 512\nf 0\na 1024\n";
        assert!(Stream::read(whole.as_bytes()).is_ok());
        let cut = Stream::read(&whole.as_bytes()[..whole.len() - 1]).unwrap_err();
        assert!(cut.to_string().contains("cut off"), "{cut}");
    }

    #[test]
    fn a_gzip_bomb_is_an_error() {
        use std::io::Write;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let zeros = vec![b'\n'; 1 << 20];
        for _ in 0..=(LONGEST_TEXT >> 20) {
            packed.write_all(&zeros).unwrap();
        }
        let bomb = packed.finish().unwrap();
        assert!(bomb.len() < 8 << 20);
        assert!(matches!(Stream::read(&bomb), Err(StreamError::Gzip(_))));
    }

    #[test]
    fn an_emptied_cache_that_held_nothing_does_not_keep_two_ranks_apart() {
        let low = Stream::read(b"S 10\na 10\na 8\nm 1\nf 0\n").unwrap();
        let high = Stream::read(b"S 20\na 20\na 8\nF 4\nm 1\nf 0\n").unwrap();
        let both = scale((&low, 1), (&high, 2), 3).unwrap();
        assert_eq!(both, scale((&high, 2), (&low, 1), 3).unwrap());
        assert!(matches!(both.events[0], Event::Alloc { bytes: 30, .. }));
        assert_eq!(both.events[2..4], [Event::EmptyCache, Event::Mark(1)]);
        let other = Stream::read(b"a 20\nf 0\nm 1\n").unwrap();
        assert!(scale((&low, 1), (&other, 2), 3).is_err());
    }

    #[test]
    fn labels_are_kept() {
        let stream = Stream::read(b"a 10 attention scores\na 20\nE\nf 0\nm 1\n").unwrap();
        assert_eq!(stream.labels, ["", "attention scores"]);
        assert_eq!(stream.events.len(), 5);
    }
}
