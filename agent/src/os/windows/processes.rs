//! What Windows tells of a process by its id or handle: since when it runs, what it holds, its program; waiting for its
//! end, and letting one go on that was started asleep. Ends no process.
#![allow(unsafe_code, reason = "Windows' own calls have no safe form")]

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::time::Duration;

use windows::Win32::Foundation::{FILETIME, HANDLE, WAIT_OBJECT_0};
use windows::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows::Win32::System::ProcessStatus::{GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows::Win32::System::Threading::{
    GetProcessTimes, OpenProcess, OpenThread, PROCESS_ACCESS_RIGHTS, PROCESS_NAME_WIN32,
    PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE, PROCESS_VM_READ,
    QueryFullProcessImageNameW, ResumeThread, THREAD_SUSPEND_RESUME, WaitForSingleObject,
};
use windows::core::PWSTR;

/// Longer paths than that are cut off by Windows itself.
const LONGEST_PATH: u32 = 32_767;

fn open(pid: u32, rights: PROCESS_ACCESS_RIGHTS) -> io::Result<OwnedHandle> {
    // SAFETY: the handle that comes back is new and nobody else's.
    Ok(unsafe { OwnedHandle::from_raw_handle(OpenProcess(rights, false, pid)?.0) })
}

/// To wait for it and to know it again. While the handle is open its id is given to nobody else.
pub fn open_to_watch(pid: u32) -> io::Result<OwnedHandle> {
    open(pid, PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE)
}

fn raw(process: &impl AsHandle) -> HANDLE {
    HANDLE(process.as_handle().as_raw_handle())
}

/// When it was started: 100 ns since 1601, by the machine's clock.
pub fn started(process: &impl AsHandle) -> Option<u64> {
    let mut times = [FILETIME::default(); 4];
    let [begun, ended, kernel, user] = &mut times;
    // SAFETY: the handle is open and the four places outlive the call.
    unsafe { GetProcessTimes(raw(process), begun, ended, kernel, user) }.ok()?;
    let begun = times[0];
    Some(u64::from(begun.dwHighDateTime) << 32 | u64::from(begun.dwLowDateTime))
}

/// True once it has ended, false after the time.
pub fn wait(process: &impl AsHandle, longest: Option<Duration>) -> bool {
    // The largest number means for ever.
    let longest = longest.map_or(u32::MAX, |longest| {
        // A wait that is cut short to nothing would spin.
        let whole = longest.as_millis().max(u128::from(!longest.is_zero()));
        u32::try_from(whole).unwrap_or(u32::MAX - 1)
    });
    // SAFETY: the handle is open as long as the call takes.
    unsafe { WaitForSingleObject(raw(process), longest) == WAIT_OBJECT_0 }
}

/// Bytes of its working set: now, and at its highest.
pub fn resident(pid: u32) -> Option<(u64, u64)> {
    let process = open(pid, PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_VM_READ).ok()?;
    resident_of(&process)
}

/// Also of one that has ended, where its highest is what is left.
pub fn resident_of(process: &impl AsHandle) -> Option<(u64, u64)> {
    let mut figures = PROCESS_MEMORY_COUNTERS::default();
    let size = u32::try_from(size_of_val(&figures)).ok()?;
    // SAFETY: the handle is open, and `figures` has the size that is said.
    unsafe { GetProcessMemoryInfo(raw(process), &mut figures, size) }.ok()?;
    Some((
        figures.WorkingSetSize as u64,
        figures.PeakWorkingSetSize as u64,
    ))
}

/// The path of its program.
pub fn program_of(pid: u32) -> Option<String> {
    let process = open(pid, PROCESS_QUERY_LIMITED_INFORMATION).ok()?;
    let mut length = LONGEST_PATH;
    let mut text = vec![0_u16; length as usize];
    let place = PWSTR(text.as_mut_ptr());
    // SAFETY: the buffer has as many characters as `length` says.
    unsafe {
        QueryFullProcessImageNameW(raw(&process), PROCESS_NAME_WIN32, place, &mut length).ok()?;
    }
    String::from_utf16(text.get(..length as usize)?).ok()
}

/// Lets a process run that was started asleep: its one thread. The standard library keeps that thread to itself, so it
/// is looked for among all.
pub fn let_run(pid: u32) -> io::Result<()> {
    // SAFETY: the handle that comes back is new and nobody else's.
    let all =
        unsafe { OwnedHandle::from_raw_handle(CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0)?.0) };
    let mut entry = THREADENTRY32 {
        dwSize: u32::try_from(size_of::<THREADENTRY32>()).unwrap_or(0),
        ..THREADENTRY32::default()
    };
    // SAFETY: the list is open, and the entry says its own size.
    let mut more = unsafe { Thread32First(raw(&all), &mut entry) }.is_ok();
    while more {
        if entry.th32OwnerProcessID == pid {
            // SAFETY: a new handle, closed when this is done with it.
            let thread = unsafe {
                let thread = OpenThread(THREAD_SUSPEND_RESUME, false, entry.th32ThreadID)?;
                OwnedHandle::from_raw_handle(thread.0)
            };
            // SAFETY: the handle is open and may resume.
            return match unsafe { ResumeThread(raw(&thread)) } {
                u32::MAX => Err(io::Error::last_os_error()),
                _ => Ok(()),
            };
        }
        // SAFETY: as above.
        more = unsafe { Thread32Next(raw(&all), &mut entry) }.is_ok();
    }
    Err(io::Error::other("its first thread is not to be found"))
}
