//! Asks a program to give its memory back, in the way that its rule names. Whether it came back is seen on the card.

use std::process::Stdio;

use std::time::Duration;

use tokio::io::AsyncReadExt as _;

use super::ollama;
use super::rules::{EvictRule, Way};
use crate::os;

const LONGEST: u64 = 64 << 10;
/// Its last words are on their way when it has ended.
const WORDS: Duration = Duration::from_millis(500);

pub async fn ask(rule: &EvictRule) -> Result<(), String> {
    match &rule.way {
        Way::Ollama(url) => {
            let url = url.clone();
            let asked = tokio::task::spawn_blocking(move || ollama::unload_all(&url)).await;
            asked.unwrap_or_else(|error| Err(error.to_string()))
        }
        Way::Command(command) => run(command).await,
    }
}

/// The owner's command, with the agent's environment but for what is sweep's own.
async fn run(command: &[String]) -> Result<(), String> {
    let [program, words @ ..] = command else {
        return Ok(());
    };
    let mut child = tokio::process::Command::new(program);
    child
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SWEEP_") {
            child.env_remove(name);
        }
    }
    // Whoever waits for it gives up in time, and then it goes with all that it started.
    child.kill_on_drop(true);
    os::own_group(&mut child);
    let failed = |error: std::io::Error| format!("`{program}`: {error}");
    let mut child = child.spawn().map_err(failed)?;
    let group = Group(child.id());
    let said = child
        .stderr
        .take()
        .map(|pipe| tokio::spawn(beginning(pipe)));
    let status = child.wait().await.map_err(failed)?;
    // What it leaves running on purpose may go on.
    std::mem::forget(group);
    if status.success() {
        return Ok(());
    }
    let said = match said {
        Some(said) => tokio::time::timeout(WORDS, said)
            .await
            .ok()
            .and_then(Result::ok),
        None => None,
    };
    let said = said.unwrap_or_default();
    let last = said.trim().lines().next_back().unwrap_or_default();
    let last: String = last
        .chars()
        .filter(|one| !one.is_control())
        .take(200)
        .collect();
    Err(format!("`{program}` ended with {}: {last}", status))
}

/// As much as is shown; who keeps the pipe open after the command has ended is not waited for.
async fn beginning(pipe: tokio::process::ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = pipe.take(LONGEST).read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The command with all that it started, ended when nobody waits for it any more.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            os::end_group(pid);
        }
    }
}
