//! What a card is seen as, and what is told of it, on a recorded machine that changes from round to round.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::*;
use crate::config::HostFile;
use crate::devices::{Owner, Trouble};

const TI: &str = "GPU-5b2a6f01-0000-1111-2222-333344445555";
const OTHER: &str = "GPU-77aa0b02-0000-1111-2222-333344445555";

/// An attempt has these devices, with these processes.
struct Ours(&'static [&'static str], &'static [u32]);

impl Attempts for Ours {
    fn devices(&self) -> BTreeSet<String> {
        self.0.iter().map(|id| (*id).to_owned()).collect()
    }

    fn owner(&self, pid: u32) -> Owner {
        if self.1.contains(&pid) {
            Owner::Ours
        } else {
            Owner::Stranger
        }
    }

    fn tell(&self, _told: &Told) {}
}

const NONE: Ours = Ours(&[], &[]);

fn desktop() -> Look {
    serde_json::from_str(include_str!("../../../tests/devices/desktop.json")).unwrap()
}

/// Both cards of the recorded desktop, round after round; two seconds lie between two.
struct World {
    devices: Vec<DeviceConfig>,
    rounds: RefCell<(Rounds, Duration)>,
}

impl World {
    fn new(more: &str) -> Self {
        let text = format!(
            "[[device]]\nkind = \"gpu\"\nid = \"{TI}\"\n{more}\n[[device]]\nkind = \"gpu\"\nid = \"0c:00.0\"\n\
             backend = \"cuda\"\nusable = \"6 GiB\""
        );
        let mut file = HostFile::parse(&text).unwrap();
        crate::devices::join(&mut file, &desktop());
        let devices = file.resolve().unwrap().devices;
        Self {
            rounds: RefCell::new((Rounds::new(devices.clone()), Duration::ZERO)),
            devices,
        }
    }

    fn next(&self, look: &Look, faults: &[Fault], ours: &Ours) -> (Seen, Vec<Told>) {
        let (rounds, now) = &mut *self.rounds.borrow_mut();
        *now += Duration::from_secs(2);
        rounds.next(look, faults, ours, *now)
    }

    fn look(&self, look: &Look, ours: &Ours) -> proto::v1::DeviceState {
        self.next(look, &[], ours).0.state(&self.devices[0])
    }
}

fn without(id: &str) -> Look {
    let mut look = desktop();
    look.found.retain(|found| found.id != id);
    look
}

fn xid(id: &str, code: u64) -> Fault {
    Fault {
        id: id.to_owned(),
        code,
        what: format!("Xid {code}"),
    }
}

#[test]
fn strangers_hold_and_our_own_do_not() {
    let world = World::new("");
    let state = world.look(&desktop(), &NONE);
    assert_eq!(state.held_bytes, 1 << 30);
    assert_eq!(
        state.holders,
        "Ollama 512 MiB, firefox (browser) 300 MiB, Xorg (desktop) 200 MiB"
    );
    // 5120 is ours now: what is left are the desktop and the browser.
    let state = world.look(&desktop(), &Ours(&[TI], &[5120]));
    assert_eq!(state.held_bytes, 512 << 20);
}

#[test]
fn the_owners_figure_is_the_least() {
    let world = World::new("held = \"3 GiB\"");
    assert_eq!(world.look(&desktop(), &NONE).held_bytes, 3 << 30);
}

#[test]
fn a_card_that_goes_is_missing_and_one_that_returns_is_not() {
    let world = World::new("");
    let here = world.look(&desktop(), &NONE);
    let gone = world.look(&without(TI), &NONE);
    assert!(gone.missing.contains("fallen off the bus"), "{gone:?}");
    assert_eq!(world.look(&desktop(), &NONE), here);
}

#[test]
fn who_runs_on_a_card_that_goes_is_told_once_and_nobody_else() {
    let world = World::new("");
    let told = |look: &Look| world.next(look, &[], &NONE).1;
    assert_eq!(told(&desktop()), []);
    // One round may be a driver that is busy.
    assert_eq!(told(&without(TI)), []);
    let second = told(&without(TI));
    assert_eq!(second.len(), 1, "{second:?}");
    assert_eq!((second[0].device.as_str(), second[0].ends), (TI, true));
    assert!(
        second[0].what.starts_with("it fell off the bus: "),
        "{second:?}"
    );
    assert_eq!(told(&without(TI)), []);
    assert_eq!(told(&desktop()), []);
}

#[test]
fn a_driver_that_does_not_answer_ends_nothing_and_one_card_that_it_cannot_open_does() {
    let told = |one_card: bool| {
        let world = World::new("");
        let mut look = without(TI);
        look.troubles.push(Trouble {
            backend: vram::Backend::Cuda,
            what: "GPU is lost".to_owned(),
            one_card,
        });
        world.next(&desktop(), &[], &NONE);
        let rounds = (0..4).flat_map(|_| world.next(&look, &[], &NONE).1);
        rounds.map(|told| told.what).collect::<Vec<_>>()
    };
    assert_eq!(told(false), Vec::<String>::new());
    assert_eq!(told(true), ["it fell off the bus: GPU is lost"]);
    let world = World::new("");
    world.next(&desktop(), &[], &NONE);
    let silent = Look::default();
    assert!((0..4).all(|_| world.next(&silent, &[], &NONE).1.is_empty()));
}

#[test]
fn a_fault_is_told_on_its_card_also_where_the_file_names_the_address() {
    let world = World::new("");
    let told = |look: &Look, fault| world.next(look, &[fault], &NONE).1;
    let first = told(&desktop(), xid(OTHER, 79));
    assert_eq!(
        first,
        [Told {
            device: "0c:00.0".to_owned(),
            what: "Xid 79".to_owned(),
            ends: true,
        }]
    );
    // Its driver cannot name it any more.
    assert_eq!(told(&without(OTHER), xid(OTHER, 79))[0].device, "0c:00.0");
    let mild = told(&desktop(), xid(TI, 31));
    assert_eq!((mild[0].device.as_str(), mild[0].ends), (TI, false));
    assert_eq!(told(&desktop(), xid(TI, 45)), []);
    assert_eq!(told(&desktop(), xid("GPU-of-nobody", 79)), []);
}

#[test]
fn memory_that_does_not_come_back_is_held_by_nobody() {
    let world = World::new("");
    let mut after = desktop();
    let card = after.found.iter_mut().find(|found| found.id == TI).unwrap();
    card.now.memory.as_mut().unwrap().used += 4 << 30;
    world.look(&desktop(), &NONE);
    world.look(&after, &Ours(&[TI], &[]));
    let rounds: Vec<_> = (0..5).map(|_| world.look(&after, &NONE)).collect();
    assert!(!rounds[0].holders.contains("4096 MiB"), "{:?}", rounds[0]);
    let last = &rounds[4];
    assert_eq!(
        last.held_bytes,
        5 << 30,
        "the next attempt waits for what is free"
    );
    assert!(
        last.holders
            .ends_with("4096 MiB that no process is known to have, since an attempt ended"),
        "{last:?}"
    );
    assert!(!world.look(&desktop(), &NONE).holders.contains("4096 MiB"));
}
