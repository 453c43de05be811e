//! `sweep agent devices` for people: one paragraph for each card. What is not known is left out, never shown as zero.

use agent::devices::{Found, Look};
use vram::Bytes;

use super::table::printable;
use super::wrap;

pub fn text(look: &Look) -> String {
    let mut text = String::new();
    for trouble in &look.troubles {
        text.push_str(&wrap::paragraph(&printable(&trouble.what), 0, 4));
    }
    for found in &look.found {
        text.push_str(&card(found));
    }
    if text.is_empty() {
        return "no GPU driver answers on this machine".to_owned();
    }
    text
}

fn card(found: &Found) -> String {
    let mut text = format!("{}: {}\n", printable(&found.name), printable(&found.id));
    let mut say = |line: String| text.push_str(&wrap::paragraph(&printable(&line), 4, 4));
    let about = found.about();
    if !about.is_empty() {
        say(about);
    }
    if found.divided {
        say("divided into MIG instances, which are devices of their own".to_owned());
    }
    let mib = |bytes: u64| format!("{:.0} MiB", Bytes(bytes).mib());
    if let Some(memory) = found.now.memory {
        let reserved = memory.reserved.map_or_else(String::new, |bytes| {
            format!(", {} kept by the driver", mib(bytes))
        });
        say(format!(
            "memory {}{reserved}, {} used, {} free",
            mib(memory.total),
            mib(memory.used),
            mib(memory.free())
        ));
    }
    if let Some(degrees) = found.now.temperature {
        let slow = found.now.throttled.join(", ");
        let slow = if slow.is_empty() {
            slow
        } else {
            format!(", slowed by {slow}")
        };
        say(format!("{degrees} degrees{slow}"));
    }
    match &found.now.processes {
        None => say("its driver lists no processes here".to_owned()),
        Some(all) => {
            for one in all {
                let name = one.name.as_deref().unwrap_or("of an unknown name");
                let bytes = one.bytes.map_or_else(|| "no figure".to_owned(), mib);
                say(format!("process {} {name}: {bytes}", one.pid));
            }
        }
    }
    if let Some(trouble) = &found.now.trouble {
        say(trouble.clone());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn a_card_is_told_and_nothing_is_made_up() {
        let recorded = include_str!("../../../agent/tests/devices/desktop.json");
        let mut look: Look = serde_json::from_str(recorded).unwrap();
        look.found[1].now.memory = None;
        look.found[1].now.processes = None;
        let said = text(&look);
        sample::assert_fits(&said);
        assert!(
            said.contains("8192 MiB, 340 MiB kept by the driver, 1024 MiB used, 6828 MiB free"),
            "{said}"
        );
        assert!(said.contains("process 5120 ollama: 512 MiB"), "{said}");
        assert!(
            said.contains("lists no processes") && !said.contains(" 0 MiB"),
            "{said}"
        );
    }

    #[test]
    fn without_a_driver_that_is_said() {
        assert_eq!(
            text(&Look::default()),
            "no GPU driver answers on this machine"
        );
    }
}
