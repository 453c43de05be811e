//! How often one address may fail before it is not listened to for a while. Pure: the time is an argument.
//!
//! Guessing 32 random bytes is hopeless anyway; the limit keeps whoever tries from costing time and filling the log.
//! Refuses to grow without bound: with too many addresses at a time the ones heard longest ago are forgotten.

use std::collections::HashMap;
use std::net::IpAddr;

/// So many failures within [`SPAN_MS`] of the first one.
const FAILURES: u32 = 20;
const SPAN_MS: u64 = 60_000;
const ADDRESSES: usize = 4096;

#[derive(Debug, Default)]
pub struct Limit {
    seen: HashMap<IpAddr, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    since: u64,
    failures: u32,
}

impl Limit {
    /// May this address try?
    pub fn allows(&self, address: IpAddr, now: u64) -> bool {
        let seen = self.seen.get(&network(address));
        seen.is_none_or(|seen| seen.failures < FAILURES || is_over(seen, now))
    }

    pub fn failed(&mut self, address: IpAddr, now: u64) {
        let address = network(address);
        if self.seen.len() >= ADDRESSES && !self.seen.contains_key(&address) {
            self.seen.retain(|_, seen| !is_over(seen, now));
            let oldest = self.seen.iter().min_by_key(|(_, seen)| seen.since);
            if let Some(oldest) = oldest.map(|(address, _)| *address)
                && self.seen.len() >= ADDRESSES
            {
                self.seen.remove(&oldest);
            }
        }
        let seen = self.seen.entry(address).or_insert(Seen {
            since: now,
            failures: 0,
        });
        if is_over(seen, now) {
            *seen = Seen {
                since: now,
                failures: 0,
            };
        }
        seen.failures = seen.failures.saturating_add(1);
    }
}

/// Also when the clock was set back: an address is never shut out for longer than the span.
fn is_over(seen: &Seen, now: u64) -> bool {
    now < seen.since || now - seen.since >= SPAN_MS
}

/// Whoever has one address of IPv6 has 2^64 of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let bits = u128::from(v6) >> 64 << 64;
            IpAddr::V6(bits.into())
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_that_fails_too_often_waits_and_no_other() {
        let mut limit = Limit::default();
        let (bad, good) = (address("10.0.0.1"), address("10.0.0.2"));
        for _ in 0..FAILURES {
            assert!(limit.allows(bad, 1000));
            limit.failed(bad, 1000);
        }
        assert!(!limit.allows(bad, 1000 + SPAN_MS - 1));
        assert!(limit.allows(good, 1000));
        assert!(limit.allows(bad, 1000 + SPAN_MS));
        assert!(limit.allows(bad, 1), "a clock that was set back shuts out");
        limit.failed(bad, 1000 + SPAN_MS);
        assert!(limit.allows(bad, 1000 + SPAN_MS));
    }

    #[test]
    fn one_network_of_ipv6_is_one_address_and_memory_is_bounded() {
        let mut limit = Limit::default();
        for last in 0..FAILURES {
            limit.failed(address(&format!("2001:db8::{last:x}")), 5);
        }
        assert!(!limit.allows(address("2001:db8::ffff"), 5));
        assert!(limit.allows(address("2001:db8:0:1::1"), 5));
        for number in 0..2 * ADDRESSES as u32 {
            limit.failed(
                IpAddr::V4((0x0a00_0000 + number).into()),
                6 + u64::from(number),
            );
        }
        assert!(limit.seen.len() <= ADDRESSES);
    }
}
