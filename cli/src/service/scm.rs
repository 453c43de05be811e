//! This process as a Windows service: the service control manager starts it, hears from it that it works, and asks it to
//! stop. A stop ends no attempt. What the service does is the same `sweep agent run` as anywhere.
#![allow(
    unsafe_code,
    reason = "the macro that makes the entry point for Windows has an unsafe block"
)]

use std::ffi::OsString;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use windows_service::define_windows_service;
use windows_service::service::{
    ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{
    ServiceControlHandlerResult, ServiceStatusHandle, register,
};
use windows_service::service_dispatcher;

use super::events::{self, Kind};
use super::{SERVICE, Word};
use crate::error::{Error, Exit};
use crate::signals;

/// How long the manager waits for the next word of one that starts or stops.
const PATIENCE: Duration = Duration::from_secs(30);

type Work = Box<dyn FnOnce() -> Exit + Send>;

static WORK: Mutex<Option<Work>> = Mutex::new(None);
static MANAGER: OnceLock<ServiceStatusHandle> = OnceLock::new();
static CODE: AtomicU8 = AtomicU8::new(0);

define_windows_service!(entry, serve);

/// Does the work as a service; returns when it is done. Refused where the manager did not start this process.
pub fn run(work: impl FnOnce() -> Exit + Send + 'static) -> Result<Exit, Error> {
    *WORK.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(work));
    service_dispatcher::start(SERVICE, entry).map_err(|error| {
        Error::Refused(format!(
            "this is for the service {SERVICE}, which Windows starts: {}",
            Error::chain(&error)
        ))
    })?;
    Ok(Exit::of_sweep(CODE.load(Ordering::Relaxed).into()))
}

fn serve(_words: Vec<OsString>) {
    let handler = |control| match control {
        ServiceControl::Stop | ServiceControl::Shutdown => {
            tell(ServiceState::StopPending, ServiceExitCode::NO_ERROR);
            signals::ask();
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    };
    match register(SERVICE, handler) {
        Ok(manager) => drop(MANAGER.set(manager)),
        Err(error) => {
            tracing::error!(%error, "the service control manager does not take this service");
            return;
        }
    }
    tell(ServiceState::StartPending, ServiceExitCode::NO_ERROR);
    let work = WORK.lock().unwrap_or_else(PoisonError::into_inner).take();
    let exit = work.map_or(Exit::NOT_SUCCEEDED, |work| work());
    CODE.store(exit.code(), Ordering::Relaxed);
    match exit {
        Exit::DONE => events::tell(
            Kind::Information,
            "stopped; attempts that run go on under their shepherds",
        ),
        other => events::tell(
            Kind::Error,
            &format!(
                "ended with {}; its log in the data folder says why",
                other.code()
            ),
        ),
    }
    // Not zero is a failure to the manager, which then does what the recovery actions say.
    let said = match exit {
        Exit::DONE => ServiceExitCode::NO_ERROR,
        other => ServiceExitCode::ServiceSpecific(other.code().into()),
    };
    tell(ServiceState::Stopped, said);
}

/// Silent where no manager listens.
pub fn say(word: &Word) {
    match word {
        Word::Ready => {
            tell(ServiceState::Running, ServiceExitCode::NO_ERROR);
            if MANAGER.get().is_some() {
                events::tell(Kind::Information, "works");
            }
        }
        Word::Stopping => tell(ServiceState::StopPending, ServiceExitCode::NO_ERROR),
        // It asks no service whether it works.
        Word::Alive => {}
    }
}

fn tell(state: ServiceState, exit_code: ServiceExitCode) {
    let Some(manager) = MANAGER.get() else { return };
    let pending = matches!(
        state,
        ServiceState::StartPending | ServiceState::StopPending
    );
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted: match state {
            ServiceState::Running => ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN,
            _ => ServiceControlAccept::empty(),
        },
        exit_code,
        checkpoint: 0,
        wait_hint: if pending { PATIENCE } else { Duration::ZERO },
        process_id: None,
    };
    if let Err(error) = manager.set_service_status(status) {
        tracing::warn!(%error, "the service control manager could not be told");
    }
}
