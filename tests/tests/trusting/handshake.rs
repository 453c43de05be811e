//! A bare TLS handshake with a certificate of the caller's choice: what the coordinator's side of TLS says to it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::Keeper;

/// The alert, or how else the connection ended; nothing when it was let in.
pub fn refused(keeper: &Keeper, (certificate, key): &(String, String)) -> Option<String> {
    let authority = keeper.authority();
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).expect("a CA");
    roots.add(authority).expect("a CA");
    let certificate =
        CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .expect("a certificate with its key");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let address = keeper
        .coordinator
        .url
        .trim_start_matches("https://")
        .to_owned();
    let stream = TcpStream::connect(&address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a limit");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut stream = StreamOwned::new(tls, stream);
    // What an HTTP/2 client begins with; the server answers with its settings.
    let begun = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let mut answer = [0; 9];
    let answered = begun.and_then(|()| stream.read_exact(&mut answer));
    answered.err().map(|error| error.to_string())
}
