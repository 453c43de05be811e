//! `sweep agent doctor` for people: one row for each check, and below what to do.

use agent::doctor::{Check, Examined};

use super::format::count;
use super::paint::paint;
use super::table::{Kind, Table, printable};
use super::wrap;

pub fn text(examined: &Examined) -> String {
    let mut table = Table::new(&[
        ("CHECK", Kind::Text),
        ("STATE", Kind::Word),
        ("FOUND", Kind::Text),
    ]);
    for check in &examined.checks {
        table.row([
            printable(&check.name),
            check.state.as_str().to_owned(),
            printable(&check.says),
        ]);
    }
    let mut text = format!(
        "host {}: {}\n\n{table}",
        examined.host,
        examined.state.as_str()
    );
    let to_do: Vec<(&Check, &String)> = examined
        .checks
        .iter()
        .filter_map(|check| Some((check, check.fix.as_ref()?)))
        .collect();
    if to_do.is_empty() {
        return paint(&text);
    }
    let things = count(to_do.len() as u64, "thing");
    text.push_str(&format!("\n{things} to look at:\n"));
    for (check, fix) in to_do {
        let line = format!("{}: {}", printable(&check.name), printable(fix));
        text.push_str(&wrap::paragraph(&line, 2, 4));
    }
    paint(&text)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn what_is_wrong_is_followed_by_what_to_do() {
        let long =
            "the driver shows no card GPU-8c3f2a11-7e1d-4c55-9a56-3f1f0e8f9c01 (RTX 3070 Ti) "
                .repeat(3);
        let checks = vec![
            Check::ok("folder", "/var/lib/sweep/agents/box can be written"),
            Check::failed(
                "device GPU-8c3f2a11",
                long,
                "correct `id` in the host's file",
            ),
        ];
        let text = sample::plain(&text(&Examined::of("box", checks)));
        sample::assert_fits(&text);
        assert!(text.contains("1 thing to look at:\n"), "{text}");
        assert!(text.contains("correct `id` in the host's file"), "{text}");
        let fine = Examined::of("box", vec![Check::ok("folder", "x")]);
        assert!(!super::text(&fine).contains("look at"));
    }
}
