//! Trust over a restart: what was said is kept, what was used stays used.

use rcgen::{CertificateParams, KeyPair};
use secrecy::ExposeSecret as _;

use super::*;
use crate::clock;

fn request(key: &KeyPair) -> Vec<u8> {
    CertificateParams::default()
        .serialize_request(key)
        .unwrap()
        .der()
        .to_vec()
}

fn text(token: &Token) -> String {
    token.text().expose_secret().to_owned()
}

#[test]
fn a_join_token_is_used_before_its_certificate_is_seen() {
    let data = tempfile::tempdir().unwrap();
    let now = clock::now_ms();
    let made = init(data.path(), &["keeper".into()], now).unwrap();
    let trust = Trust::open(data.path(), now).unwrap().unwrap();
    let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let token = text(&made.join);
    let wrong = trust.join(&token, "box", b"nonsense", now);
    assert!(
        matches!(wrong, Err(TrustError::Request)),
        "a bad request must not use it up"
    );
    let joined = trust.join(&token, "box", &request(&key), now).unwrap();
    assert_eq!(joined.authority.matches("BEGIN").count(), 1);
    drop(trust);
    let trust = Trust::open(data.path(), now).unwrap().unwrap();
    let again = trust.join(&token, "rig", &request(&other), now);
    assert!(matches!(again, Err(TrustError::Denied(Denied::Used))));
    let der = trust.book().hosts[0].certificate;
    assert_eq!(
        trust.book().host(&der).map(|host| host.name.clone()),
        Some("box".into())
    );
    // The answer was lost on its way: the same host with the same key gets another one.
    trust.join(&token, "box", &request(&key), now).unwrap();
    assert_eq!(trust.book().hosts.len(), 1);
}

#[test]
fn no_file_of_the_folder_holds_a_token_but_the_owners_own() {
    let data = tempfile::tempdir().unwrap();
    let now = clock::now_ms();
    let made = init(data.path(), &[], now).unwrap();
    let trust = Trust::open(data.path(), now).unwrap().unwrap();
    let role = TokenKind::User { role: Role::Submit };
    let (token, _) = trust.create("ann", role, 0, now).unwrap();
    assert_eq!(
        trust.user(&text(&token), now),
        Ok(("ann".into(), Role::Submit))
    );
    for secret in [text(&token), text(&made.join)] {
        for entry in std::fs::read_dir(&made.folder).unwrap() {
            let path = entry.unwrap().path();
            let content = std::fs::read_to_string(&path).unwrap();
            assert!(!content.contains(&secret[6..40]), "{}", path.display());
        }
    }
    let (new, _) = trust.rotate("ann", 0, now).unwrap();
    assert_eq!(trust.user(&text(&token), now), Err(Denied::Unknown));
    trust.revoke("ann", false, now).unwrap();
    let trust = Trust::open(data.path(), now).unwrap().unwrap();
    assert_eq!(trust.user(&text(&new), now), Err(Denied::Unknown));
    let owner = std::fs::read_to_string(made.folder.join(keep::OWNER)).unwrap();
    assert_eq!(trust.user(&owner, now), Ok(("owner".into(), Role::Admin)));
}

#[test]
fn the_owners_file_follows_the_book() {
    let data = tempfile::tempdir().unwrap();
    let now = clock::now_ms();
    let path = init(data.path(), &[], now)
        .unwrap()
        .folder
        .join(keep::OWNER);
    let first = std::fs::read_to_string(&path).unwrap();
    let open = || Trust::open(data.path(), now).unwrap().unwrap();
    let trust = open();
    trust.rotate(owner::NAME, 0, now).unwrap();
    let works = |trust: &Trust| {
        trust
            .user(&std::fs::read_to_string(&path).unwrap(), now)
            .is_ok()
    };
    assert!(works(&trust) && trust.user(&first, now).is_err());
    // A crash after the book and before the file.
    std::fs::write(&path, &first).unwrap();
    assert!(works(&open()) && open().user(&first, now).is_err());
    let last = open().revoke(owner::NAME, false, now);
    assert!(matches!(
        last,
        Err(TrustError::Denied(Denied::LastAdmin(_)))
    ));
    assert!(works(&open()), "refused, and its file is gone");
    let admin = TokenKind::User { role: Role::Admin };
    open().create("eve", admin, 0, now).unwrap();
    open().revoke(owner::NAME, false, now).unwrap();
    assert!(!path.exists());
    std::fs::write(&path, &first).unwrap();
    assert!(open().user(&first, now).is_err() && !path.exists());
}

#[test]
fn init_refuses_what_is_there_and_a_server_certificate_is_renewed() {
    let data = tempfile::tempdir().unwrap();
    let now = clock::now_ms();
    let made = init(data.path(), &[], now).unwrap();
    assert!(matches!(
        init(data.path(), &[], now),
        Err(TrustError::Exists(_))
    ));
    let before = std::fs::read(made.folder.join(keep::SERVER)).unwrap();
    Trust::open(data.path(), now).unwrap();
    assert_eq!(
        std::fs::read(made.folder.join(keep::SERVER)).unwrap(),
        before
    );
    let later = now + 700 * 24 * 3600 * 1000;
    Trust::open(data.path(), later).unwrap();
    assert_ne!(
        std::fs::read(made.folder.join(keep::SERVER)).unwrap(),
        before
    );
    assert!(
        Trust::open(&data.path().join("other"), now)
            .unwrap()
            .is_none()
    );
}
