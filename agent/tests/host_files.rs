//! The host files that come with the project are ones that an agent takes, whole and on any machine.

use std::path::Path;

use agent::config::{DeviceKind, HostConfig};
use vram::{Backend, Bytes};

#[test]
fn every_shipped_host_file_is_understood() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    let hosts = std::fs::read_dir(deploy.join("hosts")).expect("deploy/hosts");
    let mut files: Vec<_> = hosts.map(|one| one.expect("a file").path()).collect();
    files.push(deploy.join("agent.example.toml"));
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let host =
            HostConfig::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let gpus = host
            .devices
            .iter()
            .filter(|one| one.kind == DeviceKind::Gpu);
        assert!(gpus.count() > 0, "{}: no GPU", file.display());
        assert!(host.rehearsals <= 1);
        // What stands in comments is meant to be taken in: each key with its value is one that is known.
        if file.ends_with("agent.example.toml") {
            let open: String = text.lines().map(|line| uncommented(line) + "\n").collect();
            HostConfig::parse(&open)
                .unwrap_or_else(|error| panic!("with its comments: {error}\n{open}"));
        }
    }
}

/// `# key = value` and `# [table]` without the mark; other comments stay.
fn uncommented(line: &str) -> String {
    match line.strip_prefix("# ") {
        Some(rest) if rest.starts_with('[') => rest.to_owned(),
        Some(rest) => match rest.split_once(" = ") {
            Some((key, _))
                if key
                    .chars()
                    .all(|one| one.is_ascii_alphanumeric() || "_\"/-.".contains(one)) =>
            {
                rest.to_owned()
            }
            _ => line.to_owned(),
        },
        None => line.to_owned(),
    }
}

#[test]
fn the_windows_host_has_one_radeon_that_spills() {
    let text = include_str!("../../deploy/hosts/windows-7900xtx.toml");
    let host = HostConfig::parse(text).expect("a host file");
    let card = &host.devices[0];
    assert_eq!((card.backend, card.spills), (Backend::Rocm, true));
    assert_eq!(card.held, Bytes(1 << 30));
    assert!(host.python.ends_with(r"Scripts\python.exe"));
}
