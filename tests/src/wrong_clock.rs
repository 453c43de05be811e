//! A clock that is wrong for one process only: a few lines of C, compiled once a test, loaded before the C library.
//! Needs a C compiler and a dynamically linked binary; where there is none, the test says that it is skipped.

use std::path::PathBuf;
use std::process::Command;

use crate::Room;

const SOURCE: &str = include_str!("clock.c");

pub struct WrongClock {
    library: PathBuf,
}

impl WrongClock {
    /// Absent without a compiler.
    #[must_use]
    pub fn new(room: &Room) -> Option<Self> {
        let (source, library) = (room.file("clock.c", SOURCE), room.path().join("clock.so"));
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(&source);
        match compiler.output() {
            Ok(output) if output.status.success() => Some(Self { library }),
            Ok(output) => {
                println!(
                    "SKIPPED: no wrong clock: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                None
            }
            Err(error) => {
                println!("SKIPPED: no wrong clock: cc: {error}");
                None
            }
        }
    }

    /// The variables of a process whose clock is wrong by so many seconds.
    #[must_use]
    pub fn off_by(&self, seconds: i64) -> [(String, String); 2] {
        let library = self.library.to_str().expect("plain text").to_owned();
        [
            ("LD_PRELOAD".to_owned(), library),
            ("SWEEP_TEST_CLOCK".to_owned(), seconds.to_string()),
        ]
    }
}
