//! What an operator wants of a host: no new work, work again, or to be forgotten.

use super::{HostWish, Refusal, State, Work};
use crate::store::Record;

impl State {
    pub(super) fn wish(
        &mut self,
        name: &str,
        wish: HostWish,
        work: &mut Work,
    ) -> Result<(), Refusal> {
        let host = self.hosts.get_mut(name).ok_or_else(|| {
            Refusal::NotFound(format!(
                "no host `{name}` has registered; `sweep hosts` shows all"
            ))
        })?;
        match wish {
            HostWish::Drain => host.record.drained = true,
            HostWish::Resume => {
                host.record.drained = false;
                for device in &mut host.record.devices {
                    device.quarantine.clear();
                }
            }
            HostWish::Forget => {
                if !host.active.is_empty() || host.session.is_some() {
                    return Err(Refusal::Refused(format!(
                        "host `{name}` is connected or has running attempts; stop its agent first"
                    )));
                }
                self.hosts.remove(name);
                work.records.push(Record::ForgetHost(name.to_owned()));
                work.dirty = true;
                return Ok(());
            }
        }
        let record = host.record.clone();
        work.write(record);
        work.dirty = true;
        Ok(())
    }
}
