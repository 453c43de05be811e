//! The fingerprint of a plan: what its trials are and what they run. Two versions of `sweep` that read one file
//! differently are told apart by it; what changes no trial (priority, placement, retries) is not in it.

use serde_json::json;
use sha2::{Digest, Sha256};

use super::Plan;

impl Plan {
    /// SHA-256 in hex.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |part: serde_json::Value| {
            hash.update(part.to_string());
            hash.update("\n");
        };
        add(json!(["plan 1", self.spec.name]));
        for stage in &self.spec.stages {
            add(json!([
                stage.kind,
                stage.after,
                stage.run,
                stage.env,
                stage.settings
            ]));
        }
        for trial in &self.trials {
            add(json!([trial.index, self.seed(trial), self.settings(trial)]));
        }
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}
