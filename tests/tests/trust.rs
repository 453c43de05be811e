//! Who is let in and who is not: the way from `init` to a result over TLS, through restarts; then a table of attacks, each
//! refused with the right code, and nothing of them left behind. Most of the table stands in `trusting`.

mod trusting;

use serde_json::json;
use tonic::Code;
use tonic::transport::Identity;
use trusting::handshake::refused;
use trusting::{JOB, Keeper, certificate, foreign, info};
use whole::{SOON, all_succeeded, until};

#[test]
fn from_init_to_a_result_over_tls_and_through_restarts() {
    let mut keeper = Keeper::new();
    let token = keeper.user("ann", "submit");
    let mut host = keeper.host("rig");
    host.more = "pass_env = [\"SWEEP_*\"]".into();
    host.env
        .push(("SWEEP_TOKEN".into(), "sweep_secret-of-the-agent".into()));
    let mut agent = host.agent(&keeper.room, &keeper.coordinator.url);
    let file = keeper.room.sweep_file("over", "", JOB);
    let file = file.to_str().expect("plain text");
    let sweep = keeper.with(&token, &["submit", file]).word();
    until("the job begins", SOON, || {
        keeper.room.path().join("begun").exists()
    });

    // The same words, the used join token among them.
    agent.kill9();
    keeper.coordinator.kill9();
    keeper.coordinator.start_again();
    agent.start();
    keeper.room.open("go");
    let said = keeper.with(&token, &["watch", &sweep, "--json"]);
    all_succeeded(&said.json());
    keeper
        .with(&token, &["logs", &format!("{sweep}/1/train")])
        .shows(&["ended"]);

    for place in ["env", "above"] {
        let text = std::fs::read(keeper.room.path().join(place)).expect("what it wrote");
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.contains("PATH="), "{place}: {text}");
        assert!(!text.contains("TOKEN"), "{place}: {text}");
    }
    let said = keeper.coordinator.stderr();
    for line in [
        "audit: user owner (admin) at 127.0.0.1",
        "token created: user ann submit",
        "joined: host rig",
        &format!("submit: {sweep}"),
    ] {
        assert!(said.contains(line), "no `{line}` in\n{said}");
    }
    // Neither the user's token nor the host's.
    assert!(
        !said.contains(&token[6..60]) && !said.contains("sweep_"),
        "{said}"
    );
    let listed = keeper.owner(&["token", "list", "--json"]).json();
    let kinds = listed["tokens"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["kind"]);
    assert_eq!(
        kinds.filter(|kind| **kind == json!("host")).count(),
        1,
        "{listed:#}"
    );
    assert!(!listed.to_string().contains("sweep_"));
}

#[test]
fn what_a_certificate_must_be() {
    let keeper = Keeper::new();
    let none = keeper
        .session(None, info("rig"), 2)
        .err()
        .expect("no certificate");
    assert_eq!(none.code(), Code::Unauthenticated, "{none}");

    let issuer = keeper.issuer();
    // Refused by TLS itself: there is no rpc that could have a code of its own.
    for (what, identity, alert) in [
        (
            "of a foreign CA",
            certificate(&foreign(), "rig", 10),
            "UnknownCA",
        ),
        (
            "expired",
            certificate(&issuer, "rig", -1),
            "CertificateExpired",
        ),
    ] {
        let said = refused(&keeper, &identity).expect(what);
        assert!(said.contains(alert), "{what}: {said}");
        let identity = Identity::from_pem(identity.0, identity.1);
        let status = keeper
            .session(Some(identity), info("rig"), 3)
            .err()
            .expect(what);
        let never_answered = [Code::Unavailable, Code::Unknown, Code::Cancelled];
        assert!(
            never_answered.contains(&status.code()),
            "{what}: {status:?}"
        );
    }
    // Signed by the right CA, but of nobody who has joined.
    let unknown = certificate(&issuer, "rig", 10);
    assert_eq!(refused(&keeper, &unknown), None);
    let unknown = Identity::from_pem(unknown.0, unknown.1);
    let status = keeper
        .session(Some(unknown), info("rig"), 4)
        .err()
        .expect("not joined");
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    assert_eq!(
        keeper.owner(&["hosts", "--json"]).json()["hosts"],
        json!([])
    );
}
