//! The state machine, case by case and under any sequence of events.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use vram::{Bytes, Source, VerdictKind};

use super::*;
use crate::spec::{Axes, Place, ProbeMode, Retry, Spec, Stage};
use crate::{AttemptOutcome, Ending, Kind, Outcome, Params, Plan, SweepId, Trial};

fn stage(kind: Kind, after: Option<Kind>) -> Stage {
    Stage {
        kind,
        after,
        run: vec!["true".into()],
        time_limit: None,
        resume: true,
        probe: ProbeMode::Card,
        env: BTreeMap::new(),
        settings: Params::new(),
    }
}

fn sweep(trials: u32) -> Sweep {
    let spec = Spec {
        name: "t".into(),
        about: String::new(),
        seed: 1,
        seed_per_trial: false,
        priority: 0,
        model: None,
        recipe: Params::new(),
        axes: Axes::None,
        when: Vec::new(),
        stages: vec![
            stage(Kind::Probe, None),
            stage(Kind::Train, Some(Kind::Probe)),
            stage(Kind::Bake, Some(Kind::Train)),
        ],
        place: Place::default(),
        retry: Retry::default(),
        files: Vec::new(),
    };
    let trials = (1..=trials)
        .map(|index| Trial {
            index,
            params: Params::new(),
        })
        .collect();
    let plan = Plan {
        spec,
        trials,
        skipped: Vec::new(),
    };
    Sweep::new(SweepId::new("t", "s"), 1, plan)
}

fn placed(trial: u32, kind: Kind) -> Event {
    let placement = Placement {
        host: Arc::from("box"),
        generation: 1,
        devices: vec![Arc::from("gpu-0")],
        device_name: Arc::from("card"),
        host_class: Arc::from("card/linux"),
        simulated: false,
        grant: Bytes::from_mib(10.0),
        predicted: None,
        verdict: VerdictKind::Fits,
        source: Source::Computed,
    };
    Event::Placed {
        trial,
        kind,
        placement: Box::new(placement),
        at: 2,
    }
}

fn ended(sweep: &Sweep, trial: u32, kind: Kind, number: u32, outcome: AttemptOutcome) -> Event {
    Event::Ended {
        attempt: sweep.id.trial(trial).job(kind).attempt(number),
        at: 3,
        ending: Box::new(Ending::bare(outcome, "")),
    }
}

/// Places and ends the next attempt of a job.
fn run(sweep: &mut Sweep, kind: Kind, outcome: AttemptOutcome) {
    assert_eq!(sweep.apply(&placed(1, kind)), Ok(Applied::Changed));
    let number = sweep.job(1, kind).map_or(0, |job| job.attempts.len()) as u32;
    let event = ended(sweep, 1, kind, number, outcome);
    assert_eq!(sweep.apply(&event), Ok(Applied::Changed));
}

fn mark(kind: MarkKind, scope: Scope) -> Event {
    Event::Marked(Mark { kind, scope, at: 9 })
}

#[test]
fn a_trial_goes_from_stage_to_stage() {
    let mut s = sweep(1);
    assert_eq!(s.state(1, Kind::Train), Some(JobState::Blocked));
    assert!(s.apply(&placed(1, Kind::Train)).is_err());
    for kind in Kind::ALL {
        assert_eq!(s.state(1, kind), Some(JobState::Ready));
        run(&mut s, kind, AttemptOutcome::Succeeded);
    }
    assert_eq!(s.overall(), SweepState::Succeeded);
    assert_eq!(s.trial_outcome(1), Some(Outcome::Succeeded));
    assert_eq!(s.exit_code(), 0);
}

#[test]
fn what_follows_a_failure_is_skipped_all_the_way_down() {
    let mut s = sweep(1);
    run(&mut s, Kind::Probe, AttemptOutcome::Failed);
    assert_eq!(
        s.state(1, Kind::Train).and_then(|x| x.outcome()),
        Some(Outcome::Skipped)
    );
    assert_eq!(
        s.state(1, Kind::Bake).and_then(|x| x.outcome()),
        Some(Outcome::Skipped)
    );
    assert_eq!(s.overall(), SweepState::Failed);
    assert_eq!(s.trial_outcome(1), Some(Outcome::Failed));
}

#[test]
fn a_probe_that_is_not_needed_lets_training_start() {
    let mut s = sweep(1);
    let ruled = Event::Ruled {
        trial: 1,
        kind: Kind::Probe,
        outcome: Outcome::Skipped,
        reason: "fits".into(),
        at: 2,
    };
    assert_eq!(s.apply(&ruled), Ok(Applied::Changed));
    assert_eq!(s.apply(&ruled), Ok(Applied::Already));
    assert_eq!(s.state(1, Kind::Train), Some(JobState::Ready));
}

#[test]
fn retries_follow_the_kind_of_failure() {
    let mut s = sweep(1);
    for _ in 0..2 {
        run(&mut s, Kind::Probe, AttemptOutcome::GpuFault);
        assert_eq!(s.state(1, Kind::Probe), Some(JobState::Ready));
    }
    run(&mut s, Kind::Probe, AttemptOutcome::GpuFault);
    let settled = JobState::Settled(Outcome::GpuFault);
    assert_eq!(s.state(1, Kind::Probe), Some(settled));
}

#[test]
fn a_suspended_run_spends_no_retry() {
    let mut s = sweep(1);
    for _ in 0..10 {
        run(&mut s, Kind::Probe, AttemptOutcome::Suspended);
        assert_eq!(s.state(1, Kind::Probe), Some(JobState::Ready));
    }
}

#[test]
fn too_large_for_one_device_leaves_the_job_open() {
    let mut s = sweep(1);
    run(&mut s, Kind::Probe, AttemptOutcome::GpuOom);
    assert_eq!(s.state(1, Kind::Probe), Some(JobState::Ready));
}

#[test]
fn a_fenced_attempt_is_evidence_and_no_more() {
    let mut s = sweep(1);
    run(&mut s, Kind::Probe, AttemptOutcome::HostLost);
    assert_eq!(s.apply(&placed(1, Kind::Probe)), Ok(Applied::Changed));
    let late = ended(&s, 1, Kind::Probe, 1, AttemptOutcome::Succeeded);
    assert_eq!(s.apply(&late), Ok(Applied::Late));
    assert_eq!(s.apply(&late), Ok(Applied::Already));
    assert!(matches!(s.state(1, Kind::Probe), Some(JobState::Active(id)) if id.number == 2));
    let job = s.job(1, Kind::Probe).expect("a job");
    assert_eq!(job.attempts[0].late, Some(AttemptOutcome::Succeeded));
    assert!(job.succeeded().is_none());
}

#[test]
fn cancel_and_retry() {
    let mut s = sweep(2);
    run(&mut s, Kind::Probe, AttemptOutcome::Succeeded);
    assert_eq!(s.apply(&placed(1, Kind::Train)), Ok(Applied::Changed));
    assert_eq!(
        s.apply(&mark(MarkKind::Cancel, Scope::Sweep)),
        Ok(Applied::Changed)
    );
    assert_eq!(
        s.apply(&mark(MarkKind::Cancel, Scope::Sweep)),
        Ok(Applied::Already)
    );
    assert_eq!(
        s.overall(),
        SweepState::Running,
        "one attempt is still there"
    );
    let event = ended(&s, 1, Kind::Train, 1, AttemptOutcome::Cancelled);
    assert_eq!(s.apply(&event), Ok(Applied::Changed));
    assert_eq!(s.overall(), SweepState::Cancelled);
    assert_eq!(
        s.apply(&mark(MarkKind::Retry, Scope::Trial(1))),
        Ok(Applied::Changed)
    );
    assert_eq!(s.state(1, Kind::Train), Some(JobState::Ready));
    assert_eq!(
        s.state(1, Kind::Probe),
        Some(JobState::Settled(Outcome::Succeeded))
    );
    assert_eq!(
        s.state(2, Kind::Probe),
        Some(JobState::Settled(Outcome::Cancelled))
    );
}

#[test]
fn a_success_counts_even_when_cancelled_meanwhile() {
    let mut s = sweep(1);
    assert_eq!(s.apply(&placed(1, Kind::Probe)), Ok(Applied::Changed));
    let scope = Scope::Job(1, Kind::Probe);
    assert_eq!(
        s.apply(&mark(MarkKind::Cancel, scope)),
        Ok(Applied::Changed)
    );
    let event = ended(&s, 1, Kind::Probe, 1, AttemptOutcome::Succeeded);
    assert_eq!(s.apply(&event), Ok(Applied::Changed));
    let settled = JobState::Settled(Outcome::Succeeded);
    assert_eq!(s.state(1, Kind::Probe), Some(settled));
}

fn any_event() -> impl Strategy<Value = (u8, u32, u8, u32, u8)> {
    (0u8..7, 0u32..4, 0u8..3, 0u32..5, 0u8..12)
}

fn event_of(s: &Sweep, (what, trial, kind, number, pick): (u8, u32, u8, u32, u8)) -> Event {
    let kind = Kind::ALL[usize::from(kind)];
    let outcomes = AttemptOutcome::ALL;
    let outcome = outcomes[usize::from(pick) % outcomes.len()];
    let scope = match pick % 3 {
        0 => Scope::Sweep,
        1 => Scope::Trial(trial),
        _ => Scope::Job(trial, kind),
    };
    match what {
        0 | 1 => placed(trial, kind),
        2 => Event::Started {
            attempt: s.id.trial(trial).job(kind).attempt(number),
            at: 5,
        },
        3 | 4 => ended(s, trial, kind, number, outcome),
        5 => Event::Ruled {
            trial,
            kind,
            outcome: [Outcome::Infeasible, Outcome::Skipped][usize::from(pick % 2)],
            reason: String::new(),
            at: 4,
        },
        _ => mark(
            [MarkKind::Cancel, MarkKind::Retry][usize::from(pick % 2)],
            scope,
        ),
    }
}

proptest! {
    #[test]
    fn any_sequence_of_events_keeps_the_promises(events in prop::collection::vec(any_event(), 0..120)) {
        let mut s = sweep(3);
        for event in events {
            let event = event_of(&s, event);
            let before = s.clone();
            let answer = s.apply(&event);
            // The index over the states is what counting from the ground up says.
            prop_assert_eq!(s.tally(), &s.count());
            if answer != Ok(Applied::Changed) {
                prop_assert_eq!(s.tally(), before.tally());
            }
            for (trial, kind, job) in s.all_jobs() {
                let active = job.attempts.iter().filter(|one| one.is_active()).count();
                let counted = job.counted().filter(|one| one.outcome() == Some(AttemptOutcome::Succeeded)).count();
                prop_assert!(active <= 1 && counted <= 1);
                // A settled job stays as it is unless its user, or the retry of what it follows, reopens it.
                let was = before.state(trial, kind);
                let is = s.state(trial, kind);
                let marked = matches!(event, Event::Marked(_));
                if matches!(was, Some(JobState::Settled(_))) && !marked {
                    prop_assert_eq!(was, is);
                }
            }
            // The same event again changes nothing more, unless it places or marks anew.
            if !matches!(event, Event::Placed { .. } | Event::Marked(_)) && answer == Ok(Applied::Changed) {
                let once = s.tally().clone();
                let _ = s.apply(&event);
                prop_assert_eq!(s.tally(), &once);
            }
        }
    }

    #[test]
    fn replay_gives_the_same_state(events in prop::collection::vec(any_event(), 0..80)) {
        let (mut a, mut kept) = (sweep(3), Vec::new());
        for event in events {
            let event = event_of(&a, event);
            if matches!(a.apply(&event), Ok(Applied::Changed | Applied::Late)) {
                kept.push(event);
            }
        }
        let mut b = sweep(3);
        for event in &kept {
            let _ = b.apply(event);
        }
        for (trial, kind, _) in a.all_jobs() {
            prop_assert_eq!(a.state(trial, kind), b.state(trial, kind));
        }
    }
}
