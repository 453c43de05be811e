//! From the devices that could take a job to the ones that do: the best of all, or for a job of several devices the
//! best set of one host and one class, each with the same grant: unequal devices would wait for each other, and what
//! is enough for one may be too little for another. Knows nothing of what else waits.

use vram::{Bytes, VerdictKind};

use super::fleet::{Fleet, Load};
use super::queue::Shape;
use super::rank::Bid;

pub(super) struct Seat {
    /// Indexes into the fleet's devices; never empty.
    pub devices: Vec<usize>,
    /// On each of them.
    pub grant: Bytes,
    pub verdict: VerdictKind,
}

pub(super) fn seat(
    mut bids: Vec<Bid>,
    shape: &Shape<'_>,
    fleet: &Fleet<'_>,
    loads: &[Load],
) -> Option<Seat> {
    if shape.gpus == 1 {
        let best = bids.into_iter().min_by(Bid::order)?;
        return Some(Seat {
            devices: vec![best.at],
            grant: best.opening.grant,
            verdict: best.opening.verdict,
        });
    }
    let place = |bid: &Bid| {
        let device = &fleet.devices[bid.at];
        (device.on.name, device.class)
    };
    bids.sort_by(|one, other| place(one).cmp(&place(other)).then_with(|| one.order(other)));
    let sets = bids.chunk_by(|one, other| place(one) == place(other));
    let seats = sets.filter_map(|set| together(set, shape.gpus, fleet, loads));
    let best = seats.min_by(|(one, _), (other, _)| one.order(other));
    best.map(|(_, seat)| seat)
}

/// The first devices of a sorted set that can take the job together, with the slowest of them.
fn together<'b>(
    set: &'b [Bid],
    gpus: usize,
    fleet: &Fleet<'_>,
    loads: &[Load],
) -> Option<(&'b Bid, Seat)> {
    let left = |bid: &Bid| {
        fleet.devices[bid.at]
            .free
            .saturating_sub(loads[bid.at].reserved)
    };
    let certain: Vec<&Bid> = set
        .iter()
        .filter(|bid| !bid.opening.alone)
        .take(gpus)
        .collect();
    if certain.len() == gpus {
        let grant = certain[0].opening.grant;
        return Some((certain[gpus - 1], of(&certain, grant, VerdictKind::Fits)));
    }
    // Some of them are to be measured: then all are taken whole.
    let idle = |bid: &&Bid| loads[bid.at].active == 0 && loads[bid.at].reserved == Bytes::ZERO;
    let whole: Vec<&Bid> = set.iter().filter(idle).take(gpus).collect();
    if whole.len() < gpus || whole.iter().all(|bid| !bid.opening.alone) {
        return None;
    }
    let grant = whole.iter().map(|bid| left(bid)).min()?;
    Some((whole[gpus - 1], of(&whole, grant, VerdictKind::Uncertain)))
}

fn of(bids: &[&Bid], grant: Bytes, verdict: VerdictKind) -> Seat {
    Seat {
        devices: bids.iter().map(|bid| bid.at).collect(),
        grant,
        verdict,
    }
}
