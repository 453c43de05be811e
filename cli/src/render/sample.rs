//! Documents for the tests of rendering. Figures are made up.

use std::collections::BTreeMap;

use proto::v1::*;
use serde_json::json;

pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

pub fn assert_fits(text: &str) {
    for line in text.lines() {
        assert!(
            line.chars().count() <= 100,
            "{} columns: {line}\n{text}",
            line.chars().count()
        );
    }
}

pub fn head() -> SweepHead {
    SweepHead {
        id: "dropout-ab-k3f9q2".into(),
        name: "dropout-ab".into(),
        state: "running".into(),
        simulated: true,
        submitted_at: "2026-12-02T04:00:00.000Z".into(),
        trials: 2,
        jobs: 6,
        jobs_settled: 3,
        jobs_running: 1,
        about:
            "Does LoRA dropout 0.1 help at equal steps, and if so at which of the ranks that fit?"
                .into(),
        ..SweepHead::default()
    }
}

pub fn summary() -> Summary {
    Summary {
        trials: 6,
        jobs: 18,
        attempts: 15,
        outcomes: r#"{"succeeded":12,"skipped":3}"#.into(),
        gpu_seconds: 50_580.0,
        simulated: true,
        wall_seconds: Some(65.0),
        ..Summary::default()
    }
}

pub fn results() -> ResultsDocument {
    let row =
        |trial: u32, rank: u32, dropout: &str, measured: f64, seconds: f64, score: f64| ResultRow {
            trial: format!("dropout-ab-k3f9q2/{trial}"),
            params: format!(r#"{{"rank":{rank},"dropout":{dropout}}}"#),
            host: Some("rig".into()),
            device: Some("NVIDIA GeForce RTX 5060 Ti".into()),
            simulated: true,
            predicted_mib: Some(7313.2),
            measured_mib: Some(measured),
            seconds: Some(seconds),
            outcome: Some("succeeded".into()),
            held_out: Some(score),
            ..ResultRow::default()
        };
    let infeasible = ResultRow {
        trial: "dropout-ab-k3f9q2/6".into(),
        params: r#"{"rank":112,"dropout":0.1}"#.into(),
        outcome: Some("infeasible".into()),
        simulated: true,
        reason: Some("too large for every known device: the best, box RTX 3070 Ti, has 7834 of 7912 ± 78 MiB".into()),
        ..ResultRow::default()
    };
    ResultsDocument {
        sweep: Some(SweepHead {
            state: "succeeded".into(),
            ..head()
        }),
        rows: vec![
            row(1, 96, "0.0", 7301.0, 11_340.0, 0.912),
            infeasible,
            row(2, 96, "0.1", 7298.4, 11_520.0, 0.913),
        ],
        summary: Some(summary()),
    }
}

pub fn attempt() -> AttemptDocument {
    AttemptDocument {
        id: "dropout-ab-k3f9q2/1/train/1".into(),
        host: "rig".into(),
        device: "NVIDIA GeForce RTX 5060 Ti".into(),
        simulated: true,
        predicted_mib: Some(7313.2),
        peak_allocated_mib: Some(7298.4),
        outcome: Some("succeeded".into()),
        placed_at: "2026-12-02T04:08:30.000Z".into(),
        started_at: Some("2026-12-02T04:08:31.000Z".into()),
        ended_at: Some("2026-12-02T04:09:31.000Z".into()),
        exit: Some(0),
        seconds: Some(11_520.0),
        ..AttemptDocument::default()
    }
}

pub fn sweep() -> SweepDocument {
    let running = AttemptDocument {
        progress: Some(0.4),
        outcome: None,
        ended_at: None,
        exit: None,
        peak_allocated_mib: None,
        ..attempt()
    };
    let job = |trial: u32, kind: &str, state: &str| JobDocument {
        id: format!("dropout-ab-k3f9q2/{trial}/{kind}"),
        kind: kind.into(),
        state: state.into(),
        ..JobDocument::default()
    };
    let trial = TrialDocument {
        id: "dropout-ab-k3f9q2/1".into(),
        params: r#"{"rank":96,"dropout":0.1}"#.into(),
        jobs: vec![
            JobDocument {
                outcome: Some("skipped".into()),
                reason: Some("its verdict is certain without it".into()),
                ..job(1, "probe", "settled")
            },
            JobDocument {
                attempts: vec![running],
                ..job(1, "train", "active")
            },
            job(1, "bake", "waiting"),
        ],
        ..TrialDocument::default()
    };
    let infeasible = TrialDocument {
        id: "dropout-ab-k3f9q2/6".into(),
        params: r#"{"rank":112,"dropout":0.1}"#.into(),
        jobs: vec![JobDocument {
            outcome: Some("infeasible".into()),
            reason: Some("too large for every known host: ".repeat(8)),
            ..job(6, "train", "settled")
        }],
        would_fit: Some("rank 104".into()),
        ..TrialDocument::default()
    };
    SweepDocument {
        sweep: Some(head()),
        trials: vec![trial, infeasible],
        summary: Some(summary()),
        files: vec![
            file("files", "data/train.jsonl", 48_000),
            file("kit", "train.py", 700),
        ],
    }
}

fn file(bundle: &str, name: &str, size: u64) -> StagedFile {
    StagedFile {
        bundle: bundle.into(),
        name: name.into(),
        sha256: "d34db33f".repeat(8),
        size,
        executable: false,
    }
}

pub fn host() -> HostDocument {
    HostDocument {
        name: "nvidia-8g".into(),
        state: "up".into(),
        os: "linux".into(),
        simulated: true,
        generation: 3,
        labels: vec!["dataset:2026-09-21".into()],
        devices: vec![DeviceDocument {
            id: "GPU-8c3f2a11".into(),
            name: "NVIDIA GeForce RTX 3070 Ti".into(),
            kind: "gpu".into(),
            backend: "cuda".into(),
            usable_mib: 7833.6,
            slots: 1,
            simulated: true,
            quarantine: Some("two faults within an hour (Xid 79)".into()),
            ..DeviceDocument::default()
        }],
        last_seen_at: Some("2026-12-02T04:08:31.000Z".into()),
        agent_version: "0.1.0".into(),
        attempts: vec!["dropout-ab-k3f9q2/1/train/1".into()],
        ..HostDocument::default()
    }
}

pub fn verdict(host: &str, device: &str) -> VerdictDocument {
    VerdictDocument {
        host: host.into(),
        device: device.into(),
        verdict: "fits".into(),
        need_mib: Some(7313.0),
        usable_mib: 7833.6,
        band_mib: Some(120.0),
        source: "computed".into(),
        simulated: true,
        expected_seconds: Some(11_520.0),
        kind: "train".into(),
        ..VerdictDocument::default()
    }
}

pub fn plan() -> PlanDocument {
    let too_large = VerdictDocument {
        verdict: "too_large".into(),
        held_mib: 563.0,
        ..verdict("nvidia-8g", "NVIDIA GeForce RTX 3060 Ti")
    };
    let card = verdict("rig", "NVIDIA GeForce RTX 5060 Ti");
    PlanDocument {
        name: "dropout-ab".into(),
        trials_total: 1,
        jobs_total: 3,
        trials: vec![PlannedTrial {
            index: 6,
            params: r#"{"rank":112,"dropout":0.1}"#.into(),
            verdicts: vec![too_large, card.clone(), card.clone(), card],
            jobs: vec!["probe".into(), "train".into(), "bake".into()],
            would_fit: Some("rank 104, or save_on_cpu without the weights".into()),
            nowhere: None,
        }],
        hosts: vec!["nvidia-8g".into(), "rig".into()],
        simulated: true,
        ..PlanDocument::default()
    }
}

/// With advice for one recipe of four trials, and two trials that were left out.
pub fn advised() -> PlanDocument {
    let tried = |change: &str, need: f64, band: f64, verdict: &str, wants: Option<f64>| {
        json!({
            "change": change, "settings": {"word": change}, "keeps_arithmetic": wants.is_some(), "need_mib": need,
            "band_mib": band, "verdict": verdict, "oom_wanted_mib": wants, "status": wants.map(|_| "oom"),
            "allocated_mib": null, "reserved_mib": null,
        })
    };
    let answer = json!({
        "verdict": "too_large", "need_mib": 7912.0, "band_mib": 78.0, "room_mib": 7281.0,
        "suggestions": [
            {"change": "paged optimizer state", "settings": {"word": "paged optimizer state"}, "need_mib": 7103.0,
             "band_mib": 90.0, "keeps_arithmetic": true, "stream": "shapes", "source": "learned"},
            {"change": "rank 96 instead of 112", "settings": {"word": "rank 96 instead of 112"}, "need_mib": 7249.0,
             "band_mib": 74.0, "keeps_arithmetic": false, "stream": "shapes", "source": "learned"},
        ],
        "tried": [
            tried("offload without the weights", 7506.0, 90.0, "fits", Some(70.1)),
            tried("paged optimizer state", 7103.0, 90.0, "fits", None),
            tried("rank 104 instead of 112", 7379.0, 94.0, "uncertain", None),
            tried("rank 96 instead of 112", 7249.0, 74.0, "fits", None),
        ],
    });
    let plan = plan();
    let trial = |index| PlannedTrial {
        index,
        ..plan.trials[0].clone()
    };
    PlanDocument {
        trials: [3, 5, 6, 7, 8, 9].map(trial).into(),
        trials_total: 6,
        advised: true,
        advice: vec![AdviceDocument {
            trials: vec![3, 5, 6, 7],
            kind: "train".into(),
            device: "NVIDIA GeForce RTX 3060 Ti".into(),
            hosts: vec!["nvidia-8g".into()],
            simulated: true,
            fits_elsewhere: false,
            answer: answer.to_string(),
        }],
        not_advised: vec![8, 9],
        ..plan
    }
}

/// With its peak and the first change.
pub fn why_explained() -> WhyDocument {
    let request = json!({
        "module": "lm_head", "line": "fixes.py:44", "note": "lm_head copied by save_on_cpu's offload", "mib": 1280.3,
        "stage": "forward and loss",
    });
    let blocks = |module: &str, line: &str, mib: f64, blocks: u64| json!({"module": module, "line": line, "note": null, "mib": mib, "share": mib / 7176.0, "blocks": blocks});
    let explained = json!({
        "stream": "rehearsed", "scaled": false, "allocated_mib": 7299.3, "reserved_mib": 8812.0,
        "stage": "backward, step 2", "others_mib": 5254.0, "limit_mib": 7600.1, "largest_request": request,
        "largest": [
            blocks("step", "model.py:72", 1781.7, 2400),
            blocks("layers.*.mlp.gate_proj", "bnb.py:552", 140.2, 8),
        ],
        "out_of_memory": {"wanted": request, "allocated_mib": 4994.1, "reserved_mib": 7526.0},
    });
    let suggestion = json!({
        "change": "paged optimizer state", "settings": {"optimizer": "paged_adamw_8bit"}, "need_mib": 7103.0,
        "band_mib": 90.0, "keeps_arithmetic": true, "stream": "shapes", "source": "learned",
    });
    WhyDocument {
        peak: Some(PeakDocument {
            host: "box".into(),
            device: "NVIDIA GeForce RTX 3070 Ti".into(),
            simulated: true,
            explained: explained.to_string(),
            commands: vec!["sweep vram explain --from data/blobs/0a1b --limit-mib 7600.1".into()],
        }),
        advice: Some(FirstAdvice {
            host: "box".into(),
            device: "NVIDIA GeForce RTX 3070 Ti".into(),
            simulated: true,
            suggestion: suggestion.to_string(),
            command: "sweep plan jobs/dropout-ab.toml --advise".into(),
        }),
        ..why()
    }
}

pub fn why() -> WhyDocument {
    let term = |name: &str, mib: f64| TermDocument {
        name: name.into(),
        mib,
        mark: "computed".into(),
    };
    WhyDocument {
        job: "dropout-ab-k3f9q2/6/train".into(),
        state: "waiting".into(),
        reason: "too large for nvidia-8g RTX 3060 Ti: needs 7313 ± 120 of 7271 MiB".into(),
        code: "too_large".into(),
        verdicts: vec![VerdictDocument {
            verdict: "too_large".into(),
            held_mib: 563.0,
            terms: vec![term("weights", 3421.5), term("activations", 3891.5)],
            ..verdict("nvidia-8g", "NVIDIA GeForce RTX 3060 Ti")
        }],
        would_fit: Some("rank 104".into()),
        hosts: vec![HostReason {
            host: "nvidia-8g".into(),
            device: "NVIDIA GeForce RTX 3060 Ti".into(),
            code: "too_large".into(),
            reason: "too large".into(),
        }],
        rehearsals: vec![
            RehearsalDocument {
                state: "done".into(),
                mode: "train".into(),
                rank: 96,
                host: Some("tower".into()),
                seconds: Some(52.4),
                versions: BTreeMap::from([
                    ("peft".into(), "0.21.0".into()),
                    ("torch".into(), "2.16.0".into()),
                ]),
                doubts: vec!["torch 2.16.0 was not compared with a card (was: 2.11, 2.15)".into()],
                ..RehearsalDocument::default()
            },
            RehearsalDocument {
                state: "failed".into(),
                mode: "train".into(),
                rank: 112,
                host: Some("tower".into()),
                error: Some("timed_out: it was ended after 900 s".into()),
                ..RehearsalDocument::default()
            },
        ],
        ..WhyDocument::default()
    }
}
