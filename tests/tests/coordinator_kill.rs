//! The coordinator dies 20 times at random moments in the middle of a sweep, with submissions coming in all the time.
//! What was acknowledged is kept, nothing runs twice, and whoever watches sees it through to the end.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use whole::{Coordinator, Random, Room, SOON, all_succeeded, attempts, text, until};

const KILLS: u32 = 20;

/// Says that it ran, does some work, and the last one waits until all kills are over.
const WORK: &str = r#"
echo "$SWEEP_ATTEMPT" >> "$ROOM/ran"
echo "begins $1"
if [ "$1" = 30 ]; then
  until [ -e "$ROOM/over" ]; do sleep 0.05; done
else
  sleep 0.2
fi
echo "ends $1"
printf '{"metric": {"loss": 0.5}, "step": 1}\n{"result": {"n": %s}}\n' "$1" >> "$SWEEP_REPORT"
"#;

#[test]
fn twenty_kills_lose_nothing_and_repeat_nothing() {
    let room = Room::new();
    let mut random = Random::seeded();
    room.program("work.sh", WORK);
    let run = "[train]\nrun = [\"sh\", \"{kit}/work.sh\", \"{n}\"]";
    let numbers: Vec<String> = (1..=30).map(|n| n.to_string()).collect();
    let large = room.sweep_file("large", &format!("n = [{}]", numbers.join(", ")), run);
    let small = room.sweep_file("small", "n = [101, 102]", run);

    let mut coordinator = room.coordinator();
    let _agent = room.agent("box", 4, &coordinator.url);
    let sweep = coordinator.submit(&room, &large);
    let mut watch = coordinator.start_sweep(&room, &["watch", &sweep]);
    until("the watcher follows", SOON, || {
        !watch.out_so_far().is_empty() || watch.has_ended()
    });
    assert!(
        !watch.has_ended(),
        "the watcher has left before the first kill"
    );

    let submitter = Submitter::new(&coordinator, &small);
    let acknowledged = std::thread::scope(|scope| {
        let submitting = scope.spawn(|| submitter.run());
        for _ in 0..KILLS {
            random.moment(Duration::from_millis(400));
            coordinator.kill9();
            random.moment(Duration::from_millis(100));
            coordinator.start_again();
        }
        submitter.over.store(true, Ordering::SeqCst);
        submitting.join().expect("the submitter")
    });
    assert!(
        !acknowledged.is_empty(),
        "no submission was acknowledged at all: nothing is shown"
    );
    room.open("over");

    let watched = watch.finish(Duration::from_secs(120));
    watched.code(0);
    let mut ran_once: BTreeSet<String> = BTreeSet::new();
    for id in acknowledged.iter().chain([&sweep]) {
        let document = coordinator.settled(&room, id);
        assert_eq!(document["sweep"]["state"], "succeeded", "{id}");
        // A coordinator's death is no reason for a second attempt.
        all_succeeded(&document);
        ran_once.extend(
            attempts(&document)
                .iter()
                .map(|one| text(one, "id").to_owned()),
        );
    }
    let ran = room.lines("ran");
    let different: BTreeSet<String> = ran.iter().cloned().collect();
    assert_eq!(ran.len(), different.len(), "an attempt ran twice: {ran:?}");
    // What was stored but never acknowledged (the kill came between) may have run as well.
    assert!(ran_once.is_subset(&different), "counted without having run");

    assert_eq!(coordinator.stop(), Some(0));
    let data = coordinator.data.to_str().expect("plain text");
    let verified = room
        .sweep(&["--data", data, "coordinator", "verify", "--json"])
        .json();
    assert_eq!(verified["sound"], true, "{verified:#}");
}

/// Submits one small sweep after the other, whether there is a coordinator or not.
struct Submitter<'a> {
    url: String,
    file: &'a Path,
    over: AtomicBool,
}

impl<'a> Submitter<'a> {
    fn new(coordinator: &Coordinator, file: &'a Path) -> Self {
        Self {
            url: coordinator.url.clone(),
            file,
            over: AtomicBool::new(false),
        }
    }

    /// The ids that were acknowledged.
    fn run(&self) -> Vec<String> {
        // A room of its own for the output of these commands: the other thread uses the test's.
        let room = Room::new();
        let file = self.file.to_str().expect("plain text");
        let mut ids = Vec::new();
        while !self.over.load(Ordering::SeqCst) {
            let said = room.sweep(&["--coordinator", &self.url, "submit", file]);
            match said.code {
                Some(0) => ids.push(said.word()),
                // Away for the moment: then nothing was promised.
                Some(3) => {}
                _ => panic!("neither acknowledged nor unreachable: {said:?}"),
            }
        }
        ids
    }
}
