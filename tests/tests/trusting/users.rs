//! What users may, and what becomes of those who try more, or too often.

use std::net::{SocketAddr, TcpListener, TcpStream};

use proto::v1::ListRequest;
use proto::v1::sweeps_client::SweepsClient;
use serde_json::json;
use tonic::Code;
use whole::SOON;

use super::{Keeper, bearing, foreign_token};

#[test]
fn what_a_user_may() {
    let keeper = Keeper::new();
    let (reader, submitter) = (keeper.user("ron", "read"), keeper.user("sue", "submit"));
    let gone = keeper.user("gus", "admin");
    keeper.owner(&["token", "revoke", "gus"]).code(0);
    let old = keeper.user("olga", "read");
    let new = keeper.owner(&["token", "rotate", "olga"]).word();
    let file = keeper
        .room
        .sweep_file("theirs", "", "[train]\nrun = [\"true\"]");
    let file = file.to_str().expect("plain text");
    let id = keeper.with(&submitter, &["submit", file]).word();
    for (what, token, words, says) in [
        (
            "a reader submits",
            &reader,
            &["submit", file][..],
            "needs the role submit",
        ),
        (
            "a reader cancels",
            &reader,
            &["cancel", &id],
            "needs the role submit",
        ),
        (
            "a reader drains",
            &reader,
            &["host", "drain", "x"],
            "needs the role admin",
        ),
        (
            "a submitter makes an admin",
            &submitter,
            &["token", "create", "x", "--role", "admin"],
            "needs the role admin",
        ),
        (
            "a submitter lists tokens",
            &submitter,
            &["token", "list"],
            "needs the role admin",
        ),
        ("revoked", &gone, &["list"], "not known here"),
        ("rotated", &old, &["list"], "not known here"),
        (
            "a join token",
            &keeper.join_token(),
            &["list"],
            "only lets a host join",
        ),
        (
            "of another coordinator",
            &foreign_token(),
            &["list"],
            "failed to trust",
        ),
    ] {
        let said = keeper.with(token, words);
        said.code(4).says(&[says]);
        assert_eq!(said.out, "", "{what}");
        assert!(!said.err.contains(&token[..]), "{what}: {}", said.err);
    }
    for token in [&reader, &new] {
        assert_eq!(
            keeper.with(token, &["list", "--json"]).json()["sweeps"][0]["id"],
            json!(id)
        );
    }
    // Who makes tokens for others cannot leave nobody who does.
    keeper
        .owner(&["token", "revoke", "owner"])
        .code(4)
        .says(&["the last token with the role admin", "token create NAME"]);
    keeper.owner(&["token", "list"]).code(0);
    // The name in the certificate is checked as well as who signed it.
    let at = |url: &str| {
        let words = ["--coordinator", url, "list"];
        let mut command = keeper.room.command(&words);
        command.env("SWEEP_TOKEN", &reader);
        keeper.room.start_command(command, &words).finish(SOON)
    };
    let url = &keeper.coordinator.url;
    at(&url.replace("127.0.0.1", "localhost")).code(0);
    let elsewhere = forwarded(url.trim_start_matches("https://"));
    at(&format!("https://{elsewhere}"))
        .code(4)
        .says(&["failed to trust", "127.0.0.2"]);
    // The owner's file, opened to others, is not used.
    let path = keeper.room.file("token", &reader);
    let words = ["--coordinator", &keeper.coordinator.url, "list"];
    let mut command = keeper.room.command(&words);
    command.env("SWEEP_TOKEN_FILE", &path);
    keeper
        .room
        .start_command(command, &words)
        .finish(SOON)
        .code(2)
        .says(&["chmod 600"]);
}

/// The coordinator at 127.0.0.2, which is not a name of its certificate.
fn forwarded(to: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.2:0").expect("an address");
    let (here, to) = (listener.local_addr().expect("an address"), to.to_owned());
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(&to).expect("it listens");
            let (mut up, mut down) = (near.try_clone().expect("a copy"), near);
            let (mut out, mut back) = (far.try_clone().expect("a copy"), far);
            std::thread::spawn(move || std::io::copy(&mut up, &mut out));
            std::thread::spawn(move || std::io::copy(&mut back, &mut down));
        }
    });
    here
}

#[test]
fn who_fails_too_often_waits_and_nobody_else() {
    let keeper = Keeper::new();
    let token = keeper.user("ann", "read");
    let list = |token: &str, from: u8| {
        let mut client = SweepsClient::new(keeper.channel(None, from));
        let request = bearing(token, ListRequest::default());
        keeper
            .runtime
            .block_on(client.list(request))
            .map(|_| ())
            .map_err(|status| status.code())
    };
    let codes: Vec<_> = (0..30).map(|_| list("sweep_wrong", 7)).collect();
    assert_eq!(codes.first(), Some(&Err(Code::Unauthenticated)));
    assert_eq!(codes.last(), Some(&Err(Code::ResourceExhausted)));
    assert_eq!(
        list(&token, 7),
        Err(Code::ResourceExhausted),
        "the right one must wait, too"
    );
    assert_eq!(list(&token, 8), Ok(()));
    let refusals = keeper
        .coordinator
        .stderr()
        .matches("audit: somebody at 127.0.0.7")
        .count();
    assert!(
        (1..=25).contains(&refusals),
        "{refusals} lines for one address"
    );
}
