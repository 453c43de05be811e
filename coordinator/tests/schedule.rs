//! The rules of placement, one case each: hosts, jobs, and what becomes of each job. How a case is written is said in
//! `schedule_world`. The order of the queue is in
//! `schedule_rank`, comparisons are in `schedule_compare`.

mod schedule_world;

use schedule_world::case;

const HOME: &str = "
    host box: 3070ti 7833 speed 4, 3060ti 7843 held 563 speed 3
    host win: 7900xtx 24560 spills speed 6
    host rig: 5060ti.0 15872 speed 4, 5060ti.1 15872 speed 4, 5060ti.2 15872 speed 4
";

fn home(jobs: &str) {
    case(&format!("{HOME}{jobs}"));
}

#[test]
fn what_fits_is_granted_its_need_and_band() {
    case(
        "
        host a: x 8000
        job 1/1/train 7000±100
        1/1/train -> a/x fits 7100
    ",
    );
}

#[test]
fn the_band_counts() {
    case("
        host a: x 8000
        job 1/1/train 7950±100
        1/1/train infeasible: too close to call on a x: needs 7950 ± 100 of 8000 MiB (computed); add a [probe] stage
    ");
}

#[test]
fn too_large_everywhere_is_infeasible_with_the_best_candidate() {
    case("
        host a: x 8000, y 9000 spills
        job 1/1/train 9500±100
        1/1/train infeasible: too large for every known device: the best, a y, has 9000 MiB of 9500 ± 100 MiB (computed), which would spill
    ");
}

/// Not even where it would page: what offloads is never started, as it would only be slow.
#[test]
fn a_bake_that_would_run_partly_on_the_cpu_is_not_started() {
    case("
        host a: x 8000, y 9000 spills
        job 1/1/bake 9500±100!
        job 1/2/bake 8500±100!
        1/1/bake infeasible: too large for every known device: the best, a y, has 9000 MiB of 9500 ± 100 MiB (computed), and would run partly on the CPU
        1/2/bake -> a/y fits 8600
    ");
}

#[test]
fn nothing_is_infeasible_while_hosts_may_still_register() {
    case(
        "
        unsettled
        host a: x 8000
        job 1/1/train 9500
        job 1/2/train 7950±100
        1/1/train waits fleet_settling
        1/2/train waits fleet_settling
    ",
    );
}

#[test]
fn a_full_device_makes_nothing_infeasible() {
    case(
        "
        host a: x 8000 used 7000 active 1, y 8000 held 5000
        job 1/1/train 7000
        1/1/train waits busy
    ",
    );
    case(
        "
        host a: y 8000 held 5000
        job 1/1/train 7000
        1/1/train waits held_by_others: needs 7000 MiB on a y, where others hold 5000 of 8000 MiB
    ",
    );
}

#[test]
fn reserved_room_is_not_given_twice() {
    case("
        host a: x 8000 slots 3
        job 1/1/train 5000
        job 1/2/train 5000
        1/1/train -> a/x fits 5000
        1/2/train waits reserved: needs 5000 MiB on a x, where running attempts have 5000 MiB and 3000 MiB are free
    ");
}

#[test]
fn slots_are_a_limit_too() {
    case(
        "
        host a: x 8000 slots 2
        job 1/1/train 100
        job 1/2/train 100
        job 1/3/train 100
        1/1/train -> a/x
        1/2/train -> a/x
        1/3/train waits busy: a x is busy with 2 attempts
    ",
    );
}

#[test]
fn silent_drained_and_quarantined_devices_get_nothing_but_are_candidates() {
    case(
        "
        host a down: x 8000
        job 1/1/train 7000
        1/1/train waits host_silent
    ",
    );
    case(
        "
        host a drained: x 8000
        job 1/1/train 7000
        1/1/train waits drained
    ",
    );
    case(
        "
        host a: x 8000 sick
        job 1/1/train 7000
        1/1/train waits quarantined: a x is in quarantine: two faults
    ",
    );
}

#[test]
fn labels_pins_and_kinds_limit_where_a_job_goes() {
    case(
        "
        host a: x 8000
        host b +data: x 8000, cpu 64000
        job 1/1/train 1000 +data gpu
        job 1/2/train 1000 +gold
        job 1/3/train 1000 cpu
        job 1/4/train 1000 host a
        job 1/5/train 1000 host c
        job 1/6/train 1000 host a cpu
        1/1/train -> b/x
        1/2/train waits missing_label: no host has the label `gold`
        1/3/train -> b/cpu
        1/4/train -> a/x
        1/5/train waits no_such_host: no host `c` is known
        1/6/train waits no_device: no host that may take it has a CPU device
    ",
    );
    case(
        "
        job 1/1/train 1000
        1/1/train waits no_host
    ",
    );
}

#[test]
fn earlier_work_holds_a_job_and_a_checkpoint_draws_it() {
    case(
        "
        host a: x 8000 speed 10
        host b: x 8000 speed 1
        job 1/1/bake 1000 stay b
        1/1/bake -> b/x
    ",
    );
    case(
        "
        host a: x 8000 speed 10
        host b: y 8000 speed 9
        job 1/1/train 1000 prefer b
        1/1/train -> b/y
    ",
    );
    case(
        "
        host a: x 8000 speed 10
        host b: y 8000 speed 2
        job 1/1/train 1000 prefer b
        1/1/train -> a/x
    ",
    );
}

#[test]
fn where_it_ran_out_of_memory_it_does_not_go_again() {
    case(
        "
        host a: x 8000
        host b: y 8000
        job 1/1/train 7000 avoid a/x
        job 1/2/train 7000 avoid a/x avoid b/y
        1/1/train -> b/y
        1/2/train infeasible: ran out of memory on a x, b y
    ",
    );
    case("
        host a: x 8000, y 6000
        job 1/1/train 7000 avoid a/x
        1/1/train infeasible: too large for every known device: the best, a y, has 6000 MiB of 7000 MiB (computed); ran out of memory on 1 other
    ");
}

#[test]
fn a_retry_waits_for_its_time() {
    case(
        "
        host a: x 8000
        job 1/1/train 7000 after 2000
        job 1/2/train 7000 after 1000
        1/1/train waits backoff
        1/2/train -> a/x
    ",
    );
}

#[test]
fn a_program_of_unknown_size_takes_a_device_whole() {
    case(
        "
        host a: cpu 8000 held 1000 slots 4
        job 1/1/train ? whole
        job 1/2/train ? whole
        1/1/train -> a/cpu uncertain 7000
        1/2/train waits not_alone
    ",
    );
    case(
        "
        host a: cpu 8000 slots 4
        job 1/1/train 1000 whole
        job 1/2/train 1000 whole
        1/1/train -> a/cpu fits 1000
        1/2/train -> a/cpu fits 1000
    ",
    );
    case("
        host a: cpu 8000 slots 4
        job 1/1/train ?
        1/1/train infeasible: nothing is known of its memory on a cpu; add a [probe] stage, or say memory =
    ");
}

#[test]
fn a_rehearsing_probe_runs_only_where_its_question_is_open() {
    // Fits somewhere: not needed.
    home(
        "
        job 1/1/probe 7000±300 rehearse next 7000±300
        1/1/probe skipped: not needed: fits box 3070ti by computed: need 7000 ± 300 of 7833 MiB
    ",
    );
    // Open on one card only, where others hold too much on its twin.
    case(
        "
        host box: 3060ti 7843 held 563, 3070ti 7833
        job 1/1/probe 7500±200 rehearse next 7700±200
        1/1/probe -> box/3070ti uncertain 7833
    ",
    );
    case("
        host box: 3070ti 7833
        job 1/1/probe 9000±200 rehearse next 9500±200
        1/1/probe infeasible: too large for every known device: the best, box 3070ti, has 7833 MiB of 9500 ± 200 MiB
    ");
    // Nothing is known: measured.
    case(
        "
        host a: cpu 8000 slots 2
        job 1/1/probe ? rehearse next ?
        1/1/probe -> a/cpu uncertain 8000
    ",
    );
}

#[test]
fn a_probe_for_the_card_always_runs_and_none_never() {
    case(
        "
        host a: x 8000, y 8000
        job 1/1/probe 7000±100 card next 7000±100
        job 1/2/probe 7900±200 both next 7000±100
        job 1/3/probe 7000 none next 7000
        1/1/probe -> a/x fits 7100
        1/2/probe -> a/y uncertain 8000
        1/3/probe skipped
    ",
    );
}

#[test]
fn an_uncertain_probe_has_the_device_to_itself() {
    case(
        "
        host a: x 8000 slots 2 active 1 used 100
        job 1/1/probe 7900±200 rehearse next 7900±200
        1/1/probe waits not_alone: needs a x to itself, where 1 attempt runs
    ",
    );
}

#[test]
fn several_devices_of_one_host() {
    case(
        "
        host a: x.0 8000, x.1 8000
        host b: y.0 8000, y.1 8000 held 3000, y.2 8000
        job 1/1/train 7000±100 gpus 2
        job 1/2/train 7000±100 gpus 2
        job 1/3/train 7000 gpus 3
        1/1/train -> a/x.0+x.1 fits 7100
        1/2/train -> b/y.0+y.2 fits 7100
        1/3/train waits
    ",
    );
    case(
        "
        host a: x.0 8000, x.1 8000
        job 1/1/train 7000 gpus 3
        1/1/train waits too_few_devices: needs 3 equal devices of one host, and a has 2 for it
    ",
    );
    case(
        "
        host a: x.0 8000, x.1 6000
        job 1/1/train 7000 gpus 2
        1/1/train infeasible
    ",
    );
    // Never two unequal ones.
    case(
        "
        host a: x 8000, y.0 8000, y.1 8000
        job 1/1/train 7000 gpus 2
        1/1/train -> a/y.0+y.1
    ",
    );
    // What is measured has all of them to itself, also where its grant is less than the room.
    case(
        "
        host a: x.0 8000 slots 2, x.1 9000 slots 2
        job 1/1/train ? whole gpus 2
        job 1/2/probe 500 card
        1/1/train -> a/x.0+x.1 uncertain 8000
        1/2/probe waits
    ",
    );
}

#[test]
fn a_job_of_several_devices_is_not_passed_for_ever() {
    case(
        "
        host a: x.0 8000 active 1 used 8000 until 9000, x.1 8000
        job 1/1/train 7000 gpus 2
        job 2/1/train 7000
        1/1/train waits busy
        2/1/train waits kept_for
    ",
    );
}
