//! Everything that a simulated attempt does, as data: lines, reports and checkpoints with their simulated times, and
//! the hand that writes them down in order. Performs nothing and knows no kind of job.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// In order of time.
    pub steps: Vec<Step>,
    pub ending: Ending,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Simulated seconds since the start.
    pub at: f64,
    /// Optimizer steps of the run that are done by then.
    pub done: u64,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A line on standard output.
    Say(String),
    /// Lines on standard error.
    Complain(String),
    /// A line of the report.
    Report(Value),
    /// A file in the checkpoint folder, and its line in the report.
    Checkpoint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exit(u8),
    /// No further step, until it is ended from outside.
    Hang,
}

/// Writes a script step by step.
pub(super) struct Author {
    at: f64,
    done: u64,
    steps: Vec<Step>,
}

impl Author {
    pub fn new() -> Self {
        Self {
            at: 0.0,
            done: 0,
            steps: Vec::new(),
        }
    }

    pub fn wait(&mut self, seconds: f64) {
        self.at += seconds;
    }

    /// From here on so many optimizer steps are done.
    pub fn reach(&mut self, done: u64) {
        self.done = done;
    }

    fn add(&mut self, what: What) {
        let (at, done) = (self.at, self.done);
        self.steps.push(Step { at, done, what });
    }

    pub fn say(&mut self, text: &str) {
        self.add(What::Say(format!("simulated: {text}")));
    }

    pub fn complain(&mut self, text: String) {
        self.add(What::Complain(text));
    }

    pub fn report(&mut self, line: Value) {
        self.add(What::Report(line));
    }

    pub fn checkpoint(&mut self) {
        self.add(What::Checkpoint);
    }

    pub fn finish(self, ending: Ending) -> Script {
        Script {
            steps: self.steps,
            ending,
        }
    }
}
