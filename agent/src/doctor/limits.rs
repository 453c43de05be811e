//! Whether the limits of attempts can be enforced from here. Makes no group and moves nothing: a service of the same user
//! may have rights that this session lacks.

use super::Check;
use crate::attempt::Limits;
use crate::config::HostConfig;
use crate::os::Grounds;

pub fn enforced(config: &HostConfig) -> Check {
    judged(
        &config.limits.any,
        Grounds::look().unenforced(&config.limits.any),
    )
}

fn judged(limits: &Limits, unenforced: Option<String>) -> Check {
    match unenforced {
        None => Check::ok("limits", told(limits)),
        Some(what) => Check::warning(
            "limits",
            format!("in this session, {what}"),
            "a job that runs away may take the whole host along: docs/containment.md; `sweep hosts` says how it is \
             for the agent that runs",
        ),
    }
}

fn told(limits: &Limits) -> String {
    let parts = [
        limits.memory.map(|bytes| format!("{bytes} of host memory")),
        limits.processes.map(|most| format!("{most} processes")),
        limits
            .cpu_weight
            .map(|weight| format!("CPU weight {weight}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("each attempt: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use vram::Bytes;

    use super::super::State;
    use super::*;

    #[test]
    fn limits_are_shown_or_it_is_said_that_nobody_enforces_them() {
        let limits = Limits {
            memory: Some(Bytes(12 << 30)),
            cpu_weight: None,
            processes: Some(100),
        };
        let ok = judged(&limits, None);
        assert_eq!(
            (ok.state, &*ok.says),
            (
                State::Ok,
                "each attempt: 12288.0 MiB of host memory, 100 processes"
            )
        );
        let bad = judged(
            &limits,
            Some("[limits] memory of attempts is not enforced: no rights".into()),
        );
        assert_eq!(bad.state, State::Warning);
        assert!(bad.says.contains("not enforced") && bad.fix.is_some());
    }
}
