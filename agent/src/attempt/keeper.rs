//! Which attempts this agent holds: running, or ended and not yet acknowledged. One task each.
//! Refuses what it has or had already, so a repeated start is harmless, and what an older generation sends.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobs::AttemptId;
use proto::v1::{HeldAttempt, Start};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

use super::facts::Why;
use super::watch::{Follow, Note, Origin};
use crate::config::HostConfig;
use crate::devices::{Owner, Told};
use crate::folder::AgentFolder;
use crate::os::{Grounds, Group};
use crate::recording::Offering;
use crate::session::Links;
use crate::staging::Staging;

/// What attempts are started with.
#[derive(Clone)]
pub struct Setting {
    pub config: Arc<HostConfig>,
    pub kit: PathBuf,
    pub program: PathBuf,
    pub folder: AgentFolder,
    pub staging: Staging,
    /// Where attempts are held.
    pub grounds: Arc<Grounds>,
}

impl Setting {
    /// What an attempt is held in. The name says whose it is, and which.
    #[must_use]
    pub fn group(&self, id: &AttemptId) -> Group {
        let id = id.to_string().replace('/', BETWEEN);
        self.grounds
            .group(&format!("{}{id}", self.folder.group_name()))
    }
}

/// In the place of a slash; no id has one of it.
const BETWEEN: &str = "~";

/// What the keeper sees of an attempt's task.
#[derive(Default)]
pub struct Flags {
    ended: AtomicBool,
}

impl Flags {
    pub fn set_ended(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

struct Held {
    /// Absent of one that was found and does not say: it may be any.
    devices: Option<Vec<String>>,
    notes: mpsc::UnboundedSender<Note>,
    flags: Arc<Flags>,
    task: Option<AbortHandle>,
}

#[derive(Clone)]
pub struct Attempts {
    setting: Setting,
    links: Links,
    /// Where an attempt's stream goes once its ending was acknowledged.
    streams: Offering,
    held: Arc<Mutex<BTreeMap<AttemptId, Held>>>,
    /// How many are held, for whoever waits for none.
    count: Arc<watch::Sender<usize>>,
    closing: Arc<AtomicBool>,
    tasks: TaskTracker,
}

const LET_GO: Duration = Duration::from_secs(2);

impl Attempts {
    #[must_use]
    pub fn new(setting: Setting, links: Links, streams: Offering) -> Self {
        Self {
            setting,
            links,
            streams,
            held: Arc::default(),
            count: Arc::new(watch::channel(0).0),
            closing: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Takes up every attempt of the folder that is not acknowledged.
    pub fn adopt(&self) {
        for (id, folder) in self.setting.folder.list() {
            if folder.is_acked() || !folder.order().exists() {
                continue;
            }
            tracing::info!(attempt = %id, "taken up again");
            // An order of an older version does not say.
            let order = folder.read_order().ok();
            let devices = order
                .map(|order| order.devices)
                .filter(|some| !some.is_empty());
            self.follow(id, Origin::Found(devices));
        }
    }

    /// Ends and removes what held attempts that are over: their shepherd was killed in its last moment, or their folder
    /// was removed by hand. Blocks. Those that [`Attempts::adopt`] takes up are left to it.
    pub fn sweep_groups(&self) {
        let setting = &self.setting;
        for (rest, group) in setting.grounds.named(&setting.folder.group_name()) {
            let id = rest.replace(BETWEEN, "/").parse::<AttemptId>();
            let folder = id.as_ref().ok().map(|id| setting.folder.attempt(id));
            let over = folder.is_none_or(|folder| {
                !folder.order().exists()
                    // Who has written the ending may still be at it.
                    || folder.read_ending().is_some() && matches!(folder.lock(), Ok(Some(_)))
            });
            if over {
                let stuck = group.end();
                tracing::warn!(
                    attempt = rest,
                    stuck,
                    "what was left of an ended attempt was ended"
                );
            }
        }
    }

    /// For a Hello.
    #[must_use]
    pub fn held(&self) -> Vec<HeldAttempt> {
        let held = |(id, held): (&AttemptId, &Held)| HeldAttempt {
            attempt: id.to_string(),
            ended: held.flags.ended.load(Ordering::Relaxed),
        };
        self.lock().iter().map(held).collect()
    }

    /// Starts an attempt, once. `generation` is that of the session.
    pub fn start(&self, start: Start, generation: u64) {
        let id = match start.attempt.parse::<AttemptId>() {
            Ok(id) => id,
            Err(error) => {
                tracing::warn!(%error, "a start without an attempt is ignored");
                return;
            }
        };
        if start.generation < generation {
            tracing::warn!(attempt = %id, old = start.generation, new = generation, "an old start is refused");
        } else if self.closing.load(Ordering::Relaxed) {
            tracing::info!(attempt = %id, "not started: this agent is going");
        } else if self.lock().contains_key(&id) || self.setting.folder.attempt(&id).order().exists()
        {
            tracing::debug!(attempt = %id, "a repeated start is ignored");
        } else {
            self.follow(id, Origin::Ordered(Box::new(start)));
        }
    }

    /// Tells an attempt's task; nothing happens when there is none.
    pub fn note(&self, attempt: &str, note: Note) {
        let Ok(id) = attempt.parse::<AttemptId>() else {
            return;
        };
        match self.lock().get(&id) {
            Some(held) => drop(held.notes.send(note)),
            None => tracing::debug!(attempt, ?note, "not held here"),
        }
    }

    /// Stops everything and waits until the endings have been acknowledged, at most for `longest`.
    pub async fn suspend(&self, longest: Duration) {
        self.closing.store(true, Ordering::Relaxed);
        for held in self.lock().values() {
            let _ = held.notes.send(Note::Stop(Why::Suspended));
        }
        let mut count = self.count.subscribe();
        let none = count.wait_for(|count| *count == 0);
        if tokio::time::timeout(longest, none).await.is_err() {
            tracing::warn!(
                "not every ending was acknowledged; the next agent on this folder reports them"
            );
        }
    }

    /// Ends the tasks; the attempts go on without them.
    pub async fn let_go(&self) {
        self.closing.store(true, Ordering::Relaxed);
        for held in self.lock().values() {
            if let Some(task) = &held.task {
                task.abort();
            }
        }
        self.tasks.close();
        // What blocks on a disk just now is not waited for.
        let _ = tokio::time::timeout(LET_GO, self.tasks.wait()).await;
    }

    fn follow(&self, id: AttemptId, origin: Origin) {
        let (notes, inbox) = mpsc::unbounded_channel();
        let flags = Arc::<Flags>::default();
        let devices = match &origin {
            Origin::Ordered(start) => Some(start.devices.clone()),
            Origin::Found(devices) => devices.clone(),
        };
        let held = Held {
            devices,
            notes,
            flags: Arc::clone(&flags),
            task: None,
        };
        self.lock().insert(id.clone(), held);
        self.count_again();
        let follow = Follow::new(&self.setting, &id, self.links.clone(), inbox, flags);
        let (attempts, setting, key) = (self.clone(), self.setting.clone(), id.clone());
        let task = self.tasks.spawn(async move {
            let counts = follow.run(setting, id.clone(), origin).await;
            attempts.lock().remove(&id);
            if counts {
                attempts.streams.offer(id);
            }
            attempts.count_again();
        });
        if let Some(held) = self.lock().get_mut(&key) {
            held.task = Some(task.abort_handle());
        }
    }

    /// Whether this process belongs to an attempt of this agent: its environment or its
    /// control group says so.
    fn owns(&self, pid: u32) -> Option<bool> {
        let folder = self.setting.folder.attempts();
        let start = format!("SWEEP_REPORT={}", folder.display());
        match crate::os::has_variable(pid, &start) {
            // It may have dropped its environment; it cannot leave its group.
            Some(false) => Some(crate::os::is_in_group(
                pid,
                &self.setting.folder.group_name(),
            )),
            said => said,
        }
    }

    fn count_again(&self) {
        let held = self.lock().len();
        self.count.send_replace(held);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl crate::devices::Attempts for Attempts {
    fn devices(&self) -> BTreeSet<String> {
        let held = self.lock();
        let running = held
            .values()
            .filter(|one| !one.flags.ended.load(Ordering::Relaxed));
        let all = || self.setting.config.devices.iter().map(|one| one.id.clone());
        running
            .flat_map(|one| one.devices.clone().unwrap_or_else(|| all().collect()))
            .collect()
    }

    /// Of one that was found and does not say which device it has nothing is known.
    fn tell(&self, told: &Told) {
        let on_it = |one: &&Held| {
            let devices = one.devices.iter().flatten();
            !one.flags.ended.load(Ordering::Relaxed)
                && devices.into_iter().any(|id| *id == told.device)
        };
        for held in self.lock().values().filter(on_it) {
            let _ = held.notes.send(Note::Fault(told.clone()));
        }
    }

    fn owner(&self, pid: u32) -> Owner {
        match self.owns(pid) {
            Some(true) => Owner::Ours,
            Some(false) => Owner::Stranger,
            None => Owner::Unseen,
        }
    }
}
