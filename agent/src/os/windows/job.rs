//! A Job Object: a box around a process and all that it starts, which no member can leave and which the kernel empties
//! when its last handle closes, be it by a crash. Memory, number of processes and weight can be bounded.
//! Decides nothing; who is put in and when it is emptied is its holder's business.
//!
//! What comes into being by others' hands (a service, WMI, a scheduled task) is no member.
#![allow(unsafe_code, reason = "Job Objects have no safe form")]

use std::cell::Cell;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;

use windows::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows::Win32::System::IO::{CreateIoCompletionPort, GetQueuedCompletionStatus, OVERLAPPED};
use windows::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_CPU_RATE_CONTROL,
    JOB_OBJECT_CPU_RATE_CONTROL_ENABLE, JOB_OBJECT_LIMIT_ACTIVE_PROCESS,
    JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION, JOB_OBJECT_LIMIT_JOB_MEMORY,
    JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOBOBJECT_ASSOCIATE_COMPLETION_PORT,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_BASIC_PROCESS_ID_LIST,
    JOBOBJECT_CPU_RATE_CONTROL_INFORMATION, JOBOBJECT_CPU_RATE_CONTROL_INFORMATION_0,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECTINFOCLASS,
    JobObjectAssociateCompletionPortInformation, JobObjectBasicAccountingInformation,
    JobObjectBasicProcessIdList, JobObjectCpuRateControlInformation,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject,
    TerminateJobObject,
};
use windows::core::PCWSTR;

use super::weight;

/// JOB_OBJECT_CPU_RATE_CONTROL_WEIGHT_BASED.
const BY_WEIGHT: JOB_OBJECT_CPU_RATE_CONTROL = JOB_OBJECT_CPU_RATE_CONTROL(2);
/// JOB_OBJECT_MSG_ACTIVE_PROCESS_LIMIT.
const PROCESS_REFUSED: u32 = 3;
/// JOB_OBJECT_MSG_JOB_MEMORY_LIMIT.
const MEMORY_REFUSED: u32 = 10;
/// More members than that are seen in the next round.
const MOST: usize = 1024;

pub struct Job {
    handle: OwnedHandle,
    /// Where the kernel says what happened in the job.
    told: OwnedHandle,
    refused: Cell<Refused>,
}

/// How often members came to a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    pub memory: u64,
    pub processes: u64,
}

impl Job {
    /// Empty, and nobody can leave it.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no attributes and no name; each handle that comes back is new and nobody else's.
        let (handle, told) = unsafe {
            let handle = CreateJobObjectW(None, PCWSTR::null())?;
            let handle = OwnedHandle::from_raw_handle(handle.0);
            let told = CreateIoCompletionPort(INVALID_HANDLE_VALUE, None, 0, 1)?;
            (handle, OwnedHandle::from_raw_handle(told.0))
        };
        let job = Self {
            handle,
            told,
            refused: Cell::default(),
        };
        let port = JOBOBJECT_ASSOCIATE_COMPLETION_PORT {
            CompletionKey: ptr::null_mut(),
            CompletionPort: HANDLE(job.told.as_raw_handle()),
        };
        job.set(JobObjectAssociateCompletionPortInformation, &port)?;
        job.limit(None, None)?;
        Ok(job)
    }

    /// `memory`: bytes that all members together may have committed, beyond which they are refused more. `processes`:
    /// members at a time, beyond which none can be started.
    pub fn limit(&self, memory: Option<u64>, processes: Option<u32>) -> io::Result<()> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        let basic = &mut limits.BasicLimitInformation;
        // A program that crashes ends, instead of waiting for somebody to close its message box.
        basic.LimitFlags =
            JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
        if let Some(processes) = processes {
            basic.LimitFlags |= JOB_OBJECT_LIMIT_ACTIVE_PROCESS;
            basic.ActiveProcessLimit = processes;
        }
        if let Some(memory) = memory {
            basic.LimitFlags |= JOB_OBJECT_LIMIT_JOB_MEMORY;
            limits.JobMemoryLimit = usize::try_from(memory).unwrap_or(usize::MAX);
        }
        self.set(JobObjectExtendedLimitInformation, &limits)
    }

    /// Share of the processor against others, in the words of a control group: 100 is everybody's.
    pub fn weigh(&self, cpu_weight: u32) -> io::Result<()> {
        let rate = JOBOBJECT_CPU_RATE_CONTROL_INFORMATION {
            ControlFlags: JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | BY_WEIGHT,
            Anonymous: JOBOBJECT_CPU_RATE_CONTROL_INFORMATION_0 {
                Weight: weight::of(cpu_weight),
            },
        };
        self.set(JobObjectCpuRateControlInformation, &rate)
    }

    /// From now on it is a member, with everything that it will start.
    pub fn put_in(&self, process: &impl AsHandle) -> io::Result<()> {
        let process = HANDLE(process.as_handle().as_raw_handle());
        // SAFETY: both handles are open for the time of the call.
        Ok(unsafe { AssignProcessToJobObject(self.raw(), process)? })
    }

    /// Living members.
    pub fn count(&self) -> usize {
        let mut figures = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        match self.get(JobObjectBasicAccountingInformation, &mut figures) {
            Ok(()) => figures.ActiveProcesses as usize,
            Err(_) => 0,
        }
    }

    /// Their ids.
    pub fn members(&self) -> Vec<u32> {
        #[repr(C)]
        struct List {
            head: JOBOBJECT_BASIC_PROCESS_ID_LIST,
            more: [usize; MOST],
        }
        let mut list = Box::new(List {
            head: JOBOBJECT_BASIC_PROCESS_ID_LIST::default(),
            more: [0; MOST],
        });
        // An error says that there are more than fit: those that fit are there.
        let _ = self.get(JobObjectBasicProcessIdList, &mut *list);
        let count = (list.head.NumberOfProcessIdsInList as usize).min(MOST);
        let first = list.head.ProcessIdList.into_iter();
        let ids = first.chain(list.more).take(count);
        ids.filter_map(|id| u32::try_from(id).ok()).collect()
    }

    /// Ends all members at once.
    pub fn empty(&self, code: u32) {
        // SAFETY: the handle is open. An empty job is what is wanted.
        let _ = unsafe { TerminateJobObject(self.raw(), code) };
    }

    /// Bytes that all members together had committed at their highest.
    pub fn peak(&self) -> Option<u64> {
        let mut figures = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        let told = self.get(JobObjectExtendedLimitInformation, &mut figures);
        told.ok().map(|()| figures.PeakJobMemoryUsed as u64)
    }

    /// Up to now.
    pub fn refused(&self) -> Refused {
        let mut refused = self.refused.get();
        loop {
            let (mut message, mut key) = (0_u32, 0_usize);
            let mut about: *mut OVERLAPPED = ptr::null_mut();
            // SAFETY: the port is open and the three places outlive the call; without a message it fails at once. For
            // a job `about` is a process id, and nothing is read through it.
            let got = unsafe {
                let told = HANDLE(self.told.as_raw_handle());
                GetQueuedCompletionStatus(told, &mut message, &mut key, &mut about, 0)
            };
            match message {
                _ if got.is_err() => break,
                MEMORY_REFUSED => refused.memory += 1,
                PROCESS_REFUSED => refused.processes += 1,
                _ => {}
            }
        }
        self.refused.set(refused);
        refused
    }

    fn raw(&self) -> HANDLE {
        HANDLE(self.handle.as_raw_handle())
    }

    fn set<T>(&self, class: JOBOBJECTINFOCLASS, value: &T) -> io::Result<()> {
        let size = u32::try_from(size_of::<T>()).unwrap_or(0);
        // SAFETY: `value` is the structure that its class asks for, with its size.
        Ok(unsafe {
            SetInformationJobObject(self.raw(), class, ptr::from_ref(value).cast(), size)?
        })
    }

    fn get<T>(&self, class: JOBOBJECTINFOCLASS, value: &mut T) -> io::Result<()> {
        let size = u32::try_from(size_of::<T>()).unwrap_or(0);
        let place = ptr::from_mut(value).cast();
        // SAFETY: as in `set`; no more than `size` bytes are written.
        Ok(unsafe { QueryInformationJobObject(Some(self.raw()), class, place, size, None)? })
    }
}
