//! How long nobody has touched this machine: Windows tells a session about its own keyboard and mouse, and a service,
//! which has a session without them, nothing.
#![allow(unsafe_code, reason = "Windows' own calls have no safe form")]

use std::time::Duration;

use windows::Win32::System::SystemInformation::GetTickCount;
use windows::Win32::UI::Input::KeyboardAndMouse::{GetLastInputInfo, LASTINPUTINFO};

use super::is_services_session;
use crate::os::Idle;

#[must_use]
pub fn idle() -> Idle {
    if is_services_session() {
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
