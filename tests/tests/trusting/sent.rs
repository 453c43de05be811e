//! Attacks by what is sent: a message of 1 GB, names that lead elsewhere or speak to a terminal, links and devices.

use proto::v1::sweeps_client::SweepsClient;
use proto::v1::trust_client::TrustClient;
use proto::v1::{CreateTokenRequest, StagedFile, SubmitRequest, SweepFile};
use serde_json::json;
use tonic::Code;

use super::{Keeper, bearing, large};

#[test]
fn what_is_sent_is_bounded_and_leads_nowhere() {
    let keeper = Keeper::new();
    let token = keeper.user("ann", "submit");
    let admin = keeper.user("eve", "admin");
    let channel = keeper.channel(None, 6);
    for (what, token, code) in [
        ("without a token", "none", Code::Unauthenticated),
        ("with one", &token, Code::OutOfRange),
    ] {
        let (status, sent) = large::send(&keeper, "/sweep.v1.Sweeps/Submit", token, 1 << 30);
        assert_eq!(status.code(), code, "{what}: {status}");
        assert!(sent < 64 << 20, "{what}: {sent} bytes were taken");
    }
    let submit = |name: &str| {
        let request = SubmitRequest {
            submission: "0198b1d4-0000-7000-8000-000000000001".into(),
            file: Some(SweepFile {
                name: "x.toml".into(),
                toml: b"[sweep]\nname = \"x\"\n[train]\nrun = [\"true\"]\n[place]\ndevice = \"cpu\"\nmemory = \"1 MiB\"\n".to_vec(),
                ..SweepFile::default()
            }),
            files: vec![StagedFile {
                bundle: "files".into(),
                name: name.into(),
                sha256: "a".repeat(64),
                size: 1,
                executable: false,
            }],
        };
        let mut client = SweepsClient::new(channel.clone());
        keeper
            .runtime
            .block_on(client.submit(bearing(&token, request)))
            .expect_err("refused")
    };
    for name in [
        "../x",
        "a/../../x",
        "/etc/passwd",
        "a\\..\\x",
        "a\nb",
        "\u{1b}[2J",
        "c:x",
        "nul",
    ] {
        let status = submit(name);
        assert_eq!(status.code(), Code::InvalidArgument, "{name:?}: {status}");
        assert!(
            !status.message().contains(['\u{1b}', '\n']),
            "{name:?}: {status:?}"
        );
    }
    let mut client = TrustClient::new(channel.clone());
    let request = CreateTokenRequest {
        name: "x\u{1b}]0;y\u{7}".into(),
        role: "read".into(),
        ..CreateTokenRequest::default()
    };
    let status = keeper
        .runtime
        .block_on(client.create_token(bearing(&admin, request)));
    assert_eq!(status.expect_err("refused").code(), Code::InvalidArgument);

    // Links and devices do not travel.
    std::os::unix::fs::symlink("/etc/hostname", keeper.room.path().join("link")).expect("a link");
    let made = std::process::Command::new("mkfifo")
        .arg(keeper.room.path().join("pipe"))
        .status();
    assert!(made.expect("mkfifo").success());
    for (name, path, says) in [
        ("link", "link", "leads out of its folder"),
        ("pipe", "pipe", "neither a file nor a folder"),
        ("device", "/dev/null", "/dev/null"),
        ("up", "../up", "leaves its folder"),
    ] {
        let stages = format!("[train]\nrun = [\"cat\", \"{{file:{path}}}\"]");
        let file = keeper.room.sweep_file(name, "", &stages);
        let said = keeper.with(&token, &["submit", file.to_str().expect("plain text")]);
        said.code(2).says(&[says]);
    }
    assert_eq!(
        keeper.with(&token, &["list", "--json"]).json()["sweeps"],
        json!([])
    );
}
