//! What measurements of one program on one vendor's cards say of the closed form: a correction that is a line in the
//! tokens and the rank, with a step for each switch, found as in a Kalman filter from priors that expect none.
//! The more is measured nearby, the narrower its band. Independent of the order of learning: observations are sorted,
//! and everything is a sum. What is far from all others is kept out and listed.

/// Constant, tokens, rank, dropout, DoRA, base weights in half precision.
pub(crate) const FEATURES: usize = 6;
pub(crate) type Features = [f64; FEATURES];

/// Prior standard deviations as shares of the computed bytes. An unknown program is off by 5 % at most points, by little
/// more for longer or wider ones. A switch moves one step by what its blocks are: dropout's masks come out within
/// 0.1 % of the measured step in data/h200.jsonl, DoRA's matrices within 0.5 %, and four and five times that is allowed.
pub(crate) const ONE_STEP: Features = [0.05, 0.01, 0.01, 0.005, 0.02, 0.01];
/// Hundreds of steps: a run with dropout took 1.5 % more than its masks (F08, F30), and nothing long was measured
/// with DoRA.
pub(crate) const LONG_RUN: Features = [0.05, 0.01, 0.01, 0.02, 0.05, 0.01];
/// Of one measurement: blocks jitter between ranks (memory-model 1.6).
const NOISE: f64 = 0.003;
/// Ratios further than this from the median of four or more are of something else.
const OUTLIER: f64 = 0.10;

/// One measured peak against what was computed for it, in MiB.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub features: Features,
    pub computed: f64,
    pub measured: f64,
    pub source: String,
}

/// What was learned of one family.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Correction {
    precision: [[f64; FEATURES]; FEATURES],
    weights: Features,
    pub count: usize,
    pub outliers: Vec<String>,
}

impl Correction {
    pub(crate) fn learn(samples: &[Sample], prior: Features) -> Self {
        let mut samples: Vec<&Sample> = samples.iter().collect();
        samples.sort_by(|a, b| {
            let by = |sample: &Sample| (sample.measured, sample.computed);
            by(a)
                .partial_cmp(&by(b))
                .unwrap_or(std::cmp::Ordering::Equal)
                .then(a.source.cmp(&b.source))
        });
        let (kept, outliers): (Vec<&Sample>, Vec<&Sample>) = {
            let middle = median(
                samples
                    .iter()
                    .map(|sample| sample.measured / sample.computed),
            );
            let far = |sample: &&Sample| {
                samples.len() >= 4 && (sample.measured / sample.computed - middle).abs() > OUTLIER
            };
            samples.iter().copied().partition(|sample| !far(sample))
        };
        // Relative residuals, so that one prior serves small and large models.
        let mut precision = [[0.0; FEATURES]; FEATURES];
        let mut target = [0.0; FEATURES];
        for (at, sd) in prior.iter().enumerate() {
            precision[at][at] = 1.0 / (sd * sd);
        }
        for sample in &kept {
            let residual = (sample.measured - sample.computed) / sample.computed;
            for i in 0..FEATURES {
                target[i] += sample.features[i] * residual / (NOISE * NOISE);
                for (j, cell) in precision[i].iter_mut().enumerate() {
                    *cell += sample.features[i] * sample.features[j] / (NOISE * NOISE);
                }
            }
        }
        Self {
            precision,
            weights: solve(precision, target),
            count: kept.len(),
            outliers: outliers
                .into_iter()
                .map(|sample| sample.source.clone())
                .collect(),
        }
    }

    /// Share of the computed bytes to add, and its standard deviation.
    pub(crate) fn at(&self, features: &Features) -> (f64, f64) {
        let share: f64 = self
            .weights
            .iter()
            .zip(features)
            .map(|(weight, x)| weight * x)
            .sum();
        let spread = solve(self.precision, *features);
        let variance: f64 = spread.iter().zip(features).map(|(s, x)| s * x).sum();
        (share, (variance.max(0.0) + NOISE * NOISE).sqrt())
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(1.0)
}

/// Gauss elimination of a small positive definite system.
fn solve(mut matrix: [[f64; FEATURES]; FEATURES], mut right: Features) -> Features {
    for i in 0..FEATURES {
        let pivot = matrix[i];
        for j in i + 1..FEATURES {
            let factor = matrix[j][i] / pivot[i];
            for (cell, above) in matrix[j].iter_mut().zip(pivot).skip(i) {
                *cell -= factor * above;
            }
            right[j] -= factor * right[i];
        }
    }
    for i in (0..FEATURES).rev() {
        let known: f64 = (i + 1..FEATURES).map(|j| matrix[i][j] * right[j]).sum();
        right[i] = (right[i] - known) / matrix[i][i];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rank: f64, ratio: f64) -> Sample {
        Sample {
            features: [1.0, 1.0, rank, 0.0, 0.0, 0.0],
            computed: 1000.0,
            measured: 1000.0 * ratio,
            source: format!("{rank} {ratio}"),
        }
    }

    #[test]
    fn one_measurement_moves_it_most_of_the_way() {
        let learned = Correction::learn(&[sample(1.0, 0.96)], ONE_STEP);
        let (share, sd) = learned.at(&[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        assert!((share + 0.04).abs() < 0.002, "{share}");
        assert!(sd < 0.01, "{sd}");
    }

    #[test]
    fn more_measurements_never_widen_the_band() {
        let features = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        let mut samples = Vec::new();
        let mut before = Correction::learn(&samples, ONE_STEP).at(&features).1;
        for at in 0..10 {
            samples.push(sample(f64::from(at) / 5.0, 1.01));
            let now = Correction::learn(&samples, ONE_STEP).at(&features).1;
            assert!(now <= before);
            before = now;
        }
    }

    #[test]
    fn what_is_far_from_the_others_is_listed() {
        let samples = [
            sample(0.1, 1.0),
            sample(0.2, 1.0),
            sample(0.3, 1.01),
            sample(0.4, 1.5),
        ];
        let learned = Correction::learn(&samples, ONE_STEP);
        assert_eq!(learned.outliers, ["0.4 1.5"]);
        assert_eq!(learned.count, 3);
    }
}
