//! Colours for words with a fixed meaning, wherever they stand alone in a text: outcomes, verdicts, states.
//! Whether colours reach the terminal is `anstream`'s to say.

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const CYAN: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

fn colour(word: &str) -> Option<&'static str> {
    Some(match word {
        "succeeded" | "fits" | "up" | "sound" => GREEN,
        "failed" | "gpu_oom" | "host_oom" | "gpu_fault" | "spilled" | "timed_out" | "host_lost"
        | "infeasible" | "too_large" | "spills" | "offloads" | "lost" | "damaged" => RED,
        "uncertain" | "cancelled" | "interrupted" | "silent" | "drained" => YELLOW,
        "running" | "active" | "started" | "placed" => CYAN,
        "waiting" | "skipped" => DIM,
        _ => return None,
    })
}

/// The same text, with its known words coloured.
pub fn paint(text: &str) -> String {
    let mut painted = String::with_capacity(text.len() + 64);
    for piece in text.split_inclusive([' ', '\n']) {
        let word = piece.trim_end_matches([' ', '\n']);
        // A comma or colon after a word is not part of it.
        let bare = word.trim_end_matches([',', ':', ';']);
        match colour(bare) {
            Some(colour) => {
                painted.extend([colour, bare, RESET]);
                painted.push_str(&piece[bare.len()..]);
            }
            None => painted.push_str(piece),
        }
    }
    painted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_are_coloured() {
        assert_eq!(paint("a failed\nb"), format!("a {RED}failed{RESET}\nb"));
        assert_eq!(paint("failed-sweep/1 fitness"), "failed-sweep/1 fitness");
        assert_eq!(
            paint("fits, up: x"),
            format!("{GREEN}fits{RESET}, {GREEN}up{RESET}: x")
        );
        assert_eq!(paint(""), "");
    }
}
