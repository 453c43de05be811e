//! How durations, signals and log lines appear in the sentence of an ending. Pure.
//! Numbers are told so that a person can act on them; nothing is rounded up to look better.

const SHOWN: usize = 300;

/// The last line that says something, shortened and without control characters.
#[must_use]
pub fn last_line(log: &str) -> String {
    let lines = log.rsplit(['\n', '\r']).map(str::trim);
    let line = lines
        .into_iter()
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    line.chars()
        .filter(|c| !c.is_control())
        .take(SHOWN)
        .collect()
}

/// `1h 30m`, `250ms`
#[must_use]
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match (seconds / 3600, seconds % 3600 / 60, seconds % 60) {
        (0, 0, _) if !ms.is_multiple_of(1000) => format!("{ms}ms"),
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (hours, 0, _) => format!("{hours}h"),
        (hours, minutes, _) => format!("{hours}h {minutes}m"),
    }
}

/// `signal 11 (SIGSEGV)`
#[must_use]
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}

/// `exit 3`; `crashed with 0xC0000005 (access violation)`, as Windows ends who breaks.
#[must_use]
pub fn exit_words(code: i32) -> String {
    let status = code.cast_unsigned();
    let name = match status {
        0xC000_0005 => "access violation",
        0xC000_0017 => "no memory",
        0xC000_001D => "illegal instruction",
        0xC000_0094 => "division by zero",
        0xC000_00FD => "stack overflow",
        0xC000_0135 => "a DLL is missing",
        0xC000_0139 => "a DLL lacks a function",
        0xC000_013A => "Ctrl-C or a closed console",
        0xC000_0142 => "a DLL did not start",
        0xC000_0374 => "damaged heap",
        0xC000_0409 => "aborted itself",
        0xC000_0000..0xD000_0000 => return format!("crashed with 0x{status:08X}"),
        _ => return format!("exit {code}"),
    };
    format!("crashed with 0x{status:08X} ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_signals_and_lines() {
        let shown = [250, 5000, 90_000, 120_000, 3_600_000, 57_720_000].map(duration);
        assert_eq!(shown, ["250ms", "5s", "1m 30s", "2m", "1h", "16h 2m"]);
        assert_eq!(exit_words(3), "exit 3");
        assert_eq!(
            exit_words(-1_073_741_819),
            "crashed with 0xC0000005 (access violation)"
        );
        assert_eq!(exit_words(-1), "exit -1");
        assert_eq!(signal_name(6), "signal 6 (SIGABRT)");
        assert_eq!(signal_name(40), "signal 40");
        assert_eq!(last_line("a\n50%\r100%\u{1b}[0m\n\n"), "100%[0m");
        assert_eq!(last_line(""), "");
    }
}
