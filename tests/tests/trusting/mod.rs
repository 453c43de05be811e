//! A coordinator with TLS and tokens, and clients that speak to it without the command line: with a foreign certificate,
//! with somebody else's, with none. Refuses to be polite: what a client of ours would never send is sent from here.

pub mod handshake;
mod joining;
mod large;
mod sent;
mod shown;
mod users;

use std::net::IpAddr;
use std::path::PathBuf;

use proto::token::Token;
use proto::v1::agents_client::AgentsClient;
use proto::v1::coordinator_message::Message as Said;
use proto::v1::trust_client::TrustClient;
use proto::v1::{AgentMessage, CoordinatorMessage, Hello, HostInfo, JoinRequest, agent_message};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use secrecy::ExposeSecret as _;
use time::{Duration, OffsetDateTime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status, Streaming};
use whole::{Coordinator, Host, Room};

/// Writes its environment and that of who started it, then waits.
pub const JOB: &str = "[train]\nrun = [\"sh\", \"-c\", \"env > $ROOM/env; cat /proc/$PPID/environ > $ROOM/above; \
                   echo begun > $ROOM/begun; while [ ! -e $ROOM/go ]; do sleep 0.05; done; echo ended\"]";

pub struct Keeper {
    pub room: Room,
    pub coordinator: Coordinator,
    pub runtime: tokio::runtime::Runtime,
}

impl Keeper {
    /// After `init`, listening.
    pub fn new() -> Self {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let room = Room::new();
        let data = room.data();
        let data = data.to_str().expect("plain text");
        room.sweep(&["--data", data, "coordinator", "init", "--name", "keeper"])
            .code(0);
        let mut coordinator = Coordinator::prepared(&room, &room.data());
        coordinator.url = coordinator.url.replace("http://", "https://");
        coordinator.start_again();
        Self {
            room,
            coordinator,
            runtime: tokio::runtime::Runtime::new().expect("a runtime"),
        }
    }

    /// As the owner of the data folder.
    #[track_caller]
    pub fn owner(&self, words: &[&str]) -> whole::Said {
        let data = self.room.data();
        self.room
            .sweep(&[&["--data", data.to_str().expect("plain text")], words].concat())
    }

    /// As whoever has the token.
    #[track_caller]
    pub fn with(&self, token: &str, words: &[&str]) -> whole::Said {
        let words = [&["--coordinator", &self.coordinator.url], words].concat();
        let mut command = self.room.command(&words);
        command.env("SWEEP_TOKEN", token);
        self.room
            .start_command(command, &words)
            .finish(std::time::Duration::from_secs(60))
    }

    pub fn user(&self, name: &str, role: &str) -> String {
        self.owner(&["token", "create", name, "--role", role])
            .word()
    }

    pub fn join_token(&self) -> String {
        self.owner(&["token", "create", "--join"]).word()
    }

    /// A host whose agent joins at its first start.
    pub fn host(&self, name: &str) -> Host {
        let mut host = Host::new(name, 1);
        host.data = Some(self.room.path().join(format!("at-{name}")));
        host.env
            .push(("SWEEP_JOIN_TOKEN".into(), self.join_token()));
        host
    }

    pub fn trust(&self, name: &str) -> PathBuf {
        self.room.data().join("trust").join(name)
    }

    pub fn authority(&self) -> String {
        std::fs::read_to_string(self.trust("ca.pem")).expect("the CA")
    }

    /// The coordinator's own authority, stolen.
    pub fn issuer(&self) -> Issuer<'static, KeyPair> {
        let key = std::fs::read_to_string(self.trust("ca.key")).expect("the CA's key");
        let key = KeyPair::from_pem(&key).expect("a key");
        Issuer::from_ca_cert_pem(&self.authority(), key).expect("a CA")
    }

    /// From an address of its own, as failures are counted for each.
    pub fn channel(&self, identity: Option<Identity>, from: u8) -> Channel {
        let mut tls =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(self.authority()));
        if let Some(identity) = identity {
            tls = tls.identity(identity);
        }
        let _inside = self.runtime.enter();
        Endpoint::from_shared(self.coordinator.url.clone())
            .and_then(|endpoint| endpoint.tls_config(tls))
            .expect("an endpoint")
            .local_address(Some(IpAddr::from([127, 0, 0, from])))
            .connect_lazy()
    }

    /// Joins as `host` and returns what it got, as no agent would.
    pub fn join(&self, token: &str, host: &str) -> Result<Identity, Status> {
        let key = KeyPair::generate().expect("a key");
        let request = CertificateParams::default()
            .serialize_request(&key)
            .expect("a request");
        let request = JoinRequest {
            token: token.into(),
            host: host.into(),
            request: request.der().to_vec(),
        };
        let mut client = TrustClient::new(self.channel(None, 9));
        let reply = self.runtime.block_on(client.join(request))?.into_inner();
        Ok(Identity::from_pem(reply.certificate, key.serialize_pem()))
    }

    /// Opens a session and says hello as `host`.
    pub fn session(
        &self,
        identity: Option<Identity>,
        host: HostInfo,
        from: u8,
    ) -> Result<Session, Status> {
        let mut client = AgentsClient::new(self.channel(identity, from));
        let (say, said) = unbounded_channel();
        let hello = Hello {
            protocol: proto::PROTOCOL,
            spool: "0198b1d4-0000-7000-8000-000000000000".into(),
            host: Some(host),
            ..Hello::default()
        };
        let hear = self.runtime.block_on(async {
            let _ = say.send(message(agent_message::Message::Hello(hello)));
            client.session(UnboundedReceiverStream::new(said)).await
        })?;
        Ok(Session {
            say,
            hear: hear.into_inner(),
        })
    }
}

pub struct Session {
    pub say: UnboundedSender<AgentMessage>,
    pub hear: Streaming<CoordinatorMessage>,
}

impl Session {
    pub fn next(&mut self, keeper: &Keeper) -> Result<Option<Said>, Status> {
        let next = keeper.runtime.block_on(async {
            tokio::time::timeout(std::time::Duration::from_secs(20), self.hear.message()).await
        });
        let next = next.expect("the coordinator says something")?;
        Ok(next.and_then(|next| next.message))
    }

    /// How it ends, whatever comes before.
    pub fn end(&mut self, keeper: &Keeper) -> Status {
        loop {
            match self.next(keeper) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended without a word"),
                Err(status) => return status,
            }
        }
    }
}

pub fn message(message: agent_message::Message) -> AgentMessage {
    AgentMessage {
        message: Some(message),
    }
}

pub fn info(name: &str) -> HostInfo {
    HostInfo {
        name: name.into(),
        os: "linux".into(),
        ..HostInfo::default()
    }
}

/// With a token in its metadata.
pub fn bearing<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let value: MetadataValue<_> = format!("Bearer {token}").parse().expect("a header");
    request.metadata_mut().insert("authorization", value);
    request
}

/// A client's certificate and key for `name`, as PEM, signed by whoever; `days` from now it ends.
pub fn certificate(issuer: &Issuer<'_, KeyPair>, name: &str, days: i64) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = OffsetDateTime::now_utc() - Duration::days(100);
    params.not_after = OffsetDateTime::now_utc() + Duration::days(days);
    let made = params.signed_by(&key, issuer).expect("a certificate");
    (made.pem(), key.serialize_pem())
}

/// Somebody else's authority.
pub fn foreign() -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Issuer::new(params, KeyPair::generate().expect("a key"))
}

/// As good as any, but for another coordinator.
pub fn foreign_token() -> String {
    let token = Token::new([1; 32], [2; 32]);
    token.text().expose_secret().to_owned()
}
