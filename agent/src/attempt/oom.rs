//! What frameworks print when a device is out of memory or broken, and the numbers in it. Pure.
//! Matches only words that a framework or driver writes; what it does not know is not an out of memory.

use vram::Bytes;

use crate::size;

const OUT_OF_MEMORY: [&str; 9] = [
    "CUDA out of memory",
    "HIP out of memory",
    "torch.OutOfMemoryError",
    "torch.cuda.OutOfMemoryError",
    "CUDA error: out of memory",
    "HIP error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "HIPBLAS_STATUS_ALLOC_FAILED",
    "RESOURCE_EXHAUSTED: Out of memory",
];

const FAULTS: [&str; 18] = [
    "NVRM: Xid",
    "an illegal memory access was encountered",
    "CUDA error: unspecified launch failure",
    "CUDA error: an illegal instruction was encountered",
    "uncorrectable ECC error",
    "has fallen off the bus",
    "GPU is lost",
    "CUDA error: the launch timed out and was terminated",
    "CUDA error: unknown error",
    "CUDA error: all CUDA-capable devices are busy or unavailable",
    "Memory access fault by GPU node",
    "HIP error: unspecified launch failure",
    "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION",
    "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION",
    "GPU Hang",
    "DXGI_ERROR_DEVICE_REMOVED",
    "DXGI_ERROR_DEVICE_HUNG",
    "DXGI_ERROR_DEVICE_RESET",
];

/// Numbers of an out of memory; each only if the text has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The line that says it, shortened.
    pub line: String,
    pub tried: Option<Bytes>,
    pub capacity: Option<Bytes>,
    pub free: Option<Bytes>,
    pub in_use: Option<Bytes>,
    pub allocated: Option<Bytes>,
    pub reserved: Option<Bytes>,
}

/// The last out of memory in a log.
#[must_use]
pub fn out_of_memory(log: &str) -> Option<OutOfMemory> {
    let line = last_line_with(log, &OUT_OF_MEMORY)?;
    let allocated =
        before(line, " is allocated by PyTorch").or_else(|| before(line, " already allocated"));
    let unallocated = before(line, " is reserved by PyTorch but unallocated");
    let reserved = match (allocated, unallocated) {
        (Some(allocated), Some(more)) => Some(allocated + more),
        _ => before(line, " reserved in total by PyTorch"),
    };
    Some(OutOfMemory {
        line: shortened(line),
        tried: after(line, "Tried to allocate "),
        capacity: after(line, "has a total capacity of ")
            .or_else(|| before(line, " total capacity")),
        free: before(line, " is free").or_else(|| before(line, " free;")),
        in_use: before(line, " memory in use"),
        allocated,
        reserved,
    })
}

/// The last line that tells of a broken device. An assertion inside a kernel is the program's mistake, not one.
#[must_use]
pub fn fault(log: &str) -> Option<String> {
    last_line_with(log, &FAULTS).map(shortened)
}

impl OutOfMemory {
    /// In a sentence, with the numbers that there are.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Some(tried) = self.tried else {
            return format!("out of device memory: {}", self.line);
        };
        let mut text = format!("out of device memory when it wanted {tried} more");
        let numbers = [
            (self.allocated, "allocated"),
            (self.reserved, "reserved"),
            (self.in_use, "in use by the process"),
            (self.free, "free"),
            (self.capacity, "in all"),
        ];
        let known: Vec<String> = numbers
            .iter()
            .filter_map(|(bytes, what)| bytes.map(|bytes| format!("{bytes} {what}")))
            .collect();
        if !known.is_empty() {
            text.push_str(&format!(" ({})", known.join(", ")));
        }
        text
    }
}

fn last_line_with<'a>(log: &'a str, words: &[&str]) -> Option<&'a str> {
    // Progress bars rewrite their line with carriage returns.
    log.rsplit(['\n', '\r'])
        .find(|line| words.iter().any(|word| line.contains(word)))
}

/// The amount that follows a word.
fn after(line: &str, word: &str) -> Option<Bytes> {
    let rest = &line[line.find(word)? + word.len()..];
    let mut parts = rest.split(' ');
    let (number, unit) = (parts.next()?, parts.next()?);
    let unit = unit.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    size::parse(&format!("{number} {unit}")).ok()
}

/// The amount that stands before a word.
fn before(line: &str, word: &str) -> Option<Bytes> {
    let mut parts = line[..line.find(word)?].rsplit(' ');
    let unit = parts.next()?;
    let number = parts
        .next()?
        .trim_start_matches(|c: char| !c.is_ascii_digit());
    size::parse(&format!("{number} {unit}")).ok()
}

fn shortened(line: &str) -> String {
    let line = line.trim();
    match line.char_indices().nth(400) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TORCH: &str = "Traceback (most recent call last):\n  File \"train.py\", line 3\n\
        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total capacity of 7.65 GiB \
        of which 1.12 GiB is free. Including non-PyTorch memory, this process has 6.42 GiB memory in use. Of the \
        allocated memory 5.91 GiB is allocated by PyTorch, and 350.50 MiB is reserved by PyTorch but unallocated. If \
        reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid \
        fragmentation.\n";
    const OLD_TORCH: &str = "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total \
        capacity; 5.12 GiB already allocated; 16.94 MiB free; 5.20 GiB reserved in total by PyTorch)\n";
    const HIP: &str = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity \
        of 23.98 GiB of which 0 bytes is free. Of the allocated memory 22.10 GiB is allocated by PyTorch, and 1.00 GiB \
        is reserved by PyTorch but unallocated.";

    fn gib(gib: f64) -> Option<Bytes> {
        Some(Bytes::from_mib(gib * 1024.0))
    }

    #[test]
    fn the_numbers_of_todays_text() {
        let found = out_of_memory(TORCH).unwrap();
        assert_eq!(
            (found.tried, found.capacity, found.free),
            (gib(1.25), gib(7.65), gib(1.12))
        );
        assert_eq!((found.in_use, found.allocated), (gib(6.42), gib(5.91)));
        assert_eq!(
            found.reserved,
            Some(gib(5.91).unwrap() + Bytes::from_mib(350.5))
        );
        assert_eq!(
            found.sentence(),
            "out of device memory when it wanted 1280.0 MiB more (6051.8 MiB allocated, 6402.3 MiB reserved, 6574.1 MiB \
             in use by the process, 1146.9 MiB free, 7833.6 MiB in all)"
        );
    }

    #[test]
    fn the_numbers_of_older_and_other_texts() {
        let old = out_of_memory(OLD_TORCH).unwrap();
        assert_eq!(
            (old.capacity, old.allocated, old.reserved),
            (gib(7.79), gib(5.12), gib(5.20))
        );
        assert_eq!(old.free, Some(Bytes::from_mib(16.94)));
        let hip = out_of_memory(HIP).unwrap();
        assert_eq!(
            (hip.tried, hip.capacity, hip.allocated),
            (gib(2.0), gib(23.98), gib(22.10))
        );
        let bare = out_of_memory("RuntimeError: CUDA error: out of memory").unwrap();
        assert_eq!(
            bare.sentence(),
            "out of device memory: RuntimeError: CUDA error: out of memory"
        );
    }

    #[test]
    fn faults_are_real_ones() {
        let xid =
            "x\n[ 12.3] NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\ny\n";
        assert!(fault(xid).unwrap().contains("Xid (PCI:0000:01:00): 79"));
        for text in [
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f. Reason: Page not present",
            "RuntimeError: CUDA error: unspecified launch failure",
        ] {
            assert!(fault(text).is_some(), "{text}");
        }
        assert_eq!(
            fault("RuntimeError: CUDA error: device-side assert triggered"),
            None
        );
        assert_eq!(out_of_memory("the memory is out of reach"), None);
    }
}
