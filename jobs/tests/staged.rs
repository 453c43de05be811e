//! Names of files that travel, for any text: what is taken stays below its folder on every system, and what is taken
//! together can lie together.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use jobs::staged::{Bundle, Manifest, Names, StagedFile, check_name};
use proptest::prelude::*;

/// Texts near the edge: parts that mean something somewhere, joined by what separates somewhere.
fn near_names() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just(String::new()),
        Just("a".to_owned()),
        Just("A".to_owned()),
        Just("C:".to_owned()),
        Just("NUL".to_owned()),
        Just("com1.txt".to_owned()),
        "[a-cA-C.]{1,3}",
        "\\PC{1,4}",
        any::<char>().prop_map(String::from),
    ];
    let joined = prop_oneof![Just("/"), Just("\\"), Just("//"), Just("/./")];
    (prop::collection::vec(part, 1..5), joined).prop_map(|(parts, by)| parts.join(by))
}

/// As Windows reads a path, too.
fn stays_below(name: &str) -> bool {
    let normal = Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let windows = name
        .split(['/', '\\'])
        .all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains(':'));
    normal && windows
}

fn file(name: String) -> StagedFile {
    StagedFile {
        bundle: Bundle::Files,
        name,
        sha256: "0".repeat(64),
        size: 1,
        executable: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_taken_stays_below_its_folder(name in near_names()) {
        if check_name(&name).is_ok() {
            prop_assert!(stays_below(&name), "{name:?}");
            let wrong = name.contains(['\0', '\\', ':', '\n', '{', '}']);
            prop_assert!(!wrong, "{name:?}");
            prop_assert!(!name.ends_with(['.', ' ']));
        }
        // A list is as strict as a name.
        prop_assert_eq!(check_name(&name).is_ok(), Manifest::new(vec![file(name)]).is_ok());
    }

    #[test]
    fn what_is_taken_together_can_lie_together(names in prop::collection::vec("[aAbB]{1,2}(/[aAbB]{1,2}){0,2}", 1..8)) {
        let mut known = Names::default();
        let taken = names.iter().all(|name| known.add(name).is_ok());
        let files: BTreeSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
        let folders: BTreeSet<String> = names
            .iter()
            .flat_map(|name| name.match_indices('/').map(|(at, _)| name[..at].to_owned()))
            .collect();
        let one_case = folders.iter().map(|folder| folder.to_lowercase()).collect::<BTreeSet<_>>().len() == folders.len();
        let clash_free = files.len() == names.len()
            && one_case
            && folders.iter().all(|folder| !files.contains(&folder.to_lowercase()));
        prop_assert_eq!(taken, clash_free, "{:?}", names);
        // In any order.
        let backwards: Vec<StagedFile> = names.iter().rev().cloned().map(file).collect();
        prop_assert_eq!(Manifest::new(backwards).is_ok(), clash_free);
    }
}
