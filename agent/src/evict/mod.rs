//! `[[evict]]` of the host's file: programs that give a card's memory back when a job needs it, such as Ollama. What they
//! hold counts as free, and is asked for before an attempt starts there. One that does not give it back holds it like
//! everybody else for a while: the job waits, it does not fail. Kills nobody.

mod ask;
mod ollama;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use vram::Bytes;

pub use rules::{EvictFile, EvictRule};

/// So long nobody is asked again who did not give it back.
const STUBBORN: Duration = Duration::from_secs(600);
/// After so long the cards have been looked at again.
const LOOKED: Duration = Duration::from_secs(10);
/// What was seen then has been told the coordinator.
const TOLD: Duration = Duration::from_secs(1);

/// What can be asked for, by device: so much, by these rules.
pub type Evictable = BTreeMap<String, (Bytes, BTreeSet<usize>)>;

#[derive(Clone)]
pub struct Evictions {
    rules: Arc<[EvictRule]>,
    /// Until then the rule's programs hold what they hold.
    stubborn: Arc<Mutex<BTreeMap<usize, Instant>>>,
    seen: Arc<watch::Sender<Evictable>>,
}

impl Evictions {
    #[must_use]
    pub fn new(rules: Vec<EvictRule>) -> Self {
        Self {
            rules: rules.into(),
            stubborn: Arc::default(),
            seen: Arc::new(watch::channel(Evictable::new()).0),
        }
    }

    /// Which rule this program gives way by, if by any now.
    #[must_use]
    pub fn rule_for(&self, program: &str) -> Option<usize> {
        let rule = self.rules.iter().position(|rule| rule.names(program))?;
        let until = self.stubborn().get(&rule).copied();
        until
            .is_none_or(|until| until <= Instant::now())
            .then_some(rule)
    }

    /// What the last look at the cards found.
    pub fn found(&self, evictable: Evictable) {
        self.seen.send_if_modified(|last| {
            let changed = *last != evictable;
            *last = evictable;
            changed
        });
    }

    /// Asks whoever holds memory of these devices and gives way. An error says who did not, and is told only when the
    /// device counts as held.
    pub async fn make_room(&self, devices: &[String]) -> Result<(), String> {
        let mut seen = self.seen.subscribe();
        let held_by = |evictable: &Evictable| -> BTreeSet<usize> {
            let of_device = |device| evictable.get(device).map(|(_, rules)| rules.clone());
            devices.iter().filter_map(of_device).flatten().collect()
        };
        let asked = held_by(&seen.borrow_and_update());
        if asked.is_empty() {
            return Ok(());
        }
        let rules = || asked.iter().filter_map(|rule| self.rules.get(*rule));
        let patience = rules().map(|rule| rule.patience).max().unwrap_or_default();
        let trouble = Arc::<Mutex<Vec<String>>>::default();
        // Side by side: one that hangs keeps nobody else from being asked.
        let mut asking = JoinSet::new();
        for rule in rules().cloned() {
            tracing::info!(
                rule = rule.name(),
                ?devices,
                "asked to give the memory back"
            );
            let trouble = Arc::clone(&trouble);
            asking.spawn(async move {
                let told = tokio::time::timeout(rule.patience, ask::ask(&rule)).await;
                let told = told.unwrap_or_else(|_| Err(format!("{} did not answer", rule.name())));
                if let Err(error) = told {
                    trouble
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(error);
                }
            });
        }
        let free = seen.wait_for(|seen| held_by(seen).is_empty());
        let _ = tokio::time::timeout(patience, free).await.is_ok();
        let left = held_by(&seen.borrow());
        // Whoever has not answered yet may do so in peace, within its own time.
        tokio::spawn(async move { while asking.join_next().await.is_some() {} });
        if left.is_empty() {
            return Ok(());
        }
        let until = Instant::now() + STUBBORN;
        self.stubborn()
            .extend(left.iter().map(|rule| (*rule, until)));
        let names = left.iter().filter_map(|rule| self.rules.get(*rule));
        let names: Vec<&str> = names.map(EvictRule::name).collect();
        let mut what = format!(
            "{} did not give the memory of {} back within {} s; it counts as held for {} minutes now",
            names.join(" and "),
            devices.join(", "),
            patience.as_secs(),
            STUBBORN.as_secs() / 60
        );
        for error in trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            what += &format!("; {error}");
        }
        tracing::warn!("{what}");
        let _ = tokio::time::timeout(LOOKED, seen.wait_for(|seen| held_by(seen).is_empty())).await;
        tokio::time::sleep(TOLD).await;
        Err(what)
    }

    fn stubborn(&self) -> MutexGuard<'_, BTreeMap<usize, Instant>> {
        self.stubborn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
