//! Plans a sweep file and hands it to nobody. Verdicts are the engine's, from what it knows; the search for changes that
//! would make trials fit follows on a thread of its own, one search at a time: who asks next waits.

use proto::v1::{PlanDocument, PlanRequest};
use tokio::sync::Semaphore;
use tonic::Status;

use super::Api;
use super::submit::read;
use super::vram::aside;
use crate::advice::{Wanted, answer, select};
use crate::documents;
use crate::engine::State;

/// A search has a core to itself; several would take those of whatever else runs on this machine.
static SEARCHES: Semaphore = Semaphore::const_new(1);

impl Api {
    pub async fn plan(&self, request: PlanRequest) -> Result<PlanDocument, Status> {
        let file = request.file.unwrap_or_default();
        let (plan, attached) = read(&file)?;
        self.replay_aside(&plan, &attached).await?;
        let look = move |state: &mut State| {
            let planned = documents::plan(state, plan, &attached)?;
            Ok((planned, state.sizes.shared_knowledge()))
        };
        let (planned, knowledge) = self.engine.read(look).await?;
        let documents::Planned {
            mut document,
            snapshot,
            kind,
        } = planned;
        let wanted = match request.advise {
            true => Wanted::Anywhere,
            false => Wanted::TooLargeEverywhere,
        };
        let selection = select(&snapshot, wanted);
        document.advised = request.advise;
        document.not_advised = selection.left_out;
        if selection.questions.is_empty() {
            return Ok(document);
        }
        search(move || {
            let answered = answer(&snapshot, selection.questions, &knowledge);
            documents::advised(document, &snapshot, &answered, kind)
        })
        .await
    }
}

/// Beside the engine's thread, after the searches that came before.
pub(super) async fn search<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let turn = SEARCHES.acquire().await;
    // Held by the search itself: it goes on where whoever asked has gone away.
    aside(move || {
        let _turn = turn;
        work()
    })
    .await
}
