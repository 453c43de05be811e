//! What holds for every sweep file: expansion is complete and stable, an accepted file always gives the same plan,
//! and no bytes whatever make the reader panic.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use jobs::Params;
use jobs::plan::{HostValues, load, resolve, resolve_host};
use proptest::prelude::*;
use proptest::sample::Index;

/// An axis as the file writes it: a name and its values, all different.
type Axis = (String, Vec<String>);

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        (-50i64..50).prop_map(|n| n.to_string()),
        (1u32..100).prop_map(|n| format!("{n}.5e-5")),
        "[a-z ]{0,6}".prop_map(|text| format!("{text:?}")),
        any::<bool>().prop_map(|answer| answer.to_string()),
        (0i64..9).prop_map(|n| format!("[{n}, \"x\"]")),
        (0i64..9).prop_map(|n| format!("{{ k = {n} }}")),
    ]
}

fn axes(lengths: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Axis>> {
    let values = proptest::collection::btree_set(value(), lengths)
        .prop_map(Vec::from_iter)
        .boxed();
    let names =
        proptest::sample::subsequence(vec!["alpha", "b", "c-d", "e.f"], 1..=4).prop_shuffle();
    names.prop_flat_map(move |names| {
        let count = names.len();
        (
            Just(names),
            proptest::collection::vec(values.clone(), count),
        )
            .prop_map(|(names, values)| names.into_iter().map(String::from).zip(values).collect())
    })
}

fn file(seed: u64, mode: &str, axes: &[Axis], rest: &str) -> String {
    let mut text = format!("[sweep]\nname = \"p\"\nseed = {seed}\n\n[axes]\n{mode}\n");
    for (name, values) in axes {
        writeln!(text, "{name:?} = [{}]", values.join(", ")).unwrap();
    }
    text + rest + "\n[train]\nrun = [\"x\"]\n"
}

fn cells(text: &str) -> Vec<Params> {
    let plan = load("p.toml", text.as_bytes()).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    for (at, trial) in plan.trials.iter().enumerate() {
        assert_eq!(trial.index as usize, at + 1);
    }
    plan.trials.into_iter().map(|trial| trial.params).collect()
}

fn texts(cells: &[Params]) -> BTreeSet<String> {
    cells
        .iter()
        .map(|cell| serde_json::to_string(cell).unwrap())
        .collect()
}

fn shipped() -> Vec<Vec<u8>> {
    let entries = fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.extend(
        fs::read_dir(bad())
            .unwrap()
            .map(|entry| entry.unwrap().path()),
    );
    paths.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn bad() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/bad")
}

/// Reads the bytes and shows what is wrong with them: neither may panic.
fn read(bytes: &[u8]) {
    match load("any.toml", bytes) {
        Ok(plan) => assert!(!plan.digest().is_empty()),
        Err(errors) => {
            assert!(!errors.items().is_empty());
            assert!(errors.render(true).len() >= errors.render(false).len());
            serde_json::to_string(&errors).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_grid_has_every_combination_once(axes in axes(1..4)) {
        let found = cells(&file(1, "", &axes, ""));
        let product: usize = axes.iter().map(|(_, values)| values.len()).product();
        prop_assert_eq!(found.len(), product);
        prop_assert_eq!(texts(&found).len(), product);
        for (name, values) in &axes {
            let seen: BTreeSet<String> = found.iter().map(|cell| cell[name].to_string()).collect();
            prop_assert_eq!(seen.len(), values.len());
        }
    }

    #[test]
    fn what_is_not_skipped_is_a_trial(axes in axes(1..4), pick in any::<Index>(), at in any::<Index>()) {
        let (name, values) = &axes[pick.index(axes.len())];
        let value = &values[at.index(values.len())];
        // A list in a condition means any of its values.
        prop_assume!(!value.starts_with('['));
        let when = format!("[[when]]\nif = {{ {name:?} = {value} }}\nskip = \"no\"\n");
        let all = cells(&file(1, "", &axes, "")).len();
        match load("p.toml", file(1, "", &axes, &when).as_bytes()) {
            Ok(plan) => {
                prop_assert_eq!(plan.trials.len() + plan.skipped.len(), all);
                prop_assert_eq!(plan.skipped.len(), all / values.len());
                let left: BTreeSet<String> = plan.trials.iter().map(|trial| trial.params[name].to_string()).collect();
                prop_assert_eq!(left.len(), values.len() - 1);
            }
            Err(errors) => prop_assert!(values.len() == 1 && errors.to_string().contains("are skipped")),
        }
    }

    #[test]
    fn zip_takes_the_values_together(axes in axes(3..4)) {
        let zipped = cells(&file(1, "zip = true", &axes, ""));
        let listed: Vec<String> = (0..3).map(|row| {
            let cell: Vec<String> = axes.iter().map(|(name, values)| format!("{name:?} = {}", values[row])).collect();
            format!("{{ {} }}", cell.join(", "))
        }).collect();
        prop_assert_eq!(zipped.len(), 3);
        let list = format!("list = [{}]", listed.join(", "));
        prop_assert_eq!(zipped, cells(&file(1, &list, &[], "")));
    }

    #[test]
    fn random_draws_different_cells_of_the_grid(axes in axes(1..5), seed in 0u64..1000, share in 0.0f64..1.0) {
        let grid = texts(&cells(&file(seed, "", &axes, "")));
        let draws = 1 + ((grid.len() - 1) as f64 * share) as usize;
        let drawn = cells(&file(seed, &format!("random = {draws}"), &axes, ""));
        prop_assert_eq!(drawn.len(), draws);
        prop_assert_eq!(texts(&drawn).len(), draws);
        prop_assert!(texts(&drawn).is_subset(&grid));
        let more = cells(&file(seed, &format!("random = {}", grid.len()), &axes, ""));
        prop_assert_eq!(&more[..draws], &drawn[..]);
        let too_many = file(seed, &format!("random = {}", grid.len() + 1), &axes, "");
        prop_assert!(load("p.toml", too_many.as_bytes()).is_err());
    }

    #[test]
    fn ranges_are_drawn_within_their_bounds(seed in 0u64..1000, from in 1i64..50, width in 100i64..1000) {
        let to = from + width;
        let mode = format!(
            "random = 20\na = {{ from = {from}, to = {to}, integer = true }}\n\
             b = {{ from = {from}e-5, to = {to}e-5, scale = \"log\" }}\n\
             c = {{ from = {from}, to = {to}, scale = \"log\", integer = true }}"
        );
        let axes = [("d".to_owned(), vec!["1".to_owned(), "2".to_owned()])];
        let found = cells(&file(seed, &mode, &axes, ""));
        prop_assert_eq!(found.len(), 20);
        for cell in &found {
            for name in ["a", "c"] {
                prop_assert!((from..=to).contains(&cell[name].as_i64().unwrap()));
            }
            let b = cell["b"].as_f64().unwrap() / 1e-5;
            prop_assert!(b >= from as f64 - 1e-6 && b <= to as f64 + 1e-6, "{}", b);
        }
        let first = found.iter().filter(|cell| cell["d"] == 1).count();
        prop_assert_eq!(first, 10);
    }

    #[test]
    fn an_accepted_file_always_gives_the_same_plan(axes in axes(1..4), seed in 0u64..9, random in any::<bool>()) {
        let text = file(seed, if random { "random = 1" } else { "" }, &axes, "");
        let plan = load("p.toml", text.as_bytes()).unwrap();
        let same = [
            text.clone(),
            text.replace('\n', "\r\n"),
            text.replace('\n', "   # a comment\n\n"),
            format!("\u{feff}{text}"),
            text.replace("[sweep]\nname = \"p\"\n", "sweep.name = 'p'\nsweep."),
            inline_axes(&text),
        ];
        for other in &same {
            let again = load("other.toml", other.as_bytes());
            prop_assert_eq!(again.as_ref(), Ok(&plan), "{}", other);
            prop_assert_eq!(again.unwrap().digest(), plan.digest());
        }
        let other = load("p.toml", file(seed + 1, "", &axes, "").as_bytes()).unwrap();
        prop_assert_ne!(other.digest(), plan.digest());
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes);
    }

    #[test]
    fn arbitrary_text_does_no_harm(text in "(\\[|\\]|=|\\{|\\}|\"|'|,|#|\n|\r|\t| |\\.|[a-z0-9]{1,9}|sweep|axes|train|run|if|ä|\u{202e}|\u{1f600}){0,80}") {
        read(text.as_bytes());
    }

    #[test]
    fn broken_files_do_no_harm(
        which in any::<Index>(),
        cuts in proptest::collection::vec((any::<Index>(), any::<Index>(), "[\\[\\]={}\"',#\n\\. 0-9a-zä-]{0,4}"), 1..4),
    ) {
        let files = shipped();
        let mut text = String::from_utf8_lossy(&files[which.index(files.len())]).into_owned();
        for (at, length, put) in cuts {
            let start = text.floor_char_boundary(at.index(text.len() + 1));
            let end = text.ceil_char_boundary((start + length.index(12)).min(text.len()));
            text.replace_range(start..end, &put);
        }
        read(text.as_bytes());
    }

    #[test]
    fn any_text_passes_through_placeholders(text in "\\PC{0,20}", value in "\\PC{0,20}") {
        let host = HostValues { kit: value.clone(), python: "py".into(), sweep_dir: "d".into(), seed: 3, ..HostValues::default() };
        let escaped = text.replace('{', "{{").replace('}', "}}");
        let run = [format!("{escaped}{{x}}{{kit}}{{seed}}"), escaped];
        let settings = Params::from([("x".into(), value.clone().into())]);
        let filled = resolve_host(&resolve(&run, &settings), &host).unwrap();
        prop_assert_eq!(&filled[0], &format!("{text}{value}{value}3"));
        prop_assert_eq!(&filled[1], &text);
    }
}

/// The same axes in one line.
fn inline_axes(text: &str) -> String {
    let (head, rest) = text.split_once("[axes]\n").unwrap();
    let (axes, tail) = rest.split_once("\n[train]").unwrap();
    let inline: Vec<&str> = axes.lines().filter(|line| !line.is_empty()).collect();
    format!("axes = {{ {} }}\n{head}\n[train]{tail}", inline.join(", "))
}

#[test]
fn every_file_of_ours_read_to_the_last_byte_but_one_does_no_harm() {
    for bytes in shipped().into_iter().take(12) {
        for end in 0..bytes.len() {
            read(&bytes[..end]);
        }
    }
}
