//! What is said of each device at this moment, at a registration and with each heartbeat: what others hold of it, and
//! what keeps new attempts from it. Measures nothing itself.

use proto::v1::DeviceState;

use super::Session;
use crate::clock;

pub(super) fn states(session: &Session) -> Vec<DeviceState> {
    let seen = session.seen.borrow();
    let owner = session.owner.borrow();
    let silent = session.pulse.trouble(clock::monotonic());
    // Every job would fail here at once, and a whole night's with it.
    let lame = session.config.python_trouble();
    let of = |device| {
        let mut state = seen.state(device);
        let stopped = silent.as_ref().filter(|_| device.watched).or(lame.as_ref());
        if let Some(why) = stopped.filter(|_| state.missing.is_empty()) {
            state.missing.clone_from(why);
        }
        DeviceState {
            owner: owner.clone(),
            ..state
        }
    };
    session.config.devices.iter().map(of).collect()
}
