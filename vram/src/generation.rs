//! The years that a card is of, by its name: they decide its attention kernels and the size of its BLAS workspace. An
//! unknown card is taken for an NVIDIA one of the Ampere years. The same table as `jobs/kit/rehearsal/devices.py`.

use crate::step::Kernel;

/// Compute capability of the cards in tables, by name: it decides kernels and workspaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    Turing,
    Ampere,
    Hopper,
    Blackwell,
    Rocm,
}

pub(crate) fn generation(gpu: &str, vendor: &str) -> Generation {
    let is = |names: &[&str]| names.iter().any(|name| gpu.contains(name));
    if vendor == "amd" || is(&["AMD", "Radeon", "RX "]) {
        Generation::Rocm
    } else if is(&["T4", "RTX 20", "GTX 16", "V100"]) {
        Generation::Turing
    } else if is(&["H100", "H200", "GH200"]) {
        Generation::Hopper
    } else if is(&["RTX 50", "B200", "B100", "GB10"]) {
        Generation::Blackwell
    } else {
        Generation::Ampere
    }
}

impl Generation {
    /// One BLAS workspace: memory-model 2.6.
    pub(crate) fn workspace(self) -> u64 {
        match self {
            Self::Turing | Self::Ampere => 2 * (4 << 20) + 8 * (16 << 10),
            Self::Hopper | Self::Blackwell | Self::Rocm => 32 << 20,
        }
    }

    pub(crate) fn kernels(self) -> (Kernel, Kernel) {
        match self {
            Self::Turing => (Kernel::Efficient, Kernel::Efficient),
            Self::Hopper => (Kernel::Flash, Kernel::CuDnn),
            Self::Ampere | Self::Blackwell => (Kernel::Flash, Kernel::Efficient),
            Self::Rocm => (Kernel::Triton, Kernel::Triton),
        }
    }
}
