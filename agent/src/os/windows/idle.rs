//! How long nobody has touched this machine: Windows tells a session about its own keyboard and mouse, and a service,
//! which has a session without them, nothing.
#![allow(unsafe_code, reason = "two calls of the system without a safe binding")]

use std::time::Duration;

use windows::Win32::System::RemoteDesktop::ProcessIdToSessionId;
use windows::Win32::System::SystemInformation::GetTickCount;
use windows::Win32::UI::Input::KeyboardAndMouse::{GetLastInputInfo, LASTINPUTINFO};

use crate::os::Idle;

#[must_use]
pub fn idle() -> Idle {
    let mut session = 0;
    // SAFETY: `session` outlives the call.
    let told = unsafe { ProcessIdToSessionId(std::process::id(), &raw mut session) };
    if told.is_err() || session == 0 {
        return Idle::Unknown(
            "a Windows service is not told about keyboard and mouse; install with --mode logon-task, or give `away` hours"
                .to_owned(),
        );
    }
    let mut last = LASTINPUTINFO {
        cbSize: size_of::<LASTINPUTINFO>() as u32,
        dwTime: 0,
    };
    // SAFETY: `last` says its size and outlives the call.
    if !unsafe { GetLastInputInfo(&raw mut last) }.as_bool() {
        return Idle::Unknown("GetLastInputInfo does not answer".to_owned());
    }
    // SAFETY: takes and touches nothing. Both count milliseconds and begin anew after 49 days.
    let now = unsafe { GetTickCount() };
    Idle::Since(Duration::from_millis(now.wrapping_sub(last.dwTime).into()))
}
