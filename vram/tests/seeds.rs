//! The program's own history, judged day by day with only what was known before, and its probes leaving one out.

#[allow(dead_code, reason = "the document shows the rest")]
#[path = "../examples/memory_model_document/figures/mod.rs"]
mod figures;

use figures::history::{self, Judged};
use figures::spread::spread;
use vram::Errors;

fn off<'a>(what: &str, judged: impl IntoIterator<Item = &'a Judged>) -> Errors {
    let errors = spread(judged.into_iter().filter_map(Judged::off_pct));
    println!("{what}: {errors:?}");
    errors
}

#[test]
fn verdicts_in_the_order_of_time() {
    let history = history::in_order_of_time();
    for one in history.iter().filter(|one| one.is_on_a_small_card()) {
        println!(
            "{} {} {:?} {:?}: {:?} need {} band {} room {} off {:?} {:?}",
            one.day,
            one.source,
            one.mode,
            one.observed,
            one.verdict,
            one.estimate.need(),
            one.estimate.band,
            one.room,
            one.off_pct(),
            one.estimate.source
        );
    }
    let counts = history::small_card_counts(&history);
    println!("{counts:?}");
    assert_eq!(counts.n, 38);
    assert_eq!((counts.false_fits, counts.false_too_large), (0, 0));
    assert!(counts.uncertain <= 6, "{}", counts.uncertain);
    let real: Vec<&Judged> = history.iter().filter(|one| one.is_real_run()).collect();
    let errors = off("real runs", real.iter().copied());
    assert_eq!(errors.n, 17);
    assert!(errors.max_pct.unwrap() <= 5.0);
    assert!(errors.median_pct.unwrap() <= 0.5);
    let later = off("after the first", real.iter().copied().skip(1));
    assert!(later.median_pct.unwrap() <= 0.5);
}

#[test]
fn the_older_probes_from_the_cross_gpu_ones() {
    let errors = off("older probes", &history::older_probes());
    assert_eq!(errors.n, 9);
    assert!(errors.median_pct.unwrap() <= 0.4);
    assert!(errors.max_pct.unwrap() <= 1.0);
}

#[test]
fn the_probes_leaving_one_out() {
    let errors = off("leave one out", &history::probes_leaving_one_out());
    assert_eq!(errors.n, 24);
    assert!(errors.median_pct.unwrap() <= 0.5);
    assert!(errors.max_pct.unwrap() <= 1.5);
}
