//! The rules of comparisons, one case each: all arms of a comparison train on one class of device.

mod schedule_world;

use schedule_world::{World, case};

#[test]
fn arms_go_to_one_class_although_another_is_faster_for_one() {
    // Arm 1 would end first on the large card, arm 2 fits only the middle ones.
    case(
        "
        host a: small 8000
        host b: middle.0 16000, middle.1 16000
        host c: large 24000 speed 9
        group 0: 6000 12000,large=?
        job 1/1/train 6000 group 0
        job 1/2/train 12000,large=? group 0
        1/1/train -> b/middle.
        1/2/train -> b/middle.
    ",
    );
}

#[test]
fn the_choice_of_class_is_reported() {
    let (world, _) = World::read(
        "
        host a: x 8000
        group 0: 6000 7000
        job 1/1/train 6000 group 0
        job 1/2/train 7000 group 0
    ",
    );
    let decision = coordinator::schedule::decide(&world.snapshot(), 0);
    let pins: Vec<&str> = decision
        .pins
        .iter()
        .map(|(_, class)| class.as_str())
        .collect();
    assert_eq!(pins, ["x"]);
}

#[test]
fn a_pinned_comparison_goes_nowhere_else() {
    case(
        "
        host a: x 8000 active 1 used 8000
        host b: y 8000
        group 0 pin x: 6000 7000
        job 1/1/train 6000 group 0
        1/1/train waits busy
    ",
    );
    // Nor does it end because the class is not here now.
    case(
        "
        host b: y 8000
        group 0 pin x: 6000
        job 1/1/train 6000 group 0
        1/1/train waits comparison_elsewhere
    ",
    );
    // An arm that cannot run on it ends, and says why.
    case(
        "
        host a: x 8000
        host b: y 9000
        group 0 pin x: 6000 8500
        job 1/2/train 8500 group 0
        1/2/train infeasible: its comparison trains on x: too large
    ",
    );
}

#[test]
fn arms_are_measured_before_a_class_is_chosen() {
    // Arm 2 is open on the only class: its probe goes first, and arm 1 does not start.
    case(
        "
        host a: x.0 8000, x.1 8000
        group 0: 6000 7900±200
        job 1/1/train 6000 group 0
        job 1/2/probe 7900±200 rehearse next 7900±200 group 0
        1/1/train waits waits_for_arms: 1 of the 2 arms of its comparison are still to be measured
        1/2/probe -> a/x.0 uncertain 8000
    ",
    );
}

#[test]
fn a_class_that_is_certain_for_all_needs_no_measuring() {
    case(
        "
        host a: x 8000 speed 9
        host b: y.0 16000, y.1 16000
        group 0: 6000 7900±200
        job 1/1/train 6000 group 0
        job 1/2/probe 7900±200 rehearse next 7900±200 group 0
        1/1/train -> b/y.0
        1/2/probe skipped: not needed: fits b y
    ",
    );
}

#[test]
fn a_probe_measures_where_its_comparison_can_train() {
    // Arm 1 is certain on x and too large for y; arm 2 fits y, which helps nobody, and is open on x.
    case(
        "
        host a: x 8000,
        host b: y 16000 speed 9
        group 0: 6000,y=20000 7900±200,y=7900±200
        job 1/1/train 6000,y=20000 group 0
        job 1/2/probe 7900±200,y=7900±200 rehearse next 7900±200,y=7900±200 group 0
        1/1/train waits waits_for_arms
        1/2/probe -> a/x uncertain 8000
    ",
    );
    case(
        "
        host a: x 8000 speed 1
        host b: y 16000 speed 9
        group 0 pin x: 6000 7900±200
        job 1/2/probe 6000 card next 7900±200 group 0
        1/2/probe -> a/x
    ",
    );
}

#[test]
fn a_probe_prefers_a_class_that_is_certain_for_all() {
    case(
        "
        host a: x 16000 speed 1
        host b: y 8000 speed 9
        group 0: 6000 7900±200
        job 1/2/probe 6000 card next 7900±200 group 0
        1/2/probe -> a/x
    ",
    );
}

#[test]
fn fitting_where_another_arm_is_open_does_not_spare_the_probe() {
    case(
        "
        host a: x 8000
        host b: y 8000
        group 0: 6000,y=7900±200 7900±200,y=6000
        job 1/1/probe 6000,y=7900±200 rehearse next 6000,y=7900±200 group 0
        job 1/2/probe 7900±200,y=6000 rehearse next 7900±200,y=6000 group 0
        1/1/probe -> b/y uncertain
        1/2/probe -> a/x uncertain
    ",
    );
}

#[test]
fn an_arm_that_fits_nowhere_does_not_hold_up_the_rest() {
    case(
        "
        host a: x.0 8000, x.1 8000
        group 0: 6000 7000 9000
        job 1/1/train 6000 group 0
        job 1/2/train 7000 group 0
        job 1/3/train 9000 group 0
        1/1/train -> a/x.0
        1/2/train -> a/x.1
        1/3/train infeasible: too large
    ",
    );
    // Nor one that was measured and stays too close to call.
    case(
        "
        host a: x.0 8000, x.1 8000
        group 0: 6000 7900±200
        job 1/1/train 6000 group 0
        job 1/2/train 7900±200 group 0
        1/1/train -> a/x.0
        1/2/train infeasible: too close to call
    ",
    );
    case(
        "
        host a: x 8000
        group 0: 6000 !7900±200
        job 1/1/train 6000 group 0
        1/1/train -> a/x
    ",
    );
}

#[test]
fn arms_without_a_common_class_do_not_wait_for_ever() {
    let text = "
        host a: x 8000
        host b: y 8000
        group 0: 6000,y=9000 6000,x=9000
        job 1/1/train 6000,y=9000 group 0
        job 1/2/train 6000,x=9000 group 0
    ";
    case(&format!(
        "{text}
        1/1/train -> a/x
        1/2/train waits comparison_elsewhere: its comparison trains on x
    "
    ));
    case(&format!(
        "{}
        1/1/train -> a/x
        1/2/train infeasible: its comparison trains on x
    ",
        text.replace("group 0:", "group 0 pin x:")
    ));
}

#[test]
fn a_class_whose_host_is_silent_is_waited_for() {
    // Both fit only there; starting one elsewhere would split the comparison.
    case(
        "
        host a: x 8000
        host b down: y 16000
        group 0: 6000 12000
        job 1/1/train 6000 group 0
        job 1/2/train 12000 group 0
        1/1/train waits host_silent
        1/2/train waits host_silent
    ",
    );
}

#[test]
fn a_class_that_others_hold_is_no_choice_while_another_is_free() {
    case(
        "
        host a: x 8000 held 2500 speed 9
        host b: y.0 8000, y.1 8000
        group 0: 5000 7000
        job 1/1/train 5000 group 0
        1/1/train -> b/y.0
    ",
    );
}

#[test]
fn bakes_go_to_the_class_that_trained() {
    case(
        "
        host a: x 8000, y 8000 speed 9
        group 0 pin x: 6000
        job 1/1/bake 6000 stay a group 0
        1/1/bake -> a/x
    ",
    );
}

#[test]
fn the_home_fleet_compares_like_with_like() {
    // The three equal cards together are through before the one fast card is; with two of them taken it is not so.
    case(
        "
        host box: 3070ti 7833 speed 4, 3060ti 7843 held 563 speed 3
        host win: 7900xtx 24560 spills speed 6
        host rig: 5060ti.0 15872 speed 4, 5060ti.1 15872 speed 4, 5060ti.2 15872 speed 4
        group 0: 12000±200 12100±200
        group 1: 7000±100 7200±100
        job 1/1/train 12000±200 group 0
        job 1/2/train 12100±200 group 0
        job 1/3/train 7000±100 group 1
        job 1/4/train 7200±100 group 1
        1/1/train -> rig/5060ti.0
        1/2/train -> rig/5060ti.1
        1/3/train waits busy: win 7900xtx is busy
        1/4/train -> win/7900xtx
    ",
    );
}
