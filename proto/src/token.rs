//! A token as text: `sweep_` and 86 characters, which are 32 secret bytes and the SHA-256 of the coordinator's CA
//! certificate. So whoever has a token needs no other file to know the coordinator from somebody in between.
//!
//! Refuses to show the secret: `Debug` does not print it, an error never repeats what it was given, and what is kept of
//! a token is [`Token::digest`]. Random bytes are an argument.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret as _, SecretBox, SecretString};
use thiserror::Error;

const BEGIN: &str = "sweep_";

/// SHA-256 of the CA certificate's DER.
pub type Pin = [u8; 32];

#[derive(Debug)]
pub struct Token {
    secret: SecretBox<[u8; 32]>,
    pin: Pin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this is no token: it begins with sweep_ and has 92 characters, all on one line")]
pub struct BadToken;

impl Token {
    #[must_use]
    pub fn new(secret: [u8; 32], pin: Pin) -> Self {
        Self {
            secret: SecretBox::new(Box::new(secret)),
            pin,
        }
    }

    /// Spaces and line ends around it are what files and copying add.
    pub fn parse(text: &str) -> Result<Self, BadToken> {
        let coded = text.trim().strip_prefix(BEGIN).ok_or(BadToken)?;
        let bytes = URL_SAFE_NO_PAD.decode(coded).map_err(|_| BadToken)?;
        let bytes: [u8; 64] = bytes.try_into().map_err(|_| BadToken)?;
        let (mut secret, mut pin) = ([0; 32], [0; 32]);
        secret.copy_from_slice(&bytes[..32]);
        pin.copy_from_slice(&bytes[32..]);
        Ok(Self::new(secret, pin))
    }

    /// For whoever is given it, once.
    #[must_use]
    pub fn text(&self) -> SecretString {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(self.secret.expose_secret());
        bytes[32..].copy_from_slice(&self.pin);
        format!("{BEGIN}{}", URL_SAFE_NO_PAD.encode(bytes)).into()
    }

    #[must_use]
    pub fn pin(&self) -> Pin {
        self.pin
    }

    /// What may be kept of it, by a hash of the caller's: this crate computes none.
    #[must_use]
    pub fn digest(&self, sha256: impl FnOnce(&[u8]) -> [u8; 32]) -> [u8; 32] {
        sha256(self.secret.expose_secret())
    }
}

/// A certificate's DER as PEM.
#[must_use]
pub fn certificate_pem(der: &[u8]) -> String {
    let coded = STANDARD.encode(der);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in coded.as_bytes().chunks(64) {
        text.extend(line.iter().copied().map(char::from));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_says_nothing() {
        let token = Token::new([7; 32], [9; 32]);
        let text = token.text();
        let text = text.expose_secret();
        assert_eq!(text.len(), 92);
        let again = Token::parse(&format!("  {text}\n")).unwrap();
        assert_eq!(again.pin(), [9; 32]);
        assert_eq!(again.digest(|bytes| bytes.try_into().unwrap()), [7; 32]);
        assert!(!format!("{token:?}").contains('7'), "{token:?}");
    }

    #[test]
    fn what_is_no_token_is_refused_without_being_repeated() {
        let text = Token::new([7; 32], [9; 32]).text();
        let text = text.expose_secret();
        for bad in [
            "",
            "sweep_",
            "hunter2",
            &text[..91],
            &format!("{text}A"),
            &text[6..],
        ] {
            let error = Token::parse(bad).unwrap_err().to_string();
            assert!(bad.len() < 7 || !error.contains(bad), "{error}");
        }
    }
}
