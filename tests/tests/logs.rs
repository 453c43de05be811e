//! The log kept centrally is the log written on the host, to the last byte: 200 MB of it, bytes that are no text, a
//! line of 10 MB, and a log that is followed while it grows.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::time::Duration;

use whole::{Agent, Coordinator, Room, SOON, all_succeeded, until};

const LARGE: u64 = 200_000_000;

/// Both files have the same bytes; returns how many.
fn same(one: &Path, other: &Path) -> u64 {
    let open = |path: &Path| {
        let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        BufReader::with_capacity(1 << 20, file)
    };
    let (mut a, mut b) = (open(one), open(other));
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut total = 0;
    loop {
        let length = a.read(&mut left).expect("bytes");
        if length == 0 {
            assert_eq!(
                b.read(&mut right).expect("bytes"),
                0,
                "the second one is longer than {total} bytes"
            );
            return total;
        }
        let read = b.read_exact(&mut right[..length]);
        assert!(
            read.is_ok(),
            "the second one ends before byte {}",
            total + length as u64
        );
        assert!(
            left[..length] == right[..length],
            "they differ between {total} and {}",
            total + length as u64
        );
        total += length as u64;
    }
}

struct Printed {
    room: Room,
    coordinator: Coordinator,
    agent: Agent,
    sweep: String,
}

/// Runs one Python job that prints.
fn print(program: &str) -> Printed {
    let room = Room::new();
    room.program("print.py", program);
    let file = room.sweep_file(
        "print",
        "",
        "[train]\nrun = [\"{python}\", \"{kit}/print.py\"]",
    );
    let coordinator = room.coordinator();
    let agent = room.agent("box", 1, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    Printed {
        room,
        coordinator,
        agent,
        sweep,
    }
}

impl Printed {
    /// Waits for the end, then compares what `sweep logs` prints with the host's file; returns the size.
    fn compare(&self) -> u64 {
        let watch = self
            .coordinator
            .start_sweep(&self.room, &["watch", &self.sweep, "--json"]);
        let document = watch.finish(Duration::from_secs(240)).json();
        all_succeeded(&document);
        let logs = self
            .coordinator
            .start_sweep(&self.room, &["logs", &format!("{}/1/train", self.sweep)]);
        let printed = logs.out_path();
        logs.finish(Duration::from_secs(120)).code(0);
        let host = self
            .agent
            .attempt(&format!("{}/1/train/1", self.sweep))
            .join("log");
        same(&host, &printed)
    }
}

#[test]
fn two_hundred_megabytes_arrive_to_the_last_byte() {
    let program = "import os, sys\nblock = os.urandom(1 << 16)\nleft = 200_000_000\nwhile left:\n\
        \x20   piece = block[:left]\n    left -= os.write(1, piece)\n";
    assert_eq!(print(program).compare(), LARGE);
}

#[test]
fn no_text_and_a_line_of_ten_megabytes() {
    let program = "import os\ndef write(data):\n    while data:\n        data = data[os.write(1, data):]\n\
        write(b'\\xff\\xfe\\x00broken \\xc3\\x28 \\xf0\\x9f\\x92\\n')\nwrite(b'x' * 10_000_000 + b'\\n')\n\
        os.write(2, 'errors go there too: \\u00e4\\n'.encode())\nwrite(b'no newline at the end \\x80')\n";
    let printed = print(program);
    assert!(printed.compare() > 10_000_000);
    // For scripts it is still a valid document.
    let job = format!("{}/1/train", printed.sweep);
    let document = printed
        .coordinator
        .sweep(&printed.room, &["logs", &job, "--json"])
        .json();
    let text = document["attempts"][0]["log"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(
        text.contains("errors go there too: ä"),
        "the log as text has {} bytes",
        text.len()
    );
}

#[test]
fn a_log_is_followed_while_it_grows_and_over_a_dead_coordinator() {
    let program = "import os, time\nfor n in range(3):\n    print('line', n, flush=True)\n\
        \x20   while not os.path.exists(os.environ['ROOM'] + f'/go.{n}'):\n        time.sleep(0.02)\n\
        print('the end')\n";
    let mut printed = print(program);
    let job = format!("{}/1/train", printed.sweep);
    let follow = printed
        .coordinator
        .start_sweep(&printed.room, &["logs", &job, "--follow"]);
    let log = follow.out_path();
    let has = |wanted: &str| {
        std::fs::read_to_string(&log)
            .unwrap_or_default()
            .contains(wanted)
    };
    until("the first line is shown while the job runs", SOON, || {
        has("line 0")
    });
    printed.room.open("go.0");
    until("the next one follows", SOON, || has("line 1"));
    printed.coordinator.kill9();
    printed.room.open("go.1");
    printed.coordinator.start_again();
    printed.room.open("go.2");
    let said = follow.finish(SOON);
    assert_eq!(said.code(0).out, "line 0\nline 1\nline 2\nthe end\n");
}
