//! The coordinator's door for files, by raw calls: whatever a client sends, no name leads out of its folder, no content is
//! kept that was not announced, and no sweep is taken whose files are not all here.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use futures_util::StreamExt as _;
use proto::v1::files_client::FilesClient;
use proto::v1::sweeps_client::SweepsClient;
use proto::v1::{
    FetchRequest, ListRequest, MissingRequest, StagedFile, SubmitRequest, SweepFile, UploadRequest,
};
use tonic::transport::Channel;
use tonic::{Code, Status};

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
const FILE: &str = "[sweep]\nname = \"raw\"\n[train]\nrun = [\"cat\", \"{file:a.txt}\"]\n";

struct Coordinator {
    child: Child,
    files: FilesClient<Channel>,
    sweeps: SweepsClient<Channel>,
}

impl Coordinator {
    async fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sweep"))
            .arg("--data")
            .arg(data)
            .args(["coordinator", "run", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http"))
            .unwrap();
        let channel = Channel::from_shared(url.to_owned()).unwrap();
        let channel = channel.connect().await.unwrap();
        Self {
            child,
            files: FilesClient::new(channel.clone()),
            sweeps: SweepsClient::new(channel),
        }
    }

    fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    async fn upload(&mut self, sha256: &str, size: u64, pieces: &[&[u8]]) -> Result<(), Status> {
        let first = UploadRequest {
            sha256: sha256.into(),
            size,
            data: Vec::new(),
        };
        let more = pieces.iter().map(|piece| UploadRequest {
            data: piece.to_vec(),
            ..UploadRequest::default()
        });
        let all: Vec<_> = [first].into_iter().chain(more).collect();
        let sent = self.files.upload(tokio_stream::iter(all)).await;
        sent.map(drop)
    }

    async fn submit(&mut self, toml: &str, files: Vec<StagedFile>) -> Result<(), Status> {
        let request = SubmitRequest {
            submission: uuid::Uuid::now_v7().to_string(),
            file: Some(SweepFile {
                name: "raw.toml".into(),
                toml: toml.into(),
                ..SweepFile::default()
            }),
            files,
        };
        self.sweeps.submit(request).await.map(drop)
    }

    async fn known(&mut self) -> usize {
        let list = self.sweeps.list(ListRequest::default()).await.unwrap();
        list.into_inner().sweeps.len()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn file(name: &str) -> StagedFile {
    StagedFile {
        bundle: "files".into(),
        name: name.into(),
        sha256: HELLO.into(),
        size: 5,
        executable: false,
    }
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[track_caller]
fn refused(answer: Result<(), Status>, code: Code, says: &str) {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(says), "{status}");
}

#[tokio::test]
async fn names_that_lead_elsewhere_and_lists_that_are_wrong_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut coordinator = Coordinator::start(&folder.path().join("data")).await;
    coordinator.upload(HELLO, 5, &[b"hello"]).await.unwrap();
    for name in [
        "../a.txt",
        "/etc/cron.d/x",
        "C:\\x",
        "c:/x",
        "a\\..\\b",
        "a/../../b",
        "a\0b",
        "NUL",
        "aux.py",
        "",
        ".",
        "a//b",
        "a./b",
    ] {
        for bundle in ["files", "kit"] {
            let bad = StagedFile {
                bundle: bundle.into(),
                ..file(name)
            };
            let answer = coordinator.submit(FILE, vec![file("a.txt"), bad]).await;
            refused(answer, Code::InvalidArgument, "");
        }
    }
    let wrong = |change: &dyn Fn(&mut StagedFile)| {
        let mut file = file("a.txt");
        change(&mut file);
        vec![file]
    };
    let lists = [
        (wrong(&|file| file.bundle = "../x".into()), "no bundle"),
        (wrong(&|file| file.sha256 = "../../x".into()), "SHA-256"),
        (wrong(&|file| file.size = u64::MAX), "at most"),
        (
            wrong(&|file| file.name = "b.txt".into()),
            "did not come with it",
        ),
        (vec![file("a.txt"), file("b.txt")], "does not name it"),
        (vec![file("a.txt"), file("A.txt")], "differ only in case"),
        (vec![file("a.txt"), file("a.txt")], "twice"),
        (Vec::new(), "did not come with it"),
    ];
    for (files, says) in lists {
        refused(
            coordinator.submit(FILE, files).await,
            Code::InvalidArgument,
            says,
        );
    }
    let elsewhere = FILE.replace("a.txt", "../a.txt");
    refused(
        coordinator.submit(&elsewhere, Vec::new()).await,
        Code::InvalidArgument,
        "leaves its folder",
    );
    assert_eq!(coordinator.known().await, 0);
    coordinator.submit(FILE, vec![file("a.txt")]).await.unwrap();
    assert_eq!(coordinator.known().await, 1);
}

#[tokio::test]
async fn only_what_was_announced_is_kept_and_only_digests_are_names() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut coordinator = Coordinator::start(&data).await;
    let not_here = coordinator.submit(FILE, vec![file("a.txt")]).await;
    refused(not_here, Code::FailedPrecondition, "is not here: upload it");
    for (size, pieces) in [
        (5, vec![&b"hallo"[..]]),
        (5, vec![b"hel"]),
        (5, vec![b"hello", b"!"]),
        (5, vec![]),
    ] {
        let answer = coordinator.upload(HELLO, size, &pieces).await;
        refused(answer, Code::InvalidArgument, HELLO);
    }
    let answer = coordinator.upload(HELLO, (64 << 20) + 1, &[]).await;
    refused(answer, Code::InvalidArgument, "at most");
    for name in ["../../../tmp/x", "", "ABC", &HELLO.to_uppercase()] {
        refused(
            coordinator.upload(name, 1, &[b"x"]).await,
            Code::InvalidArgument,
            "no SHA-256",
        );
        let fetched = coordinator
            .files
            .fetch(FetchRequest {
                sha256: name.into(),
            })
            .await;
        refused(fetched.map(drop), Code::InvalidArgument, "no SHA-256");
        let sha256 = vec![name.to_owned()];
        let asked = coordinator.files.missing(MissingRequest { sha256 }).await;
        refused(asked.map(drop), Code::InvalidArgument, "no SHA-256");
    }
    assert_eq!(entries(&data.join("files")), 0);
    let fetched = coordinator
        .files
        .fetch(FetchRequest {
            sha256: HELLO.into(),
        })
        .await;
    refused(fetched.map(drop), Code::NotFound, HELLO);
    let ask = MissingRequest {
        sha256: vec![HELLO.into()],
    };
    let missing = coordinator.files.missing(ask.clone()).await.unwrap();
    assert_eq!(missing.into_inner().sha256, [HELLO]);
    coordinator
        .upload(HELLO, 5, &[b"he", b"llo"])
        .await
        .unwrap();
    let missing = coordinator.files.missing(ask).await.unwrap();
    assert_eq!(missing.into_inner().sha256, [""; 0]);
    let fetched = coordinator
        .files
        .fetch(FetchRequest {
            sha256: HELLO.into(),
        })
        .await
        .unwrap();
    let pieces: Vec<_> = fetched.into_inner().collect().await;
    let bytes: Vec<u8> = pieces
        .into_iter()
        .flat_map(|piece| piece.unwrap().data)
        .collect();
    assert_eq!(bytes, b"hello");
}

#[tokio::test]
async fn half_an_upload_is_gone_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut coordinator = Coordinator::start(&data).await;
    let (send, pieces) = tokio::sync::mpsc::channel(2);
    let first = UploadRequest {
        sha256: HELLO.into(),
        size: 5,
        data: b"he".to_vec(),
    };
    send.send(first).await.unwrap();
    let mut client = coordinator.files.clone();
    let stream = tokio_stream::wrappers::ReceiverStream::new(pieces);
    let upload = tokio::spawn(async move { client.upload(stream).await });
    while entries(&data.join("files")) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    coordinator.kill9();
    assert!(upload.await.unwrap().is_err());
    assert_eq!(entries(&data.join("files")), 1);
    let mut coordinator = Coordinator::start(&data).await;
    assert_eq!(entries(&data.join("files")), 0);
    let not_here = coordinator.submit(FILE, vec![file("a.txt")]).await;
    refused(not_here, Code::FailedPrecondition, "upload it");
}
