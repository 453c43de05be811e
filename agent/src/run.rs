//! One agent from start to shutdown: takes its folder, adopts what runs there, keeps the session, sweeps old
//! folders away. Ends no attempt unless it is told to leave them suspended.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::attempt::{Attempts, Setting};
use crate::config::HostConfig;
use crate::devices::{self, Sampler, Seen};
use crate::durable::DiskError;
use crate::evict::Evictions;
use crate::folder::{AgentFolder, FolderError};
use crate::os::Grounds;
use crate::owner;
use crate::recording::Recordings;
use crate::rehearsal::Rehearsals;
use crate::retention;
use crate::session::{self, SessionError};
use crate::spool::{Spool, SpoolError};
use crate::staging::Staging;
use crate::trust::{self, Admission, TrustError};

/// How long a shutdown waits for attempts to end and their endings to be acknowledged.
const SUSPEND_WAIT: Duration = Duration::from_secs(15);
const RETENTION_ROUND: Duration = Duration::from_secs(3600);

const FIRST_SAMPLE: Duration = Duration::from_secs(10);

/// What an agent needs to know.
pub struct AgentOptions {
    pub config: HostConfig,
    /// `http://127.0.0.1:7480`; `https://` with [`trust::Admission`].
    pub coordinator: String,
    /// How to join, where this host has not yet.
    pub admission: Admission,
    /// The agent's own state, e.g. `DATA/agents/<name>`.
    pub folder: PathBuf,
    /// The `sweep` executable, started as `sweep shepherd FOLDER`.
    pub program: PathBuf,
    /// What `{kit}` stands for where the host's file names none.
    pub kit: PathBuf,
    /// Ends the agent.
    pub shutdown: CancellationToken,
    /// Read once, at shutdown.
    pub leave: watch::Receiver<Leave>,
    /// Told once the coordinator has taken this host in for the first time.
    pub ready: Option<oneshot::Sender<()>>,
}

/// What a shutdown does with the attempts that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leave {
    /// They go on; the next agent on this folder adopts them.
    #[default]
    Running,
    /// They are stopped and end `interrupted`, to be continued elsewhere or later.
    Suspended,
}

impl Leave {
    /// A choice that never changes.
    #[must_use]
    pub fn always(self) -> watch::Receiver<Self> {
        watch::channel(self).1
    }
}

#[derive(Debug, Error)]
pub enum AgentError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Runs until `shutdown`, through every loss of the coordinator.
pub async fn run(mut options: AgentOptions) -> Result<(), AgentError> {
    let (folder, _lock) = AgentFolder::take(&options.folder)?;
    let spool = Spool::open(&folder)?;
    let mut credentials = None;
    if trust::is_tls(&options.coordinator) {
        let (address, host) = (&options.coordinator, &options.config.name);
        let joining = trust::identity(&options.folder, address, host, options.admission);
        credentials = tokio::select! {
            () = options.shutdown.cancelled() => return Ok(()),
            joined = joining => Some(joined?),
        };
    }
    let evict = options.config.evict.clone();
    let (owner, trouble) = tokio::select! {
        () = options.shutdown.cancelled() => return Ok(()),
        watched = owner::watch(options.config.owner.clone()) => watched,
    };
    options.config.degraded.extend(trouble);
    let grounds = grounds(&mut options.config).await;
    let setting = Setting {
        kit: options.config.kit.clone().unwrap_or(options.kit),
        config: Arc::new(options.config),
        program: options.program,
        staging: Staging::open(folder.cache(), &options.coordinator, credentials.clone())?,
        evictions: Evictions::new(evict),
        folder: folder.clone(),
        grounds: Arc::new(grounds),
    };
    let (links, linked) = watch::channel(None);
    let rehearsals = Rehearsals::start(setting.clone(), linked.clone());
    let recordings = Recordings::start(folder.clone(), linked.clone());
    let attempts = Attempts::new(setting.clone(), linked, recordings.offering());
    attempts.adopt();
    let sweeping = attempts.clone();
    tokio::task::spawn_blocking(move || sweeping.sweep_groups());
    // A driver that hangs holds up no shutdown.
    let sampler = tokio::select! {
        () = options.shutdown.cancelled() => Sampler::none(),
        sampler = sampler(&setting, &attempts) => sampler,
    };
    let old = tokio::spawn(retention::every(RETENTION_ROUND, folder.clone()));
    let mut session = tokio::spawn(session::keep(session::Session {
        coordinator: options.coordinator,
        credentials,
        config: setting.config,
        attempts: attempts.clone(),
        seen: sampler.seen(),
        pulse: sampler.pulse(),
        owner,
        rehearsals: rehearsals.asking(),
        recordings: recordings.offering(),
        spool,
        links,
        ready: options.ready,
    }));
    let ended = tokio::select! {
        () = options.shutdown.cancelled() => None,
        ended = &mut session => Some(ended),
    };
    let result = match ended {
        Some(Ok(ended)) => ended.map_err(AgentError::from),
        // The session is never aborted before this: it panicked, and that is not to be hidden.
        Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        None => {
            let leave = *options.leave.borrow();
            if leave == Leave::Suspended {
                attempts.suspend(SUSPEND_WAIT).await;
            }
            Ok(())
        }
    };
    session.abort();
    old.abort();
    recordings.end();
    rehearsals.end().await;
    attempts.let_go().await;
    result
}

/// Where attempts are held; what is not enforced there the host says of itself.
async fn grounds(config: &mut HostConfig) -> Grounds {
    if config.simulated {
        return Grounds::default();
    }
    let found = tokio::task::spawn_blocking(Grounds::take).await;
    let grounds = found.unwrap_or_default();
    if let Some(what) = grounds.unenforced(&config.limits.any) {
        tracing::warn!(host = config.name, "{what}");
        config.degraded.push(what);
    }
    grounds
}

/// The first sample comes before the first registration, unless the driver hangs.
async fn sampler(setting: &Setting, attempts: &Attempts) -> Sampler {
    let config = &setting.config;
    if !config.devices.iter().any(|device| device.watched) {
        return Sampler::none();
    }
    let recorded = config.recorded_devices.clone();
    let opened = tokio::task::spawn_blocking(move || devices::watch(recorded.as_deref()));
    let Ok(Ok(watch)) = tokio::time::timeout(FIRST_SAMPLE, opened).await else {
        tracing::warn!("a GPU driver does not answer: what others hold is not measured");
        return Sampler::none();
    };
    let sampler = Sampler::start(&config.devices, watch, attempts.clone());
    let mut seen = sampler.seen();
    let first = seen.wait_for(|seen| *seen != Seen::default());
    if tokio::time::timeout(FIRST_SAMPLE, first).await.is_err() {
        tracing::warn!(
            "a GPU driver is slow to answer: the first figures are those of the host's file"
        );
    }
    sampler
}
