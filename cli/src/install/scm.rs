//! Windows' service control manager, as far as an installation needs it: makes a service or brings it up to date, starts
//! it anew, takes it away. Says what Windows said, and that it needs an administrator where that is why.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use windows_service::service::{
    Service as Handle, ServiceAccess, ServiceAction, ServiceActionType, ServiceErrorControl,
    ServiceFailureActions, ServiceFailureResetPeriod, ServiceInfo, ServiceStartType, ServiceState,
    ServiceType,
};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};

use super::windows::{SYSTEM, Service};
use crate::error::Error;
use crate::service::SERVICE;

/// How long an agent may take to stop or start.
const PATIENCE: Duration = Duration::from_secs(30);
/// A large Python stack takes minutes.
const EXAMINATION: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(200);
/// After a quiet day the count of failures begins anew.
const QUIET: Duration = Duration::from_secs(24 * 3600);

const NO_SUCH_SERVICE: i32 = 1060;
const INVALID_LEVEL: i32 = 124;
const NOT_RUNNING: i32 = 1062;
const ACCESS_DENIED: i32 = 5;

pub fn install(service: &Service) -> Result<bool, Error> {
    let info = ServiceInfo {
        name: SERVICE.into(),
        display_name: "sweep agent".into(),
        service_type: ServiceType::OWN_PROCESS,
        start_type: ServiceStartType::AutoStart,
        error_control: ServiceErrorControl::Normal,
        executable_path: service.program.clone(),
        launch_arguments: service.words.iter().map(OsString::from).collect(),
        dependencies: vec![],
        account_name: (service.account != SYSTEM).then(|| OsString::from(&service.account)),
        account_password: None,
    };
    let failed = |error| failed("install", SERVICE, &error);
    let handle = match open()? {
        Some(handle) => {
            handle.change_config(&info).map_err(failed)?;
            handle
        }
        None => manager()?
            .create_service(&info, ServiceAccess::ALL_ACCESS)
            .map_err(failed)?,
    };
    let about = "Runs what the sweep coordinator places on this host. Attempts go on without it.";
    handle.set_description(about).map_err(failed)?;
    // After what the machine needs first: drivers among it.
    known(handle.set_delayed_auto_start(true)).map_err(failed)?;
    let again = |seconds| ServiceAction {
        action_type: ServiceActionType::Restart,
        delay: Duration::from_secs(seconds),
    };
    let recovery = ServiceFailureActions {
        reset_period: ServiceFailureResetPeriod::After(QUIET),
        reboot_msg: None,
        command: None,
        // The last one holds for all that come after it.
        actions: Some(vec![again(5), again(30), again(60)]),
    };
    handle.update_failure_actions(recovery).map_err(failed)?;
    // Also when it ends by itself with an error.
    known(handle.set_failure_actions_on_non_crash_failures(true)).map_err(failed)?;
    Ok(true)
}

/// Also where an older one runs: attempts go on without an agent.
pub fn restart() -> Result<bool, Error> {
    let handle = open()?.ok_or_else(|| {
        Error::Failed(format!(
            "failed to start the service {SERVICE}: it is not there"
        ))
    })?;
    stop(&handle)?;
    let none: [&str; 0] = [];
    handle
        .start(&none)
        .map_err(|error| failed("start", SERVICE, &error))?;
    if until(&handle, ServiceState::Running, PATIENCE)? {
        return Ok(true);
    }
    Err(Error::Failed(format!(
        "failed to start the service {SERVICE}: it ended by itself; its log says why (ProgramData\\sweep\\data\\logs)"
    )))
}

/// A service of the system's own account that runs once, to its end, and is taken away.
pub fn once(program: PathBuf, words: &[String]) -> Result<(), Error> {
    const NAME: &str = "sweep-doctor";
    let info = ServiceInfo {
        name: NAME.into(),
        display_name: "sweep doctor, for a moment".into(),
        service_type: ServiceType::OWN_PROCESS,
        start_type: ServiceStartType::OnDemand,
        error_control: ServiceErrorControl::Normal,
        executable_path: program,
        launch_arguments: words.iter().map(OsString::from).collect(),
        dependencies: vec![],
        account_name: None,
        account_password: None,
    };
    let failed = |error| failed("run", NAME, &error);
    let handle = manager()?
        .create_service(&info, ServiceAccess::ALL_ACCESS)
        .map_err(failed)?;
    let none: [&str; 0] = [];
    let ran = match handle.start(&none) {
        Ok(()) => until(&handle, ServiceState::Stopped, EXAMINATION),
        Err(error) => Err(failed(error)),
    };
    // Whatever came of it, it does not stay.
    let _ = handle.stop();
    handle.delete().map_err(failed)?;
    match ran? {
        true => Ok(()),
        false => Err(Error::Failed(
            "the doctor did not come to an end in the session of services".to_owned(),
        )),
    }
}

/// True unless there was none.
pub fn remove() -> Result<bool, Error> {
    let Some(handle) = open()? else {
        return Ok(false);
    };
    stop(&handle)?;
    handle
        .delete()
        .map_err(|error| failed("remove", SERVICE, &error))?;
    Ok(true)
}

fn stop(handle: &Handle) -> Result<(), Error> {
    match handle.stop() {
        Err(error) if code(&error) == Some(NOT_RUNNING) => return Ok(()),
        Err(error) => return Err(failed("stop", SERVICE, &error)),
        Ok(_) => {}
    }
    if until(handle, ServiceState::Stopped, PATIENCE)? {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "failed to stop the service {SERVICE}: it did not end within {} s; end its process by hand (attempts go on)",
        PATIENCE.as_secs()
    )))
}

/// False when it stopped instead, or after the time.
fn until(handle: &Handle, wanted: ServiceState, longest: Duration) -> Result<bool, Error> {
    for _ in 0..longest.as_millis() / LOOK.as_millis() {
        let status = handle
            .query_status()
            .map_err(|error| failed("look at", SERVICE, &error))?;
        if status.current_state == wanted || status.current_state == ServiceState::Stopped {
            return Ok(status.current_state == wanted);
        }
        std::thread::sleep(LOOK);
    }
    Ok(false)
}

/// Wine knows no such setting; every Windows does.
fn known(set: windows_service::Result<()>) -> windows_service::Result<()> {
    match set {
        Err(error) if code(&error) == Some(INVALID_LEVEL) => Ok(()),
        other => other,
    }
}

fn manager() -> Result<ServiceManager, Error> {
    let rights = ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE;
    ServiceManager::local_computer(None::<&str>, rights)
        .map_err(|error| failed("reach", SERVICE, &error))
}

fn open() -> Result<Option<Handle>, Error> {
    match manager()?.open_service(SERVICE, ServiceAccess::ALL_ACCESS) {
        Ok(handle) => Ok(Some(handle)),
        Err(error) if code(&error) == Some(NO_SUCH_SERVICE) => Ok(None),
        Err(error) => Err(failed("open", SERVICE, &error)),
    }
}

fn code(error: &windows_service::Error) -> Option<i32> {
    match error {
        windows_service::Error::Winapi(error) => error.raw_os_error(),
        _ => None,
    }
}

fn failed(doing: &str, name: &str, error: &windows_service::Error) -> Error {
    let hint = match code(error) {
        Some(ACCESS_DENIED) => " (run it as administrator)",
        _ => "",
    };
    Error::Failed(format!(
        "failed to {doing} the service {name}: {}{hint}",
        Error::chain(error)
    ))
}
