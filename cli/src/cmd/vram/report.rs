//! `sweep vram report`: what the memory model says of everything that was measured, beside the measurements; as a
//! picture too. Asks the coordinator, whose knowledge holds every attempt. A data folder without a store holds none,
//! so that the shipped measurements are all there is to report.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use proto::v1::ReportRequest;
use vram::{Knowledge, Report};

use crate::clients;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// Compare predictions with everything that was measured, by host
///
/// The closed form alone, and corrected by the measurements of its family.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Draw measured against predicted into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Only the measurements that come with this program; asks no coordinator
    #[arg(long)]
    pub shipped: bool,
}

pub async fn run(args: &Args, context: &Context) -> Result<Exit, Error> {
    let learned = if args.shipped {
        None
    } else {
        learned(context).await?
    };
    let report = learned.unwrap_or_else(|| vram::report(&Knowledge::seeds()));
    if let Some(path) = &args.svg {
        write(path, vram::scatter_svg(&report).as_bytes())
            .map_err(|source| Error::io("write", path.display().to_string(), source))?;
    }
    out::document(context, &report, render::vram::report::text)?;
    Ok(Exit::DONE)
}

/// Of the coordinator; nothing where there is neither one nor a store.
async fn learned(context: &Context) -> Result<Option<Report>, Error> {
    let reply = clients::ask_existing(context, async |clients| {
        clients.vram().report(ReportRequest {}).await
    })
    .await?;
    let Some(reply) = reply else {
        let folder = context.data.display();
        out::note(
            context,
            &format!("{folder} holds no sweeps: only the shipped measurements are reported"),
        );
        return Ok(None);
    };
    let read = serde_json::from_str(&reply.report);
    read.map(Some)
        .map_err(|error| Error::Failed(format!("failed to read the coordinator's report: {error}")))
}

/// The whole file or none: written beside it, then put in its place.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(beside);
    let mut file = std::fs::File::create(&beside)?;
    let done = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&beside, path));
    if done.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&beside);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        // A folder in its place cannot be replaced.
        std::fs::create_dir(folder.path().join("b.svg")).unwrap();
        assert!(write(&folder.path().join("b.svg"), b"x").is_err());
        assert!(write(&folder.path().join("none/a.svg"), b"x").is_err());
        assert!(write(Path::new("/"), b"x").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
