//! The program's own history, judged day by day with only what was known before, and its probes leaving one out.

use vram::{
    Bytes, DeviceLoad, Knowledge, Mode, Observed, VerdictKind, Workload, estimate, seed_history,
    verdict,
};

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn verdicts_in_the_order_of_time() {
    let mut knowledge = Knowledge::default();
    let (mut false_fits, mut false_too_large, mut uncertain, mut n) = (0, 0, 0, 0);
    let mut real = Vec::new();
    for (day, seen) in seed_history() {
        let workload = Workload::new(seen.mode, &seen.settings, None).unwrap();
        let load = DeviceLoad {
            usable: seen.room,
            held: Bytes::ZERO,
        };
        let answer = verdict(
            estimate(&workload, &seen.class, &knowledge),
            &seen.class,
            &load,
        );
        let predicted = answer.estimate.as_ref().unwrap().clone();
        // The 8 GB box; the rows of the roomy card neither fit nor fail.
        if seen.class.name.contains("RTX 30") {
            n += 1;
            match (answer.kind, seen.observed) {
                (VerdictKind::Fits, Observed::Oom) => false_fits += 1,
                (VerdictKind::TooLarge, Observed::Ok) => false_too_large += 1,
                (VerdictKind::Uncertain, _) => uncertain += 1,
                _ => {}
            }
            if let (Mode::Train, Observed::Ok, Some(measured)) =
                (seen.mode, seen.observed, seen.allocated)
            {
                real.push((predicted.allocated.mib() / measured.mib() - 1.0).abs() * 100.0);
            }
            println!(
                "{day} {} {:?} {:?}: {:?} need {} band {} room {} allocated {} measured {:?} {:?}",
                seen.source,
                seen.mode,
                seen.observed,
                answer.kind,
                predicted.need(),
                predicted.band,
                load.room(),
                predicted.allocated,
                seen.allocated.map(Bytes::mib),
                predicted.source
            );
        }
        assert!(knowledge.learn(seen));
    }
    println!(
        "{n}: false fits {false_fits}, false too large {false_too_large}, uncertain {uncertain}"
    );
    let most = real.iter().copied().fold(0.0, f64::max);
    println!(
        "real runs: {} median {:.2} max {most:.2}",
        real.len(),
        median(&mut real)
    );
    assert_eq!((n, real.len()), (38, 17));
    assert_eq!((false_fits, false_too_large), (0, 0));
    assert!(uncertain <= 6, "{uncertain}");
    assert!(most <= 5.0);
    assert!(median(&mut real) <= 0.5);
}

#[test]
fn the_older_probes_from_the_cross_gpu_ones() {
    let history = seed_history();
    let mut knowledge = Knowledge::default();
    for (_, seen) in &history {
        if seen.source.contains("cross-GPU") {
            knowledge.learn(seen.clone());
        }
    }
    let older = history.iter().filter(|(_, seen)| {
        !seen.source.contains("cross-GPU")
            && (seen.mode, seen.observed) == (Mode::Probe, Observed::Ok)
    });
    let mut errors: Vec<f64> = older
        .map(|(_, seen)| {
            let workload = Workload::new(seen.mode, &seen.settings, None).unwrap();
            let predicted = estimate(&workload, &seen.class, &knowledge).unwrap();
            let off = predicted.allocated.mib() / seen.allocated.unwrap().mib() - 1.0;
            println!("{} {:?} {:.2}", seen.source, predicted.source, off * 100.0);
            off.abs() * 100.0
        })
        .collect();
    let most = errors.iter().copied().fold(0.0, f64::max);
    println!(
        "{} older probes: median {:.2} max {most:.2}",
        errors.len(),
        median(&mut errors)
    );
    assert_eq!(errors.len(), 9);
    assert!(median(&mut errors) <= 0.4);
    assert!(most <= 1.0);
}

#[test]
fn the_probes_leaving_one_out() {
    let history = seed_history();
    let mut errors = Vec::new();
    for (at, (_, seen)) in history.iter().enumerate() {
        let cross_gpu = seen.source.contains("cross-GPU");
        let (true, Observed::Ok, Some(measured)) = (cross_gpu, seen.observed, seen.allocated)
        else {
            continue;
        };
        let mut knowledge = Knowledge::default();
        for (other, (_, observation)) in history.iter().enumerate() {
            if other != at && observation.source.contains("cross-GPU") {
                knowledge.learn(observation.clone());
            }
        }
        let workload = Workload::new(seen.mode, &seen.settings, None).unwrap();
        let predicted = estimate(&workload, &seen.class, &knowledge).unwrap();
        errors.push((predicted.allocated.mib() / measured.mib() - 1.0).abs() * 100.0);
    }
    let most = errors.iter().copied().fold(0.0, f64::max);
    println!(
        "{} probes: median {:.2} max {most:.2}",
        errors.len(),
        median(&mut errors)
    );
    assert!(median(&mut errors) <= 0.5);
    assert!(most <= 1.5);
}
