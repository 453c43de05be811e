//! Xid errors as they come, on a thread of their own, because NVML only tells them to who waits. Linux only: elsewhere
//! the driver has no such events and nothing is listened to. Says what came; decides nothing.

use crate::devices::Fault;

#[cfg(target_os = "linux")]
pub use linux::Listening;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use nvml_wrapper::bitmasks::event::EventTypes;
    use nvml_wrapper::enums::event::XidError;
    use nvml_wrapper::error::NvmlError;
    use nvml_wrapper::struct_wrappers::event::EventData;
    use nvml_wrapper::{EventSet, Nvml};

    use super::Fault;
    use crate::devices::nvidia::{facts, init};

    /// Short, so that the thread notices soon that nobody listens any more.
    const WAIT_MS: u32 = 1000;
    /// A card that fails again and again fills no memory.
    const KEPT: usize = 64;
    /// NVML's number for an error that it cannot name.
    const UNKNOWN: u64 = 999;

    pub struct Listening {
        told: Receiver<Fault>,
        over: Arc<AtomicBool>,
    }

    impl Listening {
        pub fn start() -> Self {
            let (tell, told) = sync_channel(KEPT);
            let over = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&over);
            let thread = std::thread::Builder::new().name("xid".to_owned());
            let started = thread.spawn(move || listen(&tell, &seen));
            if let Err(error) = started {
                tracing::debug!(%error, "Xid errors are not listened to");
            }
            Self { told, over }
        }

        pub fn take(&mut self) -> Vec<Fault> {
            self.told.try_iter().collect()
        }
    }

    impl Drop for Listening {
        fn drop(&mut self) {
            self.over.store(true, Ordering::Relaxed);
        }
    }

    fn listen(tell: &SyncSender<Fault>, over: &AtomicBool) {
        let waited = init().and_then(|nvml| {
            let set = events(&nvml)?;
            while !over.load(Ordering::Relaxed) {
                match set.wait(WAIT_MS) {
                    // Nobody takes them up: those that are kept say enough.
                    Ok(event) => drop(tell.try_send(fault(&event))),
                    Err(NvmlError::Timeout) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        if let Err(error) = waited {
            tracing::debug!(%error, "Xid errors are not listened to any more");
        }
    }

    /// Of every card that can be listened to.
    fn events(nvml: &Nvml) -> Result<EventSet<'_>, NvmlError> {
        let mut deaf = BTreeSet::new();
        'anew: loop {
            let mut set = nvml.create_event_set()?;
            for index in (0..nvml.device_count()?).filter(|index| !deaf.contains(index)) {
                let Ok(device) = nvml.device_by_index(index) else {
                    continue;
                };
                match device.register_events(EventTypes::CRITICAL_XID_ERROR, set) {
                    Ok(more) => set = more,
                    // An error takes the whole set along.
                    Err(_) => {
                        deaf.insert(index);
                        continue 'anew;
                    }
                }
            }
            return Ok(set);
        }
    }

    fn fault(event: &EventData<'_>) -> Fault {
        let code = match event.event_data {
            Some(XidError::Value(code)) => code,
            Some(XidError::Unknown) | None => UNKNOWN,
        };
        Fault {
            id: event.device.uuid().unwrap_or_default(),
            code,
            what: facts::xid(code),
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub struct Listening;

#[cfg(not(target_os = "linux"))]
impl Listening {
    pub fn start() -> Self {
        Self
    }

    pub fn take(&mut self) -> Vec<Fault> {
        Vec::new()
    }
}
