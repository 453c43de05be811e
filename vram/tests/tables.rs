//! The tables of measured steps, predicted with nothing learned and leaving one out, against the goals of the project.

use vram::{Evaluation, VerdictKind, evaluate};

const H200: &str = include_str!("../data/h200.jsonl");
const T4: &str = include_str!("../data/t4.jsonl");

fn show(name: &str, answer: &Evaluation) {
    println!(
        "{name}: {}",
        serde_json::to_string(&answer.summary).unwrap()
    );
    for row in &answer.rows {
        let uncertain = row.verdict == Some(VerdictKind::Uncertain);
        if uncertain || row.allocated_error_pct.is_some_and(|error| error > 1.0) {
            println!("{}", serde_json::to_string(row).unwrap());
        }
    }
}

#[test]
fn h200_with_nothing_learned() {
    let answer = evaluate(H200, &[], false).unwrap();
    show("h200", &answer);
    let summary = answer.summary;
    // Goals of the project: 0.2 and 1 %, 2 and 8 %; held to what is reached.
    assert!(summary.pre_step.median_pct.unwrap() <= 0.01);
    assert!(summary.pre_step.max_pct.unwrap() <= 1.0);
    assert!(summary.allocated.median_pct.unwrap() <= 0.06);
    assert!(summary.allocated.max_pct.unwrap() <= 0.5);
    assert!(summary.reserved.median_pct.unwrap() <= 0.3);
    assert_eq!(summary.verdicts.false_fits, 0);
    assert_eq!(summary.verdicts.false_too_large, 0);
}

#[test]
fn h200_leaving_one_out() {
    let answer = evaluate(H200, &[], true).unwrap();
    show("h200 leave one out", &answer);
    assert!(answer.summary.allocated.median_pct.unwrap() <= 0.1);
    assert!(answer.summary.allocated.max_pct.unwrap() <= 0.5);
    assert_eq!(answer.summary.verdicts.false_fits, 0);
}

#[test]
fn t4_with_nothing_learned() {
    let answer = evaluate(T4, &[], false).unwrap();
    show("t4", &answer);
    assert!(answer.summary.allocated.median_pct.unwrap() <= 0.05);
    assert!(answer.summary.allocated.max_pct.unwrap() <= 1.5);
}

#[test]
fn a_bad_row_is_named() {
    let error = evaluate(
        "{\"model_config\": {\"hidden_size\": -1}, \"seq_len\": 8}\n",
        &[],
        false,
    )
    .unwrap_err();
    assert_eq!(error.line, 1);
    assert!(error.message.contains("hidden_size"), "{error}");
    let absurd = H200
        .lines()
        .next()
        .unwrap()
        .replace("\"seq_len\": 7177", "\"seq_len\": 9000000000000");
    assert!(evaluate(&absurd, &[], false).is_err());
}
