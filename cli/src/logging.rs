//! Logs to stderr, or where nobody sees that (an agent that Windows started) to a file of each day in DATA\\logs:
//! `SWEEP_LOG` when set, else by `-v`, else warnings for commands and info for servers.
//! Never stdout, and never an environment or a secret: what is logged is chosen where it is logged.

use std::borrow::Cow;
use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::args::{Cli, Color};

pub fn start(cli: &Cli) {
    let level = level(cli.command.is_server(), cli.global.verbose);
    let asked = std::env::var("SWEEP_LOG")
        .ok()
        .filter(|filter| !filter.is_empty());
    let (filter, wrong) = match asked.as_deref().map(str::parse::<EnvFilter>) {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (EnvFilter::new(level), Some(error)),
        None => (EnvFilter::new(level), None),
    };
    let colour = match cli.global.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
    };
    let file = cli.command.under().and_then(|_| daily(cli));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour && file.is_none())
        .with_writer(file.unwrap_or_else(|| BoxMakeWriter::new(std::io::stderr)))
        .with_target(false)
        .fmt_fields(
            debug_fn(|writer, field, value| {
                let text = format!("{value:?}");
                let text = one_line(&text);
                match field.name() {
                    "message" => write!(writer, "{text}"),
                    name => write!(writer, "{name}={text}"),
                }
            })
            .delimited(" "),
        )
        .init();
    if let Some(error) = wrong {
        tracing::warn!("SWEEP_LOG is not a log level or filter ({error}); using `{level}`");
    }
}

/// `agent.2026-12-03.log`, the last two weeks of them. Absent where it cannot be written: the agent works all the same.
#[cfg(windows)]
fn daily(cli: &Cli) -> Option<BoxMakeWriter> {
    let folder = cli.global.data.as_ref()?.join("logs");
    let file = tracing_appender::rolling::Builder::new()
        .rotation(tracing_appender::rolling::Rotation::DAILY)
        .filename_prefix("agent")
        .filename_suffix("log")
        .max_log_files(14)
        .build(folder);
    file.ok().map(BoxMakeWriter::new)
}

#[cfg(not(windows))]
fn daily(_cli: &Cli) -> Option<BoxMakeWriter> {
    None
}

/// What others sent may stand in a line: it begins no line of its own, and does not speak to a terminal.
fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().collect(),
        false => String::from(c),
    };
    text.chars().map(escaped).collect::<String>().into()
}

/// The libraries below speak up only at the highest level.
fn level(server: bool, verbose: u8) -> &'static str {
    match (server, verbose) {
        (false, 0) => "warn",
        (true, 0) | (false, 1) => "warn,audit=info,sweep=info,agent=info,coordinator=info",
        (true, 1) | (false, 2) => "info,audit=debug,sweep=debug,agent=debug,coordinator=debug",
        _ => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(one_line("as it was é"), "as it was é");
        let text = one_line("a\r\n2026 ERROR b\u{1b}[2J");
        assert_eq!(text, "a\\r\\n2026 ERROR b\\u{1b}[2J");
    }

    #[test]
    fn servers_say_more() {
        assert_eq!(level(false, 0), "warn");
        assert!(level(true, 0).contains("coordinator=info"));
        for (server, verbose) in [(true, 0), (true, 1), (false, 1), (false, 2), (true, 9)] {
            assert!(level(server, verbose).parse::<EnvFilter>().is_ok());
        }
    }
}
