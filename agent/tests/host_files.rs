//! The host files that we ship are understood, and say what they are there for.

use agent::config::HostConfig;
use vram::{Backend, Bytes};

#[test]
fn the_windows_host_has_one_radeon_that_spills() {
    let text = include_str!("../../deploy/hosts/windows-7900xtx.toml");
    let host = HostConfig::parse(text).expect("a host file");
    let card = &host.devices[0];
    assert_eq!((card.backend, card.spills), (Backend::Rocm, true));
    assert_eq!(card.held, Bytes(1 << 30));
    assert!(host.python.ends_with(r"Scripts\python.exe"));
}
