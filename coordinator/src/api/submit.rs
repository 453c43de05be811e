//! Checks a sweep file and hands it to the engine; or plans it and hands it to nobody.

use std::collections::BTreeMap;

use proto::v1::{PlanDocument, SubmitReply, SubmitRequest, SweepFile};
use serde_json::Value;
use tonic::Status;

use super::Api;
use crate::documents;
use crate::engine::{Command, Refusal};

/// A sweep file has at most 1 MiB, an attachment 1 MiB.
const ATTACHMENT_MAX: usize = 1 << 20;

impl Api {
    pub async fn submit(&self, request: SubmitRequest) -> Result<SubmitReply, Status> {
        let file = request.file.clone().unwrap_or_default();
        if request.submission.parse::<uuid::Uuid>().is_err() {
            let why = format!("the submission `{}` is not a uuid", request.submission);
            return Err(Refusal::Invalid(why).into());
        }
        let (_, attached) = read(&file)?;
        let files = attached
            .keys()
            .map(|path| (path.clone(), file.attachments[path].clone()));
        let files = files.collect();
        let ask = |reply| Command::Submit {
            request,
            attached: files,
            reply,
        };
        let (number, existed) = self.engine.ask(ask).await?;
        let look = move |state: &mut crate::engine::State| {
            let record = state.heads.get(&number).cloned().unwrap_or_default();
            Ok(documents::head(state, &record))
        };
        Ok(SubmitReply {
            sweep: Some(self.engine.read(look).await?),
            existed,
        })
    }

    pub async fn plan(&self, file: SweepFile) -> Result<PlanDocument, Status> {
        let (plan, attached) = read(&file)?;
        let look = move |state: &mut crate::engine::State| documents::plan(state, plan, &attached);
        Ok(self.engine.read(look).await?)
    }
}

/// The plan, and the files that it names, checked.
fn read(file: &SweepFile) -> Result<(jobs::Plan, BTreeMap<String, Value>), Refusal> {
    let plan = jobs::plan::load(&file.name, &file.toml)
        .map_err(|errors| Refusal::Invalid(errors.to_string()))?;
    let mut attached = BTreeMap::new();
    for path in plan.spec.attachments() {
        let bytes = file.attachments.get(&path).ok_or_else(|| {
            Refusal::Invalid(format!(
                "the sweep file names {path}, which did not come with it"
            ))
        })?;
        if bytes.len() > ATTACHMENT_MAX {
            return Err(Refusal::Invalid(format!("{path} is larger than 1 MiB")));
        }
        let value = serde_json::from_slice(bytes)
            .map_err(|error| Refusal::Invalid(format!("{path} is not JSON: {error}")))?;
        attached.insert(path, value);
    }
    Ok((plan, attached))
}
