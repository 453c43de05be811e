//! What can go wrong, and the one table from it to exit codes: 0 done, 1 a job did not succeed, 2 bad input,
//! 3 coordinator unreachable, 4 refused. Errors go to stderr, for people or (`--json`) as one JSON object.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use jobs::spec::SpecErrors;
use serde_json::{Value, json};
use thiserror::Error;
use tonic::Code;

use crate::harmless;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(u8);

impl Exit {
    pub const DONE: Self = Self(0);
    pub const NOT_SUCCEEDED: Self = Self(1);
    pub const BAD_INPUT: Self = Self(2);
    pub const UNREACHABLE: Self = Self(3);
    pub const REFUSED: Self = Self(4);

    #[cfg_attr(not(windows), allow(dead_code))]
    pub fn code(self) -> u8 {
        self.0
    }

    /// A sweep's own code, as its coordinator computed it.
    pub fn of_sweep(code: u32) -> Self {
        u8::try_from(code).map_or(Self::NOT_SUCCEEDED, Self)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

#[derive(Debug, Error)]
pub enum Error {
    /// Errors of a sweep file, each with its place.
    #[error("{0}")]
    Spec(SpecErrors),
    #[error("{0}")]
    BadInput(String),
    #[error("failed to read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("failed to reach the coordinator at {url}: {why}")]
    Unreachable { url: String, why: String },
    #[error("{0}")]
    Refused(String),
    /// The coordinator's own answer.
    #[error("{}", said(.0))]
    Status(Box<tonic::Status>),
    #[error("failed to {doing} {what}: {source}")]
    Io {
        doing: &'static str,
        what: String,
        source: io::Error,
    },
    #[error("{0}")]
    Failed(String),
    /// Left by the user before the end; how to go on.
    #[error("{0}")]
    Suspended(String),
    /// Whoever read our output has gone: nothing is wrong, and nobody is there to be told.
    #[error("the reader of the output has gone")]
    Pipe,
}

/// The coordinator's own words; or what a broken connection means for whoever asked.
fn said(status: &tonic::Status) -> String {
    let message = status.message();
    if status.code() != Code::Unavailable && crate::follow::is_lost(status) {
        return format!(
            "failed to reach the coordinator: the connection broke ({message}); run the command again"
        );
    }
    message.to_owned()
}

impl Error {
    pub fn io(doing: &'static str, what: impl Into<String>, source: io::Error) -> Self {
        Self::Io {
            doing,
            what: what.into(),
            source,
        }
    }

    /// The error and what it comes from, as one line.
    pub fn chain(error: &dyn std::error::Error) -> String {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            let said = inner.to_string();
            // Many errors repeat their source in their own words.
            if !text.contains(&said) {
                text = format!("{text}: {said}");
            }
            source = inner.source();
        }
        text
    }

    /// The table.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Pipe => Exit::DONE,
            Self::Io { .. } | Self::Failed(_) | Self::Suspended(_) => Exit::NOT_SUCCEEDED,
            Self::Spec(_) | Self::BadInput(_) | Self::Unreadable { .. } => Exit::BAD_INPUT,
            Self::Unreachable { .. } => Exit::UNREACHABLE,
            Self::Refused(_) => Exit::REFUSED,
            Self::Status(status) if crate::follow::is_lost(status) => Exit::UNREACHABLE,
            Self::Status(status) => match status.code() {
                Code::InvalidArgument | Code::NotFound | Code::OutOfRange => Exit::BAD_INPUT,
                Code::Unavailable => Exit::UNREACHABLE,
                Code::FailedPrecondition
                | Code::PermissionDenied
                | Code::AlreadyExists
                | Code::Unauthenticated => Exit::REFUSED,
                _ => Exit::NOT_SUCCEEDED,
            },
        }
    }

    /// The stable word of the JSON form.
    fn word(&self) -> &'static str {
        match self.exit() {
            Exit::BAD_INPUT => "bad_input",
            Exit::UNREACHABLE => "unreachable",
            Exit::REFUSED => "refused",
            _ if matches!(self, Self::Suspended(_)) => "suspended",
            _ => "failed",
        }
    }

    fn to_json(&self) -> Value {
        let mut error = json!({
            "code": self.word(),
            "exit": self.exit().0,
            "message": self.to_string(),
        });
        if let Self::Spec(errors) = self {
            let first = errors.items().first().map(|item| item.message.clone());
            error["message"] = first.unwrap_or_default().into();
            error["items"] = json!(errors.items());
        }
        json!({ "error": error })
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// To stderr. Never to stdout, which carries the one document or nothing.
pub fn print(error: &Error, json: bool) {
    let mut stderr = anstream::stderr().lock();
    // A closed stderr leaves nobody to tell.
    let _ = match error {
        Error::Pipe => Ok(()),
        _ if json => writeln!(stderr, "{}", error.to_json()),
        Error::Suspended(how_to_go_on) => writeln!(stderr, "{how_to_go_on}"),
        Error::Spec(errors) => writeln!(stderr, "{}", errors.render(true)),
        // Others' words may stand in it.
        _ => {
            let error = harmless::text(&error.to_string());
            writeln!(stderr, "\x1b[1;31merror:\x1b[0m {error}")
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_exit_codes() {
        let status = |code| Error::from(tonic::Status::new(code, "said"));
        let table = [
            (status(Code::InvalidArgument), Exit::BAD_INPUT),
            (status(Code::NotFound), Exit::BAD_INPUT),
            (status(Code::Unavailable), Exit::UNREACHABLE),
            (status(Code::FailedPrecondition), Exit::REFUSED),
            (status(Code::PermissionDenied), Exit::REFUSED),
            (status(Code::AlreadyExists), Exit::REFUSED),
            (status(Code::Internal), Exit::NOT_SUCCEEDED),
            (status(Code::ResourceExhausted), Exit::NOT_SUCCEEDED),
            (Error::BadInput("x".into()), Exit::BAD_INPUT),
            (Error::Refused("x".into()), Exit::REFUSED),
            (Error::Failed("x".into()), Exit::NOT_SUCCEEDED),
            (Error::Pipe, Exit::DONE),
        ];
        for (error, exit) in table {
            assert_eq!(error.exit(), exit, "{error:?}");
        }
        assert_eq!(Exit::of_sweep(0), Exit::DONE);
        assert_eq!(Exit::of_sweep(70_000), Exit::NOT_SUCCEEDED);
    }

    #[test]
    fn an_error_as_json_has_code_and_message() {
        let json = Error::Refused("not here".into()).to_json();
        assert_eq!(json["error"]["code"], "refused");
        assert_eq!(json["error"]["exit"], 4);
        assert_eq!(json["error"]["message"], "not here");
    }

    #[test]
    fn a_broken_sweep_file_lists_its_places() {
        let Err(errors) = jobs::plan::load("bad.toml", b"[sweep") else {
            panic!("accepted");
        };
        let json = Error::Spec(errors).to_json();
        assert_eq!(json["error"]["code"], "bad_input");
        assert_eq!(json["error"]["items"][0]["file"], "bad.toml");
    }
}
