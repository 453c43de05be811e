//! Removes the folders of attempts that the coordinator has long acknowledged. What is owed is never touched, and
//! neither is what the jobs of a trial share.

use std::fs;
use std::time::Duration;

use crate::folder::AgentFolder;

/// A host keeps what it has reported for so long.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// One round now and one each `pause`, for ever.
pub async fn every(pause: Duration, folder: AgentFolder) {
    loop {
        let folder = folder.clone();
        let round = tokio::task::spawn_blocking(move || once(&folder, KEPT));
        if let Ok(removed @ 1..) = round.await {
            tracing::info!(removed, "removed the folders of old attempts");
        }
        tokio::time::sleep(pause).await;
    }
}

fn once(folder: &AgentFolder, kept: Duration) -> usize {
    let mut removed = 0;
    for (_, attempt) in folder.list() {
        let age = attempt.acked_at().ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age >= kept) && fs::remove_dir_all(attempt.path()).is_ok() {
            removed += 1;
            // Goes only where it is empty.
            for parent in attempt.path().ancestors().skip(1).take(3) {
                if fs::remove_dir(parent).is_err() {
                    break;
                }
            }
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_acknowledged_long_ago_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (agent, _lock) = AgentFolder::take(folder.path()).unwrap();
        let [acked, owed] =
            ["a/1/train/1", "b/1/train/1"].map(|id| agent.attempt(&id.parse().unwrap()));
        for attempt in [&acked, &owed] {
            fs::create_dir_all(attempt.path()).unwrap();
        }
        acked.write_acked().unwrap();
        assert_eq!(once(&agent, KEPT), 0);
        assert_eq!(once(&agent, Duration::ZERO), 1);
        assert!(owed.path().exists() && !acked.path().exists());
        assert!(!agent.attempts().join("a").exists());
    }
}
