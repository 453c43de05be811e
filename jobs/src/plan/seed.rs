//! What a trial's programs start their random numbers from. The arms of a comparison always share it, so that chance
//! does not stand between them.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::expand::cell_text;
use super::{Plan, Trial};

impl Plan {
    /// The sweep's seed; or the trial's own, where `seed` is an axis; or, with `seed_per_trial`, one derived from the
    /// sweep's and the trial's values. A derived one has 31 bits, as some frameworks take no more.
    #[must_use]
    pub fn seed(&self, trial: &Trial) -> u64 {
        if let Some(own) = trial.params.get("seed").and_then(Value::as_u64) {
            return own;
        }
        if !self.spec.seed_per_trial {
            return self.spec.seed;
        }
        let mut params = trial.params.clone();
        params.remove("host");
        if let Some(compared) = &self.spec.place.compare {
            params.remove(compared);
        }
        let hash = Sha256::digest(format!("{}\n{}", self.spec.seed, cell_text(&params)));
        let bytes = [hash[0] & 0x7f, hash[1], hash[2], hash[3]];
        u64::from(u32::from_be_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;

    fn seeds(head: &str, axes: &str) -> Vec<u64> {
        let text = format!(
            "[sweep]\nname = \"t\"\nseed = 7\n{head}\n[axes]\n{axes}\n[train]\nrun = [\"x\"]\n[place]\ncompare = \"a\"\n"
        );
        let plan = load("t.toml", text.as_bytes()).unwrap();
        plan.trials.iter().map(|trial| plan.seed(trial)).collect()
    }

    #[test]
    fn all_trials_share_the_seed_of_the_sweep() {
        assert_eq!(seeds("", "a = [1, 2]\nb = [1, 2]"), [7; 4]);
    }

    #[test]
    fn arms_of_a_comparison_share_their_own_seed() {
        let seeds = seeds("seed_per_trial = true", "a = [1, 2]\nb = [1, 2]");
        assert_eq!((seeds[0], seeds[1]), (seeds[2], seeds[3]));
        assert_ne!(seeds[0], seeds[1]);
    }

    #[test]
    fn an_axis_named_seed_is_the_seed() {
        assert_eq!(seeds("", "a = [1]\nseed = [3, 4]"), [3, 4]);
    }
}
