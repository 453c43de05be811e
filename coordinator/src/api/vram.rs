//! What the memory model says with all that was learned here: predictions, and how they compare with what was
//! measured. Answers aside of the engine's thread, which would stand still for it: a recipe that fits nowhere is
//! rehearsed many times over to find what would. Changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use proto::convert;
use proto::v1::vram_server::Vram;
use proto::v1::{
    PredictDevice, PredictReply, PredictRequest, Predicted, ReportReply, ReportRequest,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tonic::{Request, Response, Status};
use vram::{Bytes, DeviceClass, DeviceLoad, Knowledge, Workload};

use super::Api;
use crate::engine::{Refusal, State};

/// More is a mistake: each one is rehearsed.
const DEVICES_MAX: usize = 256;

/// So many alike of one host; the host's name is empty for a device of the request.
struct Asked {
    host: String,
    devices: u32,
    class: DeviceClass,
    load: DeviceLoad,
}

#[tonic::async_trait]
impl Vram for Api {
    async fn predict(
        &self,
        request: Request<PredictRequest>,
    ) -> Result<Response<PredictReply>, Status> {
        let wanted = request.into_inner();
        let mode = read("mode", &json!(wanted.mode).to_string())?;
        let settings = read("settings", &wanted.settings)?;
        let workload = Workload::new(mode, &settings, None)
            .map_err(|error| Refusal::Invalid(error.to_string()))?;
        let named = named(&wanted.devices)?;
        let look = |state: &mut State| {
            let devices = if named.is_empty() {
                of_hosts(state)
            } else {
                named
            };
            Ok((state.sizes.shared_knowledge(), devices))
        };
        let (knowledge, devices) = self.engine.read(look).await?;
        let work = move || predictions(&workload, &devices, &knowledge);
        Ok(Response::new(aside(work).await??))
    }

    async fn report(&self, _: Request<ReportRequest>) -> Result<Response<ReportReply>, Status> {
        let look = |state: &mut State| Ok(state.sizes.shared_knowledge());
        let knowledge: Arc<Knowledge> = self.engine.read(look).await?;
        let report = aside(move || text(&vram::report(&knowledge))).await??;
        Ok(Response::new(ReportReply { report }))
    }
}

fn predictions(
    workload: &Workload,
    devices: &[Asked],
    knowledge: &Knowledge,
) -> Result<PredictReply, Status> {
    let each = devices.iter().map(|asked| {
        let prediction = vram::predict(workload, &asked.class, &asked.load, knowledge);
        Ok(Predicted {
            host: asked.host.clone(),
            devices: asked.devices,
            simulated: asked.class.simulated,
            prediction: text(&prediction)?,
        })
    });
    let predictions = each.collect::<Result<_, Status>>()?;
    Ok(PredictReply { predictions })
}

fn named(devices: &[PredictDevice]) -> Result<Vec<Asked>, Refusal> {
    if devices.len() > DEVICES_MAX {
        let many = devices.len();
        let why = format!("{many} devices are too many: at most {DEVICES_MAX}");
        return Err(Refusal::Invalid(why));
    }
    let each = devices.iter().map(|device| {
        Ok(Asked {
            host: String::new(),
            devices: 1,
            class: read("class", &device.class)?,
            load: DeviceLoad {
                usable: Bytes::from_mib(device.usable_mib),
                held: Bytes::from_mib(device.held_mib),
            },
        })
    });
    each.collect()
}

/// The GPUs of every known host, as they are now. A recipe of a model does not train on a CPU here.
fn of_hosts(state: &State) -> Vec<Asked> {
    let mut alike: BTreeMap<(&str, &DeviceClass, Bytes, Bytes), u32> = BTreeMap::new();
    for host in state.hosts.values() {
        for (device, class) in host.record.devices.iter().zip(&host.classes) {
            if convert::device_kind(device) == jobs::spec::DeviceKind::Gpu {
                let load = convert::load(device);
                let kind = (host.record.name.as_str(), class, load.usable, load.held);
                *alike.entry(kind).or_default() += 1;
            }
        }
    }
    let asked = alike
        .into_iter()
        .map(|((host, class, usable, held), devices)| Asked {
            host: host.to_owned(),
            devices,
            class: class.clone(),
            load: DeviceLoad { usable, held },
        });
    asked.collect()
}

fn read<T: DeserializeOwned>(field: &str, json: &str) -> Result<T, Refusal> {
    serde_json::from_str(json)
        .map_err(|error| Refusal::Invalid(format!("`{field}` of the request: {error}")))
}

fn text(document: &impl Serialize) -> Result<String, Status> {
    serde_json::to_string(document).map_err(|error| Status::internal(error.to_string()))
}

pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Status::internal(format!("the memory model broke: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_cannot_be_read_is_refused_by_its_field() {
        let device = |class: &str| PredictDevice {
            class: class.to_owned(),
            usable_mib: 8192.0,
            held_mib: f64::NAN,
        };
        let said = |devices: &[PredictDevice]| named(devices).map(|_| ()).unwrap_err().to_string();
        assert!(said(&[device("{}")]).starts_with("`class` of the request: missing field `name`"));
        let many = vec![device("{}"); DEVICES_MAX + 1];
        assert_eq!(said(&many), "257 devices are too many: at most 256");
        let mode: Result<vram::Mode, Refusal> = read("mode", "\"sleep\"");
        assert!(matches!(mode, Err(Refusal::Invalid(why)) if why.contains("`mode`")));
        let card = r#"{"name": "a", "backend": "cuda", "os": "linux", "spills": false, "simulated": false}"#;
        let asked = named(&[device(card)]).unwrap();
        assert_eq!(asked[0].load.room(), Bytes::from_mib(8192.0));
    }
}
