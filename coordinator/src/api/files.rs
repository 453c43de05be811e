//! The files that travel with sweeps: which are missing, one on its way in, one on its way to an agent. Everything is
//! named by its content; which sweep names which content is the submission's business.

use std::io::Read as _;
use std::pin::Pin;

use futures_util::Stream;
use jobs::staged::{MOST_FILES, is_digest};
use proto::v1::files_server::Files;
use proto::v1::{
    FetchReply, FetchRequest, MissingReply, MissingRequest, UploadReply, UploadRequest,
};
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::Api;
use crate::store::{Arriving, StoreError};

const PIECE: usize = 256 * 1024;

type FetchStream = Pin<Box<dyn Stream<Item = Result<FetchReply, Status>> + Send>>;

#[tonic::async_trait]
impl Files for Api {
    type FetchStream = FetchStream;

    async fn missing(
        &self,
        request: Request<MissingRequest>,
    ) -> Result<Response<MissingReply>, Status> {
        let digests = request.into_inner().sha256;
        if digests.len() > MOST_FILES {
            let why = format!("{} files at a time; at most {MOST_FILES}", digests.len());
            return Err(Status::invalid_argument(why));
        }
        digests.iter().try_for_each(|digest| checked(digest))?;
        let files = self.staged.clone();
        // One that is damaged is asked for again: so submitting once more mends it.
        let look = move || {
            let missing = digests.into_iter();
            missing.filter(|one| files.check(one).is_err()).collect()
        };
        let missing = tokio::task::spawn_blocking(look).await;
        let missing = missing.map_err(|_| Status::internal("the files could not be looked at"))?;
        Ok(Response::new(MissingReply { sha256: missing }))
    }

    async fn upload(
        &self,
        request: Request<Streaming<UploadRequest>>,
    ) -> Result<Response<UploadReply>, Status> {
        let mut from = request.into_inner();
        let first = from.message().await?;
        let first = first.ok_or_else(|| Status::invalid_argument("an upload without a word"))?;
        checked(&first.sha256)?;
        let (files, digest, size) = (self.staged.clone(), first.sha256, first.size);
        let mut arriving = blocking(move || files.begin(&digest, size)).await?;
        let mut data = first.data;
        loop {
            let taken = blocking(move || {
                arriving.write(&data)?;
                Ok::<Arriving, StoreError>(arriving)
            });
            arriving = taken.await?;
            match from.message().await? {
                Some(next) => data = next.data,
                None => break,
            }
        }
        blocking(move || arriving.finish()).await?;
        Ok(Response::new(UploadReply {}))
    }

    async fn fetch(
        &self,
        request: Request<FetchRequest>,
    ) -> Result<Response<Self::FetchStream>, Status> {
        let digest = request.into_inner().sha256;
        checked(&digest)?;
        let (files, wanted) = (self.staged.clone(), digest.clone());
        let mut file = blocking(move || files.read(&wanted)).await?;
        let (sender, receiver) = channel(4);
        tokio::task::spawn_blocking(move || {
            loop {
                let mut data = vec![0; PIECE];
                let reply = match file.read(&mut data) {
                    Ok(0) => return,
                    Ok(many) => {
                        data.truncate(many);
                        Ok(FetchReply { data })
                    }
                    Err(error) => {
                        let what = format!("the file {digest} could not be read: {error}");
                        Err(Status::internal(what))
                    }
                };
                let broken = reply.is_err();
                if sender.blocking_send(reply).is_err() || broken {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

fn checked(digest: &str) -> Result<(), Status> {
    if is_digest(digest) {
        return Ok(());
    }
    let shown: String = digest.escape_debug().take(80).collect();
    let why = format!("`{shown}` is no SHA-256 in 64 small hexadecimal digits");
    Err(Status::invalid_argument(why))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|_| Status::internal("a file could not be worked on"))?;
    done.map_err(|error| {
        let code = match &error {
            StoreError::Refused { .. } => Code::InvalidArgument,
            StoreError::Missing { .. } => Code::NotFound,
            StoreError::DiskFull { .. } => Code::ResourceExhausted,
            _ => Code::Internal,
        };
        Status::new(code, format!("failed to {error}"))
    })
}
