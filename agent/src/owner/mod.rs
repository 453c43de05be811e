//! `[owner]` of the host's file: a desktop on which nothing new starts while its owner is there. Says so to the
//! coordinator, which lets jobs wait. Ends nothing: what runs goes on, and what the owner does beside it is his choice.

mod rule;

use std::time::Duration;

use tokio::sync::watch;

pub use rule::{OwnerFile, OwnerRule};

use crate::os::{self, Idle};

/// Nobody notices a few seconds, and asking costs a process on some systems.
const PAUSE: Duration = Duration::from_secs(5);

/// Why nothing starts now, and each change; empty: the owner is away. For a host without the rule it never changes.
pub async fn watch(rule: Option<OwnerRule>) -> watch::Receiver<String> {
    let Some(rule) = rule else {
        return watch::channel(String::new()).1;
    };
    // Known before the first registration, so that nothing starts in between.
    let (tell, told) = watch::channel(look(&rule).await);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = tell.closed() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            let now = look(&rule).await;
            tell.send_if_modified(|last| {
                let changed = *last != now;
                if changed {
                    match now.as_str() {
                        "" => tracing::info!("the owner is away: jobs may start"),
                        why => tracing::info!("nothing starts: {why}"),
                    }
                    last.clone_from(&now);
                }
                changed
            });
        }
    });
    told
}

/// What keeps the rule from being followed here, for people.
pub fn trouble(rule: Option<&OwnerRule>) -> Option<String> {
    rule.filter(|rule| rule.asks_for_idle())?;
    match os::idle() {
        Idle::Unknown(why) => Some(format!(
            "`[owner] idle` cannot be followed, and only `away` counts, if it is given: {why}"
        )),
        Idle::Nobody | Idle::Since(_) => None,
    }
}

async fn look(rule: &OwnerRule) -> String {
    let idle = if rule.asks_for_idle() {
        let asked = tokio::task::spawn_blocking(os::idle).await;
        asked.unwrap_or_else(|_| Idle::Unknown("asking for it failed".to_owned()))
    } else {
        Idle::Nobody
    };
    rule.present(&idle, jiff::ZonedDateTime::now().time())
        .unwrap_or_default()
}
