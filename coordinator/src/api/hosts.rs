//! Hosts: list, show, drain, resume, forget.

use std::time::Instant;

use proto::v1::hosts_server::Hosts;
use proto::v1::{
    DrainHostRequest, ForgetHostReply, ForgetHostRequest, HostDocument, ListHostsReply,
    ListHostsRequest, ResumeHostRequest, ShowHostRequest,
};
use tonic::{Request, Response, Status};

use super::Api;
use crate::documents;
use crate::engine::{Command, HostWish, Refusal, State};
use crate::trust::{Caller, audit};

impl Api {
    async fn shown(&self, name: String) -> Result<Response<HostDocument>, Status> {
        let look = move |state: &mut State| {
            let host = state.hosts.get(&name).ok_or_else(|| {
                Refusal::NotFound(format!(
                    "no host `{name}` has registered; `sweep hosts` shows all"
                ))
            })?;
            Ok(documents::host(state, host, Instant::now()))
        };
        Ok(Response::new(self.engine.read(look).await?))
    }

    async fn wish(&self, caller: &Caller, name: &str, wish: HostWish) -> Result<(), Status> {
        let what = match wish {
            HostWish::Drain => "drain",
            HostWish::Resume => "resume",
            HostWish::Forget => "forget",
        };
        let ask = |reply| Command::Host {
            name: name.to_owned(),
            wish,
            reply,
        };
        self.engine.ask(ask).await?;
        audit::done(caller, what, &format!("host {name}"));
        Ok(())
    }
}

#[tonic::async_trait]
impl Hosts for Api {
    async fn list_hosts(
        &self,
        _: Request<ListHostsRequest>,
    ) -> Result<Response<ListHostsReply>, Status> {
        let look = |state: &mut State| {
            let now = Instant::now();
            let hosts = state
                .hosts
                .values()
                .map(|host| documents::host(state, host, now));
            Ok(ListHostsReply {
                hosts: hosts.collect(),
            })
        };
        Ok(Response::new(self.engine.read(look).await?))
    }

    async fn show_host(
        &self,
        request: Request<ShowHostRequest>,
    ) -> Result<Response<HostDocument>, Status> {
        self.shown(request.into_inner().host).await
    }

    async fn drain_host(
        &self,
        request: Request<DrainHostRequest>,
    ) -> Result<Response<HostDocument>, Status> {
        let caller = Caller::of(request.extensions());
        let name = request.into_inner().host;
        self.wish(&caller, &name, HostWish::Drain).await?;
        self.shown(name).await
    }

    async fn resume_host(
        &self,
        request: Request<ResumeHostRequest>,
    ) -> Result<Response<HostDocument>, Status> {
        let caller = Caller::of(request.extensions());
        let name = request.into_inner().host;
        self.wish(&caller, &name, HostWish::Resume).await?;
        self.shown(name).await
    }

    async fn forget_host(
        &self,
        request: Request<ForgetHostRequest>,
    ) -> Result<Response<ForgetHostReply>, Status> {
        let caller = Caller::of(request.extensions());
        let name = request.into_inner().host;
        self.wish(&caller, &name, HostWish::Forget).await?;
        Ok(Response::new(ForgetHostReply {}))
    }
}
