//! An amount of memory. Whole bytes inside, MiB outside; never a float in a comparison that decides.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Bytes in one MiB.
pub const MIB: u64 = 1 << 20;

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    pub const ZERO: Self = Self(0);

    #[must_use]
    pub fn from_mib(mib: f64) -> Self {
        Self((mib.max(0.0) * MIB as f64).round() as u64)
    }

    /// MiB, for people and JSON.
    #[must_use]
    pub fn mib(self) -> f64 {
        self.0 as f64 / MIB as f64
    }

    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// For documents: MiB with one decimal.
pub(crate) mod as_mib {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Bytes;

    pub(crate) fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64((bytes.mib() * 10.0).round() / 10.0)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        f64::deserialize(from).map(Bytes::from_mib)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, |total, item| total + item)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.1} MiB", self.mib())
    }
}
