//! `[owner]` of the host's file: a desktop on which nothing new starts while its owner is there. Says so to the
//! coordinator, which lets jobs wait. Ends nothing: what runs goes on, and what the owner does beside it is his choice.

mod rule;

use std::time::{Duration, Instant};

use tokio::sync::watch;

pub use rule::{OwnerFile, OwnerRule};

use crate::clock;
use crate::os::{self, Idle};

/// Nobody notices a few seconds, and asking costs a process on some systems.
const PAUSE: Duration = Duration::from_secs(5);
/// So long the last answer counts when there is none: a session that just ends confuses whoever counts them.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Why nothing starts now, and each change; empty: the owner is away. And what keeps the rule from being followed here,
/// for people. For a host without the rule it never changes.
pub async fn watch(rule: Option<OwnerRule>) -> (watch::Receiver<String>, Option<String>) {
    let Some(rule) = rule else {
        return (watch::channel(String::new()).1, None);
    };
    let mut last = Last::default();
    // Known before the first registration, so that nothing starts in between.
    let first = look(&rule, &mut last).await;
    let trouble = last.trouble.as_ref().map(|why| {
        format!("`[owner] idle` cannot be followed, and only `away` counts, if it is given: {why}")
    });
    let (tell, told) = watch::channel(first);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = tell.closed() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            let now = look(&rule, &mut last).await;
            tell.send_if_modified(|said| {
                let changed = *said != now;
                if changed {
                    match now.as_str() {
                        "" => tracing::info!("the owner is away: jobs may start"),
                        why => tracing::info!("nothing starts: {why}"),
                    }
                    said.clone_from(&now);
                }
                changed
            });
        }
    });
    (told, trouble)
}

/// What was last told of the machine's use.
#[derive(Default)]
struct Last {
    idle: Option<(Idle, Instant)>,
    /// Why it was not told this time.
    trouble: Option<String>,
}

async fn look(rule: &OwnerRule, last: &mut Last) -> String {
    let idle = if rule.asks_for_idle() {
        let asked = tokio::task::spawn_blocking(os::idle).await;
        asked.unwrap_or_else(|_| Idle::Unknown("asking for it failed".to_owned()))
    } else {
        Idle::Nobody
    };
    let now = clock::monotonic();
    let idle = match idle {
        Idle::Unknown(why) => {
            if last.trouble.as_ref() != Some(&why) {
                tracing::warn!("whether the owner is there cannot be told: {why}");
            }
            last.trouble = Some(why.clone());
            let recent = last.idle.as_ref().filter(|(_, at)| now - *at < REMEMBERED);
            recent.map_or(Idle::Unknown(why), |(idle, _)| idle.clone())
        }
        known => {
            last.idle = Some((known.clone(), now));
            last.trouble = None;
            known
        }
    };
    rule.present(&idle, jiff::ZonedDateTime::now().time())
        .unwrap_or_default()
}
