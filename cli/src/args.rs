//! The words of the command line: global flags and verbs. What one verb takes stands in its own file under `cmd/`.
//! Nothing is read or decided here; `context` turns the flags into settings.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::cmd;
use crate::service::Under;

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  a job did not succeed, or the work could not be finished
  2  bad input: a wrong word, a wrong file, an unknown id
  3  the coordinator cannot be reached
  4  refused: not allowed, or not in this state

Environment: SWEEP_DATA and SWEEP_COORDINATOR stand in for the flags, SWEEP_LOG sets the log level
(error, warn, info, debug, or a tracing filter), SWEEP_TOKEN is the token for a coordinator with
TLS, or SWEEP_TOKEN_FILE the file it is in, SWEEP_CA the file of its CA's certificate, SWEEP_KIT names the folder of the programs that
{kit} stands for. Without a coordinator, commands work on the store in the data folder.";

/// Plans, runs and keeps hyperparameter sweeps on a few unequal GPU hosts.
///
/// Nothing starts that cannot fit, nothing is lost, every number can be compared.
#[derive(Debug, Parser)]
#[command(name = "sweep", version, after_long_help = AFTER_HELP, max_term_width = 98)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    infer_subcommands = false
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Folder of the store, logs and agents [default: the platform's state folder]
    #[arg(
        long,
        global = true,
        env = "SWEEP_DATA",
        value_name = "DIR",
        hide_env_values = true
    )]
    pub data: Option<PathBuf>,

    /// Coordinator to talk to, e.g. https://keeper:7480, or http://127.0.0.1:7480
    #[arg(
        long,
        global = true,
        env = "SWEEP_COORDINATOR",
        value_name = "URL",
        hide_env_values = true
    )]
    pub coordinator: Option<String>,

    /// Print one JSON document on stdout, and errors as JSON on stderr
    #[arg(long, global = true)]
    pub json: bool,

    /// Print the result only: no progress, no notes
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Log more to stderr; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

impl Color {
    /// For everything that is printed through `anstream` from here on.
    pub fn write_global(self) {
        let choice = match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(cmd::run::Args),
    Check(cmd::check::Args),
    Plan(cmd::plan::Args),
    Submit(cmd::submit::Args),
    List(cmd::list::Args),
    Show(cmd::show::Args),
    Watch(cmd::watch::Args),
    Logs(cmd::logs::Args),
    Cancel(cmd::cancel::Args),
    Retry(cmd::retry::Args),
    Why(cmd::why::Args),
    History(cmd::history::Args),
    Results(cmd::results::Args),
    Hosts(cmd::hosts::Args),
    /// Show, drain, resume or forget one host
    #[command(subcommand)]
    Host(cmd::host::Verb),
    /// Run the agent of a host
    #[command(subcommand)]
    Agent(cmd::agent::Verb),
    /// Run the coordinator, and look after its store
    #[command(subcommand)]
    Coordinator(cmd::coordinator::Verb),
    /// Make, list, revoke and renew the tokens of users and hosts
    #[command(subcommand)]
    Token(cmd::token::Verb),
    /// Predict memory, and hold predictions against measurements
    #[command(subcommand)]
    Vram(cmd::vram::Verb),
    Completions(cmd::completions::Args),
}

impl Command {
    /// A server logs what it does; a command says only what is wrong.
    pub fn is_server(&self) -> bool {
        matches!(
            self,
            Self::Agent(cmd::agent::Verb::Run(_))
                | Self::Coordinator(cmd::coordinator::Verb::Run(_))
        )
    }

    /// Who started it, where that is said.
    pub fn under(&self) -> Option<Under> {
        match self {
            Self::Agent(cmd::agent::Verb::Run(args)) => args.under,
            Self::Agent(cmd::agent::Verb::Doctor(args)) => args.under,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_documented_line_parses() {
        for line in [
            "sweep run f.toml",
            "sweep run f.toml --fleet home.toml --new --json",
            "sweep run f.toml --config host.toml",
            "sweep check f.toml",
            "sweep plan f.toml --fleet home.toml",
            "sweep --coordinator http://127.0.0.1:1 submit f.toml --json",
            "sweep list",
            "sweep show dropout-ab --json",
            "sweep --coordinator http://127.0.0.1:1 watch dropout-ab",
            "sweep logs dropout-ab-k3f9q2/3/train --follow",
            "sweep cancel dropout-ab-k3f9q2/3",
            "sweep retry dropout-ab-k3f9q2/3/train",
            "sweep why dropout-ab-k3f9q2/3/train",
            "sweep history --host rig --sweep s --kind train --outcome gpu_oom --since 2d --until 1h --limit 5 --page x",
            "sweep history --host rig --json",
            "sweep results dropout-ab",
            "sweep hosts",
            "sweep host show rig",
            "sweep host drain rig",
            "sweep host resume rig",
            "sweep host forget rig",
            "sweep --data d coordinator run --listen 127.0.0.1:7480",
            "sweep coordinator backup to",
            "sweep coordinator restore from",
            "sweep coordinator verify",
            "sweep coordinator init --data d --name keeper --name 10.0.0.1",
            "sweep token create ann --role submit --expires 30d",
            "sweep token create --join --host rig",
            "sweep token create --join --json",
            "sweep token list",
            "sweep token revoke ann",
            "sweep token revoke --host rig",
            "sweep token rotate ann --expires 12h",
            "sweep agent run --config h.toml --coordinator https://k:1 --token t --ca ca.pem",
            "sweep agent run --config h.toml --coordinator https://k:1 --token-file f",
            "sweep coordinator compact",
            "sweep --data d agent run --config h.toml --coordinator http://127.0.0.1:1",
            "sweep --data d agent run --fleet f.toml --host rig --coordinator http://127.0.0.1:1",
            "sweep vram predict --model gemma-3-4b-it --set rank=112 --set dropout=0.1 --device 3070",
            "sweep vram predict --config config.json --mode probe --usable-mib 7833.6 --held-mib 563",
            "sweep vram predict --model m --backend rocm --os windows --learn-from a.jsonl --learn-from b.jsonl",
            "sweep --coordinator http://127.0.0.1:1 vram predict --model m --ask --json",
            "sweep vram evaluate rows.jsonl --learn-from other.jsonl --leave-one-out",
            "sweep vram evaluate - --json",
            "sweep vram replay --from rank=104:a.gz --from rank=112:b.gz --for rank=80 --limit-mib 7600",
            "sweep vram replay --from a --expandable-segments",
            "sweep vram report --svg report.svg",
            "sweep vram report --shipped --json",
            "sweep vram models",
            "sweep vram cards",
            "sweep agent install --coordinator https://keeper:7480 --token-file t --dry-run",
            "sweep agent install --coordinator https://keeper:7480 --mode logon-task",
            "sweep agent uninstall --root image",
            "sweep agent doctor --config h.toml --json",
            "sweep agent doctor --config h.toml --in-service",
            "sweep history --observations --limit 10",
            "sweep completions bash",
            "sweep list --data d -q -v --color never",
        ] {
            let parsed = parse(line);
            assert!(
                parsed.is_ok(),
                "{line}: {}",
                parsed.err().map(|e| e.to_string()).unwrap_or_default()
            );
        }
    }

    #[test]
    fn wrong_words_are_refused() {
        for line in [
            "sweep run",
            "sweep run f.toml --fleet a --config b",
            "sweep agent run",
            "sweep agent run --fleet f.toml",
            "sweep agent run --config f.toml --host rig",
            "sweep agent install --token a --token-file b",
            "sweep history --kind fly",
            "sweep history --outcome fine",
            "sweep vram",
            "sweep vram predict",
            "sweep vram predict --model m --device x --usable-mib 1",
            "sweep vram predict --model m --device x --backend cuda",
            "sweep vram predict --model m --held-mib 1",
            "sweep vram predict --model m --usable-mib -1",
            "sweep vram predict --model m --usable-mib nan",
            "sweep vram predict --model m --ask --learn-from x",
            "sweep vram evaluate",
            "sweep vram replay",
            "sweep token",
            "sweep token create",
            "sweep token create ann",
            "sweep token create ann --role root",
            "sweep token create ann --role read --join",
            "sweep token create ann --role read --expires soon",
            "sweep agent run --config h.toml --token t --token-file f",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_usage_error_is_exit_code_2() {
        assert_eq!(
            parse("sweep fly")
                .map(|_| ())
                .map_err(|error| error.exit_code()),
            Err(2)
        );
        assert_eq!(
            parse("sweep --version")
                .map(|_| ())
                .map_err(|error| error.exit_code()),
            Err(0)
        );
    }

    #[test]
    fn help_fits_100_columns() {
        fn check(command: &mut clap::Command) {
            for text in [command.render_long_help(), command.render_help()] {
                for line in text.to_string().lines() {
                    assert!(
                        line.chars().count() <= 100,
                        "{}: {line}",
                        command.get_name()
                    );
                }
            }
            for inner in command.get_subcommands_mut() {
                check(inner);
            }
        }
        let mut root = Cli::command().term_width(98);
        root.build();
        check(&mut root);
    }
}
