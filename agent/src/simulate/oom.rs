//! An out-of-memory error in the framework's own words and layout (c10/cuda/CUDACachingAllocator.cpp), with numbers
//! that add up: free + in use + held by others = capacity, allocated + unallocated + context = in use.
//! Makes text only; whether memory ran out is decided elsewhere.

use vram::Backend;

use super::card::Card;
use super::memory::Peak;
use super::noise::Noise;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The process that holds the others' memory in the text.
const OTHER_PROCESS: u32 = 1421;

/// The error of a peak that has no room on this card. `tokens` sizes the allocation that fails.
pub(super) fn text(peak: &Peak, card: &Card, tokens: u64, noise: &mut Noise) -> String {
    let (usable, held) = (card.device.usable_bytes, card.device.held_bytes);
    // One fp32 copy of the hidden states, in the allocator's 2 MiB steps: the 70 and 72 MiB of the seeds' messages.
    let tried = (tokens.clamp(1, 100_000_000) * 2560 * 4).div_ceil(2 * MIB) * 2 * MIB;
    if card.device.backend == Backend::Cpu {
        return format!(
            "RuntimeError: [enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: \
             you tried to allocate {tried} bytes. Error code 12 (Cannot allocate memory)"
        );
    }
    let room = usable.saturating_sub(held);
    let free = ((tried as f64 * (0.6 + 0.35 * noise.share())) as u64).min(room);
    let used = room - free;
    let reserved = used.saturating_sub(peak.context.0);
    // 5.5 and 6.5 % of reserved in the seeds' two messages.
    let unallocated = (reserved as f64 * (0.055 + 0.01 * noise.share())) as u64;
    let (framework, variable) = match card.device.backend {
        Backend::Rocm => ("HIP", "PYTORCH_HIP_ALLOC_CONF"),
        _ => ("CUDA", "PYTORCH_CUDA_ALLOC_CONF"),
    };
    format!(
        "torch.OutOfMemoryError: {framework} out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} \
         of which {} is free. {}Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch \
         but unallocated. If reserved but unallocated memory is large try setting \
         {variable}=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  \
         (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
        size(tried),
        size(usable),
        size(free),
        processes(card, used),
        size(reserved - unallocated),
        size(unallocated),
    )
}

/// Only NVIDIA's library tells what each process holds.
fn processes(card: &Card, used: u64) -> String {
    if card.device.backend != Backend::Cuda {
        return String::new();
    }
    let others = match card.device.held_bytes {
        0 => String::new(),
        held => format!("Process {OTHER_PROCESS} has {} memory in use. ", size(held)),
    };
    let ours = size(used);
    format!("{others}Including non-PyTorch memory, this process has {ours} memory in use. ")
}

fn size(bytes: u64) -> String {
    let by = |unit: u64| bytes as f64 / unit as f64;
    if bytes <= KIB {
        format!("{bytes} bytes")
    } else if bytes <= MIB {
        format!("{:.2} KiB", by(KIB))
    } else if bytes <= GIB {
        format!("{:.2} MiB", by(MIB))
    } else {
        format!("{:.2} GiB", by(GIB))
    }
}

#[cfg(test)]
mod tests {
    use jobs::Kind;
    use serde_json::json;
    use vram::{Bytes, Workload};

    use super::super::card::examples::*;
    use super::super::memory::peak;
    use super::*;
    use crate::attempt::oom::out_of_memory;

    fn text_of(card: &Card) -> String {
        let config = config(Kind::Train, &json!({"dropout": 0.1}));
        let workload = Workload::new(config.mode(), &config.params, None).unwrap();
        text(
            &peak(&workload, card, 7),
            card,
            7177,
            &mut Noise::of(&["oom"]),
        )
    }

    #[test]
    fn an_agent_reads_the_numbers_and_they_add_up() {
        let card = rtx_3060_ti();
        let text = text_of(&card);
        let start =
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 72.00 MiB. GPU 0 ";
        assert!(text.starts_with(start), "{text}");
        let found = out_of_memory(&format!("a\n{text}\nb")).unwrap();
        let mib = |bytes: Option<Bytes>| bytes.unwrap().mib();
        let (free, reserved) = (mib(found.free), mib(found.reserved));
        // Amounts above a GiB are written to 10 MiB.
        let taken = free + reserved + 233.5 + 563.0;
        assert!((mib(found.capacity) - taken).abs() < 16.0, "{text}");
        assert!(free < mib(found.tried) && mib(found.allocated) < reserved);
        assert!(text.contains("Process 1421 has 563.00 MiB memory in use. "));
    }

    #[test]
    fn each_framework_has_its_own_words() {
        let mut card = rx_7900_xtx();
        card.os = "linux".to_owned();
        card.device.usable_bytes = 8 << 30;
        let text = text_of(&card);
        assert!(
            text.starts_with("torch.OutOfMemoryError: HIP out of memory. "),
            "{text}"
        );
        assert!(!text.contains("Including non-PyTorch memory"));
        card.device.backend = Backend::Cpu;
        assert!(text_of(&card).contains("DefaultCPUAllocator: can't allocate memory"));
    }

    #[test]
    fn sizes_are_written_as_the_framework_writes_them() {
        assert_eq!(size(512), "512 bytes");
        assert_eq!(size(66 << 20), "66.00 MiB");
        assert_eq!(size(8_214_124_954), "7.65 GiB");
    }
}
