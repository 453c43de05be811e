//! A host comes in: its join token is checked and used, its request signed. Refuses a request that is not signed by its own
//! key, and leaves the token unused then.

use proto::token::Token;

use super::ca::{HostRequest, Serial, sha256};
use super::{Denied, HostEntry, Trust, TrustError, hex, init};

/// What a host gets for its join token.
pub struct Joined {
    pub certificate: String,
    pub authority: String,
    /// The name of the token that was used.
    pub token: String,
    pub serial: String,
}

impl Trust {
    /// Lets a host in. The token is used on the disk before its certificate leaves this function.
    pub fn join(
        &self,
        token: &str,
        host: &str,
        request: &[u8],
        now: u64,
    ) -> Result<Joined, TrustError> {
        let token = Token::parse(token).map_err(|_| Denied::Unknown)?;
        let digest = token.digest(sha256).into();
        let serial: Serial = init::random()?;
        self.change(|book| {
            // The token first: whoever has none is not worth the arithmetic of a signature.
            let first = book.may_join(&digest, host, &[0; 32], now);
            if let Err(denied) = first
                && denied != Denied::Used
            {
                return Err(denied.into());
            }
            let request = HostRequest::read(request)?;
            let name = book
                .may_join(&digest, host, &request.key(), now)?
                .to_owned();
            let signed = self.authority.host(&request, host, now, &serial)?;
            let serial = hex::text(&serial);
            book.join(HostEntry {
                name: host.to_owned(),
                certificate: signed.digest,
                key: request.key(),
                serial: serial.clone(),
                token: name.clone(),
                joined_ms: now,
                expires_ms: signed.expires_ms,
            });
            Ok(Joined {
                certificate: signed.pem,
                authority: self.authority.pem().to_owned(),
                token: name,
                serial,
            })
        })
    }
}
