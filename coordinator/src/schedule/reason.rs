//! Why a job waits, or why not on that device: typed, with the numbers, in one sentence each. The codes are stable
//! words for JSON. Decides nothing.

use std::fmt;

use jobs::spec::DeviceKind;
use vram::Bytes;

use super::{JobKey, Rehearsal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// No host is known.
    NoHost,
    NoSuchHost {
        host: String,
    },
    HostSilent {
        host: String,
    },
    Drained {
        host: String,
    },
    Quarantined {
        host: String,
        device: String,
        why: String,
    },
    /// It is the host's, and cannot be used now.
    Missing {
        host: String,
        device: String,
        why: String,
    },
    /// Its owner is at the machine, or these are not the hours that he gives.
    OwnerPresent {
        host: String,
        device: String,
        why: String,
    },
    /// A host is finding out what its Python has.
    PackagesUnknown {
        host: String,
    },
    /// `dataset:NAME` and `model:NAME` are labels, too.
    MissingLabel {
        label: String,
        /// Absent: no host has it.
        host: Option<String>,
    },
    NoDevice {
        kind: Option<DeviceKind>,
    },
    TooFewDevices {
        host: String,
        wanted: u32,
        has: u32,
    },
    /// Too large for the device when it is empty.
    TooLarge {
        host: String,
        device: String,
        need: Bytes,
        band: Bytes,
        room: Bytes,
    },
    /// Ran out of memory there.
    Avoided {
        host: String,
        device: String,
    },
    /// Would fit if processes that are not ours gave their memory back.
    HeldByOthers {
        host: String,
        device: String,
        need: Bytes,
        band: Bytes,
        usable: Bytes,
        held: Bytes,
        /// Empty: not known.
        holders: String,
    },
    /// All slots are taken.
    Busy {
        host: String,
        device: String,
        active: u32,
        until_ms: Option<u64>,
    },
    /// Its size is not certain, so it needs the device to itself.
    NotAlone {
        host: String,
        device: String,
        active: u32,
    },
    /// The room is granted to running attempts.
    Reserved {
        host: String,
        device: String,
        need: Bytes,
        band: Bytes,
        room: Bytes,
        reserved: Bytes,
    },
    /// Kept for a job that is ahead in the queue and needs that device.
    KeptFor {
        host: String,
        device: String,
        job: JobKey,
    },
    /// Nothing is known of its size there.
    NeedsProbe {
        host: String,
        device: String,
    },
    /// Too close to call there.
    Uncertain {
        host: String,
        device: String,
        need: Bytes,
        band: Bytes,
        room: Bytes,
    },
    /// Other arms of its comparison are to be measured before a class of device is chosen.
    WaitsForArms {
        unsettled: u32,
        uncertain: u32,
    },
    /// Its comparison trains on another class of device, which has no room now or is not known any more.
    ComparisonElsewhere {
        class: String,
    },
    /// The sweep file pins it to another host.
    PinnedElsewhere {
        host: String,
    },
    StaysOn {
        host: String,
    },
    Backoff {
        until_ms: u64,
    },
    FleetSettling,
    /// The rehearsal that would tell its size waits for a free CPU slot.
    RehearsalQueued,
    /// A host is finding out whether it can rehearse.
    RehearsalUnknown {
        host: String,
    },
    Rehearsing {
        host: String,
    },
}

impl WaitReason {
    pub(super) fn rehearsing(rehearsal: Rehearsal<'_>) -> Self {
        match rehearsal {
            Rehearsal::Queued => Self::RehearsalQueued,
            Rehearsal::Looking(host) => Self::RehearsalUnknown {
                host: host.to_owned(),
            },
            Rehearsal::Running(host) => Self::Rehearsing {
                host: host.to_owned(),
            },
        }
    }

    /// A stable word for JSON.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoHost => "no_host",
            Self::NoSuchHost { .. } => "no_such_host",
            Self::HostSilent { .. } => "host_silent",
            Self::Drained { .. } => "drained",
            Self::Quarantined { .. } => "quarantined",
            Self::Missing { .. } => "missing",
            Self::OwnerPresent { .. } => "owner_present",
            Self::PackagesUnknown { .. } => "packages_unknown",
            Self::MissingLabel { .. } => "missing_label",
            Self::NoDevice { .. } => "no_device",
            Self::TooFewDevices { .. } => "too_few_devices",
            Self::TooLarge { .. } => "too_large",
            Self::Avoided { .. } => "avoided",
            Self::HeldByOthers { .. } => "held_by_others",
            Self::Busy { .. } => "busy",
            Self::NotAlone { .. } => "not_alone",
            Self::Reserved { .. } => "reserved",
            Self::KeptFor { .. } => "kept_for",
            Self::NeedsProbe { .. } => "needs_probe",
            Self::Uncertain { .. } => "uncertain",
            Self::WaitsForArms { .. } => "waits_for_arms",
            Self::ComparisonElsewhere { .. } => "comparison_elsewhere",
            Self::PinnedElsewhere { .. } => "pinned_elsewhere",
            Self::StaysOn { .. } => "stays_on",
            Self::Backoff { .. } => "backoff",
            Self::FleetSettling => "fleet_settling",
            Self::RehearsalQueued => "rehearsal_queued",
            Self::RehearsalUnknown { .. } => "rehearsal_unknown",
            Self::Rehearsing { .. } => "rehearsing",
        }
    }
}

/// `7313 ± 120`, in whole MiB; what is certain has no ±.
pub(super) fn about(need: Bytes, band: Bytes) -> String {
    if band == Bytes::ZERO {
        format!("{:.0}", need.mib())
    } else {
        format!("{:.0} ± {:.0}", need.mib(), band.mib())
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost => write!(out, "no host is known"),
            Self::NoSuchHost { host } => write!(out, "no host `{host}` is known"),
            Self::HostSilent { host } => write!(out, "nothing is heard of {host}"),
            Self::Drained { host } => write!(out, "{host} is drained"),
            Self::Quarantined { host, device, why } => {
                write!(out, "{host} {device} is in quarantine: {why}")
            }
            Self::Missing { host, device, why } => {
                write!(out, "{host} {device} is missing: {why}")
            }
            Self::OwnerPresent { host, device, why } => {
                write!(out, "{host} {device} is left to its owner: {why}")
            }
            Self::PackagesUnknown { host } => {
                write!(
                    out,
                    "{host} is finding out whether its Python has what this recipe needs"
                )
            }
            Self::MissingLabel { label, host } => {
                match host {
                    Some(host) => write!(out, "{host} does not have ")?,
                    None => write!(out, "no host has ")?,
                }
                match label.split_once(':') {
                    Some(("dataset", name)) => write!(out, "the dataset `{name}`"),
                    Some(("model", name)) => write!(out, "the weights of the model `{name}`"),
                    Some(("package", name)) => write!(
                        out,
                        "the Python package `{name}`, which this recipe needs (`sweep agent doctor` there says more)"
                    ),
                    _ => write!(out, "the label `{label}`"),
                }
            }
            Self::NoDevice { kind } => {
                write!(out, "no host that may take it has {}", kind_word(*kind))
            }
            Self::TooFewDevices { host, wanted, has } => {
                write!(
                    out,
                    "needs {wanted} equal devices of one host, and {host} has {has} for it"
                )
            }
            Self::Avoided { host, device } => write!(out, "ran out of memory on {host} {device}"),
            Self::Busy {
                host,
                device,
                active,
                ..
            } => {
                write!(
                    out,
                    "{host} {device} is busy with {active} {}",
                    attempts(*active)
                )
            }
            Self::NotAlone {
                host,
                device,
                active,
            } => write!(
                out,
                "needs {host} {device} to itself, where {active} {} {}",
                attempts(*active),
                if *active == 1 { "runs" } else { "run" }
            ),
            Self::KeptFor { host, device, job } => write!(
                out,
                "{host} {device} is kept for trial {} of sweep {} ({}), which is ahead and needs it",
                job.trial, job.sweep, job.kind
            ),
            Self::NeedsProbe { host, device } => {
                write!(out, "nothing is known of its size on {host} {device}")
            }
            Self::WaitsForArms {
                unsettled,
                uncertain,
            } => write!(
                out,
                "{uncertain} of the {unsettled} arms of its comparison are still to be measured before a class of \
                 device is chosen for all"
            ),
            Self::ComparisonElsewhere { class } => write!(out, "its comparison trains on {class}"),
            Self::PinnedElsewhere { host } => write!(out, "the sweep file says {host}"),
            Self::StaysOn { host } => write!(out, "its earlier work lies on {host}"),
            Self::Backoff { .. } => write!(out, "waits before it is tried again"),
            Self::FleetSettling => write!(out, "hosts may still be about to register"),
            Self::RehearsalQueued => write!(
                out,
                "waiting for the rehearsal of this recipe, which no host has a CPU slot free for"
            ),
            Self::RehearsalUnknown { host } => write!(
                out,
                "waiting until {host} knows whether it can rehearse this recipe"
            ),
            Self::Rehearsing { host } => {
                write!(out, "waiting for the rehearsal of this recipe on {host}")
            }
            sized => sized.fmt_sized(out),
        }
    }
}

impl WaitReason {
    /// The reasons that are arithmetic.
    fn fmt_sized(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge {
                host,
                device,
                need,
                band,
                room,
            } => write!(
                out,
                "too large for {host} {device}: needs {} of {:.0} MiB",
                about(*need, *band),
                room.mib()
            ),
            Self::HeldByOthers {
                host,
                device,
                need,
                band,
                usable,
                held,
                holders,
            } => {
                let (need, held, usable) = (about(*need, *band), held.mib(), usable.mib());
                write!(
                    out,
                    "needs {need} MiB on {host} {device}, where others hold {held:.0} of {usable:.0} MiB"
                )?;
                if holders.is_empty() {
                    return Ok(());
                }
                write!(out, " ({holders})")
            }
            Self::Reserved {
                host,
                device,
                need,
                band,
                room,
                reserved,
            } => write!(
                out,
                "needs {} MiB on {host} {device}, where running attempts have {:.0} MiB and {:.0} MiB are free",
                about(*need, *band),
                reserved.mib(),
                room.mib()
            ),
            Self::Uncertain {
                host,
                device,
                need,
                band,
                room,
            } => write!(
                out,
                "too close to call on {host} {device}: {} against {:.0} MiB",
                about(*need, *band),
                room.mib()
            ),
            _ => Ok(()),
        }
    }
}

fn attempts(count: u32) -> &'static str {
    if count == 1 { "attempt" } else { "attempts" }
}

fn kind_word(kind: Option<DeviceKind>) -> &'static str {
    match kind {
        None => "a device",
        Some(DeviceKind::Gpu) => "a GPU",
        Some(DeviceKind::Cpu) => "a CPU device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_whose_it_is_not() {
        let said = |label: &str, host: Option<&str>| {
            let (label, host) = (label.to_owned(), host.map(str::to_owned));
            WaitReason::MissingLabel { label, host }.to_string()
        };
        assert_eq!(said("dataset:a", None), "no host has the dataset `a`");
        assert_eq!(
            said("model:a/b", Some("box")),
            "box does not have the weights of the model `a/b`"
        );
        assert!(
            said("package:bitsandbytes", Some("box"))
                .starts_with("box does not have the Python package `bitsandbytes`, which")
        );
        assert_eq!(
            said("gold", Some("box")),
            "box does not have the label `gold`"
        );
    }
}
