//! What consoles are needed for: asking a program to end (Ctrl-Break), which is the one request that every console
//! program can hear; and keeping what this process has open to itself.
#![allow(unsafe_code, reason = "Windows' own calls have no safe form")]

use windows::Win32::Foundation::{HANDLE_FLAG_INHERIT, HANDLE_FLAGS, SetHandleInformation};
use windows::Win32::System::Console::{
    CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent, GetStdHandle, STD_ERROR_HANDLE, STD_INPUT_HANDLE,
    STD_OUTPUT_HANDLE,
};

/// Ctrl-Break for the process group that this process leads, in this process's own console. A program that does not
/// know what to do with it ends.
pub fn ask(group: u32) {
    // SAFETY: plain numbers. A group that has ended has what is wanted.
    let _ = unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, group) };
}

/// What this process was given as standard input and output goes to no process that it starts: a pipe that an attempt
/// held would never end for its reader. The standard library hands on what it is told to all the same.
pub fn keep_own_output() {
    for which in [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE] {
        // SAFETY: the handle is looked up and changed at once; one that is not there is an error, and nothing to keep.
        unsafe {
            if let Ok(handle) = GetStdHandle(which)
                && !handle.is_invalid()
            {
                let _ = SetHandleInformation(handle, HANDLE_FLAG_INHERIT.0, HANDLE_FLAGS(0));
            }
        }
    }
}
