//! The coordinator's own small certificate authority: its key signs the server's certificate and those of hosts, and
//! nothing else. Time and serial numbers are arguments; keys come from the provider's own random source.
//!
//! Refuses to take anything but the public key from a host's request: the name is the one that the join token allowed,
//! and a certificate of a host is good for a client only, never for a server or another authority.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _,
    SerialNumber,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::TrustError;
use super::book::Digest;

const DAY_MS: u64 = 24 * 3600 * 1000;
/// Clocks of hosts may be wrong by this much.
const SLACK_MS: u64 = 2 * DAY_MS;
const AUTHORITY_MS: u64 = 20 * 365 * DAY_MS;
const SERVER_MS: u64 = 2 * 365 * DAY_MS;
/// Ended by revoking, not by waiting: what counts is the list of hosts.
const HOST_MS: u64 = 10 * 365 * DAY_MS;

pub type Serial = [u8; 16];

/// A certificate and its key, as PEM.
pub struct Signed {
    pub certificate: String,
    pub key: String,
    pub expires_ms: u64,
}

/// A certificate for a key that is elsewhere.
pub struct HostCertificate {
    pub pem: String,
    /// SHA-256 of the DER.
    pub digest: Digest,
    pub expires_ms: u64,
}

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    pin: Digest,
}

pub fn sha256(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// A new authority.
pub fn make(name: &str, now: u64, serial: &Serial) -> Result<Signed, TrustError> {
    let key = KeyPair::generate().map_err(TrustError::certificate)?;
    let mut params = params(&format!("sweep CA of {name}"), now, AUTHORITY_MS, serial)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let made = params.self_signed(&key).map_err(TrustError::certificate)?;
    Ok(Signed {
        certificate: made.pem(),
        key: key.serialize_pem(),
        expires_ms: now + AUTHORITY_MS,
    })
}

impl Authority {
    pub fn read(certificate: &str, key: &str) -> Result<Self, TrustError> {
        let key = KeyPair::from_pem(key).map_err(TrustError::certificate)?;
        let issuer = Issuer::from_ca_cert_pem(certificate, key).map_err(TrustError::certificate)?;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|error| TrustError::Certificate(error.to_string()))?;
        Ok(Self {
            issuer,
            pem: certificate.to_owned(),
            pin: sha256(&der),
        })
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// SHA-256 of its certificate: its fingerprint.
    pub fn pin(&self) -> Digest {
        self.pin
    }

    /// The server's certificate, with the authority's own after it: a client that has only the pin finds it there.
    pub fn server(
        &self,
        names: &[String],
        now: u64,
        serial: &Serial,
    ) -> Result<Signed, TrustError> {
        let key = KeyPair::generate().map_err(TrustError::certificate)?;
        let mut params = params("sweep coordinator", now, SERVER_MS, serial)?;
        params.subject_alt_names = CertificateParams::new(names.to_vec())
            .map_err(TrustError::certificate)?
            .subject_alt_names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let made = params
            .signed_by(&key, &self.issuer)
            .map_err(TrustError::certificate)?;
        Ok(Signed {
            certificate: format!("{}{}", made.pem(), self.pem),
            key: key.serialize_pem(),
            expires_ms: now + SERVER_MS,
        })
    }

    pub fn host(
        &self,
        request: &HostRequest,
        host: &str,
        now: u64,
        serial: &Serial,
    ) -> Result<HostCertificate, TrustError> {
        let mut params = params(host, now, HOST_MS, serial)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let made = params
            .signed_by(&request.parsed.public_key, &self.issuer)
            .map_err(TrustError::certificate)?;
        Ok(HostCertificate {
            pem: made.pem(),
            digest: sha256(made.der()),
            expires_ms: now + HOST_MS,
        })
    }
}

/// What a host asks to have signed; its signature is right, so whoever sent it (first) has the key.
pub struct HostRequest {
    parsed: CertificateSigningRequestParams,
}

impl HostRequest {
    pub fn read(der: &[u8]) -> Result<Self, TrustError> {
        let der = CertificateSigningRequestDer::from(der.to_vec());
        let parsed =
            CertificateSigningRequestParams::from_der(&der).map_err(|_| TrustError::Request)?;
        Ok(Self { parsed })
    }

    /// SHA-256 of the public key.
    pub fn key(&self) -> Digest {
        sha256(self.parsed.public_key.der_bytes())
    }
}

fn params(
    name: &str,
    now: u64,
    lasts: u64,
    serial: &Serial,
) -> Result<CertificateParams, TrustError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date(now.saturating_sub(SLACK_MS))?;
    params.not_after = date(now + lasts)?;
    // Positive, whatever the bytes are.
    let mut positive = *serial;
    positive[0] = positive[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&positive));
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn date(ms: u64) -> Result<OffsetDateTime, TrustError> {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds)
        .map_err(|error| TrustError::Certificate(format!("the clock says no date: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn an_authority_is_read_again_and_signs_what_a_host_asks() {
        let made = make("here", NOW, &[1; 16]).unwrap();
        let authority = Authority::read(&made.certificate, &made.key).unwrap();
        let server = authority
            .server(&["localhost".into(), "127.0.0.1".into()], NOW, &[2; 16])
            .unwrap();
        assert_eq!(server.certificate.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(!server.certificate.contains("PRIVATE"));
        let key = KeyPair::generate().unwrap();
        let mut asked = CertificateParams::new(vec!["evil.example".to_owned()]).unwrap();
        asked.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let csr = asked.serialize_request(&key).unwrap();
        let request = HostRequest::read(csr.der());
        // Some of what may be asked is refused at once; the rest is passed over.
        if let Ok(request) = request {
            let signed = authority.host(&request, "box", NOW, &[3; 16]).unwrap();
            let der = CertificateDer::from_pem_slice(signed.pem.as_bytes()).unwrap();
            assert_eq!(sha256(&der), signed.digest);
            let text = String::from_utf8_lossy(&der).into_owned();
            assert!(
                text.contains("box") && !text.contains("evil"),
                "its own wishes were taken"
            );
        }
    }

    #[test]
    fn a_request_with_a_wrong_signature_is_refused() {
        let key = KeyPair::generate().unwrap();
        let csr = CertificateParams::default()
            .serialize_request(&key)
            .unwrap();
        let mut der = csr.der().to_vec();
        assert!(HostRequest::read(&der).is_ok());
        let last = der.len() - 1;
        der[last] ^= 1;
        assert!(HostRequest::read(&der).is_err());
        assert!(HostRequest::read(b"nonsense").is_err());
    }
}
