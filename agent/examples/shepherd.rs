//! `shepherd FOLDER` as a program of its own, for the tests of this crate: they start real shepherds without the
//! whole `sweep` binary. Does nothing else.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [verb, folder] if verb == "shepherd" => agent::shepherd(Path::new(folder)),
        _ => ExitCode::from(2),
    }
}
