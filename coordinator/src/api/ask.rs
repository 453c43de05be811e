//! The questions about sweeps: list, show, results, why; and a user's later word: cancel, retry.

use jobs::life::{MarkKind, Sweep};
use proto::store::v1::SweepRecord;
use proto::v1::sweeps_server::Sweeps;
use proto::v1::{
    CancelReply, CancelRequest, HistoryReply, HistoryRequest, ListReply, ListRequest, LogsRequest,
    PlanDocument, PlanRequest, ResultsDocument, ResultsRequest, RetryReply, RetryRequest,
    ShowRequest, SubmitReply, SubmitRequest, SweepDocument, WatchRequest, WhyDocument, WhyRequest,
};
use tonic::{Request, Response, Status};

use super::{Api, logs, watch};
use crate::documents;
use crate::engine::{Command, OpenSweep, Refusal, State, life_of, travelling};
use crate::trust::{Caller, audit};

/// Renders one sweep, wherever it is: in memory, or brought back from the store.
pub(super) fn with_life<T>(
    state: &State,
    number: u64,
    render: impl FnOnce(&SweepRecord, &Sweep, Option<&OpenSweep>) -> T,
) -> Result<T, Refusal> {
    if let Some(open) = state.open.get(&number) {
        return Ok(render(&open.record, &open.life, Some(open)));
    }
    let kept = state
        .reader
        .sweep(number)
        .map_err(|error| Refusal::from(&error))?;
    let kept = kept.ok_or_else(|| Refusal::NotFound(format!("sweep {number} is not kept")))?;
    let life = life_of(state.reader.as_ref(), &kept).map_err(|error| Refusal::from(&error))?;
    Ok(render(&kept.sweep, &life, None))
}

impl Api {
    async fn mark(
        &self,
        caller: &Caller,
        target: String,
        kind: MarkKind,
    ) -> Result<Vec<String>, Status> {
        let about = target.clone();
        let ask = |reply| Command::Mark {
            target,
            kind,
            reply,
        };
        let jobs: Vec<String> = self.engine.ask(ask).await?;
        let what = match kind {
            MarkKind::Cancel => "cancel",
            MarkKind::Retry => "retry",
        };
        audit::done(caller, what, &format!("{about}, {} jobs", jobs.len()));
        Ok(jobs)
    }
}

#[tonic::async_trait]
impl Sweeps for Api {
    async fn submit(
        &self,
        request: Request<SubmitRequest>,
    ) -> Result<Response<SubmitReply>, Status> {
        let caller = Caller::of(request.extensions());
        let reply = Api::submit(self, request.into_inner()).await?;
        let id = reply.sweep.as_ref().map_or("", |head| head.id.as_str());
        audit::done(&caller, "submit", id);
        Ok(Response::new(reply))
    }

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanDocument>, Status> {
        Api::plan(self, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListReply>, Status> {
        let wanted = request.into_inner();
        let look = move |state: &mut State| {
            let limit = match wanted.limit {
                0 => usize::MAX,
                limit => limit as usize,
            };
            let heads = state.heads.values().rev();
            let heads =
                heads.filter(|head| wanted.digest.as_ref().is_none_or(|d| *d == head.digest));
            let heads = heads.filter(|head| !wanted.open_only || head.settled_ms == 0);
            let sweeps = heads.take(limit).map(|head| documents::head(state, head));
            Ok(ListReply {
                sweeps: sweeps.collect(),
            })
        };
        Ok(Response::new(self.engine.read(look).await?))
    }

    async fn show(&self, request: Request<ShowRequest>) -> Result<Response<SweepDocument>, Status> {
        let name = request.into_inner().sweep;
        let look = move |state: &mut State| {
            let number = state.find(&name)?;
            let show = |record: &SweepRecord, life: &Sweep, open: Option<&OpenSweep>| {
                let files = match open {
                    Some(open) => open.files.clone(),
                    None => travelling(state.reader.as_ref(), record)
                        .map_err(|error| Refusal::from(&error))?,
                };
                Ok(documents::sweep(state, record, life, open, files))
            };
            with_life(state, number, show)?
        };
        Ok(Response::new(self.engine.read(look).await?))
    }

    async fn results(
        &self,
        request: Request<ResultsRequest>,
    ) -> Result<Response<ResultsDocument>, Status> {
        let name = request.into_inner().sweep;
        let look = move |state: &mut State| {
            let number = state.find(&name)?;
            with_life(state, number, |record, life, _| {
                documents::results(state, record, life)
            })
        };
        Ok(Response::new(self.engine.read(look).await?))
    }

    async fn why(&self, request: Request<WhyRequest>) -> Result<Response<WhyDocument>, Status> {
        let job = request.into_inner().job;
        Api::why(self, job).await.map(Response::new)
    }

    async fn cancel(
        &self,
        request: Request<CancelRequest>,
    ) -> Result<Response<CancelReply>, Status> {
        let caller = Caller::of(request.extensions());
        let target = request.into_inner().target;
        let jobs = self.mark(&caller, target, MarkKind::Cancel).await?;
        Ok(Response::new(CancelReply { jobs }))
    }

    async fn retry(&self, request: Request<RetryRequest>) -> Result<Response<RetryReply>, Status> {
        let caller = Caller::of(request.extensions());
        let target = request.into_inner().target;
        let jobs = self.mark(&caller, target, MarkKind::Retry).await?;
        Ok(Response::new(RetryReply { jobs }))
    }

    async fn history(
        &self,
        request: Request<HistoryRequest>,
    ) -> Result<Response<HistoryReply>, Status> {
        Api::history(self, request.into_inner())
            .await
            .map(Response::new)
    }

    type WatchStream = watch::WatchStream;
    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Api::watch(self, request.into_inner().sweep)
            .await
            .map(Response::new)
    }

    type LogsStream = logs::LogsStream;
    async fn logs(
        &self,
        request: Request<LogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        Api::logs(self, request.into_inner())
            .await
            .map(Response::new)
    }
}
