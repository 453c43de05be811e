//! Lists of files that travel, on the wire and in the store. Whatever comes from outside is checked on the way in.

use jobs::staged::{BadManifest, Manifest, StagedFile};

use crate::store::v1::{FileManifest, FileRecord};
use crate::v1;

/// From the wire.
pub fn manifest(files: &[v1::StagedFile]) -> Result<Manifest, BadManifest> {
    let file = |file: &v1::StagedFile| {
        Ok(StagedFile {
            bundle: file.bundle.parse()?,
            name: file.name.clone(),
            sha256: file.sha256.clone(),
            size: file.size,
            executable: file.executable,
        })
    };
    Manifest::new(files.iter().map(file).collect::<Result<_, BadManifest>>()?)
}

#[must_use]
pub fn manifest_message(manifest: &Manifest) -> Vec<v1::StagedFile> {
    let file = |file: &StagedFile| v1::StagedFile {
        bundle: file.bundle.to_string(),
        name: file.name.clone(),
        sha256: file.sha256.clone(),
        size: file.size,
        executable: file.executable,
    };
    manifest.files().iter().map(file).collect()
}

/// From the store.
pub fn manifest_of(record: &FileManifest) -> Result<Manifest, BadManifest> {
    let file = |file: &FileRecord| {
        Ok(StagedFile {
            bundle: file.bundle.parse()?,
            name: file.name.clone(),
            sha256: file.sha256.clone(),
            size: file.size,
            executable: file.executable,
        })
    };
    let files = record.files.iter().map(file);
    Manifest::new(files.collect::<Result<_, BadManifest>>()?)
}

#[must_use]
pub fn file_manifest(manifest: &Manifest) -> FileManifest {
    let file = |file: &StagedFile| FileRecord {
        bundle: file.bundle.to_string(),
        name: file.name.clone(),
        sha256: file.sha256.clone(),
        size: file.size,
        executable: file.executable,
    };
    FileManifest {
        files: manifest.files().iter().map(file).collect(),
    }
}
