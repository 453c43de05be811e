//! Stands before every rpc: finds out who asks, looks up what the rpc needs, and lets the request through with its
//! [`Caller`], or answers it itself. The only place where this is decided, so no handler can forget it.
//!
//! Refuses what the table does not name. Says to nobody what it was sent: an answer names the reason and what to do.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use tower::{Layer, Service};

use super::roles::{Need, need};
use super::{Caller, Denied, Trust, Who, audit};
use crate::clock;

const NOT_ANY_MORE: &str = "the host's certificate was revoked or replaced; make a join token (sweep token create --join) \
                            and start the agent with it";
const NOT_JOINED: &str = "this is for hosts that have joined: start the agent with a join token (sweep token create --join)";

#[derive(Clone)]
pub struct Gate {
    /// Without TLS only this machine reaches the coordinator, and may do everything.
    pub trust: Option<Arc<Trust>>,
}

impl<S> Layer<S> for Gate {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded {
            inner,
            trust: self.trust.clone(),
        }
    }
}

#[derive(Clone)]
pub struct Guarded<S> {
    inner: S,
    trust: Option<Arc<Trust>>,
}

impl<S> Service<http::Request<Body>> for Guarded<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        match admit(self.trust.as_deref(), &request, clock::now_ms()) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                Box::pin(self.inner.call(request))
            }
            Err(status) => Box::pin(std::future::ready(Ok(status.into_http()))),
        }
    }
}

/// Who asks, if they may.
fn admit(trust: Option<&Trust>, request: &http::Request<Body>, now: u64) -> Result<Caller, Status> {
    let address = address(request);
    let mut caller = Caller {
        who: Who::Local,
        address,
    };
    let Some(trust) = trust else {
        return Ok(caller);
    };
    caller.who = Who::Nobody;
    let path = request.uri().path();
    let Some(need) = need(path) else {
        return Err(Status::unimplemented(
            "this coordinator has no such rpc; are both sides of one version?",
        ));
    };
    let refuse = |caller: &Caller, status: Status| {
        audit::refused(caller, path, status.message());
        Err(status)
    };
    let failed = |caller: &Caller, status: Status| {
        trust.failed(address.map(|at| at.ip()), now);
        refuse(caller, status)
    };
    let may_try = trust.allows(address.map(|at| at.ip()), now);
    let too_often = || {
        // Not written down each time: that would be a way to fill the log.
        Err(Status::resource_exhausted(
            "too many failures from this address; wait a minute",
        ))
    };
    match need {
        Need::Open if may_try => Ok(caller),
        Need::Open => too_often(),
        Need::Host => {
            let shown = certificate(request);
            // Who has joined is let in, whatever others at the same address do.
            if let Some((name, certificate)) = shown.as_ref().and_then(|shown| trust.host(shown)) {
                caller.who = Who::Host { name, certificate };
                return Ok(caller);
            }
            if !may_try {
                return too_often();
            }
            let why = match shown {
                Some(_) => NOT_ANY_MORE,
                None => NOT_JOINED,
            };
            failed(&caller, Status::unauthenticated(why))
        }
        Need::Role(_) if !may_try => too_often(),
        Need::Role(role) => {
            let Some(token) = bearer(request) else {
                return failed(
                    &caller,
                    Status::unauthenticated(
                        "a token is needed: set SWEEP_TOKEN, or ask for one (sweep token create NAME --role ROLE)",
                    ),
                );
            };
            match trust.user(token, now) {
                Ok((name, has)) => {
                    caller.who = Who::User { name, role: has };
                    if has < role {
                        let why =
                            format!("this needs the role {role}; the token has the role {has}");
                        return refuse(&caller, Status::permission_denied(why));
                    }
                    audit::used(&caller, path);
                    Ok(caller)
                }
                Err(denied) => failed(&caller, of(&denied)),
            }
        }
    }
}

/// A token that does not let in.
pub fn of(denied: &Denied) -> Status {
    let why = denied.to_string();
    match denied {
        Denied::Unknown | Denied::Expired | Denied::Used | Denied::IsJoin | Denied::IsUser => {
            Status::unauthenticated(why)
        }
        Denied::OtherHost => Status::permission_denied(why),
        Denied::Taken(_) => Status::already_exists(why),
        Denied::LastAdmin(_) => Status::failed_precondition(why),
        Denied::NoSuch(_) => Status::not_found(why),
        Denied::BadName(_) => Status::invalid_argument(why),
        Denied::Full => Status::resource_exhausted(why),
    }
}

fn bearer(request: &http::Request<Body>) -> Option<&str> {
    let value = request
        .headers()
        .get(http::header::AUTHORIZATION)?
        .to_str()
        .ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

type Tls = TlsConnectInfo<TcpConnectInfo>;

fn certificate(request: &http::Request<Body>) -> Option<Vec<u8>> {
    let shown = request.extensions().get::<Tls>()?.peer_certs()?;
    shown.first().map(|first| first.to_vec())
}

fn address(request: &http::Request<Body>) -> Option<SocketAddr> {
    let plain = request.extensions().get::<TcpConnectInfo>();
    let over_tls = || request.extensions().get::<Tls>().map(Tls::get_ref);
    plain.or_else(over_tls)?.remote_addr()
}
