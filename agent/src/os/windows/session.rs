//! Whether this process runs where Windows' services do: session 0, which has no desktop and where some drivers show no
//! GPU. Looks only.
#![allow(unsafe_code, reason = "Windows' own calls have no safe form")]

use windows::Win32::System::RemoteDesktop::ProcessIdToSessionId;

/// False also where Windows does not say.
#[must_use]
pub fn is_services_session() -> bool {
    let mut session = u32::MAX;
    // SAFETY: the place outlives the call.
    let told = unsafe { ProcessIdToSessionId(std::process::id(), &mut session) };
    told.is_ok() && session == 0
}
