//! Asks a program to give its memory back, in the way that its rule names. Whether it came back is seen on the card.

use std::process::Stdio;

use super::ollama;
use super::rules::{EvictRule, Way};

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
    // Whoever waits for it gives up in time.
    child.kill_on_drop(true);
    let told = child
        .output()
        .await
        .map_err(|error| format!("`{program}`: {error}"))?;
    if told.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&told.stderr);
    let last = said.trim().lines().next_back().unwrap_or_default();
    let last: String = last
        .chars()
        .filter(|one| !one.is_control())
        .take(200)
        .collect();
    Err(format!("`{program}` ended with {}: {last}", told.status))
}
