//! Faults on purpose, asked for by the sweep's settings: cuts a script at a share of its time and ends it badly.
//! Touches nothing when none is asked for; an unknown fault is refused loudly, as a failed attempt.

use serde_json::json;
use vram::Backend;

use super::card::{Card, Config};
use super::script::{Ending, Script, Step, What};

/// The script with the fault that its settings ask for.
pub(super) fn applied(script: Script, config: &Config, card: &Card) -> Script {
    let Some(fault) = config.text("simulate_fault") else {
        return script;
    };
    let kind = config.text("simulate_fault_kind").unwrap_or("train");
    let attempts = config.number("simulate_fault_attempts").unwrap_or(1.0);
    if kind != config.kind.as_str() || f64::from(config.attempt.max(1)) > attempts {
        return script;
    }
    let share = config
        .number("simulate_fault_at")
        .unwrap_or(0.5)
        .clamp(0.0, 1.0);
    let end = script.steps.last().map_or(0.0, |step| step.at);
    let mut cut: Vec<Step> = script.steps;
    cut.retain(|step| step.at <= end * share);
    let done = cut.last().map_or(0, |step| step.done);
    let mut add = |what| {
        let at = end * share;
        cut.push(Step { at, done, what });
    };
    add(What::Say(format!(
        "simulated: the fault `{fault}` that the settings ask for"
    )));
    let ending = match fault {
        "xid" => {
            add(What::Complain(illegal_access(card)));
            Ending::Exit(1)
        }
        "nan" => {
            // JSON has no NaN: a null metric is what it leaves.
            add(What::Report(
                json!({"metric": {"loss": null}, "step": done}),
            ));
            add(What::Complain(format!(
                "FloatingPointError: loss is nan at step {done}"
            )));
            Ending::Exit(1)
        }
        "hang" => Ending::Hang,
        other => {
            add(What::Complain(format!(
                "ValueError: simulate_fault `{other}` is not xid, nan or hang"
            )));
            Ending::Exit(1)
        }
    };
    Script { steps: cut, ending }
}

fn illegal_access(card: &Card) -> String {
    let (framework, blocking, assertions) = match card.device.backend {
        Backend::Rocm => ("HIP", "AMD_SERIALIZE_KERNEL=3", "TORCH_USE_HIP_DSA"),
        _ => ("CUDA", "CUDA_LAUNCH_BLOCKING=1", "TORCH_USE_CUDA_DSA"),
    };
    format!(
        "torch.AcceleratorError: {framework} error: an illegal memory access was encountered\n\
         {framework} kernel errors might be asynchronously reported at some other API call, so the stacktrace below \
         might be incorrect.\n\
         For debugging consider passing {blocking}\n\
         Compile with `{assertions}` to enable device-side assertions."
    )
}

#[cfg(test)]
mod tests {
    use jobs::Kind;
    use serde_json::{Value, json};

    use super::super::card::examples::*;
    use super::super::scene::script;
    use super::*;

    fn faulty(kind: Kind, attempt: u32, changes: &Value) -> Script {
        let mut config = config(kind, changes);
        config.attempt = attempt;
        script(&config, &rtx_5060_ti(), 0, 0).unwrap()
    }

    fn last_words(script: &Script) -> String {
        match &script.steps.last().unwrap().what {
            What::Complain(text) | What::Say(text) => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_fault_comes_at_its_share_of_the_time() {
        let whole = faulty(Kind::Train, 1, &json!({}));
        let end = whole.steps.last().unwrap().at;
        let cut = faulty(
            Kind::Train,
            1,
            &json!({"simulate_fault": "xid", "simulate_fault_at": 0.25}),
        );
        assert_eq!(cut.ending, Ending::Exit(1));
        assert!(last_words(&cut).contains("CUDA error: an illegal memory access was encountered"));
        let last = cut.steps.last().unwrap();
        assert!(
            (last.at - end / 4.0).abs() < 1.0 && (100..=120).contains(&last.done),
            "{last:?}"
        );
    }

    #[test]
    fn each_fault_has_its_ending() {
        let nan = faulty(Kind::Train, 1, &json!({"simulate_fault": "nan"}));
        assert!(last_words(&nan).starts_with("FloatingPointError: loss is nan"));
        let hang = faulty(Kind::Train, 1, &json!({"simulate_fault": "hang"}));
        assert_eq!(hang.ending, Ending::Hang);
        let unknown = faulty(Kind::Train, 1, &json!({"simulate_fault": "flood"}));
        assert!(unknown.ending == Ending::Exit(1) && last_words(&unknown).contains("`flood`"));
    }

    #[test]
    fn other_jobs_and_later_attempts_are_spared() {
        let asked = json!({"simulate_fault": "xid"});
        assert_eq!(faulty(Kind::Probe, 1, &asked).ending, Ending::Exit(0));
        assert_eq!(faulty(Kind::Train, 2, &asked).ending, Ending::Exit(0));
        let both = json!({"simulate_fault": "xid", "simulate_fault_attempts": 2, "simulate_fault_kind": "bake"});
        assert_eq!(faulty(Kind::Bake, 2, &both).ending, Ending::Exit(1));
        assert_eq!(faulty(Kind::Bake, 3, &both).ending, Ending::Exit(0));
    }
}
