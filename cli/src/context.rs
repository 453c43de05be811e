//! The settings of this call: data folder, coordinator, how to print. Built once from the flags (which clap has
//! already filled from the environment) and the platform's defaults. Reads no file and opens nothing.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::access::Access;
use crate::args::Global;
use crate::error::Error;

#[derive(Debug)]
pub struct Context {
    /// Absolute: agents hand it on to processes in other folders.
    pub data: PathBuf,
    /// Where a token for it is looked for.
    pub access: Access,
    /// As given, with `http://` in front where it had neither that nor `https://`.
    pub coordinator: Option<String>,
    pub json: bool,
    /// No progress and no notes: asked for, or because only one document may be printed.
    pub quiet: bool,
}

impl Context {
    pub fn new(global: Global) -> Result<Self, Error> {
        let data = match global.data {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => default_data()?,
        };
        let data = std::path::absolute(&data)
            .map_err(|source| Error::Unreadable { path: data, source })?;
        if data.exists() && !data.is_dir() {
            let folder = data.display();
            return Err(Error::BadInput(format!(
                "{folder} is not a folder; give one with --data DIR"
            )));
        }
        // An empty variable is an unset one.
        let coordinator = global
            .coordinator
            .as_deref()
            .filter(|url| !url.is_empty())
            .map(coordinator_url)
            .transpose()?;
        let access = Access {
            data: Some(data.clone()),
        };
        Ok(Self {
            data,
            access,
            coordinator,
            json: global.json,
            quiet: global.quiet || global.json,
        })
    }

    /// Folder of one host's agent.
    pub fn agent_folder(&self, host: &str) -> PathBuf {
        agent_folder(&self.data, host)
    }
}

/// Under `data`, so that one `--data` moves everything.
pub fn agent_folder(data: &Path, host: &str) -> PathBuf {
    data.join("agents").join(host)
}

/// `$XDG_STATE_HOME/sweep` or `~/.local/state/sweep`; `%LOCALAPPDATA%\sweep`.
fn default_data() -> Result<PathBuf, Error> {
    let folders = etcetera::choose_base_strategy().map_err(|_| {
        Error::BadInput("no home folder is known here; give one with --data DIR".into())
    })?;
    Ok(folders
        .state_dir()
        .unwrap_or_else(|| folders.cache_dir())
        .join("sweep"))
}

/// Accepts `host:port`, `http://host:port` and `https://host:port`.
fn coordinator_url(text: &str) -> Result<String, Error> {
    let text = text.trim_end_matches('/');
    let (scheme, address) = match text.split_once("://") {
        Some((scheme @ ("http" | "https"), address)) => (scheme, address),
        _ => ("http", text),
    };
    let port = address
        .rsplit_once(':')
        .map(|(_, port)| port.parse::<u16>().is_ok());
    if address.contains('/') || port != Some(true) {
        return Err(Error::BadInput(format!(
            "`{text}` is not a coordinator's address; write it like http://127.0.0.1:7480 or https://keeper:7480"
        )));
    }
    Ok(format!("{scheme}://{address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_completed_or_refused() {
        let good = |text| coordinator_url(text).ok();
        assert_eq!(good("127.0.0.1:70"), Some("http://127.0.0.1:70".into()));
        assert_eq!(good("http://[::1]:70/"), Some("http://[::1]:70".into()));
        for bad in [
            "127.0.0.1",
            "http://",
            "https://",
            "https://x",
            "ftp://x:1",
            "",
            "http://x:1/y",
        ] {
            assert!(
                matches!(coordinator_url(bad), Err(Error::BadInput(_))),
                "{bad}"
            );
        }
        assert_eq!(good("https://x:1/"), Some("https://x:1".into()));
    }

    #[test]
    fn the_data_folder_has_a_default() {
        let folder = default_data().ok();
        assert!(folder.is_some_and(|folder| folder.ends_with("sweep")));
    }
}
