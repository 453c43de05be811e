use super::*;

fn user(name: &str, byte: u8, role: Role, expires_ms: u64) -> TokenEntry {
    TokenEntry {
        name: name.into(),
        digest: [byte; 32].into(),
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
    book.add(user("eve", 4, Role::Admin, 0)).unwrap();
    assert_eq!(book.user(&[1; 32].into(), 49), Ok(("ann", Role::Submit)));
    assert_eq!(book.user(&[1; 32].into(), 50), Err(Denied::Expired));
    assert_eq!(
        book.user(&[2; 32].into(), u64::MAX),
        Ok(("ben", Role::Admin))
    );
    assert_eq!(book.user(&[3; 32].into(), 1), Err(Denied::Unknown));
    book.revoke_token("ben", 1).unwrap();
    assert_eq!(book.user(&[2; 32].into(), 1), Err(Denied::Unknown));
    assert!(matches!(
        book.revoke_token("ben", 1),
        Err(Denied::NoSuch(_))
    ));
}

#[test]
fn rotating_ends_the_old_text_and_keeps_the_time_it_lasts() {
    let mut book = Book::default();
    book.add(user("ann", 1, Role::Read, 50)).unwrap();
    let entry = book.rotate("ann", [9; 32].into(), 0, 100).unwrap();
    assert_eq!((entry.created_ms, entry.expires_ms), (100, 140));
    assert_eq!(book.user(&[1; 32].into(), 101), Err(Denied::Unknown));
    assert_eq!(book.user(&[9; 32].into(), 101), Ok(("ann", Role::Read)));
    assert_eq!(
        book.rotate("ann", [8; 32].into(), 7, 100)
            .unwrap()
            .expires_ms,
        107
    );
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
    assert_eq!(book.may_join(&[1; 32].into(), "box", &[5; 32], 20), Ok("j"));
    book.join(host("box", "j", 5));
    assert_eq!(
        book.may_join(&[1; 32].into(), "rig", &[6; 32], 20),
        Err(Denied::Used)
    );
    assert_eq!(
        book.may_join(&[1; 32].into(), "box", &[6; 32], 20),
        Err(Denied::Used)
    );
    // Its answer was lost: the same key again.
    assert_eq!(book.may_join(&[1; 32].into(), "box", &[5; 32], 20), Ok("j"));
    book.revoke_host("box").unwrap();
    assert_eq!(
        book.may_join(&[1; 32].into(), "box", &[5; 32], 20),
        Err(Denied::Used)
    );
    assert_eq!(book.user(&[1; 32].into(), 20), Err(Denied::IsJoin));
}

#[test]
fn a_join_token_expires_and_may_be_for_one_host_only() {
    let mut book = Book::default();
    book.add(join("j", 1, Some("box"))).unwrap();
    book.add(user("ann", 2, Role::Admin, 0)).unwrap();
    assert_eq!(
        book.may_join(&[1; 32].into(), "rig", &[5; 32], 20),
        Err(Denied::OtherHost)
    );
    assert_eq!(
        book.may_join(&[1; 32].into(), "box", &[5; 32], 100),
        Err(Denied::Expired)
    );
    assert_eq!(
        book.may_join(&[2; 32].into(), "box", &[5; 32], 20),
        Err(Denied::IsUser)
    );
    assert!(matches!(
        book.may_join(&[1; 32].into(), "a/b", &[5; 32], 20),
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

#[test]
fn the_last_token_that_may_make_others_stays() {
    let mut book = Book::default();
    book.add(user("owner", 1, Role::Admin, 0)).unwrap();
    book.add(user("ann", 2, Role::Submit, 0)).unwrap();
    book.add(user("short", 3, Role::Admin, 50)).unwrap();
    let refused = book.revoke_token("owner", 60).unwrap_err();
    assert_eq!(refused, Denied::LastAdmin("owner".into()));
    let said = refused.to_string();
    assert!(said.contains("token create NAME --role admin"), "{said}");
    // What has expired lets nobody in, so it may go and does not stand for another.
    book.revoke_token("short", 60).unwrap();
    book.revoke_token("ann", 60).unwrap();
    book.add(user("eve", 4, Role::Admin, 0)).unwrap();
    book.revoke_token("owner", 60).unwrap();
    assert!(book.revoke_token("eve", 60).is_err());
}

#[test]
fn tokens_are_compared_whole_and_all_of_them() {
    for place in [0, 15, 31] {
        let mut other = [7; 32];
        other[place] ^= 1;
        assert!(TokenDigest::from(other) != TokenDigest::from([7; 32]));
    }
    assert!(TokenDigest::from([7; 32]) == TokenDigest::from([7; 32]));
    // The first, the last, none: the same work.
    let all = [1, 2, 3, 4];
    for (wanted, found) in [(1, Some(&1)), (4, Some(&4)), (9, None)] {
        let mut looked = 0;
        let is_it = |one: &i32| {
            looked += 1;
            *one == wanted
        };
        assert_eq!(among_all(&all, is_it), found);
        assert_eq!(looked, all.len());
    }
    // Nothing else can compare two of them: the bytes are private to the type, which compares by `subtle` alone.
    let source = include_str!("../book.rs");
    assert_eq!(source.matches("ct_eq").count(), 1);
    assert!(!format!("{:?}", TokenDigest::from([7; 32])).contains('7'));
}
