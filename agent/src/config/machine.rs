//! What this machine is: its name, its cores, and the memory that a process here may really use.
//! Reads, never guesses: without a figure there is no default.

use vram::Bytes;

/// The machine's own name.
#[must_use]
pub fn hostname() -> String {
    sysinfo::System::host_name()
        .ok()
        .map(|name| name.chars().filter(|c| jobs::is_name_char(*c)).collect())
        .filter(|name: &String| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// Cores that this process may use.
#[must_use]
pub fn cores() -> u32 {
    std::thread::available_parallelism()
        .ok()
        .and_then(|cores| u32::try_from(cores.get()).ok())
        .unwrap_or(1)
}

/// The smaller of the machine's memory and the limit that this process runs under.
#[must_use]
pub fn memory() -> Option<Bytes> {
    let machine = sysinfo::System::new().ok().map(|mut system| {
        system.refresh_memory();
        system.total_memory()
    });
    let machine = machine.filter(|bytes| *bytes > 0);
    let limit = crate::os::memory_limit();
    match (machine, limit) {
        (Some(machine), Some(limit)) => Some(Bytes(machine.min(limit))),
        (either, None) | (None, either) => either.map(Bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_cores_and_memory() {
        assert!(hostname().chars().all(jobs::is_name_char));
        assert!(cores() > 0);
        assert!(memory().is_some_and(|bytes| bytes.0 > 1 << 20));
    }
}
