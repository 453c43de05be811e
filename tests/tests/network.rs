//! A bad wire between agent and coordinator: cut, silent, slow, broken again and again, half open. Within the grace
//! time nothing is started twice and nothing is lost; attempts do not notice.

use std::time::Duration;

use whole::{
    Agent, Coordinator, Host, Proxy, Random, Room, SOON, all_succeeded, attempt_processes, jobs,
    until,
};

const RUN: &str = "[train]\nrun = [\"sh\", \"{kit}/job.sh\", \"{n}\"]";
const WAITS: &str = "echo \"$SWEEP_ATTEMPT\" >> \"$ROOM/ran\"\necho begins\n\
    until [ -e \"$ROOM/go.$1\" ]; do sleep 0.02; done\necho ends\n";

struct Wired {
    room: Room,
    coordinator: Coordinator,
    proxy: Proxy,
    agent: Agent,
}

impl Wired {
    fn new(program: &str, slots: u32) -> Self {
        let room = Room::new();
        room.program("job.sh", program);
        let coordinator = room.coordinator();
        let proxy = Proxy::to(&coordinator.url);
        let agent = Host::new("box", slots).agent(&room, &proxy.url);
        Self {
            room,
            coordinator,
            proxy,
            agent,
        }
    }

    /// Submits jobs `1..=many`; the sweep's id.
    fn submit(&self, many: u32) -> String {
        let numbers: Vec<String> = (1..=many).map(|n| n.to_string()).collect();
        let file = self
            .room
            .sweep_file("wire", &format!("n = [{}]", numbers.join(", ")), RUN);
        self.coordinator.submit(&self.room, &file)
    }

    fn until_running(&self, sweep: &str, many: u32) {
        until("they run", SOON, || {
            (1..=many).all(|n| !attempt_processes(&format!("{sweep}/{n}/train/1")).is_empty())
        });
    }

    fn outcome(&self, sweep: &str, n: usize) -> serde_json::Value {
        jobs(&self.coordinator.show(&self.room, sweep))[n - 1]["outcome"].clone()
    }

    /// Every job ran exactly once, and its log is whole.
    fn all_ran_once(&self, sweep: &str, many: usize) {
        let document = self.coordinator.settled(&self.room, sweep);
        all_succeeded(&document);
        let ran = self.room.lines("ran");
        assert_eq!(ran.len(), many, "{ran:?}");
        for n in 1..=many {
            let log = self
                .coordinator
                .sweep(&self.room, &["logs", &format!("{sweep}/{n}/train")]);
            assert_eq!(log.code(0).out, "begins\nends\n");
        }
    }
}

#[test]
fn a_cut_wire_is_no_reason_to_start_again() {
    let wired = Wired::new(WAITS, 2);
    let sweep = wired.submit(3);
    wired.until_running(&sweep, 2);
    wired.proxy.cut();
    // One ends meanwhile; nobody can know it yet.
    wired.room.open("go.1");
    let ending = wired
        .agent
        .attempt(&format!("{sweep}/1/train/1"))
        .join("ending.json");
    until("it ends on its host", SOON, || ending.exists());
    assert!(
        wired.outcome(&sweep, 1).is_null(),
        "known through a cut wire"
    );
    wired.proxy.mend();
    until("its ending arrives", SOON, || {
        wired.outcome(&sweep, 1) == "succeeded"
    });
    wired.room.open("go.2");
    wired.room.open("go.3");
    wired.all_ran_once(&sweep, 3);
    assert!(wired.proxy.connections() >= 2);
}

#[test]
fn a_silent_wire_is_given_up_and_dialled_again() {
    let wired = Wired::new(WAITS, 2);
    let sweep = wired.submit(2);
    wired.until_running(&sweep, 2);
    wired.proxy.silence();
    wired.room.open("go.1");
    until("the agent notices that nobody answers", SOON, || {
        wired.agent.stderr().contains("no session")
    });
    // The old connections stay as they are; what was kept back arrives late, beside the new session's words.
    wired.proxy.mend();
    until("the ending arrives", SOON, || {
        wired.outcome(&sweep, 1) == "succeeded"
    });
    wired.room.open("go.2");
    wired.all_ran_once(&sweep, 2);
}

#[test]
fn an_agent_that_dials_in_twice_is_one_host() {
    let wired = Wired::new(WAITS, 2);
    let sweep = wired.submit(4);
    wired.until_running(&sweep, 2);
    for times in 2..=5 {
        // The coordinator still holds the session before when the next one comes.
        wired.proxy.break_callers_end();
        until("the agent dials in again", SOON, || {
            wired.proxy.connections() >= times
        });
    }
    for n in 1..=4 {
        wired.room.open(&format!("go.{n}"));
    }
    wired.all_ran_once(&sweep, 4);
    let hosts = wired
        .coordinator
        .sweep(&wired.room, &["hosts", "--json"])
        .json();
    assert_eq!(
        hosts["hosts"].as_array().map(Vec::len),
        Some(1),
        "{hosts:#}"
    );
    assert_eq!(
        hosts["hosts"][0]["generation"], 1,
        "its attempts were given up"
    );
}

#[test]
fn a_slow_wire_is_only_slow() {
    let wired = Wired::new(WAITS, 2);
    wired.proxy.delay(Duration::from_millis(80));
    for n in 1..=6 {
        wired.room.open(&format!("go.{n}"));
    }
    let sweep = wired.submit(6);
    wired.all_ran_once(&sweep, 6);
    assert_eq!(wired.proxy.connections(), 1, "slow is not lost");
}

#[test]
fn a_wire_that_breaks_again_and_again_delivers_every_byte_once() {
    let program = "echo \"$SWEEP_ATTEMPT\" >> \"$ROOM/ran\"\nfor i in 1 2 3 4 5 6 7 8 9 10; do\n\
        head -c 300000 /dev/urandom; sleep 0.1\ndone\n";
    let wired = Wired::new(program, 2);
    let mut random = Random::seeded();
    let sweep = wired.submit(4);
    for _ in 0..15 {
        random.moment(Duration::from_millis(300));
        wired.proxy.break_connections();
    }
    let document = wired.coordinator.settled(&wired.room, &sweep);
    all_succeeded(&document);
    assert_eq!(wired.room.lines("ran").len(), 4);
    for n in 1..=4 {
        let id = format!("{sweep}/{n}/train/1");
        let host = std::fs::read(wired.agent.attempt(&id).join("log")).expect("the host's log");
        let central = std::fs::read(
            wired
                .coordinator
                .data
                .join("attempts")
                .join(&id)
                .join("log"),
        )
        .expect("a log");
        assert_eq!(host.len(), 3_000_000);
        assert!(host == central, "the logs of {id} differ");
    }
    assert!(wired.proxy.connections() > 5, "it was hardly ever broken");
}
