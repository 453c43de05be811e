//! `sweep simulate`: the real child process that stands in for a job's program on a simulated device. It takes the
//! recorded measurement where the seeds have the configuration and the memory model plus seeded noise elsewhere, and
//! marks every line, report and file as simulated. Refuses to run for a device that is not marked so.
//!
//! `scene` is pure: a configuration, a card and a seed give one fixed sequence of steps; `play` performs it in scaled
//! time. Settings of the sweep that only a simulation reads, for tests of what happens when things break:
//!
//! | setting | meaning |
//! | --- | --- |
//! | `simulate_fault` | `xid` an illegal memory access (exit 1); `nan` the loss becomes NaN and the program stops (exit 1); `hang` no further step, until it is ended |
//! | `simulate_fault_at` | after which share of the attempt's time, 0 to 1 (0.5) |
//! | `simulate_fault_kind` | which job of the trial: `probe`, `train` or `bake` (`train`) |
//! | `simulate_fault_attempts` | how many attempts of that job, counted from the first (1) |

mod bake;
mod card;
mod fault;
mod memory;
mod noise;
mod oom;
mod pace;
mod play;
mod scene;
mod script;
mod stop;
mod surface;
mod train;

use std::process::ExitCode;

pub use card::{Card, Config, Device};
pub use memory::{Basis, Fit, Peak, peak};
pub use scene::script;
pub use script::{Ending, Script, Step, What};

/// What the agent tells the simulation: the granted device, its host, the time scale and the program's own arguments.
pub const CARD_VARIABLE: &str = "SWEEP_SIMULATE";
/// The fleet file's seed; every job of a simulated host gets it.
pub const SEED_VARIABLE: &str = "SWEEP_SIMULATE_SEED";

/// There is a checkpoint, start me again: as the kit's programs say it.
pub const ASKS_AGAIN: u8 = 75;
/// The configuration is wrong or cannot be read, do not start me again: as the kit's programs say it.
pub const BAD_SETUP: u8 = 78;

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(run())
}

/// [`main`], giving the exit code as a number.
#[must_use]
pub fn run() -> u8 {
    match play::from_environment() {
        Ok(code) => code,
        Err(error) => {
            // Nobody is left to tell when even standard error is gone.
            let _ = play::complain(&format!("simulated: failed to {error}"));
            error.exit_code()
        }
    }
}
