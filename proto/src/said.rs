//! What agents and programs say about themselves in free words: it stands in tables, documents, logs and on terminals of
//! others. Made plain where it comes in, so that nobody after that has to think of it. Pure.
//!
//! Refuses no message: names and ids, which things are found by, are checked and refused elsewhere.

use crate::v1::{AgentMessage, HostInfo, agent_message::Message, event};

/// So an agent begins to say that its look at the host's Python found a package missing.
pub const NO_PACKAGE: &str = "the Python package `";

const LONGEST: usize = 500;
/// An ending has a sentence of the system's and a line of the program's.
const DETAIL: usize = 2000;
const MANY: usize = 32;

/// Begins a line of its own, moves a cursor, or turns the direction of writing around.
#[must_use]
pub fn is_unfit(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// One line, shown as it is but for what is unfit: that is escaped. At most so many characters.
#[must_use]
pub fn plain(text: &str, longest: usize) -> String {
    let mut shown = String::new();
    for c in text.chars().take(longest) {
        match c {
            '\n' | '\t' | '\r' => shown.push(' '),
            c if is_unfit(c) => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    if text.chars().nth(longest).is_some() {
        shown.push_str(" ...");
    }
    shown
}

fn make_plain(text: &mut String, longest: usize) {
    if text.chars().any(is_unfit) || text.chars().nth(longest).is_some() {
        *text = plain(text, longest);
    }
}

fn all_plain(texts: &mut Vec<String>) {
    texts.truncate(MANY);
    texts.iter_mut().for_each(|text| make_plain(text, LONGEST));
}

/// Every free text of a message.
pub fn harmless(message: &mut AgentMessage) {
    match &mut message.message {
        Some(Message::Hello(hello)) => {
            if let Some(host) = &mut hello.host {
                of_host(host);
            }
        }
        Some(Message::Heartbeat(beat)) => {
            for device in &mut beat.devices {
                make_plain(&mut device.holders, LONGEST);
                make_plain(&mut device.missing, LONGEST);
                make_plain(&mut device.owner, LONGEST);
            }
        }
        Some(Message::CanRehearse(can)) => {
            make_plain(&mut can.stack, LONGEST);
            make_plain(&mut can.why_not, LONGEST);
        }
        Some(Message::Rehearsed(answer)) => {
            let versions = std::mem::take(&mut answer.versions).into_iter().take(MANY);
            let versions = versions.map(|(name, of)| (plain(&name, LONGEST), plain(&of, LONGEST)));
            answer.versions = versions.collect();
            all_plain(&mut answer.doubts);
            for text in [&mut answer.error, &mut answer.message, &mut answer.device] {
                make_plain(text, LONGEST);
            }
        }
        Some(Message::Recorded(recorded)) => {
            make_plain(&mut recorded.error, LONGEST);
            make_plain(&mut recorded.message, LONGEST);
        }
        Some(Message::Event(event)) => {
            if let Some(event::Event::Ended(ended)) = &mut event.event {
                make_plain(&mut ended.outcome, LONGEST);
                make_plain(&mut ended.detail, DETAIL);
            }
        }
        Some(Message::Chunk(_)) | None => {}
    }
}

fn of_host(host: &mut HostInfo) {
    all_plain(&mut host.degraded);
    for device in &mut host.devices {
        let texts = [
            &mut device.about,
            &mut device.holders,
            &mut device.missing,
            &mut device.owner,
        ];
        for text in texts {
            make_plain(text, LONGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{
        CanRehearse, DeviceInfo, DeviceState, Ended, Event, Heartbeat, Hello, Recorded, Rehearsed,
    };

    const EVIL: &str = "a\n2026 ERROR b\u{1b}]0;x\u{7}\u{202e}\u{9b}2J";

    /// One of each kind, evil wherever a free text is.
    fn all() -> Vec<Message> {
        let evil = || EVIL.to_owned();
        let device = DeviceInfo {
            about: evil(),
            holders: evil(),
            missing: evil(),
            ..DeviceInfo::default()
        };
        let host = HostInfo {
            devices: vec![device],
            degraded: vec![evil(); 100],
            ..HostInfo::default()
        };
        vec![
            Message::Hello(Hello {
                host: Some(host),
                ..Hello::default()
            }),
            Message::Heartbeat(Heartbeat {
                devices: vec![DeviceState {
                    holders: evil(),
                    missing: evil(),
                    ..DeviceState::default()
                }],
            }),
            Message::CanRehearse(CanRehearse {
                stack: evil(),
                why_not: evil(),
                ..CanRehearse::default()
            }),
            Message::Rehearsed(Rehearsed {
                versions: [(evil(), evil())].into(),
                doubts: vec![evil()],
                error: evil(),
                message: evil(),
                device: evil(),
                ..Rehearsed::default()
            }),
            Message::Recorded(Recorded {
                error: evil(),
                message: evil(),
                ..Recorded::default()
            }),
            Message::Event(Event {
                event: Some(event::Event::Ended(Ended {
                    outcome: evil(),
                    detail: evil(),
                    ..Ended::default()
                })),
                ..Event::default()
            }),
        ]
    }

    #[test]
    fn no_free_text_of_any_message_speaks_to_a_terminal_or_begins_a_line() {
        for message in all() {
            let mut message = AgentMessage {
                message: Some(message),
            };
            // As JSON every control character is a `\u` or a letter after a backslash.
            let before = serde_json::to_string(&message).unwrap();
            assert!(before.contains("\\n") && before.contains("\\u001b"));
            harmless(&mut message);
            let shown = serde_json::to_string(&message).unwrap();
            assert!(
                !shown.contains("\\n") && !shown.contains("\\u00") && !shown.contains('\u{202e}'),
                "{shown}"
            );
            assert!(shown.matches("ERROR").count() < 40, "{shown}");
        }
    }

    #[test]
    fn what_is_plain_stays_as_it_is() {
        for text in ["", "Ollama 512 MiB, Xorg (desktop) é 漢"] {
            assert_eq!(plain(text, 100), text);
        }
        assert_eq!(plain("a\tb\nc\u{1b}[2J", 100), "a b c\\u{1b}[2J");
        assert_eq!(plain("abcdef", 3), "abc ...");
    }
}
