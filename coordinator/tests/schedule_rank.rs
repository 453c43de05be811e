//! Who goes first, and where: scarce devices, the order of the queue, speed, and that nobody waits for ever. How a
//! case is written is said in `schedule_world`.

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
fn what_fits_only_the_large_card_gets_it() {
    // The older sweep's job could have it and would end sooner there, but it has the small one too.
    case(
        "
        host a: small 8000 speed 1
        host b: large 24000 speed 9
        job 1/1/train 6000
        job 2/1/train 20000
        1/1/train -> a/small
        2/1/train -> b/large
    ",
    );
    // Even when the small one is busy.
    case(
        "
        host a: small 8000 active 1 used 6000
        host b: large 24000
        job 1/1/train 6000
        job 2/1/train 20000
        1/1/train waits busy
        2/1/train -> b/large
    ",
    );
    // A higher priority does not spoil it either, while it has a choice.
    case(
        "
        host a: small 8000 speed 1
        host b: large 24000 speed 9
        job 1/1/train 6000 prio 5
        job 2/1/train 20000
        1/1/train -> a/small
        2/1/train -> b/large
    ",
    );
}

#[test]
fn no_device_idles_that_nobody_needs() {
    case(
        "
        host a: small 8000 speed 1
        host b: large 24000 speed 9
        job 1/1/train 6000
        job 1/2/train 6000
        1/1/train -> b/large
        1/2/train -> a/small
    ",
    );
}

#[test]
fn priority_goes_before_choice() {
    case(
        "
        host b: large 24000
        job 1/1/train 20000
        job 2/1/train 6000 prio 1
        1/1/train waits busy
        2/1/train -> b/large
    ",
    );
}

#[test]
fn what_can_go_anywhere_is_not_passed_for_ever() {
    // Sweep 9 is too far behind sweep 1 to go first, although it has less choice.
    case(
        "
        host a: small 8000 active 1 used 8000
        host b: large 24000
        job 1/1/train 6000
        job 9/1/train 20000
        1/1/train -> b/large
        9/1/train waits busy
    ",
    );
}

#[test]
fn small_jobs_do_not_fill_up_a_device_for_ever() {
    case("
        host a: x 8000 slots 4 used 3000 active 1
        job 1/1/train 7000
        job 2/1/train 1000
        1/1/train waits reserved
        2/1/train waits kept_for: a x is kept for trial 1 of sweep 1 (train), which is ahead and needs it
    ");
}

#[test]
fn begun_work_is_finished_first() {
    case(
        "
        host a: x 8000
        job 1/1/probe 1000 card
        job 1/2/train 1000
        job 2/1/bake 1000
        1/1/probe waits busy
        1/2/train waits busy
        2/1/bake -> a/x
    ",
    );
}

#[test]
fn of_equally_fast_devices_the_smallest_that_is_large_enough() {
    case(
        "
        host a: x 9000, y 8000, z 7000
        job 1/1/train 7500
        1/1/train -> a/y
    ",
    );
}

#[test]
fn the_device_where_it_ends_first() {
    // By what was measured, else by speed, and an idle device before a shared one.
    case(
        "
        host a: x 8000 speed 9, y 8000 speed 1
        job 1/1/train 1000~2,y=1000~1
        1/1/train -> a/y
    ",
    );
    case(
        "
        host a: x 8000 speed 1, y 8000 speed 2
        job 1/1/train 1000
        1/1/train -> a/y
    ",
    );
    case(
        "
        host a: x 8000 slots 4, y 9000 slots 4
        job 1/1/train 1000
        job 1/2/train 1000
        1/1/train -> a/x
        1/2/train -> a/y
    ",
    );
}

#[test]
fn the_home_fleet_works_in_parallel() {
    home("
        job 1/1/train 7000±100
        job 1/2/train 7300±100
        job 1/3/train 12000±200
        job 1/4/train 20000±400
        job 1/5/train 30000±400
        job 1/6/train 7700±100
        1/1/train -> rig/5060ti.2
        1/2/train -> box/3070ti
        1/3/train -> rig/5060ti.0
        1/4/train -> win/7900xtx
        1/5/train infeasible: too large for every known device: the best, win 7900xtx, has 24560 MiB of 30000 ± 400 MiB
        1/6/train -> rig/5060ti.1
    ");
}
