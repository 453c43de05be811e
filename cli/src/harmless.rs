//! What others wrote, made harmless for a terminal: colours pass, everything that moves the cursor, renames the window,
//! asks the terminal to answer or turns the writing around is shown as `^[` and the like. Pure; output that goes to a file
//! or a pipe never comes here.

/// A colour has a few figures; a longer sequence is none.
const LONGEST: usize = 24;

/// Keeps what a sequence began with between two pieces of a log.
#[derive(Debug, Default)]
pub struct Harmless {
    begun: Vec<u8>,
}

impl Harmless {
    /// The piece, harmless. Line ends, tabs and carriage returns (progress bars) stay.
    pub fn piece(&mut self, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(data.len());
        for &byte in data {
            self.byte(byte, &mut out);
        }
        out
    }

    /// What is left of a sequence that never ended.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.give_up(&mut out);
        out
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        match (self.begun.as_slice(), byte) {
            ([], 0x1b | 0xc2 | 0xe2) => self.begun.push(byte),
            ([], _) => plain(byte, out),
            ([0x1b], b'[') => self.begun.push(byte),
            ([0x1b, b'[', ..], b'0'..=b'9' | b';' | b':') if self.begun.len() < LONGEST => {
                self.begun.push(byte);
            }
            ([0x1b, b'[', ..], b'm') => {
                out.append(&mut self.begun);
                out.push(byte);
            }
            // U+0080 to U+009F: some terminals take them for escapes.
            ([0xc2], 0x80..=0x9f) => {
                self.begun.clear();
                out.extend(format!("<{byte:02x}>").bytes());
            }
            ([0xe2], 0x80 | 0x81) => self.begun.push(byte),
            // U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069: the direction of writing.
            ([0xe2, 0x80], 0x8e | 0x8f | 0xa8..=0xae) | ([0xe2, 0x81], 0xa6..=0xa9) => {
                self.begun.clear();
                out.push(b'?');
            }
            (_, 0x1b | 0xc2 | 0xe2) => {
                self.give_up(out);
                self.begun.push(byte);
            }
            _ => {
                self.give_up(out);
                plain(byte, out);
            }
        }
    }

    fn give_up(&mut self, out: &mut Vec<u8>) {
        for byte in std::mem::take(&mut self.begun) {
            plain(byte, out);
        }
    }
}

fn plain(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'\n' | b'\t' | b'\r' => out.push(byte),
        0..=0x1f => out.extend([b'^', byte + 0x40]),
        0x7f => out.extend(b"^?"),
        _ => out.push(byte),
    }
}

/// A whole text. Its own colours pass.
pub fn text(text: &str) -> String {
    let mut harmless = Harmless::default();
    let mut out = harmless.piece(text.as_bytes());
    out.extend(harmless.rest());
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_letters_pass_and_nothing_else_does() {
        for same in [
            "a\tb\r\n",
            "\u{1b}[1;31mred\u{1b}[0m",
            "é → ü 漢",
            "100% |####|\r",
        ] {
            assert_eq!(text(same), same);
        }
        for (bad, shown) in [
            ("\u{1b}[2J\u{1b}[H", "^[[2J^[[H"),
            ("\u{1b}]0;title\u{7}", "^[]0;title^G"),
            ("\u{1b}]8;;http://x\u{1b}\\y", "^[]8;;http://x^[\\y"),
            ("\u{1b}c", "^[c"),
            ("a\u{8}b\u{7f}\0", "a^Hb^?^@"),
            ("\u{9b}2J", "<9b>2J"),
            ("a\u{202e}b\u{2066}", "a?b?"),
            ("\u{1b}", "^["),
            ("\u{1b}[38;5", "^[[38;5"),
            ("\u{1b}\u{1b}[31m", "^[\u{1b}[31m"),
        ] {
            assert_eq!(text(bad), shown, "{bad:?}");
        }
        let long = format!("\u{1b}[{}m", "1;".repeat(40));
        assert!(!text(&long).contains('\u{1b}'));
    }

    #[test]
    fn a_sequence_over_two_pieces_is_one() {
        let whole = "x\u{1b}[31mred\u{1b}[2J\u{9b}é\u{202e}".as_bytes();
        let at_once = {
            let mut one = Harmless::default();
            one.piece(whole)
        };
        for cut in 0..whole.len() {
            let mut two = Harmless::default();
            let mut out = two.piece(&whole[..cut]);
            out.extend(two.piece(&whole[cut..]));
            assert_eq!(out, at_once, "cut at {cut}");
        }
    }
}
