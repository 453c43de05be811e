//! The seeds, judged as the program would have judged them: in the order of their days from what was known before, or
//! with some of them left out. Says nothing of how good the answers are; `goals` and the tests do.

use vram::{
    Bytes, DeviceClass, DeviceLoad, Estimate, Knowledge, Mode, Observation, Observed,
    VerdictCounts, VerdictKind, Workload, estimate, seed_history, verdict,
};

/// One measured row with the answer that the model gives for it.
#[derive(Clone, Debug)]
pub struct Judged {
    pub day: String,
    /// Its name in the seeds.
    pub source: String,
    pub class: DeviceClass,
    pub mode: Mode,
    pub observed: Observed,
    pub verdict: VerdictKind,
    pub estimate: Estimate,
    pub room: Bytes,
    pub seen: Observation,
}

impl Judged {
    /// Of peak allocated, with its sign; only of what ran to its end.
    pub fn off_pct(&self) -> Option<f64> {
        let measured = self.seen.allocated?;
        (self.observed == Observed::Ok)
            .then(|| super::spread::off_pct(self.estimate.allocated.mib(), measured.mib()))
    }

    /// The cards where fitting was ever in question: the roomy one neither failed nor came near it.
    pub fn is_on_a_small_card(&self) -> bool {
        self.class.name.contains("RTX 30")
    }

    /// A whole training run that ended.
    pub fn is_real_run(&self) -> bool {
        (self.mode, self.observed) == (Mode::Train, Observed::Ok)
    }
}

fn judge(day: &str, seen: &Observation, knowledge: &Knowledge) -> Option<Judged> {
    let workload = Workload::new(seen.mode, &seen.settings, None).ok()?;
    let load = DeviceLoad {
        usable: seen.room,
        held: Bytes::ZERO,
    };
    let answer = verdict(
        estimate(&workload, &seen.class, knowledge),
        &seen.class,
        &load,
    );
    Some(Judged {
        day: day.to_owned(),
        source: seen.source.trim_start_matches("seeds: ").to_owned(),
        class: seen.class.clone(),
        mode: seen.mode,
        observed: seen.observed,
        verdict: answer.kind,
        estimate: answer.estimate?,
        room: load.room(),
        seen: seen.clone(),
    })
}

/// Everything, each row judged only from the rows of earlier days and those before it on its own.
pub fn in_order_of_time() -> Vec<Judged> {
    let mut knowledge = Knowledge::default();
    let history = seed_history();
    let judged = history.into_iter().filter_map(|(day, seen)| {
        let judged = judge(&day, &seen, &knowledge);
        knowledge.learn(seen);
        judged
    });
    judged.collect()
}

/// The cross-GPU probes that ended, each from the others alone.
pub fn probes_leaving_one_out() -> Vec<Judged> {
    let history = cross_gpu();
    let judged = history.iter().enumerate().map(|(at, (day, seen))| {
        let mut knowledge = Knowledge::default();
        for (other, (_, observation)) in history.iter().enumerate() {
            if other != at {
                knowledge.learn(observation.clone());
            }
        }
        judge(day, seen, &knowledge)
    });
    ended(judged.flatten())
}

/// The probes of the 8 GB box that ended, from the cross-GPU probes alone: other cards, a month later.
pub fn older_probes() -> Vec<Judged> {
    let mut knowledge = Knowledge::default();
    for (_, seen) in cross_gpu() {
        knowledge.learn(seen);
    }
    let all = seed_history();
    let older = all
        .iter()
        .filter(|(_, seen)| seen.mode == Mode::Probe && !seen.source.contains("cross-GPU"));
    ended(older.filter_map(|(day, seen)| judge(day, seen, &knowledge)))
}

fn cross_gpu() -> Vec<(String, Observation)> {
    let mut history = seed_history();
    history.retain(|(_, seen)| seen.source.contains("cross-GPU"));
    history
}

fn ended(judged: impl Iterator<Item = Judged>) -> Vec<Judged> {
    judged
        .filter(|one| one.observed == Observed::Ok && one.seen.allocated.is_some())
        .collect()
}

/// Wrong and open verdicts among pairs of what was said and whether it ran out of memory.
pub fn counts(verdicts: impl IntoIterator<Item = (VerdictKind, bool)>) -> VerdictCounts {
    let mut counts = VerdictCounts::default();
    for (kind, failed) in verdicts {
        counts.n += 1;
        match (kind, failed) {
            (VerdictKind::Fits, true) => counts.false_fits += 1,
            (VerdictKind::TooLarge | VerdictKind::Spills, false) => counts.false_too_large += 1,
            (VerdictKind::Uncertain, _) => counts.uncertain += 1,
            _ => {}
        }
    }
    counts
}

/// The verdicts on the small cards, where the answer was asked for.
pub fn small_card_counts(history: &[Judged]) -> VerdictCounts {
    let small = history.iter().filter(|one| one.is_on_a_small_card());
    counts(small.map(|one| (one.verdict, one.observed == Observed::Oom)))
}
