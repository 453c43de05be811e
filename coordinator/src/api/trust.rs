//! Joining, and the tokens: each change is on the disk before it is answered, and each leaves a line for the audit.
//! Refuses all of it without TLS: there is nobody to tell apart then.

use std::sync::Arc;

use proto::time::rfc3339;
use proto::v1::trust_server::Trust as Service;
use proto::v1::{
    CreateTokenReply, CreateTokenRequest, JoinReply, JoinRequest, ListTokensReply,
    ListTokensRequest, RevokeTokenReply, RevokeTokenRequest, RotateTokenReply, RotateTokenRequest,
    TokenDocument,
};
use secrecy::ExposeSecret as _;
use tonic::{Request, Response, Status};

use super::Api;
use crate::clock;
use crate::trust::{
    Caller, HostEntry, Role, TokenEntry, TokenKind, Trust, TrustError, audit, is_past, status_of,
};

impl Api {
    fn trusting(&self) -> Result<Arc<Trust>, Status> {
        self.trust.clone().ok_or_else(|| {
            Status::failed_precondition(
                "this coordinator has no tokens, as it listens on this machine only and without TLS; make them with: \
                 sweep coordinator init",
            )
        })
    }
}

#[tonic::async_trait]
impl Service for Api {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let trust = self.trusting()?;
        let caller = Caller::of(request.extensions());
        let JoinRequest {
            token,
            host,
            request,
        } = request.into_inner();
        let (keeper, name) = (trust.clone(), host.clone());
        let joined = blocking(move || keeper.join(&token, &name, &request, clock::now_ms())).await;
        match joined {
            Ok(joined) => {
                let how = format!(
                    "host {host} with token {}, certificate {}",
                    joined.token, joined.serial
                );
                audit::done(&caller, "joined", &how);
                Ok(Response::new(JoinReply {
                    certificate: joined.certificate,
                    authority: joined.authority,
                }))
            }
            Err(status) => {
                trust.failed(caller.address.map(|at| at.ip()), clock::now_ms());
                audit::refused(
                    &caller,
                    "join",
                    &format!("host {host}: {}", status.message()),
                );
                Err(status)
            }
        }
    }

    async fn create_token(
        &self,
        request: Request<CreateTokenRequest>,
    ) -> Result<Response<CreateTokenReply>, Status> {
        let trust = self.trusting()?;
        let caller = Caller::of(request.extensions());
        let wanted = request.into_inner();
        let kind = kind(&wanted)?;
        let now = clock::now_ms();
        let made = blocking(move || trust.create(&wanted.name, kind, wanted.lasts_ms, now)).await;
        let (token, entry) = made?;
        let entry = of_token(&entry, now);
        audit::done(&caller, "token created", &about(&entry));
        Ok(Response::new(CreateTokenReply {
            token: token.text().expose_secret().to_owned(),
            entry: Some(entry),
        }))
    }

    async fn list_tokens(
        &self,
        _: Request<ListTokensRequest>,
    ) -> Result<Response<ListTokensReply>, Status> {
        let (book, now) = (self.trusting()?.book(), clock::now_ms());
        let tokens = book.tokens.iter().map(|one| of_token(one, now));
        let hosts = book.hosts.iter().map(|one| of_host(one, now));
        Ok(Response::new(ListTokensReply {
            tokens: tokens.chain(hosts).collect(),
        }))
    }

    async fn revoke_token(
        &self,
        request: Request<RevokeTokenRequest>,
    ) -> Result<Response<RevokeTokenReply>, Status> {
        let trust = self.trusting()?;
        let caller = Caller::of(request.extensions());
        let RevokeTokenRequest { name, host } = request.into_inner();
        let gone = name.clone();
        blocking(move || trust.revoke(&gone, host, clock::now_ms())).await?;
        let what = if host {
            "certificate revoked"
        } else {
            "token revoked"
        };
        audit::done(&caller, what, &name);
        Ok(Response::new(RevokeTokenReply {}))
    }

    async fn rotate_token(
        &self,
        request: Request<RotateTokenRequest>,
    ) -> Result<Response<RotateTokenReply>, Status> {
        let trust = self.trusting()?;
        let caller = Caller::of(request.extensions());
        let RotateTokenRequest { name, lasts_ms } = request.into_inner();
        let now = clock::now_ms();
        let (token, entry) = blocking(move || trust.rotate(&name, lasts_ms, now)).await?;
        let entry = of_token(&entry, now);
        audit::done(&caller, "token rotated", &about(&entry));
        Ok(Response::new(RotateTokenReply {
            token: token.text().expose_secret().to_owned(),
            entry: Some(entry),
        }))
    }
}

fn kind(wanted: &CreateTokenRequest) -> Result<TokenKind, Status> {
    if wanted.join {
        let host = Some(wanted.host.clone()).filter(|host| !host.is_empty());
        return Ok(TokenKind::Join { host, used: None });
    }
    let role: Result<Role, ()> = wanted.role.parse();
    let wrong =
        |()| Status::invalid_argument("a user's token has one of the roles read, submit, admin");
    role.map(|role| TokenKind::User { role }).map_err(wrong)
}

fn of_token(entry: &TokenEntry, now: u64) -> TokenDocument {
    let mut document = TokenDocument {
        name: entry.name.clone(),
        kind: "user".into(),
        state: state(entry.expires_ms, now),
        created: rfc3339(entry.created_ms),
        expires: ending(entry.expires_ms),
        ..TokenDocument::default()
    };
    match &entry.kind {
        TokenKind::User { role } => document.role = role.to_string(),
        TokenKind::Join { host, used } => {
            document.kind = "join".into();
            document.host = used.clone().or_else(|| host.clone()).unwrap_or_default();
            if used.is_some() {
                document.state = "used".into();
            }
        }
    }
    document
}

fn of_host(entry: &HostEntry, now: u64) -> TokenDocument {
    TokenDocument {
        name: entry.name.clone(),
        kind: "host".into(),
        host: entry.name.clone(),
        state: state(entry.expires_ms, now),
        created: rfc3339(entry.joined_ms),
        expires: ending(entry.expires_ms),
        serial: entry.serial.clone(),
        ..TokenDocument::default()
    }
}

fn state(expires_ms: u64, now: u64) -> String {
    if is_past(expires_ms, now) {
        "expired"
    } else {
        "valid"
    }
    .into()
}

fn ending(expires_ms: u64) -> String {
    if expires_ms == 0 {
        String::new()
    } else {
        rfc3339(expires_ms)
    }
}

fn about(entry: &TokenDocument) -> String {
    let until = if entry.expires.is_empty() {
        "until revoked"
    } else {
        &entry.expires
    };
    format!("{} {} {} {until}", entry.kind, entry.name, entry.role)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TrustError> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|_| Status::internal("tokens could not be worked on"))?;
    done.map_err(|error| match &error {
        TrustError::Denied(denied) => status_of(denied),
        TrustError::Request => Status::invalid_argument(error.to_string()),
        _ => Status::internal(format!("failed to {error}")),
    })
}
