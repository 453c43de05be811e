//! "Did you mean": the known word that is nearest to one that is not known.
//! Suggests nothing rather than something far off.

/// How alike two words must be, from 0 to 1.
const ALIKE: f64 = 0.75;

/// More than this many known words are not listed.
const LISTED: usize = 14;

/// The nearest of `known`, if any is near.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let lower = word.to_lowercase();
    let score = |known: &str| {
        // One slip is near in any word of three letters or more.
        if known.len() >= 3 && strsim::damerau_levenshtein(&lower, known) <= 1 {
            return 1.0;
        }
        let edits = strsim::normalized_damerau_levenshtein(&lower, known);
        // A word and its plural, or a word that the known one starts with.
        let starts = known.starts_with(&lower) || lower.starts_with(known);
        let start_counts = starts && lower.len().min(known.len()) >= 3;
        edits
            .max(strsim::jaro_winkler(&lower, known) - 0.1)
            .max(if start_counts { 0.8 } else { 0.0 })
    };
    known
        .iter()
        .map(|&known| (score(known), known))
        .filter(|(score, _)| *score >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

/// What to say below "unknown ...": the nearest word, or all of them.
pub fn help(word: &str, known: &[&str]) -> String {
    if let Some(near) = nearest(word, known) {
        return format!("did you mean `{near}`?");
    }
    match known {
        [] => "nothing is known here".to_owned(),
        [one] => format!("known: {one}"),
        few if few.len() <= LISTED => format!("known: {}", few.join(", ")),
        many => format!("known: {} ...", many[..LISTED].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found() {
        let known = ["rank", "dropout", "targets", "alpha", "learning_rate"];
        assert_eq!(nearest("rnak", &known), Some("rank"));
        assert_eq!(nearest("drop_out", &known), Some("dropout"));
        assert_eq!(nearest("Rank", &known), Some("rank"));
        assert_eq!(nearest("target", &known), Some("targets"));
        assert_eq!(nearest("learningrate", &known), Some("learning_rate"));
        assert_eq!(nearest("nf5", &["bf16", "nf4"]), Some("nf4"));
        assert_eq!(nearest("zebra", &known), None);
        assert_eq!(nearest("", &known), None);
    }
}
