//! Where the binary under test is: `$SWEEP_BIN`, or the `sweep` that cargo builds beside this test, once a process.
//! Refuses to test a stale one: without `$SWEEP_BIN` cargo is always asked, and answers at once when nothing changed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The root of the project.
#[must_use]
pub fn project() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("the package lies in the project")
        .to_owned()
}

/// The executable, built if need be.
pub fn sweep_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("SWEEP_BIN") {
        Some(given) => std::path::absolute(given).expect("SWEEP_BIN is a path"),
        None => build(),
    })
}

/// `sweep`, inside a network namespace if one is named.
#[must_use]
pub(crate) fn sweep_in(net: Option<&str>) -> Command {
    let Some(net) = net else {
        return Command::new(sweep_binary());
    };
    // Not `ip netns exec`, which hides the control groups. It becomes the program, so the process id is its own.
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={net}")).arg(sweep_binary());
    command
}

/// In the profile and the target folder of this very test: TARGET/PROFILE/deps/test-1234.
fn build() -> PathBuf {
    let this = std::env::current_exe().expect("a test knows its own path");
    let profile_folder = this
        .ancestors()
        .nth(2)
        .expect("tests lie in TARGET/PROFILE/deps");
    let target_folder = profile_folder
        .parent()
        .expect("a profile's folder lies in TARGET");
    let profile = match profile_folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--locked",
            "-p",
            "sweep",
            "--profile",
            profile,
            "--target-dir",
        ])
        .arg(target_folder)
        .current_dir(project())
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "cargo could not build `sweep`");
    let binary = profile_folder.join("sweep");
    assert!(
        binary.is_file(),
        "cargo left no {}; set SWEEP_BIN",
        binary.display()
    );
    binary
}
