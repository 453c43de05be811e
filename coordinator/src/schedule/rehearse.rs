//! Which training steps are worth a rehearsal, and who makes them. Sizes are lines in the rank, so two ranks of a
//! family tell all others: ten trials that differ in rank cost two rehearsals. Pure; asks for nothing that is known.

use std::collections::{BTreeMap, BTreeSet};

/// The ranks to rehearse of one family (recipes that differ in rank only): `wanted` are those of trials that wait and
/// that nothing measured covers, `known` those of which there is a stream. One trial's own rank; of several the lowest
/// and the highest; beside one known stream the rank that is farthest from it.
#[must_use]
pub fn ranks(wanted: &BTreeSet<u64>, known: &BTreeSet<u64>) -> Vec<u64> {
    if known.len() >= 2 || wanted.is_subset(known) {
        return Vec::new();
    }
    let ends = [wanted.first(), wanted.last()]
        .into_iter()
        .flatten()
        .copied();
    match known.first() {
        Some(at) => ends
            .max_by_key(|rank| rank.abs_diff(*at))
            .into_iter()
            .collect(),
        None => ends.collect::<BTreeSet<u64>>().into_iter().collect(),
    }
}

/// Ranks whose streams are of no use any more: made by versions that no host has, while one of the stacks in use has
/// made two others, which tell every rank. `made` is the newest of each rank, with its stack.
#[must_use]
pub fn superseded(made: &BTreeMap<u64, &str>, in_use: &BTreeSet<String>) -> Vec<u64> {
    let mut of: BTreeMap<&str, usize> = BTreeMap::new();
    for stack in made.values().filter(|stack| in_use.contains(**stack)) {
        *of.entry(stack).or_default() += 1;
    }
    if of.values().all(|ranks| *ranks < 2) {
        return Vec::new();
    }
    let old = made.iter().filter(|(_, stack)| !in_use.contains(**stack));
    old.map(|(rank, _)| *rank).collect()
}

/// A host that can rehearse.
#[derive(Clone, Copy, Debug)]
pub struct Worker<'a> {
    pub name: &'a str,
    /// Versions of all that makes a stream.
    pub stack: &'a str,
    /// Rehearsals that it could begin now.
    pub free: u32,
}

/// A rehearsal that nobody makes yet.
#[derive(Clone, Debug, Default)]
pub struct Wish<'a> {
    /// What made the family's other stream: two stacks may make streams that do not scale.
    pub stack: Option<&'a str>,
    /// Hosts where it failed and is not to be tried, or not yet.
    pub barred: BTreeSet<&'a str>,
}

/// Pairs of wish and worker, by their indexes, in the order of the wishes.
#[must_use]
pub fn assign(wishes: &[Wish<'_>], workers: &[Worker<'_>]) -> Vec<(usize, usize)> {
    let mut free: Vec<u32> = workers.iter().map(|worker| worker.free).collect();
    let mut pairs = Vec::new();
    for (number, wish) in wishes.iter().enumerate() {
        let may = |at: &usize| !wish.barred.contains(workers[*at].name);
        let alike = |at: &usize| wish.stack.is_some_and(|stack| stack == workers[*at].stack);
        let able: Vec<usize> = (0..workers.len()).filter(may).collect();
        // One of the same versions is worth waiting for.
        let same: Vec<usize> = able.iter().copied().filter(alike).collect();
        let candidates = if same.is_empty() { able } else { same };
        let best = candidates
            .into_iter()
            .filter(|at| free[*at] > 0)
            .min_by_key(|at| (std::cmp::Reverse(free[*at]), workers[*at].name));
        if let Some(at) = best {
            free[at] -= 1;
            pairs.push((number, at));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(wanted: &[u64], known: &[u64]) -> Vec<u64> {
        ranks(
            &wanted.iter().copied().collect(),
            &known.iter().copied().collect(),
        )
    }

    #[test]
    fn ten_ranks_cost_two_rehearsals() {
        let ten: Vec<u64> = (1..=10).map(|step| step * 16).collect();
        assert_eq!(of(&ten, &[]), [16, 160]);
        assert_eq!(of(&ten, &[16]), [160]);
        assert_eq!(of(&ten, &[160]), [16]);
        assert!(of(&ten, &[16, 160]).is_empty());
    }

    #[test]
    fn one_trial_is_rehearsed_at_its_own_rank() {
        assert_eq!(of(&[96], &[]), [96]);
        assert!(of(&[96], &[96]).is_empty());
    }

    #[test]
    fn what_is_known_is_not_made_again() {
        assert!(of(&[], &[]).is_empty());
        // Two that an earlier sweep has left tell any other rank.
        assert!(of(&[8, 64, 512], &[96, 112]).is_empty());
        assert_eq!(of(&[96, 104, 112], &[104]), [112]);
        assert_eq!(of(&[64], &[96]), [64]);
    }

    #[test]
    fn what_older_versions_made_goes_once_newer_ones_tell_all_ranks() {
        let old = |made: &[(u64, &str)], in_use: &[&str]| {
            let in_use = in_use.iter().map(|stack| (*stack).to_owned()).collect();
            superseded(&made.iter().copied().collect(), &in_use)
        };
        assert_eq!(old(&[(8, "2"), (16, "1"), (64, "2")], &["2"]), [16]);
        // One rank of the new kit tells no other: the old ones are what there is.
        assert!(old(&[(8, "2"), (16, "1"), (64, "1")], &["2"]).is_empty());
        // A host still has the old versions; or none is known to have any.
        assert!(old(&[(8, "2"), (16, "1"), (64, "2")], &["1", "2"]).is_empty());
        assert!(old(&[(8, "2"), (16, "1"), (64, "2")], &[]).is_empty());
        assert!(old(&[(8, "2"), (16, "1"), (64, "3")], &["2", "3"]).is_empty());
    }

    fn worker<'a>(name: &'a str, stack: &'a str, free: u32) -> Worker<'a> {
        Worker { name, stack, free }
    }

    #[test]
    fn work_is_spread_over_those_that_are_free() {
        let workers = [
            worker("a", "s", 1),
            worker("b", "s", 2),
            worker("c", "s", 0),
        ];
        let wishes = vec![Wish::default(); 5];
        assert_eq!(assign(&wishes, &workers), [(0, 1), (1, 0), (2, 1)]);
    }

    #[test]
    fn a_family_is_made_by_one_stack_as_long_as_somebody_has_it() {
        let workers = [worker("new", "2", 3), worker("old", "1", 0)];
        let mut wish = Wish {
            stack: Some("1"),
            ..Wish::default()
        };
        assert!(
            assign(std::slice::from_ref(&wish), &workers).is_empty(),
            "it waits for `old`"
        );
        wish.barred.insert("old");
        assert_eq!(assign(&[wish], &workers), [(0, 0)]);
    }
}
