//! History: attempts of all sweeps, newest first, by page. Read from the store, not through the engine.

use jobs::{Kind, SweepId};
use proto::v1::{AttemptDocument, HistoryReply, HistoryRequest};
use tonic::Status;

use super::{Api, status};
use crate::documents;
use crate::engine::{Refusal, State};
use crate::store::{AttemptRecord, HistoryQuery};

impl Api {
    pub async fn history(&self, wanted: HistoryRequest) -> Result<HistoryReply, Status> {
        let mut query = HistoryQuery {
            host: some(&wanted.host),
            limit: wanted.limit as usize,
            page: some(&wanted.page),
            observed: wanted.observed,
            ..HistoryQuery::default()
        };
        if let Some(kind) = some(&wanted.kind) {
            let kind: Kind = kind
                .parse()
                .map_err(|error: jobs::UnknownKind| invalid(&error))?;
            query.kind = Some(kind.number());
        }
        if let Some(outcome) = some(&wanted.outcome) {
            let outcome: jobs::AttemptOutcome = outcome
                .parse()
                .map_err(|error: jobs::UnknownOutcome| invalid(&error))?;
            query.outcome = Some(outcome.to_string());
        }
        query.since_ms = time("since", &wanted.since)?;
        query.until_ms = time("until", &wanted.until)?;
        if let Some(name) = some(&wanted.sweep) {
            query.sweep = Some(
                self.engine
                    .read(move |state: &mut State| state.find(&name))
                    .await?,
            );
        }
        let reader = self.reader.clone();
        let page = tokio::task::spawn_blocking(move || reader.history(&query)).await;
        let page = page.map_err(|_| Status::internal("the reading of history broke off"))?;
        let page = page.map_err(|error| status::of_store(&error))?;
        let attempts = page.attempts.iter().filter_map(|record| {
            let mut document = document(record)?;
            document.observation = wanted.observed.then(|| record.observation.clone());
            Some(document)
        });
        Ok(HistoryReply {
            attempts: attempts.collect(),
            next_page: page.next.unwrap_or_default(),
        })
    }
}

fn document(record: &AttemptRecord) -> Option<AttemptDocument> {
    let sweep: SweepId = record.sweep_id.parse().ok()?;
    let kind = Kind::from_number(record.kind)?;
    let id = sweep.trial(record.trial).job(kind).attempt(record.number);
    Some(documents::attempt_record(record, &id))
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn invalid(error: &dyn std::fmt::Display) -> Status {
    Refusal::Invalid(error.to_string()).into()
}

fn time(what: &str, text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = proto::time::parse(text);
    parsed.map(Some).map_err(|_| {
        let why =
            format!("{what} `{text}` is not a time: write 2026-12-02 or 2026-12-02T03:00:00Z");
        Refusal::Invalid(why).into()
    })
}
