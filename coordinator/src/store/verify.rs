//! Reads a whole store and says what is wrong with it: records that do not decode or lie under another's key, index
//! entries without attempt and attempts without entries, missing and damaged blobs and files.
//!
//! Refuses to mend anything, and to stop at the first finding.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use prost::Message;
use proto::store::v1::{
    AttemptRecord, FileManifest, HostRecord, MarkRecord, MetaRecord, ObservationRecord,
    RehearsalRecord, RulingRecord, SweepRecord,
};

use super::blobs::{self, Blobs, hex};
use super::embedded::Tree;
use super::pairs::Pairs;
use super::{Files, SledStore, StoreError, keys};

const LISTED_MAX: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    pub sweeps: u64,
    pub attempts: u64,
    pub rulings: u64,
    pub marks: u64,
    pub hosts: u64,
    pub observations: u64,
    pub rehearsals: u64,
    pub index_entries: u64,
    pub blobs: u64,
    /// That travel with sweeps.
    pub files: u64,
    /// Number of all findings.
    pub problem_count: u64,
    /// The first hundred of them.
    pub problems: Vec<String>,
}

impl VerifyReport {
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < LISTED_MAX {
            self.problems.push(text);
        }
    }
}

/// Of the closed store of a data folder. An error means that it cannot be read at all.
pub fn verify(data: &Path) -> Result<VerifyReport, StoreError> {
    let store = SledStore::open_existing(data)?;
    let mut check = Check {
        kept: store.tree(),
        report: VerifyReport::default(),
        blobs: BTreeSet::new(),
        files: BTreeSet::new(),
        sweeps: BTreeMap::new(),
        referred: BTreeSet::new(),
    };
    check.read_blobs(store.tree().blobs())?;
    check.read_files(&Files::open(data)?)?;
    for pair in store.tree().range(&[0], &[u8::MAX]) {
        let (key, value) = pair?;
        check.pair(&key, &value)?;
    }
    check.references();
    Ok(check.report)
}

struct Check<'a> {
    kept: &'a Tree,
    report: VerifyReport,
    /// Those whose content is sound.
    blobs: BTreeSet<String>,
    /// The same of what travels with sweeps.
    files: BTreeSet<String>,
    sweeps: BTreeMap<u64, SweepRecord>,
    /// Sweeps that some record belongs to.
    referred: BTreeSet<u64>,
}

impl Check<'_> {
    fn read_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError> {
        for digest in blobs.list()? {
            self.report.blobs += 1;
            match blobs.get(&digest) {
                Ok(_) => drop(self.blobs.insert(digest)),
                Err(error) => self.report.problem(error.to_string()),
            }
        }
        Ok(())
    }

    fn read_files(&mut self, files: &Files) -> Result<(), StoreError> {
        for digest in files.list()? {
            self.report.files += 1;
            match files.check(&digest) {
                Ok(()) => drop(self.files.insert(digest)),
                Err(error) => self.report.problem(error.to_string()),
            }
        }
        Ok(())
    }

    fn pair(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        match key.first().copied().unwrap_or_default() {
            keys::COMMITS => {}
            keys::META => drop(self.record(key, value, |_: &MetaRecord| keys::meta())),
            keys::SWEEP => self.sweep(key, value),
            keys::TOML => self.toml(key, value),
            keys::ATTEMPT => self.attempt(key, value)?,
            keys::RULING => {
                self.report.rulings += 1;
                let ruling = self.record(key, value, |it: &RulingRecord| {
                    keys::ruling(it.sweep, it.trial, it.kind)
                });
                self.referred.extend(ruling.map(|it| it.sweep));
            }
            keys::MARK => {
                self.report.marks += 1;
                let mark =
                    self.record(key, value, |it: &MarkRecord| keys::mark(it.sweep, it.order));
                self.referred.extend(mark.map(|it| it.sweep));
            }
            keys::HOST => {
                self.report.hosts += 1;
                self.record(key, value, |it: &HostRecord| keys::host(&it.name));
            }
            keys::OBSERVATION => {
                self.report.observations += 1;
                self.record(key, value, |it: &ObservationRecord| {
                    keys::observation(it.number)
                });
            }
            keys::REHEARSAL => self.rehearsal(key, value),
            keys::BY_TIME | keys::BY_HOST => self.index_entry(key)?,
            _ => self
                .report
                .problem(format!("key {}: of an unknown kind", hex(key))),
        }
        Ok(())
    }

    /// Decodes a value and compares its key with the one that the record itself would have.
    fn record<M: Message + Default>(
        &mut self,
        key: &[u8],
        value: &[u8],
        own: impl Fn(&M) -> Vec<u8>,
    ) -> Option<M> {
        match M::decode(value) {
            Ok(record) if own(&record) == key => return Some(record),
            Ok(_) => self
                .report
                .problem(format!("key {}: holds the record of another key", hex(key))),
            Err(error) => self.report.problem(format!("key {}: {error}", hex(key))),
        }
        None
    }

    fn sweep(&mut self, key: &[u8], value: &[u8]) {
        self.report.sweeps += 1;
        let Some(sweep) = self.record(key, value, |it: &SweepRecord| keys::sweep(it.number)) else {
            return;
        };
        let file = Some(&sweep.blob).filter(|blob| !blob.is_empty());
        let manifest = Some(&sweep.manifest).filter(|manifest| !manifest.is_empty());
        for digest in sweep.attachments.values().chain(file).chain(manifest) {
            if !self.blobs.contains(digest) {
                self.report.problem(format!(
                    "sweep {}: its blob {digest} is missing or damaged",
                    sweep.id
                ));
            }
        }
        self.travelling(&sweep);
        self.sweeps.insert(sweep.number, sweep);
    }

    /// What its list of files names must be there.
    fn travelling(&mut self, sweep: &SweepRecord) {
        if !self.blobs.contains(&sweep.manifest) {
            return;
        }
        let bytes = self.kept.blobs().get(&sweep.manifest);
        let Some(list) = bytes
            .ok()
            .and_then(|bytes| FileManifest::decode(&*bytes).ok())
        else {
            let text = format!("sweep {}: its list of files does not decode", sweep.id);
            return self.report.problem(text);
        };
        for file in list.files {
            if !self.files.contains(&file.sha256) {
                let (name, digest) = (file.name, file.sha256);
                self.report.problem(format!(
                    "sweep {}: the content of its file {name} ({digest}) is missing or damaged",
                    sweep.id
                ));
            }
        }
    }

    fn rehearsal(&mut self, key: &[u8], value: &[u8]) {
        self.report.rehearsals += 1;
        let own = |it: &RehearsalRecord| keys::rehearsal(&it.key);
        let Some(rehearsal) = self.record(key, value, own) else {
            return;
        };
        if !self.blobs.contains(&rehearsal.blob) {
            self.report.problem(format!(
                "rehearsal {}: its blob {} is missing or damaged",
                rehearsal.key, rehearsal.blob
            ));
        }
    }

    fn toml(&mut self, key: &[u8], value: &[u8]) {
        // Sweeps come before their files in the order of keys.
        let number = key
            .get(1..)
            .and_then(|number| number.try_into().ok())
            .map(u64::from_be_bytes);
        match number.and_then(|number| self.sweeps.get(&number)) {
            None => self
                .report
                .problem(format!("key {}: the file of no sweep", hex(key))),
            Some(sweep) if !sweep.digest.is_empty() && sweep.digest != blobs::digest(value) => {
                let text = format!(
                    "sweep {}: its file does not have the SHA-256 in its record",
                    sweep.id
                );
                self.report.problem(text);
            }
            Some(_) => {}
        }
    }

    fn attempt(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.report.attempts += 1;
        let Some(attempt) = self.record(key, value, keys::attempt) else {
            return Ok(());
        };
        self.referred.insert(attempt.sweep);
        let position = keys::position(&attempt);
        for entry in [
            keys::by_time(&position),
            keys::by_host(&attempt.host, &position),
        ] {
            if self.kept.get(&entry)?.is_none() {
                self.report.problem(format!(
                    "attempt {}: no index entry {}",
                    name(&attempt),
                    hex(&entry)
                ));
            }
        }
        Ok(())
    }

    fn index_entry(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.report.index_entries += 1;
        let position = keys::position_of(key);
        let attempt: Option<AttemptRecord> = match &position {
            // One that does not decode has its own finding.
            Some(position) => self
                .kept
                .get(&keys::attempt_at(position))?
                .and_then(|value| AttemptRecord::decode(value.as_slice()).ok()),
            None => None,
        };
        let fits = attempt.is_some_and(|attempt| {
            let position = keys::position(&attempt);
            key == keys::by_time(&position) || key == keys::by_host(&attempt.host, &position)
        });
        if !fits {
            self.report
                .problem(format!("index entry {}: no such attempt", hex(key)));
        }
        Ok(())
    }

    fn references(&mut self) {
        for number in &self.referred {
            if !self.sweeps.contains_key(number) {
                let text =
                    format!("sweep number {number}: there are records of it, but not the sweep");
                self.report.problem(text);
            }
        }
        for sweep in self.sweeps.values().filter(|sweep| sweep.blob.is_empty()) {
            if matches!(self.kept.get(&keys::toml(sweep.number)), Ok(None))
                && !sweep.digest.is_empty()
            {
                self.report
                    .problem(format!("sweep {}: its file is missing", sweep.id));
            }
        }
    }
}

fn name(attempt: &AttemptRecord) -> String {
    let AttemptRecord {
        sweep,
        trial,
        kind,
        number,
        ..
    } = attempt;
    format!("{sweep}/{trial}/{kind}/{number}")
}
