//! Gets the CA's certificate from the coordinator itself, by its SHA-256: one TLS handshake, in which the server must
//! show that very certificate and one that it signed for the name dialled. Nothing is sent.
//!
//! Refuses a chain without the pinned certificate, whatever else is right about it.

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;

use proto::token::{Pin, certificate_pem};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};
use sha2::{Digest as _, Sha256};
use tonic::transport::Uri;

use super::{PATIENCE, TrustError};

/// The CA's certificate as PEM. Blocks for a handshake.
pub fn authority(address: &str, pin: Pin) -> Result<String, TrustError> {
    let wrong = || TrustError::Address(address.to_owned());
    let uri: Uri = address.parse().map_err(|_| wrong())?;
    let host = uri.host().ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().ok_or_else(wrong)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|_| wrong())?;

    let provider = Arc::new(ring::default_provider());
    let untrusted = |why: String| TrustError::Untrusted {
        address: address.to_owned(),
        why,
    };
    let verifier = Arc::new(Pinned {
        pin,
        provider: provider.clone(),
    });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| untrusted(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    // What the server speaks; it closes the door to anything else.
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut tls = ClientConnection::new(Arc::new(config), name)
        .map_err(|error| untrusted(error.to_string()))?;
    let mut stream = connect(host, port).map_err(|error| TrustError::Unreachable {
        address: address.to_owned(),
        why: error.to_string(),
    })?;
    while tls.is_handshaking() {
        if let Err(error) = tls.complete_io(&mut stream) {
            // What rustls refuses comes wrapped; the rest is the network.
            return Err(match error.kind() {
                ErrorKind::InvalidData => untrusted(error.to_string()),
                _ => TrustError::Unreachable {
                    address: address.to_owned(),
                    why: error.to_string(),
                },
            });
        }
    }
    let shown = tls.peer_certificates().unwrap_or_default();
    match pinned(shown, &pin) {
        Some(found) => Ok(certificate_pem(found)),
        None => Err(untrusted(
            "it does not show the CA that the token names".into(),
        )),
    }
}

/// Is this the authority (PEM) that the token is for?
pub fn check(address: &str, authority: &str, pin: Pin) -> Result<(), TrustError> {
    let why = match CertificateDer::from_pem_slice(authority.as_bytes()) {
        Ok(der) if Pin::from(Sha256::digest(&der)) == pin => return Ok(()),
        Ok(_) => "the CA's file is not the CA that the token was made by",
        Err(_) => "the CA's file has no certificate (PEM)",
    };
    Err(TrustError::Untrusted {
        address: address.to_owned(),
        why: why.to_owned(),
    })
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn pinned<'a, 'd>(shown: &'a [CertificateDer<'d>], pin: &Pin) -> Option<&'a CertificateDer<'d>> {
    shown
        .iter()
        .find(|one| Pin::from(Sha256::digest(one)) == *pin)
}

#[derive(Debug)]
struct Pinned {
    pin: Pin,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let authority = pinned(intermediates, &self.pin);
        let authority =
            authority.ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        // From here on it is as if the file had been given: signature, time and name are checked as ever.
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), self.provider.clone())
                .build()
                .map_err(|error| Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_authority_is_refused() {
        let key = rcgen::KeyPair::generate().unwrap();
        let made = rcgen::CertificateParams::default()
            .self_signed(&key)
            .unwrap();
        let pin = Pin::from(Sha256::digest(made.der()));
        assert!(check("https://x:1", &made.pem(), pin).is_ok());
        for (file, pin) in [(made.pem(), [0; 32]), ("nonsense".to_owned(), pin)] {
            let error = check("https://x:1", &file, pin).unwrap_err();
            assert!(matches!(error, TrustError::Untrusted { .. }), "{error}");
        }
    }

    #[test]
    fn an_address_must_have_a_host_and_a_port() {
        for bad in ["", "https://x", "https://:1", "https://x y:1"] {
            let error = authority(bad, [0; 32]).unwrap_err();
            assert!(matches!(error, TrustError::Address(_)), "{bad}: {error}");
        }
        // Port 1 is never listened on.
        let error = authority("https://127.0.0.1:1", [0; 32]).unwrap_err();
        assert!(matches!(error, TrustError::Unreachable { .. }), "{error}");
    }
}
