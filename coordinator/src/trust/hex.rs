//! Digests as hexadecimal text in the file, and shown. Refuses what is not 64 digits.

use serde::{Deserialize as _, Deserializer, Serializer};

use super::book::Digest;
pub(super) use crate::store::hex as text;

pub fn serialize<S: Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(digest))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
    let written = String::deserialize(deserializer)?;
    let wrong = || serde::de::Error::custom("a digest is not 64 hexadecimal digits");
    if written.len() != 64 || !written.is_ascii() {
        return Err(wrong());
    }
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&written[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
    }
    Ok(digest)
}
