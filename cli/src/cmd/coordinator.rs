//! `sweep coordinator init|run|backup|restore|verify|compact`: the server, and the care of its store. Without `init` it
//! listens on loopback only: it would let anyone who reaches it run programs on the hosts.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use coordinator::Options;
use coordinator::store::{self, Backup, SledStore, Store as _, StoreError};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::install::{Common, units};
use crate::service::Told;
use crate::signals::Asked;
use crate::{embedded, out};

/// The documented port.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7480);

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Make a CA, a server certificate and a join token, so that it may listen beyond loopback, with TLS
    Init(InitArgs),
    /// Run the coordinator on the data folder until it is asked to end
    Run(RunArgs),
    /// Install the coordinator as a service of this machine and start it; again to upgrade it
    Install(InstallArgs),
    /// End the coordinator's service and take its unit away; its data stay
    Uninstall(Common),
    /// Copy the store into a new folder, while no coordinator runs
    Backup(BackupArgs),
    /// Make a data folder (--data, empty or new) from a backup
    Restore(RestoreArgs),
    /// Read the whole store and list what is damaged
    Verify,
    /// Write the store afresh, so that it takes no more room than it needs
    Compact,
}

#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// Name or address by which agents and users reach it; may be repeated [default: this machine's name]
    #[arg(long = "name", value_name = "HOSTNAME")]
    pub names: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Address to listen on; loopback only, unless `coordinator init` was run on the data folder
    #[arg(long, value_name = "ADDR", default_value_t = LISTEN)]
    pub listen: SocketAddr,
    /// No word from a host for so long: its attempts are given up and placed again
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub grace: Duration,
    /// After a start or a new host: nothing is ruled infeasible before
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub settle: Duration,
    /// How often agents are to be heard of
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub heartbeat: Duration,
}

/// `90s`, `10m`, `1h30m`; at least 100 ms.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time: write 90s, 10m or 1h30m");
    let span: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    let time = Duration::try_from(span).map_err(|_| wrong())?;
    if time < Duration::from_millis(100) {
        return Err(format!("`{text}` is too short: at least 100ms"));
    }
    Ok(time)
}

#[derive(Debug, clap::Args)]
pub struct BackupArgs {
    /// Folder of the backup; must not exist yet, or be empty
    pub to: PathBuf,
    /// Leave out the logs and reports of attempts
    #[arg(long)]
    pub without_logs: bool,
}

#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// Folder of the backup
    pub from: PathBuf,
}

pub async fn run(verb: Verb, context: &Context) -> Result<Exit, Error> {
    match verb {
        Verb::Init(args) => super::init::run(args, context),
        Verb::Run(args) => serve(&args, context).await,
        Verb::Install(args) => install(&args, context),
        Verb::Uninstall(common) => {
            common.check_keeper()?;
            common.carry_out(&units::removal("sweep-coordinator"), context)
        }
        Verb::Backup(args) => backup(&args, context),
        Verb::Restore(args) => restore(&args, context),
        Verb::Verify => verify(context),
        Verb::Compact => compact(context),
    }
}

#[derive(Debug, clap::Args)]
pub struct InstallArgs {
    /// Address to listen on; beyond loopback only after `coordinator init`
    #[arg(long, value_name = "ADDR", default_value_t = LISTEN)]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub common: Common,
}

fn install(args: &InstallArgs, context: &Context) -> Result<Exit, Error> {
    args.common.check_keeper()?;
    let steps = units::coordinator(&args.common.machine()?, args.listen);
    args.common.carry_out(&steps, context)
}

async fn serve(args: &RunArgs, context: &Context) -> Result<Exit, Error> {
    let mut asked = Asked::listen()?;
    let options = Options {
        listen: args.listen,
        grace: args.grace,
        fleet_settles: args.settle,
        heartbeat: args.heartbeat,
        ..Options::new(&context.data)
    };
    let mut running = embedded::start_with(options).await?;
    let address = running.url().to_owned();
    if context.json {
        out::json_line(&json!({ "coordinator": address }))?;
    } else {
        out::print(&format!("coordinator ready at {address}"))?;
    }
    let pulse = running.pulse();
    let told = Told::ready(move || {
        let pulse = pulse.clone();
        async move { pulse.beat().await }
    });
    tokio::select! {
        () = asked.again() => {}
        // Nothing is left of it that could be stopped.
        error = running.failed() => return Err(embedded::start_error(&error)),
    }
    drop(told);
    tokio::select! {
        stopped = embedded::stop(running) => stopped.map(|()| Exit::DONE),
        // What was acknowledged is on the disk: leaving at once loses nothing.
        () = asked.again() => Ok(Exit::DONE),
    }
}

fn backup(args: &BackupArgs, context: &Context) -> Result<Exit, Error> {
    let what = Backup {
        logs: !args.without_logs,
    };
    let opened = stored(SledStore::open_existing(existing(&context.data)?))?;
    let report = stored(opened.backup(&args.to, what))?;
    let document = json!({
        "to": args.to, "records": report.records, "blobs": report.blobs, "files": report.files,
        "log_files": report.log_files,
    });
    said(context, &document, || {
        format!(
            "backup in {}: {} records, {} blobs, {} files of sweeps, {} files of logs",
            args.to.display(),
            report.records,
            report.blobs,
            report.files,
            report.log_files
        )
    })
}

fn restore(args: &RestoreArgs, context: &Context) -> Result<Exit, Error> {
    let report = stored(store::restore(&args.from, &context.data))?;
    let document = json!({
        "data": context.data, "records": report.records, "blobs": report.blobs, "files": report.files,
        "log_files": report.log_files,
    });
    said(context, &document, || {
        format!(
            "restored to {}: {} records, {} blobs, {} files of sweeps, {} files of logs",
            context.data.display(),
            report.records,
            report.blobs,
            report.files,
            report.log_files
        )
    })
}

fn verify(context: &Context) -> Result<Exit, Error> {
    let report = stored(store::verify(existing(&context.data)?))?;
    let document = json!({
        "sound": report.is_sound(), "sweeps": report.sweeps, "attempts": report.attempts,
        "rulings": report.rulings, "marks": report.marks, "hosts": report.hosts,
        "observations": report.observations, "rehearsals": report.rehearsals, "index_entries": report.index_entries, "blobs": report.blobs,
        "files": report.files,
        "problem_count": report.problem_count, "problems": report.problems,
    });
    said(context, &document, || {
        let mut text = format!(
            "{} sweeps, {} attempts, {} hosts, {} observations, {} blobs, {} files: {}",
            report.sweeps,
            report.attempts,
            report.hosts,
            report.observations,
            report.blobs,
            report.files,
            if report.is_sound() {
                "sound"
            } else {
                "damaged"
            },
        );
        for problem in &report.problems {
            text.push_str("\n  ");
            text.push_str(problem);
        }
        let more = report
            .problem_count
            .saturating_sub(report.problems.len() as u64);
        if more > 0 {
            text.push_str(&format!("\n  and {more} more"));
        }
        text
    })?;
    Ok(if report.is_sound() {
        Exit::DONE
    } else {
        Exit::NOT_SUCCEEDED
    })
}

fn compact(context: &Context) -> Result<Exit, Error> {
    let report = stored(store::compact(existing(&context.data)?))?;
    let document = json!({
        "records": report.records, "bytes_before": report.bytes_before, "bytes_after": report.bytes_after,
    });
    said(context, &document, || {
        let mib = |bytes: u64| vram_mib(bytes);
        format!(
            "{} records, {} MiB before, {} MiB now",
            report.records,
            mib(report.bytes_before),
            mib(report.bytes_after)
        )
    })
}

fn vram_mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// A store that is to be read must be there; opening one would make it.
fn existing(data: &Path) -> Result<&Path, Error> {
    if embedded::has_store(data) {
        return Ok(data);
    }
    Err(Error::BadInput(format!(
        "{} holds no store; give its folder with --data",
        data.display()
    )))
}

fn stored<T>(result: Result<T, StoreError>) -> Result<T, Error> {
    result.map_err(|error| embedded::store_error(&error))
}

fn said(context: &Context, document: &Value, text: impl FnOnce() -> String) -> Result<Exit, Error> {
    out::document(context, document, |_| text())?;
    Ok(Exit::DONE)
}
