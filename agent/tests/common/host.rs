//! A whole agent in this process, with real shepherds, on a folder of its own.

#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use agent::config::HostConfig;
use agent::{AgentError, AgentOptions, Leave};
use tokio_util::sync::CancellationToken;

use super::common::{eventually, living, shepherd};

pub const A: &str = "digits-abc/1/train/1";
pub const B: &str = "digits-abc/2/train/1";

pub struct Host {
    pub root: tempfile::TempDir,
    pub address: String,
}

pub struct Running {
    pub shutdown: CancellationToken,
    pub task: tokio::task::JoinHandle<Result<(), AgentError>>,
}

impl Host {
    pub fn new(address: String) -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            address,
        }
    }

    pub fn config() -> HostConfig {
        let cpu = "name = \"box\"\nenv = { FROM_HOST = \"yes\" }\n[[device]]\nkind = \"cpu\"\nusable = \"1 GiB\"\nslots = 2\n";
        HostConfig::parse(cpu).unwrap()
    }

    pub fn options(&self, shutdown: &CancellationToken, leave: Leave) -> AgentOptions {
        AgentOptions {
            config: Self::config(),
            coordinator: self.address.clone(),
            folder: self.root.path().join("agent"),
            program: shepherd(),
            admission: agent::trust::Admission::default(),
            kit: self.root.path().join("kit"),
            shutdown: shutdown.clone(),
            leave: leave.always(),
            ready: None,
        }
    }

    pub async fn agent(&self, leave: Leave) -> Running {
        let shutdown = CancellationToken::new();
        let mut options = self.options(&shutdown, leave);
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        options.ready = Some(ready);
        let task = tokio::spawn(agent::run(options));
        tokio::time::timeout(Duration::from_secs(20), is_ready)
            .await
            .unwrap()
            .unwrap();
        Running { shutdown, task }
    }

    pub fn attempt(&self, id: &str) -> PathBuf {
        self.root.path().join("agent/attempts").join(id)
    }

    pub fn state(&self, id: &str) -> serde_json::Value {
        let bytes = fs::read(self.attempt(id).join("state.json")).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub fn pid(&self, id: &str, of: &str) -> u32 {
        let pid = self.state(id)[of]["pid"].as_u64().unwrap();
        u32::try_from(pid).unwrap()
    }

    pub async fn until_log(&self, id: &str, text: &str) {
        let (log, text) = (self.attempt(id).join("log"), text.to_owned());
        let state = self.attempt(id).join("state.json");
        let check = move || {
            eventually("the log says it", || {
                state.exists() && fs::read_to_string(&log).unwrap_or_default().contains(&text)
            });
        };
        tokio::task::spawn_blocking(check).await.unwrap();
    }

    pub fn nothing_lives(&self) {
        eventually("no process is left", || living(self.root.path()).is_empty());
    }
}

impl Running {
    pub async fn end(self) {
        self.shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(20), self.task)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }
}
