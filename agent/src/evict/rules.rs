//! `[[evict]]` as written and as meant. Pure.

use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

/// As written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvictFile {
    pub ollama: Option<String>,
    pub command: Vec<String>,
    pub programs: Vec<String>,
    pub patience: Option<String>,
}

#[derive(Debug, Error)]
pub enum BadEvict {
    #[error(
        "[[evict]] needs one of ollama = \"http://127.0.0.1:11434\" and command = [\"program\", ...]"
    )]
    OneOfTwo,
    #[error("[[evict]] patience `{0}` is not a time above zero; write it like \"30s\"")]
    Patience(String),
    #[error(
        "[[evict]] with a command needs programs = [...], the names of the programs that it ends or unloads"
    )]
    NoPrograms,
    #[error(
        "[[evict]] ollama `{0}` is not the address of a server on this machine, like http://127.0.0.1:11434"
    )]
    Address(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictRule {
    pub(super) way: Way,
    /// In lower case, without folders and `.exe`.
    programs: Vec<String>,
    /// So long may its answer and the memory take together.
    pub(super) patience: Duration,
}

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// All its models are unloaded; the server goes on.
    Ollama(String),
    Command(Vec<String>),
}

/// What runs its models, by version.
const OLLAMA: [&str; 3] = ["ollama", "ollama_llama_server", "ollama-lib"];

impl EvictFile {
    pub fn resolve(self) -> Result<EvictRule, BadEvict> {
        let mut programs: Vec<String> = self.programs.iter().map(|one| bare(one)).collect();
        let way = match (self.ollama, self.command) {
            (Some(url), command) if command.is_empty() => {
                // Requests go out in plain text, so they stay here.
                if !is_here(&url) {
                    return Err(BadEvict::Address(url));
                }
                programs.extend(OLLAMA.map(str::to_owned));
                Way::Ollama(url.trim_end_matches('/').to_owned())
            }
            (None, command) if command.first().is_some_and(|one| !one.is_empty()) => {
                Way::Command(command)
            }
            _ => return Err(BadEvict::OneOfTwo),
        };
        if programs.is_empty() {
            return Err(BadEvict::NoPrograms);
        }
        let patience = match self.patience {
            Some(text) => crate::size::time(&text).ok_or(BadEvict::Patience(text))?,
            None => PATIENCE,
        };
        Ok(EvictRule {
            way,
            programs,
            patience,
        })
    }
}

impl EvictRule {
    #[must_use]
    pub fn names(&self, program: &str) -> bool {
        self.programs.contains(&bare(program))
    }

    /// For people.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.way {
            Way::Ollama(_) => "Ollama",
            Way::Command(_) => self.programs.first().map_or("", String::as_str),
        }
    }
}

/// `http://`, this machine, perhaps a port, and nothing that could name another.
fn is_here(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let place = rest.trim_end_matches('/');
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (place, "80"),
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let here = host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    here && port.parse::<u16>().is_ok()
}

fn bare(program: &str) -> String {
    let file = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let low = file.to_ascii_lowercase();
    low.strip_suffix(".exe").unwrap_or(&low).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Result<EvictRule, BadEvict> {
        toml::from_str::<EvictFile>(text).unwrap().resolve()
    }

    #[test]
    fn programs_are_known_by_their_file() {
        let ollama = rule("ollama = 'http://127.0.0.1:11434/'").unwrap();
        assert!(ollama.names("/usr/local/bin/ollama"));
        assert!(ollama.names(r"C:\Users\ann\AppData\Local\Programs\Ollama\Ollama.exe"));
        assert!(!ollama.names("ollama-webui"));
        assert_eq!(ollama.way, Way::Ollama("http://127.0.0.1:11434".to_owned()));
        let own =
            rule("command = ['systemctl', 'stop', 'comfyui']\nprograms = ['ComfyUI']").unwrap();
        assert!(own.names("comfyui"));
        assert_eq!(own.name(), "comfyui");
    }

    #[test]
    fn half_a_rule_is_refused() {
        for text in [
            "",
            "programs = ['x']",
            "command = ['x']",
            "ollama = 'http://127.0.0.1:1'\ncommand = ['x']",
            "ollama = 'http://127.0.0.1:1'\npatience = '5'",
            "ollama = 'https://127.0.0.1:11434'",
            "ollama = 'http://10.0.0.1:11434'",
            "ollama = 'http://127.0.0.1.evil.example:1'",
            "ollama = 'http://localhost@evil.example'",
            "ollama = 'http://127.0.0.1:x'",
            "command = ['']\nprograms = ['x']",
        ] {
            assert!(rule(text).is_err(), "{text}");
        }
    }
}
