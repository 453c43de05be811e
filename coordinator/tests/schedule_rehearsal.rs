//! What a job does while the rehearsal that would tell its size is on its way. How a case is written is said in
//! `schedule_world`.

mod schedule_world;

use schedule_world::case;

#[test]
fn what_is_uncertain_waits_for_its_rehearsal() {
    case(
        "
        host box: 3070ti 7833
        job 1/1/probe 7500±200 rehearse next 7700±200 rehearsed tower
        job 1/2/probe 7500±200 rehearse next 7701±200 rehearsed queued
        job 1/3/probe 7500±200 rehearse next 7702±200 rehearsed ?tower
        job 1/4/train 7703±200 rehearsed tower
        job 1/5/probe ? both next ? rehearsed tower
        1/1/probe waits rehearsing: waiting for the rehearsal of this recipe on tower
        1/2/probe waits rehearsal_queued: waiting for the rehearsal of this recipe, which no host has a CPU slot free for
        1/3/probe waits rehearsal_unknown: waiting until tower knows whether it can rehearse this recipe
        1/4/train waits rehearsing
        1/5/probe waits rehearsing
    ",
    );
}

#[test]
fn what_fits_does_not_wait() {
    case(
        "
        host box: 3070ti 7833
        host rig: 5060ti 15872
        job 1/1/probe 7000±200 rehearse next 7200±200 rehearsed tower
        job 1/2/train 7700±200 rehearsed tower
        job 1/3/probe 7000±200 both next 7200±200 rehearsed tower
        1/1/probe skipped: not needed: fits
        1/2/train -> rig/5060ti fits
        1/3/probe -> box/3070ti fits
    ",
    );
}

#[test]
fn nothing_is_infeasible_before_its_rehearsal_has_told() {
    case(
        "
        host box: 3070ti 7833
        job 1/1/train 9000±200 rehearsed tower
        1/1/train waits rehearsing
    ",
    );
    case(
        "
        host box: 3070ti 7833
        job 1/1/train 9000±200
        1/1/train infeasible
    ",
    );
}

/// A card that waits for nothing but a rehearsal is free for others meanwhile.
#[test]
fn a_waiting_job_keeps_no_device() {
    case(
        "
        host box: 3070ti 7833
        job 1/1/probe 7500±200 rehearse next 7700±200 rehearsed tower
        job 2/1/train 7000±100
        1/1/probe waits rehearsing
        2/1/train -> box/3070ti fits
    ",
    );
}
