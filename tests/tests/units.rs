//! The shipped units, read by systemd itself: no unknown key, no value that it would ignore. Skipped, and said so,
//! where there is no systemd-analyze.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use whole::project;

const TARGETS: [&str; 7] = [
    "sysinit",
    "basic",
    "shutdown",
    "multi-user",
    "network",
    "network-online",
    "time-sync",
];

/// What systemd says against a unit, as it would be installed; nothing where it is sound.
fn said(root: &Path, name: &str, text: &str) -> String {
    let units = root.join("etc/systemd/system");
    fs::create_dir_all(&units).expect("a folder");
    fs::write(units.join(name), text).expect("a unit");
    for target in TARGETS {
        fs::write(units.join(format!("{target}.target")), "[Unit]\n").expect("a target");
    }
    let program = root.join("usr/bin/sweep");
    fs::create_dir_all(program.parent().expect("a folder")).expect("a folder");
    fs::write(&program, "#!/bin/sh\n").expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its owner may");
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .arg(format!("--root={}", root.display()))
        .arg(format!("/etc/systemd/system/{name}"))
        .output()
        .expect("systemd-analyze runs");
    // systemd 253 and older say of this line that they pass it over, which is as it should be.
    let newer = "'DelegateSubgroup'";
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    let said = said.lines().filter(|line| !line.contains(newer));
    said.collect::<Vec<_>>().join("\n")
}

#[test]
fn systemd_has_nothing_against_the_units() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("skipped: there is no systemd-analyze here");
        return;
    }
    for name in ["sweep-agent.service", "sweep-coordinator.service"] {
        let root = tempfile::tempdir().expect("a folder");
        let unit = project().join("deploy/systemd").join(name);
        let text = fs::read_to_string(&unit).expect("the unit");
        assert_eq!(said(root.path(), name, &text), "", "{name}");
        // It would have said so.
        let broken = text.replace("Restart=always", "Restart=perhaps");
        assert_ne!(said(root.path(), name, &broken), "", "{name}");
        for promise in ["Type=notify", "WatchdogSec=60", "NoNewPrivileges=yes"] {
            assert!(
                text.lines().any(|line| line == promise),
                "{name}: {promise}"
            );
        }
    }
    let agent = project().join("deploy/systemd/sweep-agent.service");
    let agent = fs::read_to_string(agent).expect("the unit");
    for promise in [
        "KillMode=process",
        "OOMPolicy=continue",
        "Delegate=yes",
        "DelegateSubgroup=agent",
    ] {
        assert!(agent.lines().any(|line| line == promise), "{promise}");
    }
}
