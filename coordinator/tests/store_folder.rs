//! The data folder as a whole: one user at a time, versions, damage, backup and restore, verify, compact.

mod store_common;

use std::fs;
use std::path::Path;

use coordinator::store::{
    AttemptFiles, Backup, Channel, HistoryQuery, Loaded, MetaRecord, Reader, SledStore, Store,
    StoreError, SweepRecord, VerifyReport, compact, restore, verify,
};
use prost::Message;
use store_common::*;

/// With a file in a blob, an attachment and a log.
fn filled(data: &Path) -> Loaded {
    let mut store = open(data);
    store.commit(&some_of_everything()).unwrap();
    let place = store.place_file(&[b'#'; 20_000]).unwrap();
    let attachment = store.put_blob(b"{\"layers\": 26}").unwrap();
    let rehearsed = rehearsal("ab12", &attachment);
    store.commit(&batch([rehearsed.into()])).unwrap();
    let large = SweepRecord {
        toml: place.toml,
        blob: place.blob,
        attachments: [("config.json".to_owned(), attachment)].into(),
        ..sweep(3)
    };
    store.commit(&batch([large.into()])).unwrap();
    let id = "sweep-1/1/train/1".parse().unwrap();
    let mut files = AttemptFiles::new(data);
    files.append(&id, Channel::Log, 0, b"step 1\n").unwrap();
    files.close(&id).unwrap();
    store.load().unwrap()
}

fn all_attempts(store: &dyn Store) -> usize {
    store
        .history(&HistoryQuery::default())
        .unwrap()
        .attempts
        .len()
}

fn sound(data: &Path) -> VerifyReport {
    let report = verify(data).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    report
}

/// The engine's own view, to do damage to.
fn raw(data: &Path) -> sled::Db {
    sled::Config::new()
        .path(data.join("store"))
        .flush_every_ms(None)
        .open()
        .unwrap()
}

#[test]
fn a_second_coordinator_is_told_who_is_there() {
    let data = tempfile::tempdir().unwrap();
    let store = open(data.path());
    let error = SledStore::open(data.path(), NOW).err().unwrap();
    assert!(matches!(error, StoreError::InUse { .. }));
    let text = format!("failed to {error}");
    assert!(text.contains(&data.path().display().to_string()), "{text}");
    assert!(
        text.contains("stop that one, or give another folder with --data"),
        "{text}"
    );
    for tool in [verify(data.path()).err(), compact(data.path()).err()] {
        assert!(matches!(tool, Some(StoreError::InUse { .. })), "{tool:?}");
    }
    // A reader keeps the folder, too.
    let reader = store.reader();
    drop(store);
    assert!(SledStore::open(data.path(), NOW).is_err());
    drop(reader);
    open(data.path());
}

/// The database lets go of its lock on a thread of its own, on a busy machine a moment after the store has ended.
fn opened_soon(folder: &std::path::Path, now: u64) -> SledStore {
    for _ in 0..200 {
        if let Ok(store) = SledStore::open(folder, now) {
            return store;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    SledStore::open(folder, now).unwrap()
}

#[test]
fn a_store_has_a_name_for_life() {
    let data = tempfile::tempdir().unwrap();
    let first = open(data.path()).meta().unwrap();
    assert_eq!(
        (first.version, first.created_ms, first.store.len()),
        (coordinator::store::VERSION, NOW, 36)
    );
    assert_eq!(opened_soon(data.path(), NOW + 1).meta().unwrap(), first);
}

#[test]
fn a_newer_store_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let meta = MetaRecord {
        version: 99,
        ..open(data.path()).meta().unwrap()
    };
    let db = raw(data.path());
    db.insert(b"!", meta.encode_to_vec()).unwrap();
    db.flush().unwrap();
    drop(db);
    let error = SledStore::open(data.path(), NOW).err().unwrap();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }));
    assert!(
        error
            .to_string()
            .contains("has version 99, and this program knows versions up to 1"),
        "{error}"
    );
}

#[test]
fn a_folder_without_a_store_has_nothing_to_verify() {
    let data = tempfile::tempdir().unwrap();
    for error in [
        verify(data.path()).err(),
        verify(&data.path().join("x")).err(),
        compact(data.path()).err(),
    ] {
        assert!(
            matches!(error, Some(StoreError::Missing { .. })),
            "{error:?}"
        );
    }
    assert!(!data.path().join("x").exists());
    assert!(!data.path().join("store").exists());
}

#[test]
fn a_store_that_comes_up_empty_is_not_taken_for_a_new_one() {
    let data = tempfile::tempdir().unwrap();
    filled(data.path());
    fs::remove_dir_all(data.path().join("store")).unwrap();
    let error = SledStore::open(data.path(), NOW).err().unwrap();
    assert!(matches!(error, StoreError::Corrupt { .. }));
    assert!(
        error.to_string().contains("sweep coordinator restore"),
        "{error}"
    );
}

#[test]
fn a_log_that_lost_its_end_is_not_taken_for_the_whole() {
    let data = tempfile::tempdir().unwrap();
    filled(data.path());
    let db = data.path().join("store/db");
    let mut bytes = fs::read(&db).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used * 3 / 4] ^= 1;
    fs::write(&db, bytes).unwrap();
    let error = SledStore::open(data.path(), NOW).err().unwrap();
    assert!(
        error.to_string().contains("acknowledged commits the last"),
        "{error}"
    );
    // As the message says.
    fs::remove_file(data.path().join("store/commits")).unwrap();
    open(data.path());
}

#[test]
fn damage_is_reported_and_never_a_panic() {
    for seed in 0..24_usize {
        let data = tempfile::tempdir().unwrap();
        filled(data.path());
        let db = data.path().join("store/db");
        let mut bytes = fs::read(&db).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        match seed % 3 {
            0 => bytes.truncate(used * (seed + 1) / 25),
            _ => (0..40).for_each(|at| bytes[used * (at * 24 + seed) / 970] ^= 0x5a),
        }
        fs::write(&db, bytes).unwrap();
        if seed % 2 == 0 {
            let snap = fs::read_dir(data.path().join("store"))
                .unwrap()
                .map(|it| it.unwrap().path());
            snap.filter(|it| it.to_string_lossy().contains("snap."))
                .for_each(|it| fs::remove_file(it).unwrap());
        }
        // Any answer will do, so long as it is one.
        let _ = verify(data.path());
        let _ = SledStore::open(data.path(), NOW).map(|store| store.load().map(drop));
    }
}

#[test]
fn verify_finds_what_does_not_fit_together() {
    let data = tempfile::tempdir().unwrap();
    filled(data.path());
    let report = sound(data.path());
    assert_eq!(
        (report.sweeps, report.attempts, report.index_entries),
        (3, 8, 16)
    );
    assert_eq!((report.rulings, report.marks, report.hosts), (1, 1, 2));
    assert_eq!((report.observations, report.rehearsals), (1, 1));
    assert_eq!(report.blobs, 2);

    let db = raw(data.path());
    let first = |prefix: &[u8]| db.scan_prefix(prefix).next().unwrap().unwrap();
    db.remove(first(b"t").0).unwrap();
    db.remove(first(b"A").0).unwrap();
    db.insert(first(b"R").0, &b"\xff"[..]).unwrap();
    db.insert(b"Hother", first(b"H").1).unwrap();
    db.insert(b"?", b"?").unwrap();
    db.flush().unwrap();
    drop(db);
    let blobs = fs::read_dir(data.path().join("blobs")).unwrap();
    fs::remove_file(blobs.into_iter().next().unwrap().unwrap().path()).unwrap();
    let report = verify(data.path()).unwrap();
    for part in [
        "no index entry",
        "no such attempt",
        "another key",
        "of an unknown kind",
        "is missing or damaged",
    ] {
        assert!(
            report.problems.iter().any(|it| it.contains(part)),
            "{part}: {:?}",
            report.problems
        );
    }
    assert_eq!(report.problem_count, report.problems.len() as u64);
}

#[test]
fn a_backup_of_an_open_store_is_restored_whole() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let before = filled(&at("data"));
    let store = open(&at("data"));
    let report = store.backup(&at("backup"), Backup { logs: true }).unwrap();
    assert_eq!((report.blobs, report.log_files), (2, 1));
    assert!(matches!(
        store.backup(&at("backup"), Backup::default()),
        Err(StoreError::NotEmpty { .. })
    ));

    assert_eq!(restore(&at("backup"), &at("again")).unwrap(), report);
    assert!(matches!(
        restore(&at("backup"), &at("again")),
        Err(StoreError::NotEmpty { .. })
    ));
    assert!(matches!(
        restore(&at("nothing"), &at("other")),
        Err(StoreError::Missing { .. })
    ));
    sound(&at("again"));
    let again = open(&at("again"));
    assert_eq!(again.load().unwrap(), before);
    assert_eq!(all_attempts(&again), 8);
    let large = again.sweep(3).unwrap().unwrap().sweep;
    assert_eq!(again.file(&large).unwrap(), [b'#'; 20_000]);
    assert_eq!(
        fs::read(at("again/attempts/sweep-1/1/train/1/log")).unwrap(),
        b"step 1\n"
    );
    assert!(!at("again.part").exists() && !at("backup.part").exists());
}

#[test]
fn a_backup_that_is_not_whole_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    filled(&at("data"));
    open(&at("data"))
        .backup(&at("backup"), Backup::default())
        .unwrap();
    let records = at("backup/records");
    let whole = fs::read(&records).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for bad in [&whole[..whole.len() - 1], &whole[..20], &[], &flipped] {
        fs::write(&records, bad).unwrap();
        let error = restore(&at("backup"), &at("again")).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        assert!(!at("again").exists());
    }
}

#[test]
fn compact_keeps_everything_in_less_room() {
    let data = tempfile::tempdir().unwrap();
    filled(data.path());
    let mut store = open(data.path());
    for round in 0..300 {
        let rewritten =
            (1..=16).map(|trial| attempt(1, trial, 2, 1, "box", NOW + u64::from(trial)));
        let records = rewritten.map(|it| ended(it, &"x".repeat(round % 7 + 500)).into());
        store.commit(&batch(records)).unwrap();
    }
    let before = (store.load().unwrap(), all_attempts(&store));
    drop(store);
    let report = compact(data.path()).unwrap();
    assert!(report.bytes_after < report.bytes_before, "{report:?}");
    sound(data.path());
    let store = open(data.path());
    assert_eq!((store.load().unwrap(), all_attempts(&store)), before);
}

#[test]
fn a_crash_at_any_step_of_compact_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let before = filled(&folder.path().join("whole"));
    let store = folder.path().join("whole/store");
    // What is there of the new store, the store and the old store, in the order of the steps.
    let steps: [(&str, &[&str]); 4] = [
        ("half a new store", &["store", "store.new/half"]),
        ("a new store, whole", &["store", "store.new"]),
        ("the old one moved away", &["store.old", "store.new"]),
        ("the new one in place", &["store", "store.old"]),
    ];
    for (step, folders) in steps {
        let data = folder.path().join(step);
        for name in folders {
            if let Some(half) = name.strip_suffix("/half") {
                fs::create_dir_all(data.join(half)).unwrap();
                fs::write(data.join(half).join("db"), b"half").unwrap();
            } else {
                copy(&store, &data.join(name));
            }
        }
        copy(&folder.path().join("whole/blobs"), &data.join("blobs"));
        assert_eq!(open(&data).load().unwrap(), before, "{step}");
        sound(&data);
        assert!(
            !data.join("store.new").exists() && !data.join("store.old").exists(),
            "{step}"
        );
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn old_stores() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/old")
}

/// `cargo test -p coordinator --test store_folder keep_this_versions_store -- --ignored`, once for each release.
#[test]
#[ignore = "writes tests/old/vVERSION"]
fn keep_this_versions_store() {
    let kept = old_stores().join(concat!("v", env!("CARGO_PKG_VERSION")));
    assert!(!kept.exists(), "{} is there already", kept.display());
    let data = tempfile::tempdir().unwrap();
    filled(data.path());
    for name in ["store", "blobs", "attempts"] {
        copy(&data.path().join(name), &kept.join(name));
    }
    fs::copy(data.path().join("store.id"), kept.join("store.id")).unwrap();
}

#[test]
fn old_stores_open() {
    let mut opened = 0;
    for kept in fs::read_dir(old_stores()).unwrap() {
        let data = tempfile::tempdir().unwrap();
        copy(&kept.unwrap().path(), data.path());
        let store = open(data.path());
        let loaded = store.load().unwrap();
        assert_eq!(
            (loaded.newest_sweep, loaded.open.len(), loaded.hosts.len()),
            (3, 2, 2)
        );
        assert_eq!(all_attempts(&store), 8);
        let large = store.sweep(3).unwrap().unwrap().sweep;
        assert_eq!(store.file(&large).unwrap(), [b'#'; 20_000]);
        drop(store);
        sound(data.path());
        opened += 1;
    }
    assert!(opened > 0);
}
