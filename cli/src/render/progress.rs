//! What `run` and `watch` show while a sweep goes on: bars on a terminal, else one line for each thing that happens.
//! Bars go to stderr and lines to stdout, so a redirected output holds no bars. Judges nothing: it shows the replies.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use proto::v1::{ActiveAttempt, SweepHead, WatchLine, WatchReply};

use super::format::{count, device, host, short, time_of_day};
use super::paint::paint;
use super::table::printable;
use crate::context::Context;
use crate::error::Error;
use crate::out;

/// More attempts than this at a time would fill the screen.
const SHOWN: usize = 8;
/// Between two jobs nothing runs for a moment.
const IDLE: Duration = Duration::from_secs(15);

pub struct Progress {
    quiet: bool,
    keep_going: bool,
    bars: Option<Bars>,
    /// Time of the newest line shown: after a reconnection lines may come again.
    newest: String,
    reconnected: bool,
    /// Since when nothing runs, until that was said.
    idle: Idle,
    /// Lines were printed, so what follows is set apart.
    printed: bool,
}

struct Bars {
    all: MultiProgress,
    jobs: ProgressBar,
    active: Vec<ProgressBar>,
}

impl Progress {
    pub fn new(context: &Context) -> Self {
        let on_terminal = !context.quiet && std::io::stderr().is_terminal();
        Self {
            quiet: context.quiet,
            keep_going: false,
            bars: on_terminal.then(Bars::new),
            newest: String::new(),
            reconnected: false,
            idle: Idle::default(),
            printed: false,
        }
    }

    /// Goes on when whoever read the lines has gone.
    pub fn without_reader(mut self) -> Self {
        self.keep_going = true;
        self
    }

    pub fn on_reply(&mut self, reply: &WatchReply) -> Result<(), Error> {
        for line in &reply.lines {
            if self.reconnected && line.at <= self.newest {
                continue;
            }
            self.newest.clone_from(&line.at);
            match self.print(&line_text(line)) {
                Err(Error::Pipe) if self.keep_going => self.quiet = true,
                printed => printed?,
            }
        }
        self.reconnected = false;
        if let Some(said) = reply
            .sweep
            .as_ref()
            .and_then(|head| self.idle.on_head(head, Instant::now()))
        {
            let _ = self.print(&said);
        }
        if let Some(bars) = &mut self.bars {
            bars.show(reply);
        }
        Ok(())
    }

    pub fn lost_connection(&mut self) {
        self.reconnected = true;
        if let Some(bars) = &mut self.bars {
            bars.jobs.set_message("waiting for the coordinator");
        }
    }

    /// Takes the bars away, and sets what follows apart from the lines.
    pub fn finish(&mut self) {
        if let Some(bars) = self.bars.take() {
            // What the terminal shows is no result: a failure to clear it is nothing to report.
            let _ = bars.all.clear();
        }
        if std::mem::take(&mut self.printed) {
            let _ = out::print("");
        }
    }

    fn print(&mut self, line: &str) -> Result<(), Error> {
        if self.quiet {
            return Ok(());
        }
        self.printed = true;
        match &self.bars {
            Some(bars) => bars.all.suspend(|| out::print(line)),
            None => out::print(line),
        }
    }
}

/// A sweep that waits for something that may never come must not look like one that works.
#[derive(Default)]
struct Idle {
    since: Option<Instant>,
    said: bool,
}

impl Idle {
    /// What to say, once for each time that nothing runs for long.
    fn on_head(&mut self, head: &SweepHead, now: Instant) -> Option<String> {
        if head.jobs_running > 0 || head.jobs_settled == head.jobs {
            *self = Self::default();
            return None;
        }
        let since = *self.since.get_or_insert(now);
        if self.said || now.duration_since(since) < IDLE {
            return None;
        }
        self.said = true;
        let waiting = count(head.jobs - head.jobs_settled, "job");
        let word = if head.jobs - head.jobs_settled == 1 {
            "waits"
        } else {
            "wait"
        };
        Some(format!(
            "nothing runs: {waiting} {word}; `sweep show {}` says what for",
            head.id
        ))
    }
}

impl Bars {
    fn new() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let jobs = all.add(ProgressBar::new(0));
        jobs.set_style(style("{bar:30} {pos}/{len} jobs  {elapsed}  {msg}"));
        jobs.enable_steady_tick(Duration::from_secs(1));
        Self {
            all,
            jobs,
            active: Vec::new(),
        }
    }

    fn show(&mut self, reply: &WatchReply) {
        if let Some(head) = &reply.sweep {
            self.jobs.set_length(head.jobs.into());
            self.jobs.set_position(head.jobs_settled.into());
            let hidden = reply.active.len().saturating_sub(SHOWN);
            let more = if hidden > 0 {
                format!(", {hidden} not shown")
            } else {
                String::new()
            };
            self.jobs
                .set_message(format!("{} running{more}", head.jobs_running));
        }
        let shown = reply.active.len().min(SHOWN);
        while self.active.len() > shown {
            if let Some(bar) = self.active.pop() {
                bar.finish_and_clear();
                self.all.remove(&bar);
            }
        }
        while self.active.len() < shown {
            let bar = self.all.add(ProgressBar::new(100));
            bar.set_style(style("{bar:30} {msg}"));
            self.active.push(bar);
        }
        for (bar, attempt) in self.active.iter().zip(&reply.active) {
            bar.set_position((attempt.progress.unwrap_or(0.0).clamp(0.0, 1.0) * 100.0) as u64);
            bar.set_message(active_text(attempt));
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// `04:08:31 dropout-ab-k3f9q2/1/train started on rig`
fn line_text(line: &WatchLine) -> String {
    let text = printable(&line.text);
    // The text usually names its job.
    let job = if line.job.is_empty() || text.contains(&line.job) {
        ""
    } else {
        line.job.as_str()
    };
    let words = [time_of_day(&line.at), job.to_owned(), text];
    let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
    paint(&words.join(" "))
}

fn active_text(attempt: &ActiveAttempt) -> String {
    let mut text = format!(
        "{} {} {}",
        short(&attempt.id, 30),
        host(&attempt.host),
        device(&attempt.device)
    );
    if let Some(progress) = attempt.progress {
        text.push_str(&format!(" {:.0}%", progress * 100.0));
    }
    if let Some(loss) = attempt.loss {
        text.push_str(&format!(" loss {loss:.4}"));
    }
    if attempt.simulated {
        text.push_str(" simulated");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_its_job_once() {
        let line = |text: &str| WatchLine {
            at: "2026-12-02T04:08:31.120Z".into(),
            text: text.into(),
            job: "a-x/1/train".into(),
            code: "started".into(),
        };
        assert_eq!(
            line_text(&line("a-x/1/train on rig")),
            "04:08:31 a-x/1/train on rig"
        );
        assert_eq!(line_text(&line("on rig")), "04:08:31 a-x/1/train on rig");
    }

    #[test]
    fn long_idleness_is_said_once() {
        let waiting = SweepHead {
            id: "a-x".into(),
            jobs: 3,
            jobs_settled: 1,
            ..SweepHead::default()
        };
        let running = SweepHead {
            jobs_running: 1,
            ..waiting.clone()
        };
        let (mut idle, start) = (Idle::default(), Instant::now());
        assert_eq!(idle.on_head(&waiting, start), None);
        let said = idle.on_head(&waiting, start + IDLE).unwrap();
        assert_eq!(
            said,
            "nothing runs: 2 jobs wait; `sweep show a-x` says what for"
        );
        assert_eq!(idle.on_head(&waiting, start + 2 * IDLE), None);
        assert_eq!(idle.on_head(&running, start + 2 * IDLE), None);
        assert_eq!(idle.on_head(&waiting, start + 3 * IDLE), None);
        assert!(idle.on_head(&waiting, start + 4 * IDLE).is_some());
    }

    #[test]
    fn an_active_attempt_says_how_far_it_is() {
        let attempt = ActiveAttempt {
            id: "a-x/1/train/1".into(),
            host: "rig".into(),
            device: "NVIDIA GeForce RTX 5060 Ti".into(),
            progress: Some(0.4),
            loss: Some(0.5),
            simulated: true,
        };
        assert_eq!(
            active_text(&attempt),
            "a-x/1/train/1 rig RTX 5060 Ti 40% loss 0.5000 simulated"
        );
    }
}
