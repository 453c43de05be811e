use super::*;

fn user(name: &str, byte: u8, role: Role, expires_ms: u64) -> TokenEntry {
    TokenEntry {
        name: name.into(),
        digest: [byte; 32],
        created_ms: 10,
        expires_ms,
        kind: TokenKind::User { role },
    }
}

fn join(name: &str, byte: u8, host: Option<&str>) -> TokenEntry {
    TokenEntry {
        kind: TokenKind::Join {
            host: host.map(str::to_owned),
            used: None,
        },
        ..user(name, byte, Role::Read, 100)
    }
}

fn host(name: &str, token: &str, byte: u8) -> HostEntry {
    HostEntry {
        name: name.into(),
        certificate: [byte; 32],
        key: [byte; 32],
        serial: "ab".into(),
        token: token.into(),
        joined_ms: 20,
        expires_ms: 1000,
    }
}

#[test]
fn a_user_is_known_by_the_token_until_it_expires_or_is_revoked() {
    let mut book = Book::default();
    book.add(user("ann", 1, Role::Submit, 50)).unwrap();
    book.add(user("ben", 2, Role::Admin, 0)).unwrap();
    assert_eq!(book.user(&[1; 32], 49), Ok(("ann", Role::Submit)));
    assert_eq!(book.user(&[1; 32], 50), Err(Denied::Expired));
    assert_eq!(book.user(&[2; 32], u64::MAX), Ok(("ben", Role::Admin)));
    assert_eq!(book.user(&[3; 32], 1), Err(Denied::Unknown));
    book.revoke_token("ben").unwrap();
    assert_eq!(book.user(&[2; 32], 1), Err(Denied::Unknown));
    assert!(matches!(book.revoke_token("ben"), Err(Denied::NoSuch(_))));
}

#[test]
fn rotating_ends_the_old_text_and_keeps_the_time_it_lasts() {
    let mut book = Book::default();
    book.add(user("ann", 1, Role::Read, 50)).unwrap();
    let entry = book.rotate("ann", [9; 32], 0, 100).unwrap();
    assert_eq!((entry.created_ms, entry.expires_ms), (100, 140));
    assert_eq!(book.user(&[1; 32], 101), Err(Denied::Unknown));
    assert_eq!(book.user(&[9; 32], 101), Ok(("ann", Role::Read)));
    assert_eq!(book.rotate("ann", [8; 32], 7, 100).unwrap().expires_ms, 107);
}

#[test]
fn names_are_plain_and_not_taken_twice() {
    let mut book = Book::default();
    book.add(user("ann", 1, Role::Read, 0)).unwrap();
    assert!(matches!(
        book.add(user("ann", 2, Role::Admin, 0)),
        Err(Denied::Taken(_))
    ));
    for bad in ["", "a b", "a\nb", "\u{1b}[31m", "../x", &"a".repeat(65)] {
        let error = book.add(user(bad, 3, Role::Read, 0)).unwrap_err();
        assert!(!error.to_string().contains(['\n', '\u{1b}']), "{error}");
    }
}

#[test]
fn a_join_token_lets_one_host_in_once() {
    let mut book = Book::default();
    book.add(join("j", 1, None)).unwrap();
    assert_eq!(book.may_join(&[1; 32], "box", &[5; 32], 20), Ok("j"));
    book.join(host("box", "j", 5));
    assert_eq!(
        book.may_join(&[1; 32], "rig", &[6; 32], 20),
        Err(Denied::Used)
    );
    assert_eq!(
        book.may_join(&[1; 32], "box", &[6; 32], 20),
        Err(Denied::Used)
    );
    // Its answer was lost: the same key again.
    assert_eq!(book.may_join(&[1; 32], "box", &[5; 32], 20), Ok("j"));
    book.revoke_host("box").unwrap();
    assert_eq!(
        book.may_join(&[1; 32], "box", &[5; 32], 20),
        Err(Denied::Used)
    );
    assert_eq!(book.user(&[1; 32], 20), Err(Denied::IsJoin));
}

#[test]
fn a_join_token_expires_and_may_be_for_one_host_only() {
    let mut book = Book::default();
    book.add(join("j", 1, Some("box"))).unwrap();
    book.add(user("ann", 2, Role::Admin, 0)).unwrap();
    assert_eq!(
        book.may_join(&[1; 32], "rig", &[5; 32], 20),
        Err(Denied::OtherHost)
    );
    assert_eq!(
        book.may_join(&[1; 32], "box", &[5; 32], 100),
        Err(Denied::Expired)
    );
    assert_eq!(
        book.may_join(&[2; 32], "box", &[5; 32], 20),
        Err(Denied::IsUser)
    );
    assert!(matches!(
        book.may_join(&[1; 32], "a/b", &[5; 32], 20),
        Err(Denied::BadName(_))
    ));
    // What has expired makes room.
    book.add(TokenEntry {
        created_ms: 200,
        expires_ms: 0,
        ..join("j", 3, None)
    })
    .unwrap();
}

#[test]
fn joining_again_ends_the_certificate_before() {
    let mut book = Book::default();
    book.join(host("box", "j", 5));
    assert!(book.host(&[5; 32]).is_some_and(|one| one.name == "box"));
    book.join(host("box", "k", 6));
    assert!(book.host(&[5; 32]).is_none());
    assert!(book.host(&[6; 32]).is_some());
    let kept = serde_json::to_string(&book).unwrap();
    assert_eq!(serde_json::from_str::<Book>(&kept).unwrap(), book);
}
