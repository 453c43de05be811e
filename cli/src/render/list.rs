//! `sweep list` for people.

use proto::v1::SweepHead;

use super::format::{clip, short, time};
use super::paint::paint;
use super::table::{Kind, Table};

pub fn text(sweeps: &[SweepHead]) -> String {
    if sweeps.is_empty() {
        return "no sweeps".to_owned();
    }
    let mut table = Table::new(&[
        ("SWEEP", Kind::Word),
        ("STATE", Kind::Word),
        ("TRIALS", Kind::Figure),
        ("JOBS", Kind::Figure),
        ("RUNNING", Kind::Figure),
        ("SUBMITTED (UTC)", Kind::Word),
        ("ABOUT", Kind::Text),
    ]);
    for head in sweeps {
        let mark = if head.simulated { " *" } else { "" };
        table.row([
            format!("{}{mark}", short(&head.id, 28)),
            head.state.clone(),
            head.trials.to_string(),
            format!("{}/{}", head.jobs_settled, head.jobs),
            head.jobs_running.to_string(),
            time(&head.submitted_at),
            clip(&head.about, 28),
        ]);
    }
    let mut text = paint(&table.to_string());
    if sweeps.iter().any(|head| head.simulated) {
        text.push_str("* ran on simulated devices");
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::render::sample;

    #[test]
    fn a_sweep_is_a_row() {
        let text = sample::plain(&super::text(&[sample::head()]));
        assert!(text.contains("dropout-ab-k3f9q2 *"), "{text}");
        assert!(text.contains("3/6"), "{text}");
        sample::assert_fits(&text);
        assert_eq!(super::text(&[]), "no sweeps");
    }
}
