//! One verb, one file: its words (`Args`) and what it does (`run`). A verb asks a coordinator and prints the answer.

pub mod agent;
pub mod cancel;
pub mod check;
pub mod completions;
pub mod coordinator;
pub mod history;
pub mod host;
pub mod hosts;
pub mod init;
pub mod list;
pub mod logs;
pub mod plan;
pub mod results;
pub mod retry;
pub mod run;
pub mod show;
pub mod submit;
pub mod token;
pub mod vram;
pub mod watch;
pub mod why;
