//! The committed code under `src/gen` is what the `.proto` files say. After a change of those files:
//! `SWEEP_GENERATE=1 cargo test -p whole --test generated_code`, and commit what it writes.

use std::path::{Path, PathBuf};

const FILES: [&str; 6] = [
    "sweep/v1/documents.proto",
    "sweep/v1/files.proto",
    "sweep/v1/sweeps.proto",
    "sweep/v1/agents.proto",
    "sweep/v1/trust.proto",
    "sweep/store/v1/records.proto",
];

/// Fields that hold JSON as text and stand in the documents as JSON.
const EMBEDDED: [&str; 13] = [
    "TrialDocument.params",
    "PlannedTrial.params",
    "ResultRow.params",
    "Summary.outcomes",
    "AttemptDocument.result",
    "AttemptDocument.metrics",
    "AttemptDocument.recipe",
    "AttemptDocument.observation",
    "ResultRow.result",
    "ResultRow.metrics",
    "AdviceDocument.answer",
    "PeakDocument.explained",
    "FirstAdvice.suggestion",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../proto")
}

fn generate(out: &Path) {
    let descriptors = protox::compile(FILES, [root()]).expect("the .proto files are valid");
    let mut builder = tonic_prost_build::configure()
        .out_dir(out)
        .emit_rerun_if_changed(false)
        .btree_map(".")
        .type_attribute(".sweep.v1", "#[derive(serde::Serialize)]")
        .type_attribute(".sweep.v1", "#[serde(rename_all = \"snake_case\")]");
    for field in EMBEDDED {
        builder = builder.field_attribute(
            format!(".sweep.v1.{field}"),
            "#[serde(serialize_with = \"crate::json::embedded\")]",
        );
    }
    builder
        .compile_fds(descriptors)
        .expect("code can be generated");
}

#[test]
fn committed_code_is_what_the_files_say() {
    let committed = root().join("src/gen");
    if std::env::var_os("SWEEP_GENERATE").is_some() {
        std::fs::create_dir_all(&committed).expect("src/gen can be made");
        generate(&committed);
        return;
    }
    let fresh = tempfile::tempdir().expect("a folder for the fresh code");
    generate(fresh.path());
    for entry in std::fs::read_dir(fresh.path()).expect("fresh code") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name");
        let new = std::fs::read_to_string(&path).expect("fresh code is text");
        let old = std::fs::read_to_string(committed.join(name)).unwrap_or_default();
        assert!(
            new == old,
            "src/gen/{} is stale: run SWEEP_GENERATE=1 cargo test -p whole --test generated_code",
            name.display()
        );
    }
}
