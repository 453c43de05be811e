//! The GPUs of this machine: what they are, what they hold now, and who holds it. One module for each platform behind
//! one interface; `join` brings it together with the host's file, `sampler` watches while the agent runs.
//! Decides nothing about placement, and invents nothing: where no driver answers there is no GPU, and nothing is said.

mod all;
mod amd_linux;
mod fault;
mod found;
mod held;
mod join;
mod names;
mod nvidia;
mod pulse;
mod recorded;
mod returned;
mod round;
mod sampler;
pub mod spill;
mod windows;

pub use all::{look_within, real, watch};
pub(crate) use fault::Told;
pub use found::{Fault, Found, Live, Look, Memory, Pcie, Process, Trouble, pci_address};
pub(crate) use held::Owner;
pub(crate) use join::join;
pub use pulse::Pulse;
pub use recorded::Recorded;
pub(crate) use sampler::{Attempts, Sampler, Seen};
#[cfg(windows)]
pub(crate) use windows::amd_index;

/// One way to learn of GPUs. Calls may take as long as a driver takes: never from an asynchronous task.
pub trait Watch: Send {
    /// Everything there is, with the state of this moment.
    fn look(&mut self) -> Look;

    /// The state of this moment. A card that is not in it does not answer any more.
    fn live(&mut self) -> Vec<Live> {
        self.look()
            .found
            .into_iter()
            .map(|found| found.now)
            .collect()
    }

    /// What drivers have reported since the last call.
    fn faults(&mut self) -> Vec<Fault> {
        Vec::new()
    }
}
