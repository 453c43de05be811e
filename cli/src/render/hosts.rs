//! `sweep hosts` and `sweep host ...` for people: one row for each device.

use proto::v1::{DeviceDocument, HostDocument};

use super::SIMULATED;
use super::format::{device, host, mib, short, time_if};
use super::paint::paint;
use super::table::{Kind, Table, printable};
use super::wrap;

pub fn text(hosts: &[HostDocument]) -> String {
    if hosts.is_empty() {
        return "no hosts".to_owned();
    }
    let mut table = Table::new(&[
        ("HOST", Kind::Text),
        ("STATE", Kind::Word),
        ("DEVICE", Kind::Text),
        ("BACKEND", Kind::Word),
        ("USABLE", Kind::Figure),
        ("HELD", Kind::Figure),
        ("GRANTED MiB", Kind::Figure),
        ("ATTEMPTS", Kind::Figure),
        ("SLOTS", Kind::Figure),
    ]);
    for one in hosts {
        for (at, device) in one.devices.iter().enumerate() {
            table.row(cells(one, device, at == 0));
        }
    }
    let mut text = table.to_string();
    text.push_str(&quarantines(hosts));
    if hosts.iter().any(|host| host.simulated) {
        text.push_str(SIMULATED);
    }
    paint(&text)
}

fn cells(one: &HostDocument, card: &DeviceDocument, first: bool) -> [String; 9] {
    let mark = if card.simulated { " *" } else { "" };
    let only_first = |text: String| if first { text } else { String::new() };
    [
        only_first(host(&one.name)),
        only_first(state(one)),
        format!("{}{mark}", device(&card.name)),
        card.backend.clone(),
        mib(card.usable_mib),
        mib(card.held_mib),
        mib(card.reserved_mib),
        only_first(one.attempts.len().to_string()),
        card.slots.to_string(),
    ]
}

fn state(host: &HostDocument) -> String {
    if host.drained {
        format!("{} drained", host.state)
    } else {
        host.state.clone()
    }
}

fn quarantines(hosts: &[HostDocument]) -> String {
    let mut text = String::new();
    for host in hosts {
        for what in &host.degraded {
            let line = format!("{} is degraded: {}", host.name, printable(what));
            text.push_str(&wrap::paragraph(&line, 0, 4));
        }
        for device in &host.devices {
            let said = [
                ("is missing: ", &device.missing),
                ("is left to its owner: ", &device.owner),
                ("is held by ", &device.holders),
                ("gets no work: ", &device.quarantine),
            ];
            for (words, what) in said {
                if let Some(what) = what {
                    let (host, device) = (&host.name, &device.name);
                    let line = format!("{host} {device} {words}{}", printable(what));
                    text.push_str(&wrap::paragraph(&line, 0, 4));
                }
            }
        }
    }
    text
}

/// One host with all that is known of it.
pub fn one(host: &HostDocument) -> String {
    let mut text = text(std::slice::from_ref(host));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let facts = [
        ("class", host.host_class.clone()),
        ("system", host.os.clone()),
        ("labels", host.labels.join(", ")),
        (
            "agent",
            format!("{}, generation {}", host.agent_version, host.generation),
        ),
        (
            "last heard",
            format!("{} UTC", time_if(host.last_seen_at.as_deref())),
        ),
        (
            "attempts",
            format!(
                "{} since the coordinator started, {} succeeded",
                host.attempts_total, host.attempts_succeeded
            ),
        ),
        ("rehearses", rehearses(host)),
    ];
    text.push('\n');
    for (name, value) in facts {
        text.push_str(&wrap::paragraph(&format!("{name}: {value}"), 0, 4));
    }
    for card in &host.devices {
        text.push_str(&format!("device {}: {}\n", short(&card.name, 40), card.id));
        if let Some(about) = &card.about {
            text.push_str(&wrap::paragraph(&printable(about), 4, 4));
        }
    }
    for attempt in &host.attempts {
        text.push_str(&format!("running {attempt}\n"));
    }
    text
}

fn rehearses(host: &HostDocument) -> String {
    match (&host.rehearses, &host.cannot_rehearse) {
        (Some(stack), _) if host.rehearsing > 0 => {
            format!("{} now, with {}", host.rehearsing, printable(stack))
        }
        (Some(stack), _) => format!("with {}", printable(stack)),
        (None, Some(why)) => format!("no: {}", printable(why)),
        (None, None) => "not known yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn devices_are_rows_and_quarantine_is_said() {
        let text = sample::plain(&super::text(&[sample::host()]));
        sample::assert_fits(&text);
        assert!(text.contains("RTX 3070 Ti *"), "{text}");
        assert!(text.contains("gets no work: two faults"), "{text}");
        let mut broken = sample::host();
        broken.devices[0].missing = Some("the driver does not show it".into());
        broken.devices[0].owner = Some("used 2 min ago".into());
        broken.devices[0].holders = Some("Ollama 512 MiB".into());
        broken.degraded = vec!["3 GPUs are expected and 2 are there".into()];
        let text = sample::plain(&super::text(&[broken]));
        sample::assert_fits(&text);
        assert!(
            text.contains("is missing: the driver") && text.contains("is degraded: 3 GPUs"),
            "{text}"
        );
        assert!(text.contains("is left to its owner: used 2 min"), "{text}");
        assert!(text.contains("is held by Ollama 512 MiB"), "{text}");
        assert_eq!(super::text(&[]), "no hosts");
    }

    #[test]
    fn one_host_lists_what_runs_there() {
        let text = sample::plain(&one(&sample::host()));
        sample::assert_fits(&text);
        assert!(
            text.contains("running dropout-ab-k3f9q2/1/train/1"),
            "{text}"
        );
        assert!(text.contains("GPU-8c3f2a11"), "{text}");
    }
}
