//! The life of a program under its shepherd: start, look, ask to end when it is time, kill when it does not.
//! The main loop waits for the program itself, so an end is noticed at once.

use std::time::{Duration, Instant};

use super::finish;
use super::program;
use super::samples::Samples;
use crate::attempt::facts::{Facts, Why};
use crate::attempt::order::Order;
use crate::attempt::{AttemptFolder, State};
use crate::clock;
use crate::os::{self, Program, Reins, Woken};

/// A stop file is looked for at least so often, should the signal that announces it be lost.
const LOOK_FOR_STOP: Duration = Duration::from_secs(1);

pub fn tend(folder: &AttemptFolder, order: &Order, reins: &mut Reins) -> Facts {
    let started_ms = clock::unix_ms();
    if let Some(why) = stop_reason(folder) {
        let mut facts = Facts::not_started("it was stopped before it started", started_ms);
        facts.why = Some(why);
        return facts;
    }
    let begin = clock::monotonic();
    let unheld = reins.hold(&order.limits, &order.group);
    let mut program = match program::start(folder, order, reins) {
        Ok(program) => program,
        Err(what) => {
            let _ = reins.let_go();
            return Facts::not_started(what, started_ms);
        }
    };
    let mut facts = Facts {
        started_ms,
        trouble: unheld.into_iter().collect(),
        ..Facts::default()
    };
    let state = State {
        boot: os::boot(),
        shepherd: reins.own(),
        program: Some(program.process()),
        started_ms,
    };
    if let Err(error) = folder.write_state(&state) {
        facts.trouble.push(error.to_string());
    }
    let mut watch = Watch {
        folder,
        order,
        begin,
        samples: Samples::new(folder.samples()),
        asked: None,
        looked: begin,
        kills: None,
    };
    watch.until_ended(reins, &program, &mut facts);
    match program.exit() {
        Ok(exit) => (facts.exit, facts.signal) = (exit.code, exit.signal),
        Err(error) => facts
            .trouble
            .push(format!("could not read how it ended: {error}")),
    }
    facts.ran_ms = clock::millis(begin.elapsed());
    facts.contained = reins.contained();
    finish::end_rest(reins, folder, &mut facts);
    facts.ended_ms = clock::unix_ms();
    facts.peak_resident = peak(&watch.samples, reins);
    facts.oom_kill = (facts.signal == Some(9) || facts.exit == Some(137)) && watch.oom_kill();
    finish::note_full_disk(folder, order, &mut facts);
    facts
}

fn peak(samples: &Samples, reins: &Reins) -> Option<u64> {
    let peak = samples.peak().max(reins.children_peak().unwrap_or(0));
    Some(peak).filter(|peak| *peak > 0)
}

/// Why the folder's `stop` file says that the attempt is to end.
fn stop_reason(folder: &AttemptFolder) -> Option<Why> {
    let text = folder.read_stop()?;
    Some(text.parse().unwrap_or(Why::Terminated))
}

struct Watch<'a> {
    folder: &'a AttemptFolder,
    order: &'a Order,
    begin: Instant,
    samples: Samples,
    /// When the program was asked to end.
    asked: Option<Instant>,
    looked: Instant,
    /// The kernel's count of out-of-memory kills at the first look: who ends before it had no time to fill a host.
    kills: Option<u64>,
}

impl Watch<'_> {
    fn until_ended(&mut self, reins: &mut Reins, program: &Program, facts: &mut Facts) {
        loop {
            let woken = reins.wait(program, self.pause(facts));
            let now = clock::monotonic();
            match woken {
                Woken::Ended => return,
                Woken::Asked => self.on_asked(program, facts, Why::Terminated),
                Woken::Time => self.on_time(now, reins, program, facts),
            }
            self.enforce(now, program, facts);
        }
    }

    /// Until the next thing that is to be done.
    fn pause(&self, facts: &Facts) -> Duration {
        let now = clock::monotonic();
        let mut pause = self.samples.pause();
        if let Some(limit) = self.limit() {
            pause = pause.min(limit.saturating_duration_since(now));
        }
        if let (Some(kill), false) = (self.kill_at(), facts.killed) {
            pause = pause.min(kill.saturating_duration_since(now));
        }
        pause.max(Duration::from_millis(1))
    }

    fn oom_kill(&self) -> bool {
        matches!((self.kills, os::oom_kills()), (Some(before), Some(now)) if now > before)
    }

    fn limit(&self) -> Option<Instant> {
        let limit = Duration::from_millis(self.order.time_limit_ms);
        let open = self.asked.is_none() && !limit.is_zero();
        open.then(|| self.begin.checked_add(limit)).flatten()
    }

    fn kill_at(&self) -> Option<Instant> {
        let grace = Duration::from_millis(self.order.grace_ms);
        self.asked.and_then(|asked| asked.checked_add(grace))
    }

    fn on_time(&mut self, now: Instant, reins: &Reins, program: &Program, facts: &mut Facts) {
        if self.kills.is_none() {
            self.kills = os::oom_kills();
        }
        let resident = reins.look(program);
        self.samples.add(clock::millis(now - self.begin), resident);
        if reins.is_over_memory() {
            // A part of it is gone: the rest would wait for it, or compute something else.
            program.kill();
        }
        if now.duration_since(self.looked) >= LOOK_FOR_STOP {
            self.looked = now;
            if let Some(why) = stop_reason(self.folder) {
                self.on_asked(program, facts, why);
            }
        }
    }

    /// The first reason counts.
    fn on_asked(&mut self, program: &Program, facts: &mut Facts, otherwise: Why) {
        if self.asked.is_none() {
            facts.why = Some(stop_reason(self.folder).unwrap_or(otherwise));
            self.asked = Some(clock::monotonic());
            program.ask();
        }
    }

    fn enforce(&mut self, now: Instant, program: &Program, facts: &mut Facts) {
        if self.limit().is_some_and(|limit| now >= limit) {
            facts.why = Some(Why::TimeLimit);
            self.asked = Some(now);
            program.ask();
        } else if !facts.killed && self.kill_at().is_some_and(|kill| now >= kill) {
            facts.killed = true;
            program.kill();
        }
    }
}
