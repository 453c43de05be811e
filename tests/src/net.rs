//! Hosts in network namespaces of their own, joined by a bridge: a wire that can be cut, made deaf, lossy, late and slow
//! by the kernel itself, under whatever speaks over it. Needs root and a few tools; where those are not, it says loudly
//! that the test is skipped. Nothing of this machine's own network is touched, and no packet can leave.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::project;

const TOOLS: [&str; 5] = ["ip", "tc", "iptables", "nsenter", "python3"];
const PREFIX: &str = "sweep-test-";
/// The range for examples, which is nobody's.
const RANGE: &str = "192.0.2";

pub struct Net {
    /// Of all its namespaces' names.
    name: String,
    hosts: Vec<String>,
    /// Programs that hold packets back.
    late: RefCell<Vec<(String, Child)>>,
}

impl Net {
    /// Each of these can reach each other one. Nothing where this machine cannot do that.
    #[must_use]
    pub fn new(hosts: &[&str]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if let Err(why) = possible() {
            skipped(&why);
            return None;
        }
        clear_away_others();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let net = Self {
            name: format!("{PREFIX}{}-{number}", std::process::id()),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            late: RefCell::default(),
        };
        let switch = net.space("switch");
        if let Err(why) = tried("ip", &["netns", "add", &switch]) {
            skipped(&why);
            return None;
        }
        run(
            "ip",
            &["-n", &switch, "link", "add", "bridge", "type", "bridge"],
        );
        run("ip", &["-n", &switch, "link", "set", "bridge", "up"]);
        for host in hosts {
            net.plug(&switch, host);
        }
        Some(net)
    }

    fn plug(&self, switch: &str, host: &str) {
        let (space, port) = (self.space(host), port(host));
        let address = format!("{}/24", self.address(host));
        run("ip", &["netns", "add", &space]);
        let pair = ["link", "add", &port, "type", "veth", "peer", "name", "eth0"];
        run(
            "ip",
            &[&["-n", switch], &pair[..], &["netns", &space]].concat(),
        );
        run(
            "ip",
            &["-n", switch, "link", "set", &port, "master", "bridge"],
        );
        run("ip", &["-n", switch, "link", "set", &port, "up"]);
        run(
            "ip",
            &["-n", &space, "addr", "add", &address, "dev", "eth0"],
        );
        run("ip", &["-n", &space, "link", "set", "eth0", "up"]);
        run("ip", &["-n", &space, "link", "set", "lo", "up"]);
    }

    fn space(&self, host: &str) -> String {
        format!("{}-{host}", self.name)
    }

    /// What `nsenter --net=` takes.
    #[must_use]
    pub fn inside(&self, host: &str) -> String {
        format!("/run/netns/{}", self.space(host))
    }

    #[must_use]
    pub fn address(&self, host: &str) -> String {
        let at = self.hosts.iter().position(|one| one == host);
        format!("{RANGE}.{}", at.expect("one of its hosts") + 1)
    }

    /// Its cable is pulled out.
    pub fn cut(&self, host: &str) {
        let switch = self.space("switch");
        run("ip", &["-n", &switch, "link", "set", &port(host), "down"]);
    }

    /// Nothing arrives there any more; what it sends does.
    pub fn deafen(&self, host: &str) {
        self.rule(host, &["-A", "INPUT", "-i", "eth0", "-j", "DROP"]);
    }

    /// What `from` sends arrives at `at` no more; the other way is open.
    pub fn mute(&self, from: &str, at: &str) {
        self.rule(
            at,
            &["-A", "INPUT", "-s", &self.address(from), "-j", "DROP"],
        );
    }

    /// So many percent of what arrives there are lost. False where the kernel cannot do that.
    #[must_use]
    pub fn lose(&self, host: &str, percent: u32) -> bool {
        let share = format!("{:.2}", f64::from(percent) / 100.0);
        let rule = [
            "-A",
            "INPUT",
            "-i",
            "eth0",
            "-m",
            "statistic",
            "--mode",
            "random",
        ];
        let rule = [&rule[..], &["--probability", &share, "-j", "DROP"]].concat();
        let done = self.tried_rule(host, &rule);
        done.map_err(|why| skipped(&why)).is_ok()
    }

    /// What arrives there comes so much later. False where the kernel cannot do that.
    #[must_use]
    pub fn delay(&self, host: &str, millis: u32) -> bool {
        // Where packets arrive: held back where they leave, TCP would send no more of them before they are gone.
        let rule = [
            "-A",
            "INPUT",
            "-i",
            "eth0",
            "-j",
            "NFQUEUE",
            "--queue-num",
            "0",
        ];
        if let Err(why) = self.tried_rule(host, &rule) {
            skipped(&why);
            return false;
        }
        let program = project().join("tests/partitions/late.py");
        let mut child = Command::new("nsenter")
            .arg(format!("--net={}", self.inside(host)))
            .arg("python3")
            .arg(program)
            .arg(millis.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("nsenter");
        let mut line = String::new();
        let said = BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line);
        self.late.borrow_mut().push((host.to_owned(), child));
        assert!(said.is_ok() && line == "holding\n", "late.py said {line:?}");
        true
    }

    /// What it sends goes out at so many kbit/s.
    pub fn slow(&self, host: &str, kbit: u32) {
        let rate = format!("{kbit}kbit");
        let shape = ["qdisc", "add", "dev", "eth0", "root", "tbf", "rate", &rate];
        let shape = [&shape[..], &["burst", "4kb", "latency", "400ms"]].concat();
        run("tc", &[&["-n", &self.space(host)], &shape[..]].concat());
    }

    /// All is well again.
    pub fn mend(&self, host: &str) {
        self.rule(host, &["-F"]);
        for (_, child) in self
            .late
            .borrow_mut()
            .iter_mut()
            .filter(|one| one.0 == host)
        {
            end(child);
        }
        let space = self.space(host);
        // There may be no such discipline.
        let _ = tried("tc", &["-n", &space, "qdisc", "del", "dev", "eth0", "root"]);
        let switch = self.space("switch");
        run("ip", &["-n", &switch, "link", "set", &port(host), "up"]);
    }

    /// Packets that its rules have dropped or held back.
    #[must_use]
    pub fn touched(&self, host: &str) -> u64 {
        let space = format!("--net={}", self.inside(host));
        let listed = run(
            "nsenter",
            &[&space, "iptables", "-w", "-L", "INPUT", "-v", "-n", "-x"],
        );
        let count = |line: &str| line.split_whitespace().next()?.parse::<u64>().ok();
        listed.lines().skip(2).filter_map(count).sum()
    }

    /// What `program` says, run by Python as one that is there.
    #[must_use]
    pub fn python(&self, host: &str, program: &str) -> String {
        let space = format!("--net={}", self.inside(host));
        run("nsenter", &[&space, "python3", "-c", program])
            .trim()
            .to_owned()
    }

    fn rule(&self, host: &str, rule: &[&str]) {
        self.tried_rule(host, rule)
            .unwrap_or_else(|why| panic!("{why}"));
    }

    fn tried_rule(&self, host: &str, rule: &[&str]) -> Result<String, String> {
        let space = format!("--net={}", self.inside(host));
        tried(
            "nsenter",
            &[&[space.as_str(), "iptables", "-w"], rule].concat(),
        )
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for (_, child) in self.late.borrow_mut().iter_mut() {
            end(child);
        }
        remove(&format!("{}-", self.name));
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// On the switch.
fn port(host: &str) -> String {
    format!("p-{host}")
}

fn possible() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("network namespaces need root".to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |tool: &str| std::env::split_paths(&path).any(|folder| folder.join(tool).exists());
    match TOOLS.iter().find(|tool| !has(tool)) {
        Some(tool) => Err(format!(
            "there is no `{tool}` (apt-get install iproute2 iptables)"
        )),
        None => Ok(()),
    }
}

/// Past the test runner, which keeps what a test that passes has said to itself.
fn skipped(why: &str) {
    let test = std::thread::current();
    let name = test.name().unwrap_or("a test");
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED {name}: no network of its own: {why}"
    );
}

/// Those of tests that were killed.
fn clear_away_others() {
    for name in spaces().lines().filter_map(|line| line.split(' ').next()) {
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        if let Some(owner) = owner.filter(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&format!("{PREFIX}{owner}-"));
        }
    }
}

fn remove(begin: &str) {
    for name in spaces().lines().filter_map(|line| line.split(' ').next()) {
        if name.starts_with(begin) {
            // Another test may have been faster.
            let _ = tried("ip", &["netns", "del", name]);
        }
    }
}

fn spaces() -> String {
    tried("ip", &["netns", "list"]).unwrap_or_default()
}

fn run(program: &str, words: &[&str]) -> String {
    tried(program, words).unwrap_or_else(|why| panic!("{why}"))
}

/// Its standard output.
fn tried(program: &str, words: &[&str]) -> Result<String, String> {
    let said = |output: Output| match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    };
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output();
    let result = output.map_err(|error| error.to_string()).and_then(said);
    result.map_err(|why| format!("`{program} {}`: {why}", words.join(" ")))
}
