//! The few lines of Windows' event log that a service owes whoever looks there: it works, it has stopped, it ended badly.
//! Everything else is in the file log. An event that cannot be written is no reason to fail.
#![allow(unsafe_code, reason = "Windows' own calls have no safe form")]

use windows::Win32::System::EventLog::{
    DeregisterEventSource, EVENTLOG_ERROR_TYPE, EVENTLOG_INFORMATION_TYPE, RegisterEventSourceW,
    ReportEventW,
};
use windows::core::{HSTRING, PCWSTR};

use super::SERVICE;

/// Of the messages 1 to 1000 that `EventCreate.exe` has for any source; each is its text and nothing else. Which file
/// has the messages is said at the installation.
const NUMBER: u32 = 1;

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Information,
    Error,
}

pub fn tell(kind: Kind, text: &str) {
    if let Err(error) = write(kind, text) {
        tracing::warn!(%error, "the event log could not be written");
    }
}

fn write(kind: Kind, text: &str) -> windows::core::Result<()> {
    let (name, text) = (HSTRING::from(SERVICE), HSTRING::from(text));
    let kind = match kind {
        Kind::Information => EVENTLOG_INFORMATION_TYPE,
        Kind::Error => EVENTLOG_ERROR_TYPE,
    };
    // SAFETY: both texts end with a zero and outlive the calls; the handle is closed once.
    unsafe {
        let source = RegisterEventSourceW(PCWSTR::null(), &name)?;
        let texts = [PCWSTR(text.as_ptr())];
        let told = ReportEventW(source, kind, 0, NUMBER, None, 0, Some(&texts), None);
        let closed = DeregisterEventSource(source);
        told.and(closed)
    }
}
