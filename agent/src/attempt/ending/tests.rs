//! What each ending is called, and what its sentence says.

use super::*;
use crate::attempt::Contained;

struct Case {
    facts: Facts,
    log: &'static str,
    report: &'static str,
    cpu: bool,
    faults: &'static [&'static str],
}

fn exit(code: i32) -> Case {
    let facts = Facts {
        exit: Some(code),
        peak_resident: Some(64 << 20),
        ..Facts::default()
    };
    Case {
        facts,
        log: "",
        report: "",
        cpu: false,
        faults: &[],
    }
}

fn signal(signal: i32) -> Case {
    let mut case = exit(0);
    (case.facts.exit, case.facts.signal) = (None, Some(signal));
    case
}

fn end(case: Case) -> (&'static str, String, Ending) {
    let report = Report::read(case.report.as_bytes()).unwrap();
    let ending = classify(&Evidence {
        facts: &case.facts,
        faults: &case
            .faults
            .iter()
            .map(|one| (*one).to_owned())
            .collect::<Vec<_>>(),
        log: case.log,
        report: &report,
        resident_counts: case.cpu,
        time_limit_ms: 90_000,
    });
    (ending.outcome.as_str(), ending.detail.clone(), ending)
}

#[test]
fn success_takes_the_result_and_tells_of_broken_lines() {
    let (outcome, detail, ending) = end(Case {
        report: "{\"result\": {\"score\": 0.9}}\nnope\n",
        ..exit(0)
    });
    assert_eq!(
        (outcome, detail.as_str()),
        (
            "succeeded",
            "1 line of the report is not a JSON object (line 2: nope)"
        )
    );
    assert_eq!(ending.result, Some(serde_json::json!({"score": 0.9})));
}

#[test]
fn a_cpu_peak_is_measured_and_a_gpu_peak_is_reported() {
    let report = "{\"memory\": {\"peak_allocated_mib\": 9000, \"peak_reserved_mib\": 9100}}";
    let (_, _, cpu) = end(Case {
        report,
        cpu: true,
        ..exit(0)
    });
    assert_eq!(
        (cpu.peaks.allocated, cpu.peaks.reserved),
        (Some(Bytes(64 << 20)), None)
    );
    let (_, _, gpu) = end(Case { report, ..exit(0) });
    assert_eq!(gpu.peaks.allocated, Some(Bytes::from_mib(9000.0)));
    assert_eq!(gpu.peaks.resident, Some(Bytes(64 << 20)));
}

#[test]
fn out_of_device_memory_has_its_numbers() {
    let log = "step 3\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 70.00 MiB. GPU 0 has a total \
        capacity of 7.65 GiB of which 20.00 MiB is free. Of the allocated memory 6.00 GiB is allocated by PyTorch, \
        and 512.00 MiB is reserved by PyTorch but unallocated.\n";
    let (outcome, detail, ending) = end(Case { log, ..exit(1) });
    assert_eq!(outcome, "gpu_oom");
    assert!(
        detail.contains("wanted 70.0 MiB more (6144.0 MiB allocated"),
        "{detail}"
    );
    assert_eq!(ending.peaks.reserved, Some(Bytes::from_mib(6656.0)));
    let observation = ending.observation.unwrap();
    assert_eq!(observation["oom_wanted_mib"], 70.0);
    assert!(observation["oom_free_mib"].is_number());
    assert_eq!(
        end(Case {
            log,
            cpu: true,
            ..exit(1)
        })
        .0,
        "failed"
    );
    assert_eq!(end(Case { log, ..exit(0) }).0, "succeeded");
    assert_eq!(
        end(Case {
            log: "HIP out of memory. Tried",
            ..exit(1)
        })
        .0,
        "gpu_oom"
    );
}

#[test]
fn spilling_counts_even_when_it_ended_well() {
    let report = "{\"memory\": {\"spilled\": true}}\n{\"result\": {}}";
    assert_eq!(end(Case { report, ..exit(0) }).0, "spilled");
    // Seen from outside.
    let faults =
        &["spilled: the card was full, and 4864 MiB more than before lay in the system's memory"];
    let (outcome, what, _) = end(Case { faults, ..exit(0) });
    assert_eq!(outcome, "spilled");
    assert!(
        what.contains("slower (the card was full, and 4864 MiB"),
        "{what}"
    );
}

#[test]
fn faults_and_assertions_differ() {
    let log = "RuntimeError: CUDA error: an illegal memory access was encountered\n";
    assert_eq!(end(Case { log, ..exit(1) }).0, "gpu_fault");
    let log = "RuntimeError: CUDA error: device-side assert triggered\n";
    assert_eq!(end(Case { log, ..exit(1) }).0, "failed");
}

#[test]
fn what_the_driver_reported_explains_a_failure_and_no_success() {
    let faults = &["Xid 31: an illegal memory access"];
    let with = |case: Case| end(Case { faults, ..case });
    let (outcome, detail, _) = with(exit(1));
    assert_eq!(outcome, "gpu_fault");
    assert_eq!(
        detail,
        "the device failed: Xid 31: an illegal memory access"
    );
    assert_eq!(with(exit(0)).0, "succeeded");
    assert_eq!(
        with(Case {
            cpu: true,
            ..exit(1)
        })
        .0,
        "failed"
    );
    let log = "CUDA out of memory. Tried to allocate 2.00 GiB";
    assert_eq!(with(Case { log, ..exit(1) }).0, "gpu_oom");
    let mut ended = signal(15);
    ended.facts.why = Some(Why::DeviceFault);
    let (outcome, detail, _) = end(Case {
        faults: &["Xid 79: off the bus", "it fell off the bus"],
        ..ended
    });
    assert_eq!(outcome, "gpu_fault");
    assert_eq!(
        detail,
        "the device failed: Xid 79: off the bus; it fell off the bus"
    );
}

#[test]
fn exit_codes_and_signals() {
    assert_eq!(end(exit(75)).0, "interrupted");
    let (outcome, detail, _) = end(Case {
        log: "a\nno such column\n\n",
        ..exit(64)
    });
    assert_eq!(
        (outcome, detail.as_str()),
        (
            "failed",
            "it refused its input (exit 64); last line: no such column"
        )
    );
    assert!(end(signal(11)).1.contains("signal 11 (SIGSEGV)"));
    assert_eq!(end(signal(9)).0, "failed");
    let mut killed = signal(9);
    killed.facts.oom_kill = true;
    let (outcome, detail, _) = end(killed);
    assert_eq!(
        (outcome, detail.as_str()),
        (
            "host_oom",
            "the kernel killed it for want of host memory with 64.0 MiB resident"
        )
    );
}

#[test]
fn a_limit_of_host_memory_is_told_with_its_numbers() {
    let limited = |case: Case| {
        let mut case = case;
        case.facts.contained = Some(Contained {
            memory_limit: Some(Bytes(2 << 30)),
            memory_peak: Some(Bytes(2 << 30)),
            oom_kills: 1,
            ..Contained::default()
        });
        let (outcome, detail, _) = end(case);
        (outcome, detail)
    };
    let said = "out of host memory: its limit of 2048.0 MiB was reached (peak 2048.0 MiB, 1 process killed by the kernel)";
    assert_eq!(limited(signal(9)), ("host_oom", said.to_owned()));
    // A loader was killed, and the program gave up.
    assert_eq!(limited(exit(1)).0, "host_oom");
    // The program went on without it.
    assert_eq!(limited(exit(0)).0, "succeeded");
    let gpu = Case {
        log: "CUDA out of memory. Tried to allocate 2.00 GiB",
        ..exit(1)
    };
    assert_eq!(limited(gpu).0, "gpu_oom");
}

#[test]
fn who_was_refused_processes_is_told() {
    let mut case = exit(1);
    case.facts.contained = Some(Contained {
        process_limit: Some(64),
        refused: 12,
        ..Contained::default()
    });
    let (outcome, detail, _) = end(case);
    assert_eq!(outcome, "failed");
    assert!(detail.contains("12 times: 64 is its limit"), "{detail}");
}

#[test]
fn what_was_asked_from_outside_comes_first() {
    let asked = |why, killed| {
        let mut case = Case {
            log: "CUDA out of memory",
            ..exit(143)
        };
        (case.facts.why, case.facts.killed) = (Some(why), killed);
        let (outcome, detail, _) = end(case);
        format!("{outcome}: {detail}")
    };
    assert_eq!(
        asked(Why::TimeLimit, false),
        "timed_out: ended at its time limit of 1m 30s"
    );
    assert_eq!(
        asked(Why::Cancelled, true),
        "cancelled: cancelled; it did not end when asked and was killed"
    );
    assert!(asked(Why::Suspended, false).starts_with("suspended: suspended"));
    assert!(asked(Why::Fenced, false).starts_with("interrupted: given up"));
    assert!(asked(Why::ShepherdLost, false).starts_with("interrupted: its shepherd was killed"));
    assert!(asked(Why::Terminated, false).starts_with("interrupted: its shepherd was asked"));
    let mut case = signal(9);
    case.facts.why = Some(Why::ShepherdLost);
    case.facts.not_started = Some("nothing of it ran".into());
    let (outcome, detail, _) = end(case);
    assert_eq!((outcome, &*detail), ("interrupted", "nothing of it ran"));
}

#[test]
fn what_never_ran_says_what_to_do_and_trouble_is_told() {
    let mut case = exit(0);
    case.facts = Facts::not_started("the program `x` does not exist; install it", 5);
    case.facts.trouble = vec!["could not write /a/log: No space left on device".into()];
    let (outcome, detail, _) = end(case);
    assert_eq!(outcome, "failed");
    assert_eq!(
        detail,
        "the program `x` does not exist; install it; could not write /a/log: No space left on device"
    );
}
