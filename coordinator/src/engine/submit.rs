//! Taking in a sweep: parsed, expanded and sized before anything is kept, so that a bad file leaves nothing behind.

use std::collections::BTreeMap;

use jobs::SweepId;
use jobs::life::Sweep;
use jobs::staged::Manifest;
use prost::Message as _;
use proto::store::v1::SweepRecord;
use proto::v1;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{OpenSweep, Refusal, State, Work};
use crate::store::hex;
use crate::store::{Store, StoreError};

/// What came with a sweep file, checked.
pub(super) struct Came {
    pub attached: Vec<(String, Vec<u8>)>,
    pub manifest: Manifest,
}

impl State {
    /// The sweep's number, and whether this very submission was known already.
    pub(super) fn submit(
        &mut self,
        request: v1::SubmitRequest,
        came: Came,
        store: &mut dyn Store,
        at: u64,
        work: &mut Work,
    ) -> Result<Result<(u64, bool), Refusal>, StoreError> {
        let file = request.file.unwrap_or_default();
        let plan = match jobs::plan::load(&file.name, &file.toml) {
            Ok(plan) => plan,
            Err(errors) => return Ok(Err(Refusal::Invalid(errors.to_string()))),
        };
        let id = SweepId::new(&plan.spec.name, &request.submission);
        if let Some(number) = self.by_id.get(&id) {
            return Ok(Ok((*number, true)));
        }
        let number = self.newest_sweep + 1;
        let place = store.place_file(&file.toml)?;
        let mut attachments = BTreeMap::new();
        let mut contents = BTreeMap::new();
        for (path, bytes) in came.attached {
            let Ok(value) = serde_json::from_slice::<Value>(&bytes) else {
                return Ok(Err(Refusal::Invalid(format!("{path} is not JSON"))));
            };
            attachments.insert(path.clone(), store.put_blob(&bytes)?);
            contents.insert(path, value);
        }
        let manifest = match came.manifest.is_empty() {
            true => String::new(),
            false => {
                let files = proto::convert::file_manifest(&came.manifest);
                store.put_blob(&files.encode_to_vec())?
            }
        };
        let record = SweepRecord {
            number,
            id: id.to_string(),
            submission: request.submission,
            submitted_ms: at,
            file_name: file.name,
            toml: place.toml,
            blob: place.blob,
            digest: hex(&Sha256::digest(&file.toml)),
            attachments,
            manifest,
            trials: u32::try_from(plan.trials.len()).unwrap_or(u32::MAX),
            jobs: u32::try_from(plan.jobs()).unwrap_or(u32::MAX),
            plan_digest: plan.digest(),
            name: plan.spec.name.clone(),
            about: plan.spec.about.clone(),
            ..SweepRecord::default()
        };
        let life = Sweep::new(id.clone(), at, plan);
        let mut head = record.clone();
        head.toml.clear();
        let mut open = match OpenSweep::new(head.clone(), life, &contents, &mut self.sizes) {
            Ok(open) => open,
            Err(error) => return Ok(Err(Refusal::Invalid(error.to_string()))),
        };
        open.files = proto::convert::manifest_message(&came.manifest);
        self.newest_sweep = number;
        self.by_id.insert(id, number);
        self.heads.insert(number, head);
        self.open.insert(number, open);
        work.write(record);
        work.dirty = true;
        Ok(Ok((number, false)))
    }
}
