//! One content from the coordinator into the cache. What may be tried again is told apart from what may not; deciding
//! when is the caller's.

use jobs::staged::StagedFile;
use proto::v1::FetchRequest;
use proto::v1::files_client::FilesClient;
use thiserror::Error;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::{Cache, blocking};
use crate::durable::DiskError;

#[derive(Debug, Error)]
pub enum FetchError {
    /// The coordinator is not there, or the way to it broke.
    #[error("{0}")]
    Lost(String),
    /// Something else came than was asked for.
    #[error("{0}")]
    Damaged(String),
    /// The coordinator does not have it, or does not know how.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

pub async fn fetch(
    client: &mut FilesClient<Channel>,
    cache: &Cache,
    file: &StagedFile,
) -> Result<(), FetchError> {
    let said = |status: Status| of_status(file, &status);
    let request = FetchRequest {
        sha256: file.sha256.clone(),
    };
    let mut stream = client.fetch(request).await.map_err(said)?.into_inner();
    let (opening, wanted) = (cache.clone(), file.clone());
    let mut arriving = blocking(move || opening.arriving(&wanted)).await?;
    while let Some(piece) = stream.message().await.map_err(said)? {
        let (written, back) = blocking(move || (arriving.write(&piece.data), arriving)).await;
        if !written? {
            return Err(damaged(file, "more bytes than the file has"));
        }
        arriving = back;
    }
    match blocking(move || arriving.finish()).await? {
        Ok(()) => Ok(()),
        Err(found) => Err(damaged(file, &found)),
    }
}

fn damaged(file: &StagedFile, found: &str) -> FetchError {
    FetchError::Damaged(format!(
        "what the coordinator sent as {} is not what was submitted (SHA-256 {}, but what came has {found}); its copy of \
         the file is damaged: submit the sweep again from the same files, which replaces it",
        file.name, file.sha256
    ))
}

fn of_status(file: &StagedFile, status: &Status) -> FetchError {
    let name = &file.name;
    match status.code() {
        Code::NotFound => FetchError::Refused(format!(
            "the coordinator has lost the content of {name} (SHA-256 {}): submit the sweep again from the same files",
            file.sha256
        )),
        Code::Unimplemented => FetchError::Refused(format!(
            "the coordinator knows nothing of files such as {name}: upgrade it"
        )),
        Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated => {
            FetchError::Refused(format!("{name}: {}", status.message()))
        }
        _ => FetchError::Lost(format!("{name}: {}", status.message())),
    }
}
