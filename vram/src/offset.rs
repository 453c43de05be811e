//! What a program takes beside its stream, learned from runs of it that were measured on one class of card: a constant.
//! A stream holds every block of the step, so what is left is what a program keeps around it (or lets go of earlier),
//! which is the same for every rank and length. Corrects no closed form: there the error grows with what is computed.

/// Half-width, as a share, of what a measured run says of another recipe of the same program: the seeds' probes and
/// real runs come within 1.4 % of it (docs/rehearsal.md).
const BAND: f64 = 0.015;

/// In MiB; negative where the program takes less.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Offset {
    pub mib: f64,
    pub count: usize,
}

impl Offset {
    /// From pairs of replayed and measured MiB; `None` of none. The median, so that one run of something else does not
    /// move it.
    pub(crate) fn learn(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let mut beyond: Vec<f64> = pairs
            .into_iter()
            .map(|(replayed, measured)| measured - replayed)
            .collect();
        beyond.sort_by(f64::total_cmp);
        let mib = *beyond.get(beyond.len() / 2)?;
        Some(Self {
            mib,
            count: beyond.len(),
        })
    }

    /// The half-width of a corrected prediction whose stream has this one.
    pub(crate) fn widened(of_stream: f64) -> f64 {
        of_stream.hypot(BAND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_most_runs_had_beyond_their_streams() {
        let of = |pairs: &[(f64, f64)]| Offset::learn(pairs.iter().copied()).map(|one| one.mib);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(1000.0, 1040.0)]), Some(40.0));
        assert_eq!(of(&[(1000.0, 950.0)]), Some(-50.0));
        let runs = [(1000.0, 1040.0), (2000.0, 2041.0), (900.0, 1700.0)];
        assert_eq!(of(&runs), Some(41.0));
        let turned = [runs[2], runs[0], runs[1]];
        assert_eq!(of(&turned), of(&runs));
    }

    #[test]
    fn a_corrected_band_is_never_the_narrower_one() {
        assert!(Offset::widened(0.008) > 0.015);
        assert!(Offset::widened(0.08) > 0.08);
    }
}
