//! Whose a report is: a host speaks under the name of its certificate, and for its own attempts. Refuses everything else
//! with `PERMISSION_DENIED`, and a line for the audit.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use jobs::AttemptId;
use proto::v1::Hello;
use tonic::Status;

use super::agents::Session;
use crate::engine::State;
use crate::trust::{Caller, Who, audit};

impl Session {
    /// Another host's attempts are none of this one's business: its log and its ending are not to be touched. False of one
    /// that nobody knows, which an older store may have been restored without: what its agent says of it is acknowledged
    /// and kept nowhere, so that the agent comes to an end with it.
    pub(super) async fn is_own(&self, id: &AttemptId) -> Result<bool, Status> {
        let known = |own: &Mutex<HashSet<AttemptId>>| {
            own.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(id)
        };
        if known(&self.own) {
            return Ok(true);
        }
        let wanted = id.clone();
        let owner = self
            .api
            .engine
            .read(move |state: &mut State| state.owner(&wanted))
            .await?;
        match owner {
            Some(owner) if owner == self.host => {
                let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
                own.insert(id.clone());
                Ok(true)
            }
            None => Ok(false),
            Some(_) => {
                let why = format!("the attempt {id} is not one of host {}", self.host);
                audit::refused(&self.caller, "report", &why);
                Err(Status::permission_denied(why))
            }
        }
    }
}

/// The name in a hello is the one in the certificate.
pub(super) fn is_itself(hello: &Hello, caller: &Caller) -> Result<(), Status> {
    let Who::Host { name, .. } = &caller.who else {
        return Ok(());
    };
    let said = hello.host.as_ref().map_or("", |host| host.name.as_str());
    if said == name {
        return Ok(());
    }
    let said: String = said.escape_debug().take(80).collect();
    Err(Status::permission_denied(format!(
        "the host calls itself `{said}`, but its certificate is for `{name}`; correct its name, or let it join under the \
         new one (sweep token create --join --host NAME)"
    )))
}
