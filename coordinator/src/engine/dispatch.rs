//! From a durable placement to the order that its agent gets. The order leaves the host nothing to choose.

use std::collections::BTreeMap;

use jobs::{AttemptId, Kind};
use proto::v1::Start;
use proto::v1::coordinator_message::Message;

use super::{OpenSweep, State, Work};

impl State {
    /// Sends the order once what this batch holds is durable. Without a session it is sent when the host returns.
    pub(super) fn dispatch(&mut self, id: &AttemptId, work: &mut Work) {
        let id = id.clone();
        work.then(move |state| {
            let order = state.order(&id);
            let host = order.as_ref().and_then(|(host, _)| state.hosts.get(host));
            if let (Some(host), Some((_, start))) = (host, order) {
                host.send(Message::Start(start));
            }
        });
    }

    fn order(&self, id: &AttemptId) -> Option<(String, Start)> {
        let open = self.open.get(self.by_id.get(&id.job.sweep)?)?;
        let job = open.life.job(id.job.trial, id.job.kind)?;
        let attempt = job.attempts.iter().find(|one| one.number == id.number)?;
        let host = attempt.placement.host.to_string();
        let scale = self.hosts.get(&host).filter(|host| host.record.simulated);
        let scale = scale.map(|host| host.record.time_scale);
        let mut start = open.start(id, scale)?;
        start.generation = attempt.placement.generation;
        start.devices = attempt
            .placement
            .devices
            .iter()
            .map(ToString::to_string)
            .collect();
        start.grant_bytes = attempt.placement.grant.0;
        Some((host, start))
    }
}

impl OpenSweep {
    fn start(&self, id: &AttemptId, time_scale: Option<f64>) -> Option<Start> {
        let plan = &self.life.plan;
        let trial = plan.trial(id.job.trial)?;
        let stage = plan.spec.stage(id.job.kind)?;
        let settings = plan.settings(trial);
        let mut config =
            jobs::plan::config_json(plan, trial, id, &self.inputs(id.job.trial), time_scale);
        // A program without the weights makes random ones of these shapes.
        let by_name = || vram::known_model_config(settings.get("model")?.as_str()?);
        if let Some(shapes) = self.model_config.clone().or_else(by_name) {
            config["model_config"] = shapes;
        }
        let named = |name: &str| {
            let value = settings.get(name).and_then(serde_json::Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let env = stage
            .env
            .iter()
            .map(|(name, value)| (name.clone(), jobs::plan::resolve_text(value, &settings)));
        Some(Start {
            attempt: id.to_string(),
            argv: jobs::plan::resolve(&stage.run, &settings),
            config: config.to_string(),
            time_limit_ms: stage.time_limit.map_or(0, |limit| {
                u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
            }),
            seed: plan.seed(trial),
            resume: stage.resume,
            dataset: named("dataset"),
            model: named("model"),
            files: self.files.clone(),
            env: env.collect(),
            ..Start::default()
        })
    }

    /// What the earlier jobs of the trial gave as their results.
    fn inputs(&self, trial: u32) -> BTreeMap<Kind, serde_json::Value> {
        let kinds = self.life.plan.kinds();
        let result = |kind| {
            let counted = self.life.job(trial, kind)?.succeeded()?;
            Some((kind, counted.ending()?.result.clone()?))
        };
        kinds.filter_map(result).collect()
    }
}
