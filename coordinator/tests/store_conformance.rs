//! What every store must do, tried on the embedded one and on the one in memory, and history held against a plain
//! filter and sort over a list.

mod store_common;

use coordinator::store::{
    AttemptRecord, Batch, HistoryQuery, INLINE_MAX, MemoryStore, Reader, Record, Store, StoreError,
    SweepRecord,
};
use proptest::prelude::*;
use store_common::*;

fn on_both(check: impl Fn(&mut dyn Store)) {
    check(&mut MemoryStore::new());
    let data = tempfile::tempdir().unwrap();
    check(&mut open(data.path()));
}

#[test]
fn what_is_hot_is_loaded() {
    on_both(|store| {
        store.commit(&some_of_everything()).unwrap();
        let rehearsed = batch([rehearsal("ab12", "").into()]);
        store.commit(&rehearsed).unwrap();
        let nameless = batch([rehearsal("../x", "").into()]);
        assert!(matches!(
            store.commit(&nameless),
            Err(StoreError::Refused { .. })
        ));
        let loaded = store.load().unwrap();
        assert_eq!(loaded.newest_sweep, 2);
        assert_eq!(loaded.meta.version, coordinator::store::VERSION);
        assert!(loaded.heads.iter().map(|head| head.number).eq([1, 2]));
        assert!(loaded.heads.iter().all(|head| head.toml.is_empty()));
        assert_eq!(loaded.open.len(), 1);
        let open = &loaded.open[0];
        assert_eq!(open.sweep, sweep(1));
        assert!(open.attempts.iter().map(|attempt| attempt.trial).eq(1..=4));
        assert_eq!(
            (&open.rulings[..], &open.marks[..]),
            (&[ruling(1, 3, 1)][..], &[mark(1, 1)][..])
        );
        assert!(
            loaded
                .hosts
                .iter()
                .map(|host| host.name.as_str())
                .eq(["box", "rig"])
        );
        assert_eq!(loaded.observations, [observation(1)]);
        assert_eq!(loaded.rehearsals, [rehearsal("ab12", "")]);

        let settled = store.sweep(2).unwrap().unwrap();
        assert_eq!((settled.attempts.len(), settled.rulings.len()), (4, 0));
        assert_eq!(store.sweep(3).unwrap(), None);
        assert!(
            store
                .sweeps(1)
                .unwrap()
                .iter()
                .map(|head| head.number)
                .eq([2])
        );
        assert_eq!(store.sweeps(0).unwrap().len(), 2);
    });
}

#[test]
fn an_update_replaces_and_keeps_the_file() {
    on_both(|store| {
        store
            .commit(&batch([
                sweep(1).into(),
                host("rig").into(),
                ruling(1, 1, 1).into(),
            ]))
            .unwrap();
        let settled = SweepRecord {
            toml: Vec::new(),
            settled_ms: NOW,
            ..sweep(1)
        };
        let forget = Record::ForgetRuling {
            sweep: 1,
            trial: 1,
            kind: 1,
        };
        store
            .commit(&batch([
                settled.into(),
                Record::ForgetHost("rig".to_owned()),
                forget,
            ]))
            .unwrap();
        let found = store.sweep(1).unwrap().unwrap();
        assert_eq!(
            (found.sweep.toml, found.sweep.settled_ms),
            (sweep(1).toml, NOW)
        );
        assert!(found.rulings.is_empty());
        let loaded = store.load().unwrap();
        assert!(loaded.open.is_empty() && loaded.hosts.is_empty());
    });
}

#[test]
fn an_attempt_is_listed_once_whatever_happens_to_it() {
    on_both(|store| {
        let placed = attempt(1, 1, 2, 1, "rig", NOW);
        let started = AttemptRecord {
            started_ms: NOW + 1,
            ..placed.clone()
        };
        // Twice in one batch, and once more in the next; then as if it had been placed elsewhere.
        store
            .commit(&batch([placed.clone().into(), started.into()]))
            .unwrap();
        store
            .commit(&batch([ended(placed.clone(), "failed").into()]))
            .unwrap();
        let all = HistoryQuery::default();
        assert_eq!(
            store.history(&all).unwrap().attempts,
            [ended(placed.clone(), "failed")]
        );
        let moved = AttemptRecord {
            host: "box".to_owned(),
            placed_ms: NOW + 7,
            ..placed
        };
        store.commit(&batch([moved.clone().into()])).unwrap();
        assert_eq!(store.history(&all).unwrap().attempts, [moved]);
        let on = |host: &str| HistoryQuery {
            host: Some(host.to_owned()),
            ..HistoryQuery::default()
        };
        assert_eq!(store.history(&on("rig")).unwrap().attempts.len(), 0);
        assert_eq!(store.history(&on("box")).unwrap().attempts.len(), 1);
    });
}

#[test]
fn a_bad_record_is_refused_with_its_whole_batch() {
    let long = SweepRecord {
        toml: vec![b'#'; INLINE_MAX + 1],
        ..sweep(2)
    };
    let large = AttemptRecord {
        result: "x".repeat(1 << 20),
        ..attempt(1, 1, 1, 1, "rig", NOW)
    };
    let bad: [Record; 5] = [
        long.into(),
        large.into(),
        attempt(1, 0, 1, 1, "rig", NOW).into(),
        host("a\0b").into(),
        attempt(1, 1, 1, 1, "", NOW).into(),
    ];
    on_both(|store| {
        for bad in &bad {
            let error = store
                .commit(&batch([sweep(1).into(), bad.clone()]))
                .unwrap_err();
            assert!(matches!(error, StoreError::Refused { .. }), "{error}");
        }
        assert_eq!(store.load().unwrap().newest_sweep, 0);
        store.commit(&batch([sweep(1).into()])).unwrap();
    });
}

#[test]
fn files_go_where_they_fit() {
    on_both(|store| {
        for size in [10, INLINE_MAX, INLINE_MAX + 1, 1 << 20] {
            let file = vec![b'#'; size];
            let place = store.place_file(&file).unwrap();
            assert_eq!(place.blob.is_empty(), size <= INLINE_MAX);
            let record = SweepRecord {
                toml: place.toml,
                blob: place.blob,
                ..sweep(1)
            };
            store.commit(&batch([record.into()])).unwrap();
            let found = store.sweep(1).unwrap().unwrap().sweep;
            assert_eq!(store.file(&found).unwrap(), file);
            assert_eq!(store.reader().file(&found).unwrap(), file);
        }
    });
}

#[test]
fn a_page_token_that_is_none_is_refused() {
    on_both(|store| {
        for token in ["", "x", &"g".repeat(56), &"é".repeat(28)] {
            let query = HistoryQuery {
                page: Some(token.to_owned()),
                ..HistoryQuery::default()
            };
            assert!(
                matches!(store.history(&query), Err(StoreError::BadPage { .. })),
                "{token}"
            );
        }
    });
}

#[test]
fn a_search_for_what_is_rare_comes_back_in_bounded_steps() {
    let mut store = MemoryStore::new();
    let mut records = Batch::new();
    for trial in 1..=25_000 {
        records.push(
            ended(
                attempt(1, trial, 2, 1, "rig", NOW + u64::from(trial)),
                "succeeded",
            )
            .into(),
        );
    }
    records.push(ended(attempt(2, 1, 2, 1, "rig", NOW - 1), "gpu_oom").into());
    store.commit(&records).unwrap();
    let mut query = HistoryQuery {
        outcome: Some("gpu_oom".to_owned()),
        ..HistoryQuery::default()
    };
    let first = store.history(&query).unwrap();
    assert!(first.attempts.is_empty() && first.next.is_some());
    let mut pages = 1;
    let mut found = Vec::new();
    query.page = first.next;
    while query.page.is_some() {
        let page = store.history(&query).unwrap();
        found.extend(page.attempts);
        query.page = page.next;
        pages += 1;
    }
    assert_eq!((found.len(), pages), (1, 3));
}

const HOSTS: [&str; 3] = ["rig", "rig2", "box"];
const OUTCOMES: [&str; 3] = ["", "succeeded", "gpu_oom"];

prop_compose! {
    fn any_attempt()(
        sweep in 1_u64..4, trial in 1_u32..6, kind in 1_u32..4, number in 1_u32..3,
        host in 0..HOSTS.len(), outcome in 0..OUTCOMES.len(), placed in 0_u64..12,
        observed in any::<bool>(), simulated in any::<bool>(),
    ) -> AttemptRecord {
        AttemptRecord {
            outcome: OUTCOMES[outcome].to_owned(),
            observation: if observed { r#"{"rank":8}"#.to_owned() } else { String::new() },
            simulated,
            ..attempt(sweep, trial, kind, number, HOSTS[host], placed)
        }
    }
}

prop_compose! {
    fn any_query()(
        host in prop::option::of(0..HOSTS.len()), sweep in prop::option::of(1_u64..4),
        kind in prop::option::of(1_u32..4), outcome in prop::option::of(0..OUTCOMES.len()),
        since_ms in prop::option::of(0_u64..14), until_ms in prop::option::of(0_u64..14),
        limit in 1_usize..9, observed in any::<bool>(),
    ) -> HistoryQuery {
        HistoryQuery {
            host: host.map(|at| HOSTS[at].to_owned()),
            outcome: outcome.map(|at| OUTCOMES[at].to_owned()),
            sweep, kind, since_ms, until_ms, limit, observed, page: None,
        }
    }
}

type Key = (u64, u64, u32, u32, u32);

fn key(attempt: &AttemptRecord) -> Key {
    (
        u64::MAX - attempt.placed_ms,
        attempt.sweep,
        attempt.trial,
        attempt.kind,
        attempt.number,
    )
}

/// What history must give, the slow way.
fn plainly(attempts: &[AttemptRecord], query: &HistoryQuery) -> Vec<AttemptRecord> {
    let mut newest: Vec<AttemptRecord> = Vec::new();
    for attempt in attempts {
        newest.retain(|it| {
            (key(it).1, key(it).2, key(it).3, key(it).4)
                != (attempt.sweep, attempt.trial, attempt.kind, attempt.number)
        });
        newest.push(attempt.clone());
    }
    newest.retain(|it| {
        query.host.as_ref().is_none_or(|host| it.host == *host)
            && query.sweep.is_none_or(|sweep| it.sweep == sweep)
            && query.kind.is_none_or(|kind| it.kind == kind)
            && query
                .outcome
                .as_ref()
                .is_none_or(|outcome| it.outcome == *outcome)
            && (!query.observed || (it.observation.len() > 2 && !it.simulated))
            && query.since_ms.is_none_or(|since| it.placed_ms >= since)
            && query.until_ms.is_none_or(|until| it.placed_ms < until)
    });
    newest.sort_by_key(key);
    newest
}

fn page_through(store: &dyn Store, query: &HistoryQuery) -> Vec<AttemptRecord> {
    let mut query = query.clone();
    let mut found = Vec::new();
    loop {
        let page = store.history(&query).unwrap();
        assert!(page.attempts.len() <= query.limit);
        found.extend(page.attempts);
        query.page = page.next;
        if query.page.is_none() {
            return found;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn history_is_a_filter_and_a_sort(
        attempts in prop::collection::vec(any_attempt(), 0..60),
        queries in prop::collection::vec(any_query(), 12),
        group in 1_usize..20,
    ) {
        let data = tempfile::tempdir().unwrap();
        let mut stores: [Box<dyn Store>; 2] = [Box::new(MemoryStore::new()), Box::new(open(data.path()))];
        for store in &mut stores {
            for group in attempts.chunks(group) {
                store.commit(&batch(group.iter().cloned().map(Record::from))).unwrap();
            }
            for query in &queries {
                prop_assert_eq!(page_through(&**store, query), plainly(&attempts, query));
            }
        }
        drop(stores);
        // The database gives its lock back a moment after it was closed.
        let report = (0..200)
            .find_map(|_| {
                let report = coordinator::store::verify(data.path());
                if report.is_err() {
                    std::thread::sleep(std::time::Duration::from_millis(25));
                }
                report.ok()
            })
            .expect("the store can be verified");
        // There are attempts without their sweep: nothing else may be found.
        prop_assert!(report.problems.iter().all(|it| it.starts_with("sweep number")), "{:?}", report.problems);
    }
}
