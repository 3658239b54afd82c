//! One broker after the other on one data set: what the one left the other serves, changes and
//! delivers, and leaves its own to the next.

use crate::Version::{self, Earlier, This};
use crate::ledger::Ledger;
use crate::stage::{SOON, call, eventually, field_of, info, list, offer, say};
use crate::support::random::Random;
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};

/// With a list and without, in both formats, and names with braces.
const QUEUES: [&str; 6] = ["plain", "legacy", "listless", "x{y}z", "{braces}", "paused"];
const SETTINGS: &str = "[[queues]]\nname = \"legacy\"\nformat = \"legacy\"\n\
    [[queues]]\nname = \"listless\"\norder_list = false\n\
    [[queues]]\nname = \"{braces}\"\n";

/// Pending for an hour, of one queue, as one broker left it.
#[derive(Default)]
struct Left {
    by_id: Vec<(String, String)>,
    named: Vec<String>,
}

struct Scene {
    redis: Redis,
    direct: Client,
    ledger: Ledger,
    random: Random,
    left: Vec<Left>,
    /// In the order of offering, in the queue `polled`.
    polled: Vec<String>,
}

fn field(reply: &Value, name: &str) -> String {
    field_of(reply, name).unwrap_or_else(|| panic!("{name}: {reply:?}")).text()
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let redis = Redis::spawn(&[]);
        let mut queues = QUEUES.to_vec();
        queues.push("polled");
        Scene {
            direct: redis.client(0),
            ledger: Ledger::new(&redis, &queues),
            redis,
            random: Random::new(seed),
            left: QUEUES.map(|_| Left::default()).into(),
            polled: Vec::new(),
        }
    }

    /// Starts this version, has it take over all that is there, offer as much, and end.
    fn turn(&mut self, turn: usize, version: Version, file: &str, end: &str) {
        let mut broker = version.start_with_file(&self.redis.url(0), file);
        let mut client = broker.client();
        for (at, queue) in QUEUES.into_iter().enumerate() {
            let left = std::mem::take(&mut self.left[at]);
            self.take_over(&mut client, queue, left);
        }
        self.end_the_pause(&mut client);
        self.poll(&mut client);
        for (at, queue) in QUEUES.into_iter().enumerate() {
            self.left[at] = self.leave(&mut client, turn, queue);
        }
        assert_eq!(say(&mut client, "DQ.PAUSE paused").text(), "OK");
        assert_eq!(info(&mut client, "paused", "paused"), Value::Int(1));
        drop(client);
        broker.signal(end);
        let status = broker.wait(SOON);
        assert!(status.success() || end == "KILL", "{version:?}: {status}; {}", broker.log());
    }

    /// Each command finds what another version stored.
    fn take_over(&mut self, client: &mut Client, queue: &str, left: Left) {
        if left.by_id.is_empty() {
            return;
        }
        let pending = say(client, &format!("DQ.SIZE {queue}")).int() as usize;
        assert!(pending >= left.by_id.len() + left.named.len(), "{queue}: {pending}");
        for (id, payload) in &left.by_id {
            let shown = call(client, &["DQ.GET", queue, id]);
            assert_eq!(field(&shown, "payload"), *payload, "{queue}");
            assert_eq!(field(&shown, "id"), *id, "{queue}");
            let contains = call(client, &["DQ.CONTAINS", queue, payload, "not there"]);
            assert_eq!(contains.texts(), ["1", "0"], "{queue}");
        }
        let ledger = &self.ledger;
        let (one, none) = (Value::Int(1), Value::Int(0));
        let (id, payload) = &left.by_id[0];
        assert_eq!(call(client, &["DQ.CANCEL", queue, id]), one, "{queue}");
        assert_eq!(call(client, &["DQ.CANCEL", queue, id]), none, "{queue}");
        ledger.take_back(queue, payload);
        let (_, payload) = &left.by_id[1];
        assert_eq!(call(client, &["DQ.REMOVE", queue, payload]), one, "{queue}");
        ledger.take_back(queue, payload);
        let (id, payload) = &left.by_id[2];
        let later = call(client, &["DQ.RESCHEDULE", queue, id, "400"]).text();
        ledger.promise(queue, payload, &later);
        for (id, payload) in &left.by_id[3..] {
            ledger.promise_now(queue, payload);
            assert_eq!(call(client, &["DQ.FIRE", queue, id]), one, "{queue}");
        }
        let [cancelled, replaced, later, fired] = &left.named[..] else { panic!("{queue}") };
        assert_eq!(call(client, &["DQ.CANCEL", queue, cancelled]), one, "{queue}");
        ledger.take_back(queue, cancelled);
        let again = call(client, &["DQ.OFFER", queue, "1h", "no", "NAME", replaced, "NX"]);
        assert_eq!(again, Value::Null, "{queue}");
        let payload = format!("{replaced} anew");
        let id = offer(client, &[queue, "300", &payload, "NAME", replaced, "XX"]);
        ledger.take_back(queue, replaced);
        ledger.promise(queue, &payload, &id);
        let id = call(client, &["DQ.RESCHEDULE", queue, later, "200"]).text();
        ledger.promise(queue, later, &id);
        ledger.promise_now(queue, fired);
        assert_eq!(call(client, &["DQ.FIRE", queue, fired]), one, "{queue}");
    }

    /// What was paused by another version is still, though it is due, and comes at its end.
    fn end_the_pause(&mut self, client: &mut Client) {
        if self.left[0].by_id.is_empty() && info(client, "paused", "paused") == Value::Int(0) {
            return;
        }
        let (before, pending) = (self.ledger.came_to("paused"), info(client, "paused", "pending"));
        assert_eq!(info(client, "paused", "paused"), Value::Int(1));
        assert_eq!(info(client, "paused", "paused_until"), Value::Int(-1));
        eventually("it is well overdue", || {
            (info(client, "paused", "oldest_overdue_ms").int() > 300).then_some(())
        });
        assert_eq!(info(client, "paused", "pending"), pending, "moved while paused");
        assert_eq!(say(client, "DQ.RESUME paused").text(), "OK");
        eventually("the end of the pause", || {
            (self.ledger.came_to("paused") > before).then_some(())
        });
    }

    /// The order of offering goes through all versions.
    fn poll(&mut self, client: &mut Client) {
        let wanted: Vec<String> = self.polled.drain(..self.polled.len().min(3)).collect();
        if !wanted.is_empty() {
            assert_eq!(say(client, "DQ.POLL polled COUNT 3").texts(), wanted);
        }
    }

    /// Messages that are due soon, and some for the next version.
    fn leave(&mut self, client: &mut Client, turn: usize, queue: &str) -> Left {
        for n in 0..40 {
            let delay = self.random.below(2_500).to_string();
            let payload = format!("{turn} soon {n}");
            self.ledger.promise(queue, &payload, &offer(client, &[queue, &delay, &payload]));
        }
        let many: Vec<String> = (0..20).map(|n| format!("{turn} many {n}")).collect();
        let mut command = vec!["DQ.MOFFER", queue];
        many.iter().for_each(|payload| command.extend(["1500", payload]));
        let ids = call(client, &command).texts();
        assert_eq!(ids.len(), many.len(), "{queue}: {ids:?}");
        many.iter().zip(&ids).for_each(|(payload, id)| self.ledger.promise(queue, payload, id));
        let mut left = Left::default();
        for n in 0..6 {
            let payload = format!("{turn} later {n}");
            let id = offer(client, &[queue, "1h", &payload]);
            self.ledger.promise(queue, &payload, &id);
            left.by_id.push((id, payload));
        }
        for n in 0..4 {
            let name = format!("{turn} named {n}");
            let id = offer(client, &[queue, "2h", &name, "NAME", &name]);
            self.ledger.promise(queue, &name, &id);
            left.named.push(name);
        }
        if queue == "plain" {
            for n in 0..5 {
                let payload = format!("{turn} polled {n}");
                offer(client, &["polled", "1h", &payload]);
                self.polled.push(payload);
            }
        }
        left
    }

    /// All that is left is due now, the rest of what may be polled is dropped.
    fn end(&mut self, client: &mut Client) {
        for (at, queue) in QUEUES.into_iter().enumerate() {
            let left = std::mem::take(&mut self.left[at]);
            let ids = left.by_id.into_iter();
            for (message, payload) in ids.chain(left.named.into_iter().map(|n| (n.clone(), n))) {
                self.ledger.promise_now(queue, &payload);
                assert_eq!(call(client, &["DQ.FIRE", queue, &message]), Value::Int(1), "{queue}");
            }
        }
        let dropped = say(client, "DQ.CLEAR polled").int() as usize;
        assert_eq!(dropped, self.polled.len());
        say(client, "DQ.RESUME paused");
        self.ledger.settle(&mut self.direct);
    }
}

/// There and back and there again; stopped as an operator does it, and as a crash does.
#[test]
fn each_serves_what_the_other_left() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broker.toml");
    std::fs::write(&file, SETTINGS).unwrap();
    let file = file.to_str().unwrap();
    for (seed, end) in [(7, "TERM"), (11, "KILL")] {
        let mut scene = Scene::new(seed);
        for (turn, version) in [Earlier, This, Earlier, This].into_iter().enumerate() {
            scene.turn(turn, version, file, end);
        }
        // The earlier one has the last word: nothing that this one wrote keeps it from its work.
        let broker = Earlier.start_with_file(&scene.redis.url(0), file);
        scene.end(&mut broker.client());
    }
}

/// Messages that nobody could read, put aside by the one, are shown and dropped by the other.
#[test]
fn each_reads_the_quarantine_of_the_other() {
    for (first, second) in [(Earlier, This), (This, Earlier)] {
        let redis = Redis::spawn(&[]);
        let mut direct = redis.client(0);
        call(&mut direct, &["ZADD", "redisson_delay_queue_timeout:{q}", "1", "unreadable"]);
        call(&mut direct, &["ZADD", "redisson_delay_queue_timeout:{q}", "2", "this one too"]);
        let mut broker = first.start(&redis.url(0), &[]);
        eventually("both are put aside", || {
            let count = say(&mut direct, "ZCARD delay_broker_quarantine:{q}");
            (count == Value::Int(2)).then_some(())
        });
        broker.signal("TERM");
        broker.wait(SOON);
        let broker = second.start(&redis.url(0), &[]);
        let mut client = broker.client();
        let shown = say(&mut client, "DQ.QUARANTINE q LIST");
        let members: Vec<String> =
            shown.elements().iter().map(|one| field(one, "member")).collect();
        assert_eq!(members, ["unreadable", "this one too"], "{second:?}");
        assert_eq!(say(&mut client, "DQ.QUARANTINE q DROP"), Value::Int(2), "{second:?}");
        assert_eq!(list(&mut direct, "q"), [""; 0]);
    }
}
