//! Hands files to a coordinator: says what there is, sends what is not there. Each is read twice, once for its digest and
//! once on its way, and one that has changed in between is not taken.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use jobs::staged::{Manifest, StagedFile};
use proto::v1::files_client::FilesClient;
use proto::v1::{self, MissingRequest, UploadRequest};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::Source;
use crate::clients::Wire;
use crate::error::Error;

const PIECE: usize = 256 * 1024;

/// Files with their digests, ready to be sent.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// As a submission lists them.
    pub files: Vec<v1::StagedFile>,
    /// Digest -> where such a content is.
    contents: BTreeMap<String, Source>,
}

impl Packed {
    pub async fn new(sources: Vec<Source>) -> Result<Self, Error> {
        let read = tokio::task::spawn_blocking(move || Self::read(sources)).await;
        read.map_err(|error| Error::Failed(format!("failed to read the files: {error}")))?
    }

    fn read(sources: Vec<Source>) -> Result<Self, Error> {
        let mut files = Vec::new();
        let mut contents = BTreeMap::new();
        for mut source in sources {
            let unreadable = |error| Error::Unreadable {
                path: source.path.clone(),
                source: error,
            };
            let (sha256, size) = digest(&source.path).map_err(unreadable)?;
            source.size = size;
            files.push(StagedFile {
                bundle: source.bundle,
                name: source.name.clone(),
                sha256: sha256.clone(),
                size,
                executable: source.executable,
            });
            contents.insert(sha256, source);
        }
        let manifest = Manifest::new(files).map_err(|bad| Error::BadInput(bad.to_string()))?;
        Ok(Self {
            files: proto::convert::manifest_message(&manifest),
            contents,
        })
    }

    /// Until the coordinator has all of them. Nothing is asked where there is nothing to send.
    pub async fn send(&self, mut client: FilesClient<Wire>) -> Result<(), Error> {
        if self.files.is_empty() {
            return Ok(());
        }
        let sha256 = self.contents.keys().cloned().collect();
        let missing = client.missing(MissingRequest { sha256 }).await;
        let missing = missing.map_err(|status| older(status, &self.files[0].name))?;
        for digest in missing.into_inner().sha256 {
            if let Some(source) = self.contents.get(&digest) {
                upload(&mut client, &digest, source).await?;
            }
        }
        Ok(())
    }
}

fn older(status: Status, name: &str) -> Error {
    if status.code() == Code::Unimplemented {
        return Error::Refused(format!(
            "the coordinator is of an older version, which takes no files such as {name}: upgrade it"
        ));
    }
    status.into()
}

fn digest(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let (mut hash, mut size) = (Sha256::new(), 0);
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((crate::sweep_file::hex(&hash.finalize()), size)),
            many => {
                hash.update(&piece[..many]);
                size += many as u64;
            }
        }
    }
}

async fn upload(
    client: &mut FilesClient<Wire>,
    digest: &str,
    source: &Source,
) -> Result<(), Error> {
    let (to, pieces) = mpsc::channel(4);
    let (path, first) = (
        source.path.clone(),
        UploadRequest {
            sha256: digest.to_owned(),
            size: source.size,
            data: Vec::new(),
        },
    );
    let reading = tokio::task::spawn_blocking(move || feed(&path, first, &to));
    let answer = client.upload(ReceiverStream::new(pieces)).await;
    let unreadable = |source_error| Error::Unreadable {
        path: source.path.clone(),
        source: source_error,
    };
    let read = reading.await;
    let sent = read.map_err(|error| Error::Failed(format!("failed to read the files: {error}")))?;
    let sent = sent.map_err(unreadable)?;
    match answer {
        Ok(_) => Ok(()),
        Err(_) if sent.as_ref().is_some_and(|sent| sent != digest) => {
            Err(Error::BadInput(format!(
                "{} changed while it was being sent; nothing was submitted, run the command again",
                source.path.display()
            )))
        }
        Err(status) => Err(status.into()),
    }
}

/// What was sent, by its digest; `None` when the other side stopped listening.
fn feed(
    path: &Path,
    first: UploadRequest,
    to: &mpsc::Sender<UploadRequest>,
) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut message = first;
    loop {
        if to.blocking_send(message).is_err() {
            return Ok(None);
        }
        let mut data = vec![0; PIECE];
        let many = file.read(&mut data)?;
        if many == 0 {
            return Ok(Some(crate::sweep_file::hex(&hash.finalize())));
        }
        data.truncate(many);
        hash.update(&data);
        message = UploadRequest {
            data,
            ..UploadRequest::default()
        };
    }
}
