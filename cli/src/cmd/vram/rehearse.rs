//! `sweep vram evaluate --rehearse`: the rows' recipes rehearsed by the kit's own step, without a card, each content
//! once. Runs the kit's program and reads what it made; predicts nothing, and says of each row that could not be
//! rehearsed why.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use etcetera::BaseStrategy as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vram::{Brought, Stream};

use crate::context::Context;
use crate::error::Error;
use crate::{kit, out};

/// How the kit is found and run.
#[derive(Debug, clap::Args)]
pub struct Rehearsing {
    /// Rehearse each row's recipe without a card, and predict from its stream instead of from the shapes
    ///
    /// Needs the kit's Python packages: jobs/kit/setup cpu installs them.
    #[arg(long)]
    pub rehearse: bool,
    /// Python that has the kit's packages
    #[arg(long, value_name = "PYTHON", env = "SWEEP_PYTHON", default_value = default_python(), requires = "rehearse")]
    pub python: PathBuf,
    /// Folder of streams made before, kept by content [default: the user's cache]
    #[arg(long, value_name = "FOLDER", requires = "rehearse")]
    pub cache: Option<PathBuf>,
    /// Rehearsals at once; each takes a core and about 1 GiB
    #[arg(long, value_name = "COUNT", default_value_t = 1, requires = "rehearse",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub at_once: u16,
}

const fn default_python() -> &'static str {
    if cfg!(windows) { "python" } else { "python3" }
}

/// What the kit says of one row.
#[derive(Debug, Deserialize)]
struct Said {
    line: usize,
    stream: Option<String>,
    #[serde(default)]
    doubts: Vec<String>,
    error: Option<String>,
    message: Option<String>,
    seconds: Option<f64>,
    host_peak_mib: Option<f64>,
    versions: Option<Value>,
}

/// Beside the evaluation: how the streams came about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rehearsed {
    /// Different streams: rows of one content share theirs.
    pub streams: usize,
    /// Of the packages; absent where no stream was made.
    pub versions: Option<Value>,
    /// Longest time that one took, when it was made.
    pub longest_seconds: Option<f64>,
    /// Most host memory that one took, when it was made.
    pub most_host_mib: Option<f64>,
    pub doubts: Vec<Noted>,
    /// Rows that could not be rehearsed: nothing is predicted for them.
    pub failed: Vec<Noted>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Noted {
    pub line: usize,
    pub message: String,
}

/// Streams by the row's line, counted from one.
pub fn rehearse(
    asked: &Rehearsing,
    path: &Path,
    table: &str,
    context: &Context,
) -> Result<(BTreeMap<usize, Brought>, Rehearsed), Error> {
    let Some(kit) = kit::find(Some(path))? else {
        return Err(Error::BadInput(
            "no kit folder was found; set SWEEP_KIT to the folder with rehearse.py (jobs/kit in the source tree)".into(),
        ));
    };
    let folder = match &asked.cache {
        Some(folder) => folder.clone(),
        None => cache()?,
    };
    let unwritable = |error| {
        Error::BadInput(format!(
            "failed to write in {}: {error}; name another folder with --cache",
            folder.display()
        ))
    };
    std::fs::create_dir_all(&folder).map_err(unwritable)?;
    let mut rows = tempfile_in(&folder).map_err(unwritable)?;
    rows.file
        .write_all(with_configs(table).as_bytes())
        .map_err(unwritable)?;
    out::note(
        context,
        "rehearsing; what is in the cache is not made again",
    );
    let ran = run(asked, &kit, &rows.path, &folder)?;
    let said = ran
        .lines()
        .filter_map(|line| serde_json::from_str::<Said>(line).ok());
    let (mut brought, mut rehearsed) = collect(said.collect(), &folder)?;
    for (at, _) in table
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        // The shapes must not stand in for it unseen.
        brought.entry(at + 1).or_insert_with(|| {
            let message = "the kit said nothing of it".to_owned();
            rehearsed.failed.push(Noted {
                line: at + 1,
                message,
            });
            Brought {
                stream: None,
                doubtful: false,
            }
        });
    }
    Ok((brought, rehearsed))
}

struct Rows {
    file: std::fs::File,
    path: PathBuf,
}

impl Drop for Rows {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn tempfile_in(folder: &Path) -> std::io::Result<Rows> {
    let path = folder.join(format!("rows-{}.jsonl", std::process::id()));
    Ok(Rows {
        file: std::fs::File::create(&path)?,
        path,
    })
}

fn cache() -> Result<PathBuf, Error> {
    let base = etcetera::choose_base_strategy().map_err(|error| {
        Error::BadInput(format!(
            "no folder for a cache: {error}; name one with --cache"
        ))
    })?;
    Ok(base.cache_dir().join("sweep").join("rehearsals"))
}

/// The kit knows no models by name: a row that gives only that gets what is known of it.
fn with_configs(table: &str) -> String {
    let lines = table.lines().map(|line| {
        let Ok(Value::Object(mut row)) = serde_json::from_str(line) else {
            return line.to_owned();
        };
        if row.get("model_config").is_none_or(Value::is_null) {
            let known = row
                .get("model")
                .and_then(Value::as_str)
                .and_then(vram::known_model_config);
            row.insert("model_config".into(), known.unwrap_or(Value::Null));
        }
        Value::Object(row).to_string()
    });
    lines.map(|line| line + "\n").collect()
}

fn run(asked: &Rehearsing, kit: &Path, rows: &Path, folder: &Path) -> Result<String, Error> {
    let program = kit.join("rehearse.py");
    let mut command = Command::new(&asked.python);
    command
        .arg(&program)
        .arg("--rows")
        .arg(rows)
        .arg("--out-dir")
        .arg(folder)
        .arg("--at-once")
        .arg(asked.at_once.to_string())
        // No card is looked for, no network is asked, and libraries keep their advice to themselves.
        .env("CUDA_VISIBLE_DEVICES", "-1")
        .env("HIP_VISIBLE_DEVICES", "-1")
        .env("HF_HUB_OFFLINE", "1")
        .env("PYTHONWARNINGS", "ignore")
        .env("TRANSFORMERS_VERBOSITY", "error")
        .env("OMP_NUM_THREADS", "1")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let ran = command.output().map_err(|error| {
        Error::BadInput(format!(
            "failed to run {}: {error}; name a Python with --python",
            asked.python.display()
        ))
    })?;
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    match ran.status.code() {
        Some(0) => Ok(said),
        Some(69) => Err(Error::BadInput(format!(
            "{} lacks the kit's packages ({}); install them with {}, then name its Python with --python",
            asked.python.display(),
            missing(&said),
            kit.join("setup").display(),
        ))),
        _ => {
            let complained = String::from_utf8_lossy(&ran.stderr);
            let last = complained
                .trim()
                .lines()
                .last()
                .unwrap_or("it said nothing");
            Err(Error::BadInput(format!(
                "{} ended with {}: {last}",
                program.display(),
                ran.status
            )))
        }
    }
}

fn missing(said: &str) -> String {
    let line: Option<Value> = said
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok());
    let name = line.as_ref().and_then(|line| line["package"].as_str());
    name.unwrap_or("unknown").to_owned()
}

fn collect(said: Vec<Said>, folder: &Path) -> Result<(BTreeMap<usize, Brought>, Rehearsed), Error> {
    let mut streams: BTreeMap<String, Stream> = BTreeMap::new();
    let mut brought = BTreeMap::new();
    let (mut doubts, mut failed) = (Vec::new(), Vec::new());
    let most = |values: Vec<Option<f64>>| values.into_iter().flatten().reduce(f64::max);
    let longest_seconds = most(said.iter().map(|one| one.seconds).collect());
    let most_host_mib = most(said.iter().map(|one| one.host_peak_mib).collect());
    let versions = said.iter().find_map(|one| one.versions.clone());
    for one in said {
        let line = one.line;
        if let Some(message) = one.message.filter(|_| one.error.is_some()) {
            failed.push(Noted { line, message });
        }
        let notes = one.doubts.iter().map(|message| Noted {
            line,
            message: message.clone(),
        });
        doubts.extend(notes);
        let stream = one
            .stream
            .map(|name| read(folder, &name, &mut streams))
            .transpose()?;
        let doubtful = !one.doubts.is_empty();
        brought.insert(line, Brought { stream, doubtful });
    }
    let rehearsed = Rehearsed {
        streams: streams.len(),
        versions,
        longest_seconds,
        most_host_mib,
        doubts,
        failed,
    };
    Ok((brought, rehearsed))
}

fn read(folder: &Path, name: &str, known: &mut BTreeMap<String, Stream>) -> Result<Stream, Error> {
    if let Some(stream) = known.get(name) {
        return Ok(stream.clone());
    }
    let path = folder.join(name);
    let bytes = std::fs::read(&path).map_err(|source| Error::Unreadable {
        path: path.clone(),
        source,
    })?;
    let stream = Stream::read(&bytes).map_err(|error| {
        Error::BadInput(format!(
            "{}: {error}; remove it, and it is made again",
            path.display()
        ))
    })?;
    known.insert(name.to_owned(), stream.clone());
    Ok(stream)
}
