//! The files of a sweep on this host: before an attempt starts, what it lacks is fetched and laid out, and what is there
//! is checked. An attempt begins with all of its files as they were submitted, or does not begin.
//!
//! Waits while there is no coordinator. Refuses a list with names that could leave their folder, and a content that is
//! not what the list says, whoever changed it.

mod arriving;
mod cache;
mod fetch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use jobs::staged::{Bundle, Manifest, StagedFile};
use proto::v1;
use proto::v1::files_client::FilesClient;
use thiserror::Error;
use tonic::transport::Channel;

pub use cache::Cache;
use fetch::FetchError;

use crate::durable::DiskError;
use crate::session::{self, Links};
use crate::trust::Credentials;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// In a row, while there is a session: about a minute.
const TRIES: usize = 16;

/// Why an attempt's files are not all here. Never the fault of its program.
#[derive(Debug, Error)]
pub enum NotStaged {
    #[error("the coordinator's list of them is refused: {0}")]
    List(#[from] jobs::staged::BadManifest),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("{0}")]
    Fetch(String),
}

/// Where an attempt's files lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staged {
    /// The kit that came with the sweep.
    pub kit: Option<PathBuf>,
    /// Name -> path.
    pub files: BTreeMap<String, String>,
}

impl Staged {
    /// A simulated host has no files: the name stands for them.
    #[must_use]
    pub fn simulated(files: &[v1::StagedFile]) -> Self {
        let own = files
            .iter()
            .filter(|file| file.bundle == Bundle::Files.as_str());
        Self {
            kit: None,
            files: own
                .map(|file| (file.name.clone(), file.name.clone()))
                .collect(),
        }
    }
}

/// One for each agent.
#[derive(Clone)]
pub struct Staging {
    cache: Cache,
    coordinator: String,
    /// One fetches at a time: two attempts often lack the same.
    one: Arc<tokio::sync::Mutex<()>>,
    credentials: Option<Credentials>,
}

impl Staging {
    pub fn open(
        folder: PathBuf,
        coordinator: &str,
        credentials: Option<Credentials>,
    ) -> Result<Self, DiskError> {
        Ok(Self {
            cache: Cache::open(folder)?,
            coordinator: coordinator.to_owned(),
            credentials,
            one: Arc::default(),
        })
    }

    /// Brings them here. With a kit of its own a host does not want the sweep's.
    pub async fn prepare(
        &self,
        files: &[v1::StagedFile],
        own_kit: bool,
        links: Links,
    ) -> Result<Staged, NotStaged> {
        let manifest = Arc::new(proto::convert::manifest(files)?);
        let mut staged = Staged::default();
        for bundle in Bundle::ALL {
            if bundle == Bundle::Kit && own_kit {
                continue;
            }
            let Some(digest) = manifest.digest(bundle) else {
                continue;
            };
            self.bring(&manifest, bundle, &digest, links.clone())
                .await?;
            let folder = self.cache.bundle(&digest);
            match bundle {
                Bundle::Kit => staged.kit = Some(folder),
                Bundle::Files => {
                    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
                    let paths = manifest
                        .of(bundle)
                        .map(|file| (file.name.clone(), path(&file.name)));
                    staged.files = paths.collect();
                }
            }
        }
        Ok(staged)
    }

    async fn bring(
        &self,
        manifest: &Arc<Manifest>,
        bundle: Bundle,
        digest: &str,
        links: Links,
    ) -> Result<(), NotStaged> {
        let holds = || {
            let (cache, manifest, digest) =
                (self.cache.clone(), manifest.clone(), digest.to_owned());
            blocking(move || cache.holds(&digest, manifest.of(bundle)))
        };
        if holds().await? {
            return Ok(());
        }
        let _one = self.one.lock().await;
        // Whoever was first may have brought it.
        if holds().await? {
            return Ok(());
        }
        let (cache, list) = (self.cache.clone(), manifest.clone());
        let lacking = blocking(move || cache.lacking(list.of(bundle))).await?;
        self.fetch_all(&lacking, links).await?;
        let (cache, list, name) = (self.cache.clone(), manifest.clone(), digest.to_owned());
        blocking(move || cache.lay_out(&name, list.of(bundle))).await?;
        tracing::info!(%bundle, digest, fetched = lacking.len(), "files laid out");
        Ok(())
    }

    async fn fetch_all(&self, lacking: &[StagedFile], links: Links) -> Result<(), NotStaged> {
        if lacking.is_empty() {
            return Ok(());
        }
        let endpoint = session::endpoint(&self.coordinator, self.credentials.as_ref())
            .map_err(|error| NotStaged::Fetch(error.to_string()))?;
        let mut client = FilesClient::new(endpoint.connect_lazy());
        for file in lacking {
            self.fetch_one(&mut client, file, links.clone()).await?;
        }
        Ok(())
    }

    /// Through every loss of the coordinator: without a session there is no hurry.
    async fn fetch_one(
        &self,
        client: &mut FilesClient<Channel>,
        file: &StagedFile,
        mut links: Links,
    ) -> Result<(), NotStaged> {
        let pauses = || {
            let builder = ExponentialBuilder::default().with_min_delay(FIRST_PAUSE);
            let builder = builder.with_max_delay(LONGEST_PAUSE).with_max_times(TRIES);
            builder.with_jitter().build()
        };
        let mut left = pauses();
        let mut damaged = false;
        loop {
            let why = match fetch::fetch(client, &self.cache, file).await {
                Ok(()) => return Ok(()),
                Err(FetchError::Disk(error)) => return Err(error.into()),
                Err(FetchError::Refused(why)) => return Err(NotStaged::Fetch(why)),
                // Once more: it may have been damaged on its way.
                Err(FetchError::Damaged(why)) if damaged => return Err(NotStaged::Fetch(why)),
                Err(FetchError::Damaged(why)) => {
                    damaged = true;
                    why
                }
                Err(FetchError::Lost(why)) => why,
            };
            tracing::debug!(why, name = file.name, "not fetched; trying again");
            if links.borrow().is_none() {
                // It ends with the agent only.
                if links.wait_for(Option::is_some).await.is_err() {
                    return Err(NotStaged::Fetch(why));
                }
                left = pauses();
                continue;
            }
            match left.next() {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(NotStaged::Fetch(why)),
            }
        }
    }
}

/// Runs what blocks where blocking is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime ends, and this task with it.
        Err(_) => std::future::pending().await,
    }
}
