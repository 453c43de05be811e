//! A coordinator that only says what it is told to: for what the command line makes of answers, silences and restarts.

use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures_util::Stream;
use proto::v1::sweeps_server::{Sweeps, SweepsServer};
use proto::v1::*;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status};

/// What the fake answers.
#[derive(Clone, Default)]
pub struct Script {
    /// Replies of `watch`; the stream then stays open without a word.
    pub watch: Vec<WatchReply>,
    /// Replies of `logs`; the stream ends after them, or stays open.
    pub logs: Vec<LogsReply>,
    pub logs_stay_open: bool,
    pub outcome: &'static str,
    pub exit_code: u32,
}

/// Lives as long as its value; dropping it cuts every connection, as kill -9 does.
pub struct Fake {
    runtime: Option<Runtime>,
    pub address: SocketAddr,
    pub submissions: Arc<Mutex<Vec<SubmitRequest>>>,
}

impl Fake {
    pub fn start(script: Script) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), script)
    }

    pub fn start_at(address: SocketAddr, script: Script) -> Self {
        let listener = bind(address);
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let submissions = Arc::new(Mutex::new(Vec::new()));
        let service = Service {
            script,
            submissions: submissions.clone(),
        };
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            tonic::transport::Server::builder()
                .add_service(SweepsServer::new(service))
                .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener))
                .await
        });
        Self {
            runtime: Some(runtime),
            address,
            submissions,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The fake that had the port may still be going away.
fn bind(address: SocketAddr) -> TcpListener {
    for _ in 0..100 {
        if let Ok(listener) = TcpListener::bind(address) {
            return listener;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    TcpListener::bind(address).unwrap()
}

pub const SWEEP: &str = "night-abcdef";

fn head(script: &Script) -> SweepHead {
    SweepHead {
        id: SWEEP.into(),
        name: "night".into(),
        state: script.outcome.into(),
        submitted_at: "2026-12-02T04:00:00.000Z".into(),
        trials: 1,
        jobs: 1,
        ..SweepHead::default()
    }
}

pub fn summary(script: &Script) -> Summary {
    Summary {
        trials: 1,
        jobs: 1,
        attempts: 1,
        outcomes: format!("{{\"{}\":1}}", script.outcome),
        exit_code: script.exit_code,
        ..Summary::default()
    }
}

/// The reply that ends a watch.
pub fn settled(script: &Script) -> WatchReply {
    WatchReply {
        settled: true,
        summary: Some(summary(script)),
        ..line("2026-12-02T04:00:09.000Z", "ended")
    }
}

pub fn line(at: &str, text: &str) -> WatchReply {
    WatchReply {
        lines: vec![WatchLine {
            at: at.into(),
            text: text.into(),
            job: format!("{SWEEP}/1/train"),
            code: "ended".into(),
        }],
        ..WatchReply::default()
    }
}

struct Service {
    script: Script,
    submissions: Arc<Mutex<Vec<SubmitRequest>>>,
}

impl Service {
    fn known(&self, name: &str) -> Result<(), Status> {
        if name == SWEEP || name == "night" {
            return Ok(());
        }
        Err(Status::not_found(format!("no sweep `{name}`")))
    }
}

type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn replies<T: Send + 'static>(items: Vec<T>, stay_open: bool) -> Response<Replies<T>> {
    let items = tokio_stream::iter(items.into_iter().map(Ok));
    if stay_open {
        Response::new(Box::pin(items.chain(tokio_stream::pending())))
    } else {
        Response::new(Box::pin(items))
    }
}

#[tonic::async_trait]
impl Sweeps for Service {
    async fn submit(
        &self,
        request: Request<SubmitRequest>,
    ) -> Result<Response<SubmitReply>, Status> {
        self.submissions.lock().unwrap().push(request.into_inner());
        Ok(Response::new(SubmitReply {
            sweep: Some(head(&self.script)),
            existed: false,
        }))
    }

    async fn plan(&self, _: Request<PlanRequest>) -> Result<Response<PlanDocument>, Status> {
        Ok(Response::new(PlanDocument::default()))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListReply>, Status> {
        let sweeps = if request.get_ref().open_only {
            Vec::new()
        } else {
            vec![head(&self.script); 5000]
        };
        Ok(Response::new(ListReply { sweeps }))
    }

    async fn show(&self, request: Request<ShowRequest>) -> Result<Response<SweepDocument>, Status> {
        self.known(&request.get_ref().sweep)?;
        Ok(Response::new(SweepDocument {
            sweep: Some(head(&self.script)),
            trials: Vec::new(),
            summary: Some(summary(&self.script)),
            files: Vec::new(),
        }))
    }

    type WatchStream = Replies<WatchReply>;
    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.known(&request.get_ref().sweep)?;
        Ok(replies(self.script.watch.clone(), true))
    }

    type LogsStream = Replies<LogsReply>;
    async fn logs(&self, _: Request<LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        Ok(replies(
            self.script.logs.clone(),
            self.script.logs_stay_open,
        ))
    }

    async fn cancel(&self, _: Request<CancelRequest>) -> Result<Response<CancelReply>, Status> {
        Err(Status::failed_precondition("it has settled"))
    }

    async fn retry(&self, _: Request<RetryRequest>) -> Result<Response<RetryReply>, Status> {
        Ok(Response::new(RetryReply::default()))
    }

    async fn why(&self, _: Request<WhyRequest>) -> Result<Response<WhyDocument>, Status> {
        Err(Status::internal("a bug"))
    }

    async fn history(&self, _: Request<HistoryRequest>) -> Result<Response<HistoryReply>, Status> {
        Ok(Response::new(HistoryReply::default()))
    }

    async fn results(
        &self,
        request: Request<ResultsRequest>,
    ) -> Result<Response<ResultsDocument>, Status> {
        self.known(&request.get_ref().sweep)?;
        Ok(Response::new(ResultsDocument {
            sweep: Some(head(&self.script)),
            rows: Vec::new(),
            summary: Some(summary(&self.script)),
        }))
    }
}
