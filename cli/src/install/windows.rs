//! What an agent's installation on Windows consists of: the steps, the service and the task at logon that they name.
//! Pure: looks at nothing and does nothing, so all of it is tested on any system.

use std::path::{Path, PathBuf};

use super::steps::Step;
use crate::service::SERVICE;

/// The account of the service and of nobody else: Windows makes it with the service, without a password.
pub const OWN_ACCOUNT: &str = r"NT SERVICE\sweep-agent";
/// May do everything on the machine, and so may every job.
pub const SYSTEM: &str = "LocalSystem";

/// By number, as their names differ by language: the system itself, and administrators.
const SYSTEM_SID: &str = "*S-1-5-18";
const ADMINISTRATORS_SID: &str = "*S-1-5-32-544";
const ALL_BELOW: &str = ":(OI)(CI)F";
const CHANGE_BELOW: &str = ":(OI)(CI)M";

/// Where Windows keeps what it knows of a source of events.
const EVENTS: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application\sweep-agent";

/// What starts the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// With the machine, also when nobody is logged on
    Service,
    /// When this user logs on: for cards that services cannot reach
    LogonTask,
}

/// Whose it is and where it goes.
#[derive(Debug)]
pub struct Machine {
    pub program: PathBuf,
    /// Absent: none was found, and sweeps bring their own.
    pub kit: Option<PathBuf>,
    /// `C:\Program Files`.
    pub programs: String,
    /// `C:\ProgramData`.
    pub data: String,
    /// Of the service; of a task the user who installs it.
    pub account: String,
}

pub struct Agent<'a> {
    pub machine: &'a Machine,
    pub coordinator: &'a str,
    pub host: &'a str,
    /// Kept in a file that only the agent's account and administrators read.
    pub token: Option<&'a str>,
    pub mode: Mode,
}

/// A service as Windows is to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub program: PathBuf,
    /// Not quoted yet.
    pub words: Vec<String>,
    pub account: String,
}

fn under(folder: &str, name: &str) -> PathBuf {
    // Said with Windows' own separator, whatever system looks at the plan.
    PathBuf::from(format!(r"{folder}\sweep{name}"))
}

/// Everything that a host needs, from a bare Windows to a running agent.
pub fn agent(of: &Agent<'_>) -> Vec<Step> {
    let machine = of.machine;
    let home = under(&machine.data, "");
    let program = under(&machine.programs, r"\sweep.exe");
    let mut steps = vec![
        Step::Folder {
            path: home.clone(),
            mode: 0,
            owner: None,
        },
        // Every user may read what is in ProgramData unless it is said otherwise.
        icacls(
            &home,
            &[
                "/inheritance:r",
                "/grant:r",
                &format!("{SYSTEM_SID}{ALL_BELOW}"),
                &format!("{ADMINISTRATORS_SID}{ALL_BELOW}"),
            ],
        ),
        Step::Copy {
            from: machine.program.clone(),
            to: program.clone(),
            mode: 0,
        },
    ];
    if let Some(kit) = &machine.kit {
        steps.push(Step::Copy {
            from: kit.clone(),
            to: under(&machine.programs, r"\kit"),
            mode: 0,
        });
    }
    steps.push(Step::Write {
        path: host_file(machine),
        text: host_text(of.host),
        mode: 0,
        owner: None,
        keep: true,
    });
    steps.extend(of.token.map(|token| Step::Write {
        path: join_token(machine),
        text: format!("{token}\n"),
        mode: 0,
        owner: None,
        keep: false,
    }));
    let account = format!("{}{CHANGE_BELOW}", machine.account);
    let grant = icacls(&home, &["/grant:r", &account]);
    match of.mode {
        Mode::Service => {
            steps.push(delete_task());
            steps.push(Step::Service(Service {
                program,
                words: words(of, "service"),
                account: machine.account.clone(),
            }));
            // Its account is there once the service is. The system's own has its rights already.
            if machine.account != SYSTEM {
                steps.push(grant);
            }
            // What an event of this source says is its own text.
            steps.push(Step::Run {
                words: [
                    "reg",
                    "add",
                    EVENTS,
                    "/v",
                    "EventMessageFile",
                    "/t",
                    "REG_EXPAND_SZ",
                    "/d",
                    r"%SystemRoot%\System32\EventCreate.exe",
                    "/f",
                ]
                .map(str::to_owned)
                .to_vec(),
                may_fail: true,
            });
            steps.push(Step::RestartService(SERVICE));
        }
        Mode::LogonTask => {
            steps.push(Step::RemoveService(SERVICE));
            steps.push(grant);
            let file = under(&machine.data, r"\logon-task.xml");
            steps.push(Step::WriteWide {
                path: file.clone(),
                text: task(&program, &words(of, "logon-task"), &machine.account),
            });
            let file = file.display().to_string();
            steps.push(schtasks(&["/End", "/TN", SERVICE], true));
            steps.push(schtasks(
                &["/Create", "/TN", SERVICE, "/XML", &file, "/F"],
                false,
            ));
            steps.push(schtasks(&["/Run", "/TN", SERVICE], false));
        }
    }
    steps
}

/// Ends the agent and takes service and task away. Data, host file and running attempts stay.
pub fn removal() -> Vec<Step> {
    vec![
        Step::RemoveService(SERVICE),
        schtasks(&["/End", "/TN", SERVICE], true),
        delete_task(),
        Step::Run {
            words: ["reg", "delete", EVENTS, "/f"].map(str::to_owned).to_vec(),
            may_fail: true,
        },
    ]
}

fn host_file(machine: &Machine) -> PathBuf {
    under(&machine.data, r"\agent.toml")
}

fn join_token(machine: &Machine) -> PathBuf {
    under(&machine.data, r"\join.token")
}

/// What `sweep.exe` is started with.
fn words(of: &Agent<'_>, how: &str) -> Vec<String> {
    let said = |path: PathBuf| path.display().to_string();
    let data = said(under(&of.machine.data, r"\data"));
    let config = said(host_file(of.machine));
    let mut words = vec!["--data", &data, "agent", "run", "--under", how];
    words.extend(["--config", &config, "--coordinator", of.coordinator]);
    let token = said(join_token(of.machine));
    if of.token.is_some() {
        words.extend(["--token-file", &token]);
    }
    words.into_iter().map(str::to_owned).collect()
}

fn icacls(path: &Path, words: &[&str]) -> Step {
    let path = path.display().to_string();
    Step::run(&[&["icacls", path.as_str()], words].concat())
}

fn schtasks(words: &[&str], may_fail: bool) -> Step {
    let all = [&["schtasks"], words].concat();
    Step::Run {
        words: all.into_iter().map(str::to_owned).collect(),
        may_fail,
    }
}

fn delete_task() -> Step {
    schtasks(&["/Delete", "/TN", SERVICE, "/F"], true)
}

/// A task that starts when the user logs on, is started again when it fails, and has no end by itself.
fn task(program: &Path, words: &[String], user: &str) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let template = include_str!("../../../deploy/windows/logon-task.xml");
    let filled = [
        ("@USER@", user.to_owned()),
        ("@PROGRAM@", program.display().to_string()),
        ("@WORDS@", words.join(" ")),
    ];
    filled
        .iter()
        .fold(template.to_owned(), |text, (name, value)| {
            text.replace(name, &in_xml(value))
        })
}

/// As Windows programs take their command line apart: in quotation marks where it has a blank. None of the words has
/// a quotation mark itself, as addresses are checked and paths cannot have one.
fn quoted(word: &str) -> String {
    if word.contains([' ', '\t']) || word.is_empty() {
        format!("\"{word}\"")
    } else {
        word.to_owned()
    }
}

fn in_xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn host_text(name: &str) -> String {
    format!(
        "# This host, for `sweep agent run --config`. Its GPUs are found by their drivers; every key there is:\r\n\
         # deploy/agent.example.toml of the source tree, docs/operations.md. Paths in single quotation marks.\r\n\
         # Look with: sweep agent doctor --config FILE\r\n\
         name = \"{name}\"\r\n\
         # python = 'C:\\venv\\Scripts\\python.exe'\r\n\r\n\
         # Jobs that need no GPU, and rehearsals of steps.\r\n\
         [[device]]\r\nkind = \"cpu\"\r\nslots = 2\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(account: &str) -> Machine {
        Machine {
            program: "sweep.exe".into(),
            kit: Some("kit".into()),
            programs: r"C:\Program Files".to_owned(),
            data: r"C:\ProgramData".to_owned(),
            account: account.to_owned(),
        }
    }

    fn steps(mode: Mode, account: &str) -> Vec<Step> {
        agent(&Agent {
            machine: &machine(account),
            coordinator: "https://keeper:7480",
            host: "tower",
            token: Some("sweep_secret"),
            mode,
        })
    }

    #[test]
    fn a_service_has_its_own_account_and_the_token_is_shown_to_nobody() {
        let steps = steps(Mode::Service, OWN_ACCOUNT);
        let service = steps.iter().find_map(|step| match step {
            Step::Service(service) => Some(service),
            _ => None,
        });
        let service = service.expect("there is one");
        assert_eq!(
            service.program,
            Path::new(r"C:\Program Files\sweep\sweep.exe")
        );
        assert_eq!(
            service.words.join(" "),
            r"--data C:\ProgramData\sweep\data agent run --under service --config C:\ProgramData\sweep\agent.toml --coordinator https://keeper:7480 --token-file C:\ProgramData\sweep\join.token"
        );
        assert_eq!(service.account, OWN_ACCOUNT);
        let shown: Vec<String> = steps.iter().map(Step::shown).collect();
        assert!(shown.iter().all(|line| !line.contains("sweep_secret")));
        // Closed before the token lies there, and opened for the account once that exists.
        let at = |text: &str| {
            let found = shown.iter().position(|line| line.contains(text));
            found.unwrap_or_else(|| panic!("no {text} in {shown:#?}"))
        };
        assert!(at("/inheritance:r") < at("join.token"));
        assert!(at("service sweep-agent") < at(r"NT SERVICE\sweep-agent:(OI)(CI)M"));
        let restart = at("start the service sweep-agent");
        assert_eq!(restart + 1, shown.len());
    }

    #[test]
    fn the_systems_own_account_needs_no_further_right() {
        let steps = steps(Mode::Service, SYSTEM);
        let grants = steps.iter().filter(|step| step.shown().contains("(CI)M"));
        assert_eq!(grants.count(), 0);
    }

    #[test]
    fn a_task_quotes_what_has_blanks_and_escapes_what_xml_has_itself() {
        let machine = Machine {
            data: r"D:\R & D files".to_owned(),
            ..machine(r"TOWER\Ann & Bob")
        };
        let steps = agent(&Agent {
            machine: &machine,
            coordinator: "http://keeper:7480",
            host: "tower",
            token: None,
            mode: Mode::LogonTask,
        });
        let text = steps.iter().find_map(|step| match step {
            Step::WriteWide { text, .. } => Some(text.clone()),
            _ => None,
        });
        let text = text.expect("a task");
        for part in [
            r"<UserId>TOWER\Ann &amp; Bob</UserId>",
            r"<Command>C:\Program Files\sweep\sweep.exe</Command>",
            r"<Arguments>--data &quot;D:\R &amp; D files\sweep\data&quot; agent run --under logon-task",
            "<ExecutionTimeLimit>PT0S</ExecutionTimeLimit>",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert!(!text.contains('@'), "everything is filled in");
    }

    #[test]
    fn either_mode_takes_the_other_away() {
        let has = |steps: &[Step], text: &str| steps.iter().any(|s| s.shown().contains(text));
        let service = steps(Mode::Service, OWN_ACCOUNT);
        assert!(has(&service, "schtasks /Delete /TN sweep-agent"));
        let task = steps(Mode::LogonTask, r"TOWER\ann");
        assert!(has(&task, "remove the service sweep-agent"));
        assert!(has(&task, r"TOWER\ann:(OI)(CI)M"));
        assert_eq!(removal().len(), 4);
    }
}
