//! One side offers and the other delivers: a JVM that is gone, a broker that is gone, and both of
//! them at once.

use crate::jvm::Jvm;
use crate::scene::{Scene, ask, done, now_ms, spread, warm};
use crate::stage::{delivered, due_of, info, metric, offer, say, sorted, take};
use crate::support::random::Random;
use crate::support::resp::{Client, Value};
use std::thread;
use std::time::Duration;

/// Redisson's own timers tick every 100 ms at worst, and the machine has other work: seconds.
const REDISSON_ON_TIME_MS: f64 = 5_100.0;
pub const BROKER_ON_TIME_MS: f64 = 5_000.0;
/// After this Redisson alone does not deliver it any more.
const LOST: Duration = Duration::from_secs(8);
const PATIENCE: Duration = Duration::from_secs(30);

/// A payload begins with its due time.
pub fn lateness_ms(payload: &str, taken_ms: f64) -> f64 {
    let due: f64 = payload.split(' ').next().unwrap().parse().unwrap();
    taken_ms - due
}

/// Neither early nor later than so much; as text.
pub fn on_time(late: Vec<f64>, at_most_ms: f64) -> String {
    for one in &late {
        assert!(*one >= 0.0, "{one} ms: early");
        assert!(*one < at_most_ms, "{one} ms late");
    }
    spread(late)
}

/// The JVM that offered has ended before the first is due, and the one that consumes starts after
/// the last was: it uses `RBlockingQueue.take` alone.
pub fn delivered_without_a_jvm(version: &'static str) -> String {
    const COUNT: usize = 100;
    let mut scene = Scene::new(version, &["later", "timed"]);
    let offering = scene.warm_jvm();
    let mut client = offering.client();
    for n in 0..10 {
        let reply = ask(&mut client, &["OFFER", "later", "1500", &n.to_string()]);
        assert_eq!(reply.text(), "OK");
    }
    say(&mut client, "OFFERMANY timed 100 x 1500 2500");
    offering.kill();
    let taking = |_| {
        let (payload, at_us) = take(&mut scene.redis, "timed");
        lateness_ms(&String::from_utf8(payload).unwrap(), at_us as f64 / 1_000.0)
    };
    let late = on_time((0..COUNT).map(taking).collect(), BROKER_ON_TIME_MS);
    delivered(&mut scene.redis, "later", 10);
    let consuming = scene.jvm();
    let mut client = consuming.client();
    // What Redisson offered within a millisecond comes in any order: its ids are random.
    let taken = (0..10).map(|_| ask(&mut client, &["TAKE", "later"]));
    let taken = sorted(taken.map(|taken| taken.elements()[0].text()).collect());
    assert_eq!(taken, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    let moved = metric(
        scene.broker.as_ref().unwrap(),
        "delay_broker_messages_delivered_total{queue=\"later\"}",
    );
    assert_eq!(moved, 10.0);
    late
}

/// What the broker's client offered, with the broker stopped: to a JVM that starts afterwards, and
/// to one that was there and had to be woken for an earlier message.
pub fn delivered_by_redisson(version: &'static str) -> String {
    let mut scene = Scene::new(version, &["before", "after"]);
    let jvm = scene.warm_jvm();
    let mut taking = jvm.client();
    let mut broker = scene.broker();
    offer(&mut broker, &["before", "1h", "the head until now"]);
    done(&mut taking, "HOLD before");
    let mut late = Vec::new();
    let mut due = Vec::new();
    for n in 0..5 {
        let delay = (1_000 + 100 * n).to_string();
        due.push(due_of(&offer(&mut broker, &["before", &delay, &n.to_string()])));
        due.push(due_of(&offer(&mut broker, &["after", &delay, &n.to_string()])));
    }
    scene.stop_broker();
    let started = thread::scope(|scope| {
        let starting = scope.spawn(|| scene.jvm());
        for n in 0..5 {
            let payload = n.to_string();
            let one = taken(&scene, &mut taking, "before", &payload, due[2 * n]);
            // All are due long before a timer counts as lost: the restart helped the rest as well.
            let helped = late.last().is_some_and(Option::is_none);
            late.push(one.filter(|_| !helped));
        }
        starting.join().unwrap()
    });
    let mut other = started.client();
    done(&mut other, "HOLD after");
    for n in 0..5 {
        let payload = n.to_string();
        taken(&scene, &mut other, "after", &payload, due[2 * n + 1]);
    }
    let helped = late.iter().filter(|late| late.is_none()).count();
    let late = on_time(late.into_iter().flatten().collect(), REDISSON_ON_TIME_MS);
    format!("{late}; {helped} of 5 after a restart")
}

/// Takes one that must be this one, and says by how many ms it is late; None if Redisson had lost
/// its timer (seen with 3.45.0; its issues 6371 and 5172) and a client had to be started anew.
fn taken(
    scene: &Scene,
    client: &mut Client,
    queue: &str,
    payload: &str,
    due_ms: u64,
) -> Option<f64> {
    client.send(&["TAKE", queue]).unwrap();
    client.read_within(LOST).unwrap();
    let waited = client.read();
    let another = waited.is_err().then(|| {
        let another = scene.jvm();
        done(&mut another.client(), &format!("HOLD {queue}"));
        client.read_within(PATIENCE).unwrap();
        another
    });
    let reply = waited.unwrap_or_else(|_| client.read().unwrap());
    let [taken, at] = reply.elements() else {
        panic!("{reply:?}");
    };
    assert_eq!(taken.text(), payload);
    let late = at.int() as f64 - due_ms as f64;
    another.is_none().then_some(late)
}

/// Both offer, both deliver, both can be first: each message comes once.
pub fn delivered_by_both(version: &'static str) -> String {
    const EACH: usize = 300;
    let scene = Scene::new(version, &["q"]);
    let jvm = scene.warm_jvm();
    let (mut offering, mut taking) = (jvm.client(), jvm.client());
    done(&mut taking, "HOLD q");
    let replies = thread::scope(|scope| {
        scope.spawn(|| say(&mut offering, "OFFERMANY q 300 redisson 0 1500"));
        scope.spawn(|| offer_many(&scene, EACH, 1_500));
        say(&mut taking, "TAKEALL q 5000")
    });
    let late = each_once(&[replies], &[("redisson", EACH), ("broker", EACH)]);
    let mut broker = scene.broker();
    assert_eq!(info(&mut broker, "q", "pending"), Value::Int(0));
    on_time(late, REDISSON_ON_TIME_MS)
}

/// Through the broker, at random times, with payloads as those of the program's OFFERMANY.
pub fn offer_many(scene: &Scene, count: usize, longest_ms: u64) {
    let (mut client, mut random) = (scene.broker(), Random::new(7));
    for n in 0..count {
        let due = (now_ms() as u64 + random.below(longest_ms)).to_string();
        offer(&mut client, &["q", "AT", &due, &format!("{due} broker {n}")]);
    }
}

/// Replies of TAKEALL hold each message of each offerer once; answers by how much they are late.
pub fn each_once(replies: &[Value], offered: &[(&str, usize)]) -> Vec<f64> {
    let pairs = || replies.iter().flat_map(|reply| reply.elements().chunks(2));
    let name = |payload: String| payload.split_once(' ').unwrap().1.to_owned();
    let came = sorted(pairs().map(|pair| name(pair[0].text())).collect());
    let all =
        offered.iter().flat_map(|(who, count)| (0..*count).map(move |n| format!("{who} {n}")));
    let wanted = sorted(all.collect());
    let differs = came.iter().zip(&wanted).find(|(came, wanted)| came != wanted);
    assert_eq!(differs, None, "missing or doubled");
    assert_eq!(came.len(), wanted.len());
    let late = pairs().map(|pair| lateness_ms(&pair[0].text(), pair[1].int() as f64));
    late.collect()
}

/// JVMs of these versions, started side by side.
pub fn jvms(scene: &Scene, versions: &[&str]) -> Vec<Jvm> {
    thread::scope(|scope| {
        let start = |version| {
            scope.spawn(move || {
                let jvm = scene.jvm_of(version);
                warm(&jvm);
                jvm
            })
        };
        let starting: Vec<_> = versions.iter().map(|version| start(*version)).collect();
        let all = starting.into_iter().map(|jvm| jvm.join().unwrap());
        all.collect()
    })
}
