//! Checks a sweep file and hands it to the engine.

use std::collections::{BTreeMap, BTreeSet};

use jobs::SweepId;
use jobs::life::Sweep;
use jobs::staged::{Bundle, Manifest};
use proto::v1::{StagedFile, SubmitReply, SubmitRequest, SweepFile};
use serde_json::Value;
use tonic::Status;
use vram::Kernels;

use super::Api;
use crate::documents;
use crate::engine::{Command, Refusal, State, workload};

/// A sweep file has at most 1 MiB, an attachment 1 MiB.
const ATTACHMENT_MAX: usize = 1 << 20;

impl Api {
    pub async fn submit(&self, request: SubmitRequest) -> Result<SubmitReply, Status> {
        let file = request.file.clone().unwrap_or_default();
        if request.submission.parse::<uuid::Uuid>().is_err() {
            let why = format!("the submission `{}` is not a uuid", request.submission);
            return Err(Refusal::Invalid(why).into());
        }
        let (plan, attached) = read(&file)?;
        let manifest = self.files_of(&plan, &request.files).await?;
        self.replay_aside(&plan, &attached).await?;
        let files = attached
            .keys()
            .map(|path| (path.clone(), file.attachments[path].clone()));
        let files = files.collect();
        let ask = |reply| Command::Submit {
            request,
            attached: files,
            manifest,
            reply,
        };
        let (number, existed) = self.engine.ask(ask).await?;
        let look = move |state: &mut State| {
            let record = state.heads.get(&number).cloned().unwrap_or_default();
            Ok(documents::head(state, &record))
        };
        Ok(SubmitReply {
            sweep: Some(self.engine.read(look).await?),
            existed,
        })
    }

    /// The files that travel with the sweep: those that its file names, all of them, and each of them here.
    async fn files_of(
        &self,
        plan: &jobs::Plan,
        listed: &[StagedFile],
    ) -> Result<Manifest, Refusal> {
        let invalid = |why: String| Err(Refusal::Invalid(why));
        let manifest = match proto::convert::manifest(listed) {
            Ok(manifest) => manifest,
            Err(bad) => return invalid(bad.to_string()),
        };
        let all = plan.spec.files.iter();
        let named: BTreeSet<&str> = all.clone().map(|file| &*file.name).collect();
        let required: BTreeSet<&str> = all
            .filter(|file| file.required)
            .map(|file| &*file.name)
            .collect();
        let came: BTreeSet<&str> = manifest.of(Bundle::Files).map(|file| &*file.name).collect();
        if let Some(missing) = required.difference(&came).next() {
            return invalid(format!(
                "the sweep file names the file {missing}, which did not come with it"
            ));
        }
        if let Some(more) = came.difference(&named).next() {
            return invalid(format!(
                "the file {more} came with the sweep file, which does not name it"
            ));
        }
        let (files, listed) = (self.staged.clone(), manifest.clone());
        let look = move || {
            let mut all = listed.files().iter();
            all.find(|file| !files.has(&file.sha256, file.size).is_ok_and(|has| has))
                .cloned()
        };
        let absent = tokio::task::spawn_blocking(look).await;
        match absent {
            Ok(None) => Ok(manifest),
            Ok(Some(file)) => Err(Refusal::Refused(format!(
                "the content of the file {} (SHA-256 {}, {} bytes) is not here: upload it, then submit again",
                file.name, file.sha256, file.size
            ))),
            Err(error) => Err(Refusal::Stopped(format!(
                "the files could not be looked at: {error}"
            ))),
        }
    }

    /// Where streams are known, each rank of a file is replayed for each class of device: seconds that the engine's
    /// thread does not have. The memory model keeps the answers, so the engine finds them.
    pub(super) async fn replay_aside(
        &self,
        plan: &jobs::Plan,
        attached: &BTreeMap<String, Value>,
    ) -> Result<(), Status> {
        let look = |state: &mut State| {
            let asked = (
                state.sizes.shared_knowledge(),
                state.sizes.classes().to_vec(),
            );
            Ok((!state.book.families.is_empty()).then_some(asked))
        };
        let Some((knowledge, classes)) = self.engine.read(look).await? else {
            return Ok(());
        };
        let life = Sweep::new(SweepId::new(&plan.spec.name, "aside"), 0, plan.clone());
        let attached = attached.clone();
        let work = move || {
            let mut seen = BTreeSet::new();
            for (trial, kind, _) in life.all_jobs() {
                // What cannot be read is refused by whoever is asked next.
                let workload = workload(&life, &attached, trial, kind).ok();
                let new = workload.filter(|one| seen.insert(one.key.clone()));
                let Some(one) = new else { continue };
                let known = |class: &&vram::DeviceClass| {
                    knowledge.stream_origin(&one, Kernels::of(class)).is_some()
                };
                for class in classes.iter().filter(known) {
                    let _ = vram::estimate(&one, class, &knowledge);
                }
            }
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| Status::internal(format!("the memory model broke: {error}")))
    }
}

/// The plan, and the files that it names, checked.
pub(super) fn read(file: &SweepFile) -> Result<(jobs::Plan, BTreeMap<String, Value>), Refusal> {
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
