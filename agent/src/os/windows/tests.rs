//! A Job Object and what goes through it, with this program's own processes: Windows' own calls are not pretended.

use std::process::Command;
use std::time::Duration;

use super::Reins;
use super::job::Job;
use super::processes::{open_to_watch, program_of, resident, started, wait};
use crate::attempt::Limits;
use crate::os::Woken;

/// Something that runs until it is ended.
fn sleeper() -> Command {
    let mut command = Command::new("cmd");
    command.args(["/c", "pause"]);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::null());
    command
}

#[test]
fn whoever_lets_go_of_a_job_ends_its_members() {
    let job = Job::new().unwrap();
    let mut child = sleeper().spawn().unwrap();
    job.put_in(&child).unwrap();
    assert_eq!((job.count(), job.members().first()), (1, Some(&child.id())));
    drop(job);
    assert!(wait(&child, Some(Duration::from_secs(20))));
    let _ = child.wait();
}

#[test]
fn a_program_is_in_its_job_and_ends_with_what_the_shepherd_says() {
    let mut reins = Reins::take().unwrap();
    let mut program = reins.start(&mut sleeper()).unwrap();
    assert!(program.process().started > 0);
    assert_eq!(
        reins.wait(&program, Duration::from_millis(300)),
        Woken::Time
    );
    assert!(reins.look(&program) > 0);
    assert_eq!(reins.count_rest(), 1);
    program.kill();
    assert_eq!(reins.wait(&program, Duration::from_secs(20)), Woken::Ended);
    assert_eq!(program.exit().unwrap().code, Some(137));
    assert!(!reins.left_something());
    assert!(reins.children_peak().is_some());
}

/// That Windows heeds them is not shown: Wine takes them and does not.
#[test]
fn limits_are_taken_and_told_again() {
    let mut reins = Reins::take().unwrap();
    assert_eq!(reins.contained(), None);
    let limits = Limits {
        memory: Some(vram::Bytes(256 << 20)),
        cpu_weight: None,
        processes: Some(8),
    };
    assert_eq!(reins.hold(&limits, &Default::default()), None);
    let seen = reins.contained().unwrap();
    assert_eq!(
        (seen.memory_limit, seen.process_limit),
        (limits.memory, Some(8))
    );
    assert!(!seen.was_out_of_memory() && seen.refused == 0);
}

#[test]
fn a_process_is_known_again_by_when_it_was_started() {
    let own = std::process::id();
    let handle = open_to_watch(own).unwrap();
    assert!(started(&handle).is_some_and(|at| at > 0));
    assert_eq!(started(&handle), started(&open_to_watch(own).unwrap()));
    assert!(resident(own).is_some_and(|(now, peak)| now > 0 && peak >= now));
    assert!(program_of(own).is_some_and(|path| path.ends_with(".exe")));
    assert!(!wait(&handle, Some(Duration::ZERO)));
}
