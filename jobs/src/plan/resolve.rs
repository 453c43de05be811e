//! From a stage's `run` to real arguments, in two steps: the trial's settings here, the host's own values on the host.
//! Refuses to guess: a value that the host does not have is an error, not an empty argument.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

use crate::spec::{MAY_BE_FILES, Params, Piece, escape, pieces};
use crate::staged::{self, PREFIX};

/// Placeholders that only the host of an attempt can fill.
pub const HOST_NAMES: [&str; 6] = [
    "kit",
    "python",
    "dataset",
    "model_path",
    "sweep_dir",
    "seed",
];

/// What a host fills in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostValues {
    /// Folder of the programs that come with `sweep`.
    pub kit: String,
    /// The host's Python interpreter.
    pub python: String,
    /// Path of the trial's dataset on that host, if it has it.
    pub dataset: Option<String>,
    /// Path of the weights of the trial's model on that host, if it has them.
    pub model_path: Option<String>,
    /// Name of a file of the sweep -> its path on that host.
    pub files: BTreeMap<String, String>,
    /// Folder that the jobs of one trial share on that host.
    pub sweep_dir: String,
    /// The trial's seed: [`crate::Plan::seed`].
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unresolved {
    #[error("`{{{0}}}` has no value on this host: name it in the host's configuration")]
    Missing(String),
    #[error("the file `{0}` did not travel with this sweep: submit it again")]
    NoFile(String),
    #[error("the text `{0}` has a lone brace")]
    Malformed(String),
}

impl Unresolved {
    fn of(name: &str) -> Self {
        match name.strip_prefix(PREFIX) {
            Some(file) => Self::NoFile(file.to_owned()),
            None => Self::Missing(name.to_owned()),
        }
    }
}

/// Fills the placeholders that name settings. Those of the host stay, and so do doubled braces: [`resolve_host`]
/// ends what this begins.
#[must_use]
pub fn resolve(run: &[String], settings: &Params) -> Vec<String> {
    run.iter()
        .map(|text| resolve_text(text, settings))
        .collect()
}

/// [`resolve`] for one text, e.g. a value of `env`.
#[must_use]
pub fn resolve_text(text: &str, settings: &Params) -> String {
    let Ok(pieces) = pieces(text) else {
        // Never of a parsed spec; `resolve_host` will refuse it.
        return text.to_owned();
    };
    let mut filled = String::with_capacity(text.len());
    for piece in pieces {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Brace(brace) => filled.extend([brace, brace]),
            Piece::Name(name, at) => match settings.get(name) {
                // A sweep's own setting of that name was there before hosts could fill it in.
                Some(value) if name == "model_path" || !HOST_NAMES.contains(&name) => {
                    filled.push_str(&escape(&plain(value)));
                }
                _ => filled.push_str(&text[at]),
            },
        }
    }
    filled
}

/// Fills what is left after [`resolve`], on the host.
pub fn resolve_host(run: &[String], host: &HostValues) -> Result<Vec<String>, Unresolved> {
    run.iter()
        .map(|text| resolve_host_text(text, host))
        .collect()
}

/// [`resolve_host`] for one text.
pub fn resolve_host_text(text: &str, host: &HostValues) -> Result<String, Unresolved> {
    let pieces = pieces(text).map_err(|_| Unresolved::Malformed(text.to_owned()))?;
    let mut filled = String::with_capacity(text.len());
    for piece in pieces {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Brace(brace) => filled.push(brace),
            Piece::Name("kit", _) => filled.push_str(&host.kit),
            Piece::Name("python", _) => filled.push_str(&host.python),
            Piece::Name("sweep_dir", _) => filled.push_str(&host.sweep_dir),
            Piece::Name("seed", _) => filled.push_str(&host.seed.to_string()),
            Piece::Name("dataset", _) if host.dataset.is_some() => {
                filled.extend(host.dataset.as_deref());
            }
            Piece::Name("model_path", _) if host.model_path.is_some() => {
                filled.extend(host.model_path.as_deref());
            }
            Piece::Name(name, _) => {
                let file = name.strip_prefix(PREFIX);
                match file.and_then(|file| host.files.get(file)) {
                    Some(path) => filled.push_str(path),
                    None => return Err(Unresolved::of(name)),
                }
            }
        }
    }
    Ok(filled)
}

/// What a stage's settings become for its program: each text that is nothing but `{file:NAME}` is that file's path, and so
/// is `cases` or `guards` where a file of that name came with the sweep.
pub fn resolve_stage(
    stage: &mut Value,
    files: &BTreeMap<String, String>,
) -> Result<(), Unresolved> {
    for name in MAY_BE_FILES {
        let text = stage.get(name).and_then(Value::as_str);
        if let Some(path) = text.and_then(|text| files.get(text)) {
            stage[*name] = path.as_str().into();
        }
    }
    resolve_files(stage, files)
}

fn resolve_files(value: &mut Value, files: &BTreeMap<String, String>) -> Result<(), Unresolved> {
    match value {
        Value::String(text) => {
            if let Some(name) = staged::reference(text) {
                let path = files
                    .get(name)
                    .ok_or_else(|| Unresolved::NoFile(name.to_owned()))?;
                *text = path.clone();
            }
            Ok(())
        }
        Value::Array(items) => items
            .iter_mut()
            .try_for_each(|item| resolve_files(item, files)),
        Value::Object(all) => all
            .values_mut()
            .try_for_each(|value| resolve_files(value, files)),
        _ => Ok(()),
    }
}

/// A setting as an argument: text as it is, everything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostValues {
        HostValues {
            kit: "/kit".into(),
            python: "python3".into(),
            sweep_dir: "/d".into(),
            seed: 7,
            files: BTreeMap::from([("a/b.jsonl".into(), "/c/a/b.jsonl".into())]),
            ..HostValues::default()
        }
    }

    fn both(text: &str, settings: &Params) -> Result<String, Unresolved> {
        resolve_host_text(&resolve_text(text, settings), &host())
    }

    #[test]
    fn settings_and_host_values_are_filled() {
        let settings = Params::from([
            ("rank".into(), 96.into()),
            ("lr".into(), 0.5.into()),
            ("name".into(), "{kit}".into()),
        ]);
        let full = |text| both(text, &settings).unwrap();
        assert_eq!(
            full("{python} {kit}/t.py --r={rank}"),
            "python3 /kit/t.py --r=96"
        );
        assert_eq!(full("{lr} {seed}"), "0.5 7");
        assert_eq!(full("{{rank}} {name}"), "{rank} {kit}");
    }

    #[test]
    fn files_are_filled_in_texts_and_in_settings() {
        assert_eq!(
            both("--cases={file:a/b.jsonl}", &Params::new()),
            Ok("--cases=/c/a/b.jsonl".into())
        );
        let missing = both("{file:b}", &Params::new());
        assert_eq!(missing, Err(Unresolved::NoFile("b".into())));
        let mut stage = serde_json::json!({"cases": ["{file:a/b.jsonl}", "{a}"], "n": 1});
        resolve_stage(&mut stage, &host().files).unwrap();
        assert_eq!(
            stage,
            serde_json::json!({"cases": ["/c/a/b.jsonl", "{a}"], "n": 1})
        );
        let missing = serde_json::json!({"x": "{file:b}"});
        assert!(resolve_stage(&mut missing.clone(), &host().files).is_err());
        let mut plain =
            serde_json::json!({"cases": "a/b.jsonl", "guards": "no.jsonl", "x": "a/b.jsonl"});
        resolve_stage(&mut plain, &host().files).unwrap();
        let wanted =
            serde_json::json!({"cases": "/c/a/b.jsonl", "guards": "no.jsonl", "x": "a/b.jsonl"});
        assert_eq!(plain, wanted);
    }

    #[test]
    fn a_value_that_the_host_lacks_is_an_error() {
        let missing = both("{dataset}", &Params::new());
        assert_eq!(missing, Err(Unresolved::Missing("dataset".into())));
    }
}
