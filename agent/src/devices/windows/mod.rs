//! GPUs on Windows without help of their makers: adapters from DXGI, memory of all processes from the performance
//! counters "GPU Adapter Memory" and "GPU Process Memory". `calls` asks Windows and exists there only; `counters` and
//! `facts` read what it answered, and are tested everywhere. DXGI's and HIP's own figures of use are never taken: they
//! know the calling process only.

mod counters;
mod facts;

#[cfg(windows)]
mod calls;

use super::Watch;

/// Absent on other systems.
#[cfg(not(windows))]
#[must_use]
pub fn open() -> Option<Box<dyn Watch>> {
    None
}

#[cfg(windows)]
#[must_use]
pub fn open() -> Option<Box<dyn Watch>> {
    Some(Box::new(Windows))
}

/// The place of an AMD card among all of AMD's, by its id. Of another system's cards there is none.
#[cfg(windows)]
#[must_use]
pub fn amd_index(id: &str) -> Option<usize> {
    facts::amd_index(&calls::adapters(), id)
}

#[cfg(windows)]
struct Windows;

#[cfg(windows)]
impl Watch for Windows {
    fn look(&mut self) -> super::Look {
        facts::look(&calls::read())
    }
}
