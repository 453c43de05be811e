//! Which advice is worth asking for: one question for each recipe and class of device where it does not fit, trials that
//! fit nowhere first. The same snapshot gives the same questions. Refuses to ask about more than [`RECIPES_MAX`] recipes
//! at once, and says which trials are left out for that.

use std::collections::BTreeMap;

use vram::Bytes;

use super::{Seen, Snapshot};

/// Recipes that are advised at once: with three classes of card some 20 seconds of one core.
pub const RECIPES_MAX: usize = 24;
/// Each is a search of its own, on a fleet of many classes.
pub const QUESTIONS_MAX: usize = 96;

/// Whose advice is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Of trials that do not fit some device.
    Anywhere,
    /// Of trials that are too large for every device.
    TooLargeEverywhere,
}

/// What would make this recipe fit this class of device?
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Place of the first of its trials in [`Snapshot::trials`].
    pub at: usize,
    /// All trials of this very recipe, by index.
    pub trials: Vec<u32>,
    /// The roomiest device of the class.
    pub device: usize,
    /// That have such a device.
    pub hosts: Vec<String>,
    /// These trials fit a device of another class.
    pub fits_elsewhere: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    pub questions: Vec<Question>,
    /// Trials that would have questions, but for the limit.
    pub left_out: Vec<u32>,
}

pub fn select(snapshot: &Snapshot, wanted: Wanted) -> Selection {
    let mut recipes: Vec<Vec<Question>> = by_recipe(snapshot)
        .into_iter()
        .filter(|(at, _)| {
            wanted == Wanted::Anywhere || snapshot.trials[*at].is_too_large_everywhere()
        })
        .map(|(at, trials)| questions(snapshot, at, &trials))
        .filter(|all| !all.is_empty())
        .collect();
    recipes.sort_by_key(|all| (all[0].fits_elsewhere, all[0].at));
    let mut selection = Selection::default();
    for (at, all) in recipes.into_iter().enumerate() {
        let room = QUESTIONS_MAX - selection.questions.len();
        // One recipe alone is asked about as far as it goes.
        let whole = at < RECIPES_MAX && all.len() <= room;
        if !whole {
            selection.left_out.extend(&all[0].trials);
        }
        if whole || at == 0 {
            selection.questions.extend(all.into_iter().take(room));
        }
    }
    selection.left_out.sort_unstable();
    selection
}

/// Trials that memory cannot tell apart, on the same devices: the place of the first, and the indices of all.
fn by_recipe(snapshot: &Snapshot) -> Vec<(usize, Vec<u32>)> {
    let mut known: BTreeMap<(&str, Vec<usize>), usize> = BTreeMap::new();
    let mut recipes: Vec<(usize, Vec<u32>)> = Vec::new();
    for (at, trial) in snapshot.trials.iter().enumerate() {
        let devices = trial.seen.iter().map(|seen| seen.device).collect();
        let key = (trial.workload.key.as_str(), devices);
        let place = *known.entry(key).or_insert(recipes.len());
        match recipes.get_mut(place) {
            Some((_, trials)) => trials.push(trial.index),
            None => recipes.push((at, vec![trial.index])),
        }
    }
    recipes
}

/// One for each class none of whose devices holds the recipe, those that miss least first.
fn questions(snapshot: &Snapshot, at: usize, trials: &[u32]) -> Vec<Question> {
    let seen = &snapshot.trials[at].seen;
    let room = |one: &Seen| snapshot.devices[one.device].load.room();
    let mut classes: Vec<(&Seen, Vec<String>)> = Vec::new();
    for one in seen {
        let device = &snapshot.devices[one.device];
        let same = |(other, _): &&mut (&Seen, Vec<String>)| {
            snapshot.devices[other.device].class == device.class
        };
        match classes.iter_mut().find(same) {
            Some((best, hosts)) => {
                if !hosts.contains(&device.host) {
                    hosts.push(device.host.clone());
                }
                let better =
                    one.kind < best.kind || one.kind == best.kind && room(one) > room(best);
                if better {
                    *best = one;
                }
            }
            None => classes.push((one, vec![device.host.clone()])),
        }
    }
    let fits_elsewhere = seen.iter().any(Seen::fits);
    classes.retain(|(best, _)| !best.fits());
    let missing = |one: &Seen| -> Bytes { one.least.saturating_sub(room(one)) };
    classes.sort_by_key(|(best, _)| (best.kind, missing(best), best.device));
    let questions = classes.into_iter().map(|(best, hosts)| Question {
        at,
        trials: trials.to_vec(),
        device: best.device,
        hosts,
        fits_elsewhere,
    });
    questions.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vram::{Backend, DeviceClass, DeviceLoad, Mode, VerdictKind, Workload};

    use super::super::{Device, Trial};
    use super::*;
    use VerdictKind::{Fits, TooLarge, Uncertain};

    fn device(host: &str, name: &str, room_mib: f64) -> Device {
        Device {
            host: host.to_owned(),
            name: name.to_owned(),
            class: DeviceClass {
                name: name.to_owned(),
                backend: Backend::Cuda,
                os: "linux".to_owned(),
                spills: false,
                simulated: false,
            },
            load: DeviceLoad {
                usable: Bytes::from_mib(room_mib),
                held: Bytes::ZERO,
            },
        }
    }

    /// Needs 9,000 MiB on each device, with these verdicts.
    fn trial(index: u32, rank: u32, kinds: &[VerdictKind]) -> Trial {
        let settings = json!({"model": "gemma-3-4b-it", "seq_len": 512, "rank": rank});
        let settings = serde_json::from_value(settings).expect("settings");
        let seen = kinds.iter().enumerate().map(|(device, kind)| Seen {
            device,
            kind: *kind,
            least: Bytes::from_mib(9000.0),
        });
        Trial {
            index,
            workload: Workload::new(Mode::Train, &settings, None).expect("a workload"),
            seen: seen.collect(),
        }
    }

    fn asked(selection: &Selection) -> Vec<(Vec<u32>, usize, bool)> {
        let questions = selection.questions.iter();
        questions
            .map(|one| (one.trials.clone(), one.device, one.fits_elsewhere))
            .collect()
    }

    #[test]
    fn what_fits_nowhere_comes_first_and_one_recipe_is_asked_about_once() {
        let snapshot = Snapshot {
            devices: vec![
                device("box", "small", 7800.0),
                device("rig", "large", 8900.0),
            ],
            trials: vec![
                trial(1, 8, &[Fits, Fits]),
                trial(2, 96, &[Uncertain, Fits]),
                trial(3, 112, &[TooLarge, TooLarge]),
                trial(4, 112, &[TooLarge, TooLarge]),
            ],
        };
        let all = select(&snapshot, Wanted::Anywhere);
        // On the card that misses least first.
        let wanted = [
            (vec![3, 4], 1, false),
            (vec![3, 4], 0, false),
            (vec![2], 0, true),
        ];
        assert_eq!(asked(&all), wanted);
        assert!(all.left_out.is_empty());
        let too_large = select(&snapshot, Wanted::TooLargeEverywhere);
        assert_eq!(asked(&too_large), wanted[..2]);
        assert_eq!(select(&snapshot, Wanted::Anywhere), all);
    }

    #[test]
    fn a_class_is_asked_about_on_its_roomiest_device_and_only_where_none_holds_it() {
        let alike = |host, room| device(host, "card", room);
        let snapshot = |kinds: &[VerdictKind]| Snapshot {
            devices: vec![
                alike("box", 7000.0),
                alike("rig", 8000.0),
                alike("rig", 7500.0),
            ],
            trials: vec![trial(1, 8, kinds)],
        };
        let none = select(&snapshot(&[TooLarge, Fits, TooLarge]), Wanted::Anywhere);
        assert_eq!(none, Selection::default());
        let one = select(&snapshot(&[TooLarge, TooLarge, TooLarge]), Wanted::Anywhere);
        assert_eq!(asked(&one), [(vec![1], 1, false)]);
        assert_eq!(one.questions[0].hosts, ["box", "rig"]);
    }

    #[test]
    fn the_same_recipe_on_other_devices_is_another_question() {
        let mut pinned = trial(2, 8, &[TooLarge, TooLarge]);
        pinned.seen.remove(0);
        let snapshot = Snapshot {
            devices: vec![
                device("box", "small", 7000.0),
                device("rig", "large", 8000.0),
            ],
            trials: vec![trial(1, 8, &[TooLarge, TooLarge]), pinned],
        };
        let all = select(&snapshot, Wanted::Anywhere);
        let wanted = [
            (vec![1], 1, false),
            (vec![1], 0, false),
            (vec![2], 1, false),
        ];
        assert_eq!(asked(&all), wanted);
    }

    #[test]
    fn more_recipes_than_the_limit_are_named() {
        let many = RECIPES_MAX as u32 + 2;
        let mut trials: Vec<Trial> = (1..=many).map(|n| trial(n, n, &[TooLarge])).collect();
        // The first one fits another device, so its turn comes last.
        trials[0] = trial(1, 1, &[TooLarge, Fits]);
        let snapshot = Snapshot {
            devices: vec![
                device("box", "small", 7000.0),
                device("rig", "large", 9000.0),
            ],
            trials,
        };
        let cut = select(&snapshot, Wanted::Anywhere);
        assert_eq!(cut.questions.len(), RECIPES_MAX);
        assert_eq!(cut.left_out, [1, many]);
    }

    #[test]
    fn a_fleet_of_many_classes_is_no_endless_search() {
        let devices = (0..60).map(|n| device("box", &format!("card {n}"), 7000.0));
        let kinds = [TooLarge; 60];
        let snapshot = Snapshot {
            devices: devices.collect(),
            trials: vec![trial(1, 8, &kinds), trial(2, 16, &kinds)],
        };
        let cut = select(&snapshot, Wanted::Anywhere);
        assert_eq!((cut.questions.len(), cut.left_out), (60, vec![2]));
    }
}
