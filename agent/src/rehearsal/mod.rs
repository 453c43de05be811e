//! Training steps rehearsed on this host's CPU: which wait, which run, what they came to. A rehearsal is no attempt:
//! nothing of it outlives the agent, and what is lost is asked for again. Refuses more at a time than the host's file
//! says, and touches no device.

mod answer;
pub(crate) mod child;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use answer::STREAM_MAX;
use proto::v1::{CanRehearse, Rehearse, Rehearsed, agent_message};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::attempt::Setting;
use crate::session::{Links, Outgoing};

/// So long without a session, and whoever asked has surely asked somebody else.
const ALONE: Duration = Duration::from_secs(120);
/// The coordinator asks for one at a time; more is a mistake.
const WAITING_MAX: usize = 64;
const LET_GO: Duration = Duration::from_secs(3);

enum Note {
    Ask(Rehearse),
    Forget(String),
    Checked(CanRehearse),
    Done(Rehearsed),
    End,
}

/// The handle of the keeper.
pub struct Rehearsals {
    notes: UnboundedSender<Note>,
    keeper: JoinHandle<()>,
}

/// What a session tells the keeper.
#[derive(Clone)]
pub struct Asking(UnboundedSender<Note>);

impl Asking {
    pub fn ask(&self, ask: Rehearse) {
        // A keeper that has ended belongs to an agent that ends.
        let _ = self.0.send(Note::Ask(ask));
    }

    pub fn forget(&self, key: String) {
        let _ = self.0.send(Note::Forget(key));
    }
}

impl Rehearsals {
    /// Cleans up after an earlier agent, looks whether this host can rehearse, and waits for orders.
    #[must_use]
    pub fn start(setting: Setting, links: Links) -> Self {
        let (notes, inbox) = mpsc::unbounded_channel();
        let keeper = Keeper {
            setting,
            links,
            notes: notes.clone(),
            can: None,
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            done: Vec::new(),
            looking: Arc::default(),
        };
        Self {
            notes,
            keeper: tokio::spawn(keeper.run(inbox)),
        }
    }

    #[must_use]
    pub fn asking(&self) -> Asking {
        Asking(self.notes.clone())
    }

    /// Ends what runs.
    pub async fn end(self) {
        let _ = self.notes.send(Note::End);
        let _ = tokio::time::timeout(LET_GO, self.keeper).await;
    }
}

struct Keeper {
    setting: Setting,
    links: Links,
    notes: UnboundedSender<Note>,
    /// Once it is known.
    can: Option<CanRehearse>,
    waiting: VecDeque<Rehearse>,
    /// By key: set to end it.
    running: BTreeMap<String, Arc<AtomicBool>>,
    /// Not told yet, for want of a session.
    done: Vec<Rehearsed>,
    looking: Arc<AtomicBool>,
}

impl Keeper {
    async fn run(mut self, mut inbox: UnboundedReceiver<Note>) {
        let mut links = self.links.clone();
        let mut alone = Some(Instant::now() + ALONE);
        let (mut linked, mut ending) = (true, false);
        self.look();
        loop {
            if ending && self.running.is_empty() {
                return;
            }
            let patience = alone.unwrap_or_else(|| Instant::now() + ALONE);
            tokio::select! {
                note = inbox.recv() => match note {
                    None => return,
                    Some(Note::End) => {
                        ending = true;
                        self.looking.store(true, Ordering::Relaxed);
                        self.drop_all();
                    }
                    Some(note) => self.on_note(note),
                },
                changed = links.changed(), if linked => match changed {
                    // No session will ever be again: the end is near, and will be told.
                    Err(_) => linked = false,
                    Ok(()) if links.borrow_and_update().is_some() => {
                        alone = None;
                        self.say_all();
                    }
                    Ok(()) => alone = Some(Instant::now() + ALONE),
                },
                () = tokio::time::sleep_until(patience), if alone.is_some() => {
                    alone = None;
                    self.drop_all();
                }
            }
        }
    }

    fn on_note(&mut self, note: Note) {
        match note {
            Note::Ask(ask) => self.on_ask(ask),
            Note::Forget(key) => {
                self.waiting.retain(|one| one.key != key);
                self.done.retain(|one| one.key != key);
                if let Some(stop) = self.running.get(&key) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            Note::Checked(can) => {
                match can.stack.as_str() {
                    "" => tracing::info!(why = can.why_not, "this host does not rehearse"),
                    stack => tracing::info!(stack, "this host can rehearse"),
                }
                self.can = Some(can);
                self.say_can();
            }
            Note::Done(answer) => {
                self.running.remove(&answer.key);
                match answer.error.as_str() {
                    "" => tracing::info!(key = answer.key, seconds = answer.seconds, "rehearsed"),
                    error => tracing::warn!(
                        key = answer.key,
                        error,
                        why = answer.message,
                        "a rehearsal failed"
                    ),
                }
                self.tell(answer);
                self.start_next();
            }
            Note::End => {}
        }
    }

    fn on_ask(&mut self, ask: Rehearse) {
        let same = |one: &Rehearse| one.key == ask.key;
        if self.running.contains_key(&ask.key) || self.waiting.iter().any(same) {
            tracing::debug!(key = ask.key, "asked for again");
            return;
        }
        let able = self.can.as_ref().is_some_and(|can| !can.stack.is_empty());
        let refused = if self.setting.config.rehearsals == 0 || !able {
            Some("this host does not rehearse")
        } else if self.waiting.len() >= WAITING_MAX {
            Some("too many rehearsals wait here already")
        } else {
            None
        };
        match refused {
            Some(why) => self.tell(answer::failed(&ask.key, "not_started", why)),
            None => {
                self.waiting.push_back(ask);
                self.start_next();
            }
        }
    }

    fn start_next(&mut self) {
        let at_once = usize::try_from(self.setting.config.rehearsals).unwrap_or(usize::MAX);
        while self.running.len() < at_once
            && let Some(ask) = self.waiting.pop_front()
        {
            let stop = Arc::<AtomicBool>::default();
            self.running.insert(ask.key.clone(), stop.clone());
            let setting = self.setting.clone();
            let key = ask.key.clone();
            let begun = self.thread(move || Note::Done(work::rehearse(&setting, &ask, &stop)));
            if let Err(error) = begun {
                self.running.remove(&key);
                let why = format!("no thread for it: {error}");
                self.tell(answer::failed(&key, "not_started", why));
            }
        }
    }

    fn look(&mut self) {
        if self.setting.config.rehearsals == 0 {
            return;
        }
        let (setting, stop) = (self.setting.clone(), self.looking.clone());
        let begun = self.thread(move || {
            work::clean(&setting);
            Note::Checked(work::check(&setting, &stop))
        });
        if let Err(error) = begun {
            tracing::warn!(%error, "whether this host can rehearse was not found out");
        }
    }

    fn thread(&self, work: impl FnOnce() -> Note + Send + 'static) -> std::io::Result<()> {
        let notes = self.notes.clone();
        let thread = std::thread::Builder::new().name("rehearsal".to_owned());
        thread
            .spawn(move || {
                let _ = notes.send(work());
            })
            .map(drop)
    }

    fn drop_all(&mut self) {
        self.waiting.clear();
        for stop in self.running.values() {
            stop.store(true, Ordering::Relaxed);
        }
    }

    fn say_all(&mut self) {
        self.say_can();
        for answer in std::mem::take(&mut self.done) {
            self.tell(answer);
        }
    }

    /// With what is under way: a coordinator that was started anew does not know of it.
    fn say_can(&self) {
        if let Some(can) = self.can.clone() {
            let waiting = self.waiting.iter().map(|ask| ask.key.clone());
            let held = self.running.keys().cloned().chain(waiting).collect();
            self.say(agent_message::Message::CanRehearse(CanRehearse {
                held,
                ..can
            }));
        }
    }

    /// Kept for the next session where there is none.
    fn tell(&mut self, answer: Rehearsed) {
        if self.links.borrow().is_some() {
            self.say(agent_message::Message::Rehearsed(answer));
        } else {
            self.done.push(answer);
        }
    }

    fn say(&self, message: agent_message::Message) {
        if let Some(link) = self.links.borrow().as_ref() {
            let _ = link.out.send(Outgoing::Message(Box::new(message)));
        }
    }
}
