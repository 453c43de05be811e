//! Brings an attempt under a shepherd, takes hold of one that has a shepherd, and finds out how it ended. Blocks on
//! the disk. Whatever goes wrong becomes an ending that says what: an attempt is never just gone.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use jobs::{AttemptId, Ending};
use proto::v1::Start;

use super::command::{self, Request};
use super::ending::{Evidence, classify};
use super::facts::{Facts, Why};
use super::order::Order;
use super::report::Report;
use super::{AttemptFolder, Setting, State};
use crate::clock;
use crate::durable::DiskError;
use crate::os::{self, Guard};
use crate::staging::Staged;

/// A shepherd that has just been started may not have said yet who it is.
const YOUNG: Duration = Duration::from_secs(10);
/// One that was started just before its agent died may not have come to its folder yet.
const UNBORN: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);
/// As much of the log's end tells how it ended.
const LOG_END: u64 = 64 << 10;

/// A new attempt; or how it ended without a start.
pub fn launch(
    setting: &Setting,
    id: &AttemptId,
    start: &Start,
    staged: &Staged,
) -> Result<Guard, Box<Facts>> {
    let folder = setting.folder.attempt(id);
    let not_started = |what: String| {
        let facts = Facts::not_started(what, clock::unix_ms());
        // If this cannot be written either, the report goes out from memory.
        let _ = folder.write_ending(&facts);
        Box::new(facts)
    };
    prepare(setting, id, start, staged).map_err(not_started)?;
    Guard::start(&setting.program, folder.path()).map_err(|error| {
        let program = setting.program.display();
        not_started(format!(
            "its shepherd ({program} shepherd) could not be started: {error}"
        ))
    })
}

/// Writes down that an attempt ended before there was anything to launch.
pub fn refuse(
    setting: &Setting,
    id: &AttemptId,
    start: &Start,
    mut facts: Box<Facts>,
) -> Box<Facts> {
    let folder = setting.folder.attempt(id);
    let order = command::bare(start, &setting.folder.work(id));
    let written = folder.write_order(&order, &start.config);
    if let Err(error) = written.and_then(|()| folder.write_ending(&facts)) {
        facts.trouble.push(error.to_string());
    }
    facts
}

fn prepare(
    setting: &Setting,
    id: &AttemptId,
    start: &Start,
    staged: &Staged,
) -> Result<(), String> {
    let folder = setting.folder.attempt(id);
    let work = setting.folder.work(id);
    let built = command::build(&Request {
        start,
        id,
        config: &setting.config,
        folder: &folder,
        work: &work,
        kit: match &staged.kit {
            // The owner's word goes before the sweep's.
            Some(kit) if setting.config.kit.is_none() => kit,
            _ => &setting.kit,
        },
        files: &staged.files,
        program: &setting.program,
        cores: crate::config::cores(),
        byte_code: &setting.folder.byte_code(),
        made: &setting.folder.made(),
        group: setting.group(id),
        pin: &os::gpu_pin,
    });
    let (order, config, refused) = match built {
        Ok((order, config)) => (order, config, None),
        Err(error) => {
            let order = command::bare(start, &work);
            (order, start.config.clone(), Some(error.to_string()))
        }
    };
    let written = folder.write_order(&order, &config).and_then(|()| {
        let checkpoints = work.join("checkpoints");
        fs::create_dir_all(&checkpoints).map_err(DiskError::of("make the folder", &checkpoints))
    });
    match (written, refused) {
        (Err(error), _) => Err(error.to_string()),
        (Ok(()), Some(refused)) => Err(refused),
        (Ok(()), None) => Ok(()),
    }
}

/// An attempt that this agent finds in its folder: still running, or ended.
pub fn adopt(folder: &AttemptFolder) -> Result<Guard, Box<Facts>> {
    let begin = clock::monotonic();
    loop {
        if let Some(facts) = folder.read_ending() {
            return Err(Box::new(facts));
        }
        // Not even the lock is tried while a shepherd may be on its way: one that finds it taken leaves.
        if !folder.log().exists() && begin.elapsed() < UNBORN {
            std::thread::sleep(LOOK);
            continue;
        }
        if let Ok(Some(_lock)) = folder.lock() {
            // Nobody tends it, and now nobody will. But it may have ended between the two looks.
            let facts = folder.read_ending().unwrap_or_else(|| end_lost(folder, ""));
            return Err(Box::new(facts));
        }
        let state = folder.read_state().filter(|state| state.boot == os::boot());
        if let Some(guard) = state.and_then(|state| Guard::adopt(state.shepherd).ok().flatten()) {
            return Ok(guard);
        }
        if begin.elapsed() > YOUNG {
            let what =
                "its folder is in use or cannot be locked, and its shepherd is not to be found";
            let mut facts = end_lost(folder, what);
            facts.ended_ms = clock::unix_ms();
            return Err(Box::new(facts));
        }
        std::thread::sleep(LOOK);
    }
}

/// How an attempt ended whose shepherd has just ended.
pub fn collect(folder: &AttemptFolder, guard: Guard) -> Facts {
    let words = guard.last_words();
    if let Some(facts) = folder.read_ending() {
        return facts;
    }
    if let Ok(facts) = serde_json::from_str(&words) {
        return facts;
    }
    let _lock = folder.lock();
    folder
        .read_ending()
        .unwrap_or_else(|| end_lost(folder, &words))
}

/// Ends what runs without its shepherd, and writes down that it is so.
fn end_lost(folder: &AttemptFolder, words: &str) -> Facts {
    let state = folder.read_state();
    let shepherd = state
        .as_ref()
        .filter(|state| state.boot == os::boot())
        .map(|state| state.shepherd);
    let group = folder
        .read_order()
        .map(|order| order.group)
        .unwrap_or_default();
    let contained = group.contained();
    // Nothing that is in there can start another one any more.
    group.kill();
    let (ended, stuck) = os::end_leftovers(shepherd, &command::mark(folder));
    let stuck = stuck.max(group.end());
    let started_ms = state.as_ref().map_or(0, |state| state.started_ms);
    let ended_ms = last_sign_of_life(folder)
        .unwrap_or(started_ms)
        .max(started_ms);
    let mut facts = Facts {
        started_ms,
        ended_ms,
        ran_ms: if started_ms > 0 {
            ended_ms - started_ms
        } else {
            0
        },
        why: Some(Why::ShepherdLost),
        left: u32::try_from(ended).unwrap_or(u32::MAX),
        peak_resident: sampled_peak(folder),
        contained,
        ..Facts::default()
    };
    if stuck > 0 {
        facts
            .trouble
            .push(format!("{stuck} of its processes could not be ended"));
    }
    if !folder.log().exists() {
        // The log comes before the program.
        let what = "its agent or its host died before its program was started: nothing of it ran";
        facts.not_started = Some(what.to_owned());
    }
    if !words.is_empty() {
        facts.trouble.push(words.chars().take(400).collect());
    }
    if let Err(error) = folder.write_ending(&facts) {
        facts.trouble.push(error.to_string());
    }
    facts
}

/// Nobody saw the end: the newest of its files is the best that is known.
fn last_sign_of_life(folder: &AttemptFolder) -> Option<u64> {
    let paths = [folder.samples(), folder.log(), folder.report()];
    let times = paths
        .iter()
        .filter_map(|path| fs::metadata(path).ok()?.modified().ok());
    let newest = times.max()?.duration_since(UNIX_EPOCH).ok()?;
    Some(clock::millis(newest))
}

fn sampled_peak(folder: &AttemptFolder) -> Option<u64> {
    let text = fs::read_to_string(folder.samples()).ok()?;
    text.lines()
        .filter_map(|line| line.split_once(' ')?.1.parse().ok())
        .max()
}

/// What it came to. `asked` is what this agent asked the shepherd to do.
pub fn understand(folder: &AttemptFolder, mut facts: Facts, asked: Option<Why>) -> Ending {
    // A shepherd that was stopped in its first moment, or could not read why, ended for that reason all the same.
    if let (Some(asked), Some(Why::ShepherdLost | Why::Terminated)) = (asked, facts.why) {
        facts.why = Some(asked);
    }
    let order: Option<Order> = folder.read_order().ok();
    let report = fs::File::open(folder.report())
        .and_then(|file| Report::read(std::io::BufReader::new(file)));
    // A program need not report; one that did, and left what cannot be read, is to be told so.
    if let Some(error) = report
        .as_ref()
        .err()
        .filter(|error| error.kind() != std::io::ErrorKind::NotFound)
    {
        facts
            .trouble
            .push(format!("its report could not be read: {error}"));
    }
    let ending = classify(&Evidence {
        facts: &facts,
        faults: &folder.read_faults(),
        log: &log_end(folder),
        report: &report.unwrap_or_default(),
        resident_counts: order.as_ref().is_some_and(|order| order.resident_counts),
        time_limit_ms: order.as_ref().map_or(0, |order| order.time_limit_ms),
    });
    tracing::info!(folder = %folder.path().display(), outcome = %ending.outcome, ran_ms = ending.ran_ms, "ended");
    ending
}

fn log_end(folder: &AttemptFolder) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let read = || {
        let mut file = fs::File::open(folder.log())?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_END)))?;
        let mut bytes = Vec::new();
        file.take(LOG_END).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// When it started, by what its shepherd wrote.
#[must_use]
pub fn started_ms(folder: &AttemptFolder) -> u64 {
    let state: Option<State> = folder.read_state();
    state.map_or_else(clock::unix_ms, |state| state.started_ms)
}
