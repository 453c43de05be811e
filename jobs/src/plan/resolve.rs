//! From a stage's `run` to real arguments, in two steps: the trial's settings here, the host's own values on the host.
//! Refuses to guess: a value that the host does not have is an error, not an empty argument.

use serde_json::Value;
use thiserror::Error;

use crate::spec::{Params, Piece, escape, pieces};

/// Placeholders that only the host of an attempt can fill.
pub const HOST_NAMES: [&str; 5] = ["kit", "python", "dataset", "sweep_dir", "seed"];

/// What a host fills in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostValues {
    /// Folder of the programs that come with `sweep`.
    pub kit: String,
    /// The host's Python interpreter.
    pub python: String,
    /// Path of the trial's dataset on that host, if it has it.
    pub dataset: Option<String>,
    /// Folder that the jobs of one trial share on that host.
    pub sweep_dir: String,
    /// The trial's seed: [`crate::Plan::seed`].
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unresolved {
    #[error("`{{{0}}}` has no value on this host: name it in the host's configuration")]
    Missing(String),
    #[error("the text `{0}` has a lone brace")]
    Malformed(String),
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
                Some(value) if !HOST_NAMES.contains(&name) => {
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
            Piece::Name(name, _) => return Err(Unresolved::Missing(name.to_owned())),
        }
    }
    Ok(filled)
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
            dataset: None,
            sweep_dir: "/d".into(),
            seed: 7,
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
    fn a_value_that_the_host_lacks_is_an_error() {
        let missing = both("{dataset}", &Params::new());
        assert_eq!(missing, Err(Unresolved::Missing("dataset".into())));
    }
}
