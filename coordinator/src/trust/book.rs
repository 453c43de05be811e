//! Who may do what: users' tokens, join tokens, hosts that have joined. Pure: the time and all random bytes are
//! arguments, and what changes is a new book that its keeper writes down before anybody is told.
//!
//! Holds no secret: of a token its SHA-256, of a host its certificate's. Refuses a name that stands already, a token that
//! was used, has expired or is for another host, and says no more than that.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use thiserror::Error;

use super::roles::Role;

pub type Digest = [u8; 32];

/// SHA-256 of a token. Two of them are compared in constant time, whoever compares them: there is no other way.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenDigest(#[serde(with = "super::hex")] Digest);

impl From<Digest> for TokenDigest {
    fn from(digest: Digest) -> Self {
        Self(digest)
    }
}

impl PartialEq for TokenDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest")
    }
}

const NAME_MAX: usize = 64;
/// Tokens and hosts; a file of a few hundred kilobytes.
const ENTRIES_MAX: usize = 2000;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Book {
    /// Of this file's form.
    pub version: u32,
    /// Names and addresses of the server's certificate.
    pub names: Vec<String>,
    pub server_expires_ms: u64,
    pub tokens: Vec<TokenEntry>,
    pub hosts: Vec<HostEntry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenEntry {
    pub name: String,
    pub digest: TokenDigest,
    pub created_ms: u64,
    /// 0: never.
    pub expires_ms: u64,
    pub kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    User {
        role: Role,
    },
    /// `host`: the only one that may use it; `used`: the one that has.
    Join {
        host: Option<String>,
        used: Option<String>,
    },
}

/// A host that has joined. One certificate at a time: joining again ends the one before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostEntry {
    pub name: String,
    /// SHA-256 of the certificate's DER.
    #[serde(with = "super::hex")]
    pub certificate: Digest,
    /// SHA-256 of its public key.
    #[serde(with = "super::hex")]
    pub key: Digest,
    pub serial: String,
    /// The join token's name.
    pub token: String,
    pub joined_ms: u64,
    pub expires_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Denied {
    #[error(
        "the token is not known here, or was revoked; ask for a new one: sweep token create NAME --role ROLE"
    )]
    Unknown,
    #[error(
        "the token has expired; ask for a new one: sweep token create, or sweep token rotate NAME"
    )]
    Expired,
    #[error("the join token was used already; make another one: sweep token create --join")]
    Used,
    #[error(
        "the join token is for another host; make one for this host: sweep token create --join --host NAME"
    )]
    OtherHost,
    #[error(
        "this is a join token, which only lets a host join; a user's token is needed: sweep token create NAME --role ROLE"
    )]
    IsJoin,
    #[error(
        "this is a user's token, which lets no host join; make a join token: sweep token create --join"
    )]
    IsUser,
    #[error(
        "a token or host with the name `{0}` is there already; revoke it first, or take another name"
    )]
    Taken(String),
    #[error(
        "`{0}` is the last token with the role admin: without it nobody could be let in any more; make another one first \
         (sweep token create NAME --role admin), or a new text for this one (sweep token rotate {0})"
    )]
    LastAdmin(String),
    #[error("nothing is called `{0}`; `sweep token list` shows all")]
    NoSuch(String),
    #[error("`{0}` cannot be a name: letters, digits, `.`, `_` and `-`, at most 64 of them")]
    BadName(String),
    #[error("there are {ENTRIES_MAX} tokens and hosts already; revoke what is not needed any more")]
    Full,
}

impl Book {
    /// The user that a token speaks for.
    pub fn user(&self, digest: &TokenDigest, now: u64) -> Result<(&str, Role), Denied> {
        let entry = self.token(digest, now)?;
        match &entry.kind {
            TokenKind::User { role } => Ok((&entry.name, *role)),
            TokenKind::Join { .. } => Err(Denied::IsJoin),
        }
    }

    /// All of them are compared, each in constant time: how long it takes says nothing.
    fn token(&self, digest: &TokenDigest, now: u64) -> Result<&TokenEntry, Denied> {
        let entry = among_all(&self.tokens, |entry| entry.digest == *digest);
        let entry = entry.ok_or(Denied::Unknown)?;
        if is_past(entry.expires_ms, now) {
            return Err(Denied::Expired);
        }
        Ok(entry)
    }

    /// The host whose certificate this is. The handshake has checked its signature and time.
    pub fn host(&self, certificate: &Digest) -> Option<&HostEntry> {
        self.hosts
            .iter()
            .find(|host| host.certificate == *certificate)
    }

    pub fn add(&mut self, entry: TokenEntry) -> Result<(), Denied> {
        check_name(&entry.name)?;
        if let TokenKind::Join {
            host: Some(host), ..
        } = &entry.kind
        {
            check_name(host)?;
        }
        self.prune(entry.created_ms);
        if self.tokens.iter().any(|one| one.name == entry.name) {
            return Err(Denied::Taken(entry.name));
        }
        if self.tokens.len() + self.hosts.len() >= ENTRIES_MAX {
            return Err(Denied::Full);
        }
        self.tokens.push(entry);
        Ok(())
    }

    /// Another text for the same user. Without a time it lasts as long as it was made for.
    pub fn rotate(
        &mut self,
        name: &str,
        digest: TokenDigest,
        lasts_ms: u64,
        now: u64,
    ) -> Result<&TokenEntry, Denied> {
        let entry = self.tokens.iter_mut().find(|one| one.name == name);
        let entry = entry.ok_or_else(|| Denied::NoSuch(shown(name)))?;
        if matches!(entry.kind, TokenKind::Join { .. }) {
            return Err(Denied::IsJoin);
        }
        let before = entry.expires_ms.saturating_sub(entry.created_ms);
        let lasts = if lasts_ms == 0 { before } else { lasts_ms };
        entry.digest = digest;
        entry.created_ms = now;
        entry.expires_ms = if lasts == 0 {
            0
        } else {
            now.saturating_add(lasts)
        };
        Ok(entry)
    }

    /// Not the last one that may make others: nobody could be let in any more.
    pub fn revoke_token(&mut self, name: &str, now: u64) -> Result<(), Denied> {
        let entry = self.tokens.iter().find(|one| one.name == name);
        let entry = entry.ok_or_else(|| Denied::NoSuch(shown(name)))?;
        let mut others = self.tokens.iter().filter(|one| one.name != name);
        if entry.is_admin(now) && !others.any(|one| one.is_admin(now)) {
            return Err(Denied::LastAdmin(shown(name)));
        }
        self.tokens.retain(|one| one.name != name);
        Ok(())
    }

    pub fn revoke_host(&mut self, name: &str) -> Result<(), Denied> {
        let before = self.hosts.len();
        self.hosts.retain(|one| one.name != name);
        if self.hosts.len() == before {
            return Err(Denied::NoSuch(shown(name)));
        }
        Ok(())
    }

    /// May this token let this host in with this key? The answer is the token's name. A used one may again for the same
    /// host and key: the answer to the first time may have been lost on its way, and the certificate is of no use to
    /// anybody else.
    pub fn may_join(
        &self,
        digest: &TokenDigest,
        host: &str,
        key: &Digest,
        now: u64,
    ) -> Result<&str, Denied> {
        check_name(host)?;
        let entry = self.token(digest, now)?;
        let TokenKind::Join { host: only, used } = &entry.kind else {
            return Err(Denied::IsUser);
        };
        if only.as_deref().is_some_and(|only| only != host) {
            return Err(Denied::OtherHost);
        }
        let again =
            |one: &HostEntry| one.name == host && one.token == entry.name && one.key == *key;
        if used.is_some() && !self.hosts.iter().any(again) {
            return Err(Denied::Used);
        }
        Ok(&entry.name)
    }

    /// After [`Book::may_join`]: the token is used, and the host has this certificate and no other.
    pub fn join(&mut self, host: HostEntry) {
        for entry in &mut self.tokens {
            if let TokenKind::Join { used, .. } = &mut entry.kind
                && entry.name == host.token
            {
                *used = Some(host.name.clone());
            }
        }
        self.hosts.retain(|one| one.name != host.name);
        self.hosts.push(host);
    }

    /// Join tokens that nobody can use any more.
    fn prune(&mut self, now: u64) {
        let gone = |one: &TokenEntry| {
            matches!(one.kind, TokenKind::Join { .. }) && is_past(one.expires_ms, now)
        };
        self.tokens.retain(|one| !gone(one));
    }
}

/// Looks at each of them, also after the one was found: how long it takes says nothing.
fn among_all<T>(all: &[T], mut is_it: impl FnMut(&T) -> bool) -> Option<&T> {
    let mut found = None;
    for one in all {
        if is_it(one) {
            found = Some(one);
        }
    }
    found
}

impl TokenEntry {
    fn is_admin(&self, now: u64) -> bool {
        let admin = TokenKind::User { role: Role::Admin };
        self.kind == admin && !is_past(self.expires_ms, now)
    }
}

pub fn is_past(expires_ms: u64, now: u64) -> bool {
    expires_ms != 0 && now >= expires_ms
}

fn check_name(name: &str) -> Result<(), Denied> {
    let right = name.len() <= NAME_MAX && jobs::is_host_name(name);
    if right {
        Ok(())
    } else {
        Err(Denied::BadName(shown(name)))
    }
}

/// A name that somebody sent, harmless in a message.
fn shown(name: &str) -> String {
    name.escape_debug().take(NAME_MAX + 8).collect()
}

#[cfg(test)]
mod tests;
