//! What an installation under systemd consists of: the shipped units with this machine's words in them, and the steps
//! around them. Pure: looks at nothing, does nothing.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::steps::Step;

const AGENT: &str = include_str!("../../../deploy/systemd/sweep-agent.service");
const COORDINATOR: &str = include_str!("../../../deploy/systemd/sweep-coordinator.service");
const DATA: &str = "/var/lib/sweep";
const PROGRAM: &str = "/usr/bin/sweep";
const KIT: &str = "/usr/share/sweep/kit";
const HOST_FILE: &str = "/etc/sweep/agent.toml";
const JOIN_TOKEN: &str = "/etc/sweep/join.token";

/// What is installed, and for whom.
pub struct Machine {
    pub program: PathBuf,
    /// Absent: none was found, and sweeps bring their own.
    pub kit: Option<PathBuf>,
    pub user: String,
    /// The system's groups.
    pub groups: Vec<String>,
}

pub struct Agent<'a> {
    pub machine: &'a Machine,
    pub coordinator: &'a str,
    pub host: &'a str,
    /// Kept in a file that only the service's user reads.
    pub token: Option<&'a str>,
}

/// Everything that a host needs, from a bare system to a running agent.
pub fn agent(of: &Agent<'_>) -> Vec<Step> {
    let machine = of.machine;
    let mut steps = common(machine);
    if let Some(kit) = &machine.kit {
        steps.push(open_folder("/usr/share/sweep"));
        steps.push(Step::Copy {
            from: kit.clone(),
            to: KIT.into(),
            mode: 0o644,
        });
    }
    steps.push(open_folder("/etc/sweep"));
    steps.push(Step::Write {
        path: HOST_FILE.into(),
        text: host_file(of.host),
        mode: 0o644,
        owner: None,
        keep: true,
    });
    let token = of.token.map(|token| Step::Write {
        path: JOIN_TOKEN.into(),
        text: format!("{token}\n"),
        mode: 0o600,
        owner: Some(machine.user.clone()),
        keep: false,
    });
    let joins = token.is_some();
    steps.extend(token);
    let mut start = format!(
        "{PROGRAM} --data {DATA} agent run --config {HOST_FILE} --coordinator {}",
        of.coordinator
    );
    if joins {
        start.push_str(&format!(" --token-file {JOIN_TOKEN}"));
    }
    steps.extend(unit("sweep-agent", &filled(AGENT, machine, &start)));
    steps
}

pub fn coordinator(machine: &Machine, listen: SocketAddr) -> Vec<Step> {
    let mut steps = common(machine);
    let start = format!("{PROGRAM} --data {DATA} coordinator run --listen {listen}");
    steps.extend(unit(
        "sweep-coordinator",
        &filled(COORDINATOR, machine, &start),
    ));
    steps
}

/// Ends the service and takes its unit away. Data, host file and running attempts stay.
pub fn removal(name: &str) -> Vec<Step> {
    let unit = format!("{name}.service");
    vec![
        Step::Run {
            words: ["systemctl", "disable", "--now", &unit]
                .map(str::to_owned)
                .into(),
            may_fail: true,
        },
        Step::Remove { path: place(name) },
        Step::run(&["systemctl", "daemon-reload"]),
    ]
}

fn common(machine: &Machine) -> Vec<Step> {
    vec![
        Step::Copy {
            from: machine.program.clone(),
            to: PROGRAM.into(),
            mode: 0o755,
        },
        Step::User {
            name: machine.user.clone(),
            home: DATA.into(),
        },
        Step::Folder {
            path: DATA.into(),
            mode: 0o700,
            owner: Some(machine.user.clone()),
        },
    ]
}

/// For everybody to look into, whatever the installer's umask says.
fn open_folder(path: &str) -> Step {
    Step::Folder {
        path: path.into(),
        mode: 0o755,
        owner: None,
    }
}

fn place(name: &str) -> PathBuf {
    Path::new("/etc/systemd/system").join(format!("{name}.service"))
}

fn unit(name: &str, text: &str) -> [Step; 4] {
    let unit = format!("{name}.service");
    [
        Step::Write {
            path: place(name),
            text: text.to_owned(),
            mode: 0o644,
            owner: None,
            keep: false,
        },
        Step::run(&["systemctl", "daemon-reload"]),
        Step::run(&["systemctl", "enable", &unit]),
        // Also where an older one runs: attempts go on without an agent.
        Step::run(&["systemctl", "restart", &unit]),
    ]
}

/// The shipped unit, with this user and command, and no group that the system lacks.
fn filled(unit: &str, machine: &Machine, start: &str) -> String {
    let mut text = String::new();
    for line in unit.lines() {
        let line = match line.split_once('=') {
            Some(("User", _)) => format!("User={}", machine.user),
            // A percent sign begins a specifier there.
            Some(("ExecStart", _)) => format!("ExecStart={}", start.replace('%', "%%")),
            Some(("SupplementaryGroups", names)) => {
                let known = names
                    .split(' ')
                    .filter(|name| machine.groups.iter().any(|group| group == name));
                format!(
                    "SupplementaryGroups={}",
                    known.collect::<Vec<_>>().join(" ")
                )
            }
            _ => line.to_owned(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn host_file(name: &str) -> String {
    format!(
        "# This host, for `sweep agent run --config`. Its GPUs are found by their drivers; every key there is:\n\
         # deploy/agent.example.toml of the source tree, docs/operations.md. Look with: sweep agent doctor --config FILE\n\
         name = \"{name}\"\n\
         # python = \"/opt/venv/bin/python\"\n\n\
         # Of one attempt; the rest of the host is the system's.\n\
         [limits]\nprobe_memory = \"12 GiB\"\n\n\
         # Rehearsals of steps, and jobs that need no GPU.\n\
         [[device]]\nkind = \"cpu\"\nslots = 2\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            program: "/build/sweep".into(),
            kit: Some("/build/kit".into()),
            user: "worker".into(),
            groups: vec!["video".into(), "wheel".into()],
        }
    }

    fn written<'s>(steps: &'s [Step], path: &str) -> &'s Step {
        let is_it =
            |step: &&Step| matches!(step, Step::Write { path: to, .. } if to == Path::new(path));
        steps.iter().find(is_it).expect("it is written")
    }

    #[test]
    fn an_agent_gets_its_words_and_keeps_its_token_to_itself() {
        let machine = machine();
        let steps = agent(&Agent {
            machine: &machine,
            coordinator: "https://keeper:7480",
            host: "box",
            token: Some("sweep_secret"),
        });
        let unit = written(&steps, "/etc/systemd/system/sweep-agent.service");
        let Step::Write {
            text, mode: 0o644, ..
        } = unit
        else {
            panic!("{unit:?}")
        };
        for line in [
            "User=worker",
            "SupplementaryGroups=video",
            "ExecStart=/usr/bin/sweep --data /var/lib/sweep agent run --config /etc/sweep/agent.toml --coordinator \
             https://keeper:7480 --token-file /etc/sweep/join.token",
            "KillMode=process",
        ] {
            assert!(text.lines().any(|one| one == line), "no {line} in {text}");
        }
        let token = written(&steps, JOIN_TOKEN);
        assert!(
            matches!(token, Step::Write { mode: 0o600, owner: Some(owner), .. } if owner == "worker")
        );
        assert!(
            steps
                .iter()
                .all(|step| !step.shown().contains("sweep_secret"))
        );
        assert!(matches!(
            written(&steps, HOST_FILE),
            Step::Write { keep: true, .. }
        ));
    }

    #[test]
    fn a_coordinator_listens_where_it_is_told() {
        let steps = coordinator(&machine(), "0.0.0.0:7480".parse().expect("an address"));
        let Step::Write { text, .. } =
            written(&steps, "/etc/systemd/system/sweep-coordinator.service")
        else {
            panic!("no unit")
        };
        assert!(text.contains("coordinator run --listen 0.0.0.0:7480\n"));
        assert_eq!(removal("sweep-agent").len(), 3);
    }
}
