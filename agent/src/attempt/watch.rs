//! Follows one attempt from its start or adoption to the acknowledgement of its ending, in a task of its own.
//!
//! Bytes first, then the ending: it is handed to the session only when everything in the log and the report has been
//! sent. With a new session it begins again where the coordinator is. It ends when nothing is owed any more.

use std::sync::Arc;
use std::time::Duration;

use jobs::{AttemptId, Ending};
use proto::v1::{Channel, Ended, Memory, Start, Started, event};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::facts::{Facts, Why};
use super::keeper::Flags;
use super::tail::Tails;
use super::{AttemptFolder, Setting, launch};
use crate::clock;
use crate::devices::Told;
use crate::os::Guard;
use crate::session::{Link, Links, Outgoing};
use crate::spool::EventKind;
use crate::staging::Staged;

/// How often the files of a running attempt are looked at.
const POLL: Duration = Duration::from_millis(200);

/// The next look at the devices comes before that.
const REPORTED: Duration = Duration::from_millis(2500);

/// What a task is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Stop(Why),
    /// Written by the coordinator so far.
    Has(Channel, u64),
    Acked(EventKind),
    /// Of a device of its.
    Fault(Told),
    /// Not this host's any more: end it and report nothing.
    Drop,
}

/// Where a task begins.
pub enum Origin {
    Ordered(Box<Start>),
    /// With its devices, where its order names them.
    Found(Option<Vec<String>>),
}

pub struct Follow {
    id: String,
    folder: AttemptFolder,
    notes: mpsc::UnboundedReceiver<Note>,
    links: Links,
    link: Option<Link>,
    tails: Tails,
    flags: Arc<Flags>,
    started: Option<Started>,
    asked: Option<Why>,
    dropped: bool,
    /// A driver is asked about a device that it has.
    watched: bool,
    ended: Option<Ended>,
    /// The ending went to this session.
    handed: bool,
    acked: bool,
}

impl Follow {
    pub fn new(
        setting: &Setting,
        id: &AttemptId,
        links: Links,
        notes: mpsc::UnboundedReceiver<Note>,
        flags: Arc<Flags>,
    ) -> Self {
        let folder = setting.folder.attempt(id);
        let id = id.to_string();
        Self {
            tails: Tails::new(id.clone(), folder.log(), folder.report()),
            id,
            folder,
            notes,
            links,
            link: None,
            flags,
            started: None,
            asked: None,
            dropped: false,
            watched: false,
            ended: None,
            handed: false,
            acked: false,
        }
    }

    /// To the last acknowledgement. Whether the coordinator has the ending: of what was given up it wants no more.
    pub async fn run(mut self, setting: Setting, id: AttemptId, origin: Origin) -> bool {
        self.on_link();
        let folder = self.folder.clone();
        let ordered = matches!(origin, Origin::Ordered(_));
        let devices = match &origin {
            Origin::Ordered(start) => start.devices.clone(),
            Origin::Found(devices) => devices.clone().unwrap_or_default(),
        };
        let is_watched = |id: &String| setting.config.device(id).is_some_and(|one| one.watched);
        self.watched = devices.iter().any(is_watched);
        let staged = match &origin {
            Origin::Ordered(start) => match self.until_staged(&setting, start).await {
                Ok(staged) => self.until_room(&setting, start).await.map(|()| staged),
                Err(facts) => Err(facts),
            },
            Origin::Found(_) => Ok(Staged::default()),
        };
        let begun = blocking(move || match (origin, staged) {
            (Origin::Ordered(start), Ok(staged)) => launch::launch(&setting, &id, &start, &staged),
            (Origin::Ordered(start), Err(facts)) => {
                Err(launch::refuse(&setting, &id, &start, facts))
            }
            (Origin::Found(_), _) => launch::adopt(&folder),
        });
        let facts = match begun.await {
            Ok(guard) => {
                let at_ms = if ordered {
                    clock::unix_ms()
                } else {
                    launch::started_ms(&self.folder)
                };
                self.on_started(at_ms);
                self.until_ended(&guard).await;
                let folder = self.folder.clone();
                blocking(move || launch::collect(&folder, guard)).await
            }
            Err(facts) => {
                if !ordered {
                    // Its start may be owed still, and goes before its ending.
                    self.on_started(facts.started_ms);
                }
                *facts
            }
        };
        self.on_ended(facts).await;
        self.until_acked().await;
        if let Err(error) = self.folder.write_acked() {
            tracing::warn!(%error, attempt = self.id, "it will be reported once more after a restart");
        }
        !self.dropped
    }

    /// Its files are on this host; or how it ended without them. Nothing of it is on the disk before.
    async fn until_staged(
        &mut self,
        setting: &Setting,
        start: &Start,
    ) -> Result<Staged, Box<Facts>> {
        if start.files.is_empty() {
            return Ok(Staged::default());
        }
        let config = &setting.config;
        let simulated = |id: &String| config.device(id).is_some_and(|device| device.simulated);
        if start.devices.iter().any(simulated) {
            return Ok(Staged::simulated(&start.files));
        }
        let own_kit = config.kit.is_some();
        let links = self.links.clone();
        let prepare = setting.staging.prepare(&start.files, own_kit, links);
        let staged = self.before(prepare, "its files were on their way").await?;
        staged.map_err(|error| Box::new(Facts::not_staged(error.to_string(), clock::unix_ms())))
    }

    /// Whoever gives way on its devices has done so; or it is held back.
    async fn until_room(&mut self, setting: &Setting, start: &Start) -> Result<(), Box<Facts>> {
        let room = setting.evictions.make_room(&start.devices);
        let made = self
            .before(room, "others were asked for the device's memory")
            .await?;
        made.map_err(|what| Box::new(Facts::held_back(what, clock::unix_ms())))
    }

    /// Work before it starts; it may be told to end meanwhile.
    async fn before<T>(
        &mut self,
        work: impl Future<Output = T>,
        during: &str,
    ) -> Result<T, Box<Facts>> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                Some(note) = self.notes.recv() => match note {
                    Note::Stop(why) => self.asked = Some(why),
                    Note::Drop => {
                        self.dropped = true;
                        self.asked = Some(Why::Fenced);
                    }
                    // Nothing of it runs yet; the next look finds the device as it is.
                    Note::Has(..) | Note::Acked(_) | Note::Fault(_) => {}
                },
                Ok(()) = self.links.changed() => self.on_link(),
            }
            if let Some(why) = self.asked {
                let mut facts = Facts::not_started(during, clock::unix_ms());
                facts.why = Some(why);
                return Err(Box::new(facts));
            }
        }
    }

    async fn until_ended(&mut self, guard: &Guard) {
        let mut poll = tokio::time::interval_at(tokio::time::Instant::now() + POLL, POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut synced = false;
        loop {
            tokio::select! {
                ended = guard.ended() => {
                    if let Err(error) = ended {
                        tracing::warn!(%error, attempt = self.id, "its shepherd cannot be watched");
                    }
                    return;
                }
                Some(note) = self.notes.recv() => self.on_note(note, Some(guard)),
                Ok(()) = self.links.changed() => self.on_link(),
                _ = poll.tick() => {
                    if !synced {
                        // Most attempts outlive the first look; those that do not leave a synced ending instead.
                        synced = true;
                        self.sync_order().await;
                    }
                }
            }
            self.send_bytes().await;
        }
    }

    async fn until_acked(&mut self) {
        while !self.acked {
            self.send_bytes().await;
            self.hand_ending();
            tokio::select! {
                note = self.notes.recv() => match note {
                    Some(note) => self.on_note(note, None),
                    None => return,
                },
                Ok(()) = self.links.changed() => self.on_link(),
            }
        }
    }

    fn on_note(&mut self, note: Note, guard: Option<&Guard>) {
        match note {
            Note::Has(channel, bytes) => self.tails.on_ack(channel, bytes),
            Note::Acked(EventKind::Started) => self.started = None,
            Note::Acked(EventKind::Ended) => self.acked = true,
            Note::Stop(why) => self.stop(why, guard),
            Note::Fault(told) => self.on_fault(&told, guard),
            Note::Drop => {
                self.dropped = true;
                self.stop(Why::Fenced, guard);
                self.acked |= self.ended.is_some();
            }
        }
    }

    /// The shepherd finds the reason in its folder. It is woken only once it has said who it is: before that a
    /// signal would kill it, and it looks into the folder anyway.
    fn stop(&mut self, why: Why, guard: Option<&Guard>) {
        if self.asked.is_some() || self.ended.is_some() {
            return;
        }
        self.asked = Some(why);
        tracing::info!(attempt = self.id, %why, "asked to end");
        if let Err(error) = self.folder.write_stop(why.as_str()) {
            tracing::warn!(%error, attempt = self.id, "asked by signal only");
        }
        if let (Some(guard), Some(_)) = (guard, self.folder.read_state()) {
            guard.wake();
        }
    }

    /// Written down first: it is what the ending is understood with.
    fn on_fault(&mut self, told: &Told, guard: Option<&Guard>) {
        if self.ended.is_some() {
            return;
        }
        tracing::warn!(
            attempt = self.id,
            device = told.device,
            "its device: {}",
            told.what
        );
        if let Err(error) = self.folder.add_fault(&told.what) {
            tracing::warn!(%error, attempt = self.id, "its ending will not say what the device had");
        }
        if told.ends {
            self.stop(Why::DeviceFault, guard);
        }
    }

    /// A driver's report may come after the program that fell over it.
    async fn until_told(&mut self) {
        let over = tokio::time::sleep(REPORTED);
        let mut over = std::pin::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return,
                note = self.notes.recv() => match note {
                    Some(note @ Note::Fault(_)) => return self.on_note(note, None),
                    Some(note) => self.on_note(note, None),
                    None => return,
                },
                Ok(()) = self.links.changed() => self.on_link(),
            }
        }
    }

    fn on_link(&mut self) {
        self.link = self.links.borrow_and_update().clone();
        self.handed = false;
        if let Some(link) = &self.link {
            self.tails.rewind(link);
            if let Some(started) = self.started {
                self.say(event::Event::Started(started));
            }
        }
    }

    fn on_started(&mut self, at_ms: u64) {
        let started = Started { at_ms };
        self.started = Some(started);
        self.say(event::Event::Started(started));
    }

    async fn on_ended(&mut self, facts: Facts) {
        if self.watched && facts.ran() && facts.why.is_none() && facts.exit != Some(0) {
            self.until_told().await;
        }
        // What came while it ended.
        while let Ok(note) = self.notes.try_recv() {
            self.on_note(note, None);
        }
        let (folder, asked) = (self.folder.clone(), self.asked);
        let ending = blocking(move || launch::understand(&folder, facts, asked)).await;
        self.ended = Some(message(&ending, self.tails.lengths()));
        self.flags.set_ended();
        self.acked |= self.dropped;
    }

    fn hand_ending(&mut self) {
        if self.handed || self.link.is_none() || !self.tails.is_even() {
            return;
        }
        if let Some(ended) = self.ended.clone() {
            self.handed = true;
            self.say(event::Event::Ended(ended));
        }
    }

    fn say(&self, event: event::Event) {
        if let Some(link) = self.link.as_ref().filter(|_| !self.dropped) {
            let attempt = self.id.clone();
            // A session that is ending takes nothing; the next link begins anew.
            let _ = link.out.send(Outgoing::Event { attempt, event });
        }
    }

    /// As much as the window allows.
    async fn send_bytes(&mut self) {
        let Some(link) = self
            .link
            .clone()
            .filter(|_| !self.dropped && self.tails.has_more())
        else {
            return;
        };
        let mut tails = self.tails.clone();
        let (tails, chunks, trouble) = blocking(move || {
            let (chunks, trouble) = tails.next();
            (tails, chunks, trouble)
        })
        .await;
        self.tails = tails;
        for chunk in chunks {
            let _ = link.out.send(Outgoing::Chunk(chunk));
        }
        if let Some(error) = trouble {
            tracing::warn!(%error, attempt = self.id, "its log or report cannot be read");
        }
    }

    async fn sync_order(&self) {
        let folder = self.folder.clone();
        if let Err(error) = blocking(move || folder.sync_order()).await {
            tracing::warn!(%error, attempt = self.id, "its order may not survive a power loss");
        }
    }
}

/// Runs what blocks where blocking is allowed. It does not panic, and so neither does this.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime ends, and this task with it.
        Err(_) => std::future::pending().await,
    }
}

fn message(ending: &Ending, (log_bytes, report_bytes): (u64, u64)) -> Ended {
    let json = |value: &serde_json::Value| value.to_string();
    Ended {
        at_ms: ending.host_ended_ms,
        ran_ms: ending.ran_ms,
        outcome: ending.outcome.as_str().to_owned(),
        exit: ending.exit,
        signal: ending.signal,
        detail: ending.detail.clone(),
        memory: Some(Memory {
            allocated_bytes: ending.peaks.allocated.map(|bytes| bytes.0),
            reserved_bytes: ending.peaks.reserved.map(|bytes| bytes.0),
            resident_bytes: ending.peaks.resident.map(|bytes| bytes.0),
            observation: ending.observation.as_ref().map(json).unwrap_or_default(),
        }),
        result: ending.result.as_ref().map(json).unwrap_or_default(),
        log_bytes,
        report_bytes,
        step_seconds: ending.step_seconds,
    }
}
