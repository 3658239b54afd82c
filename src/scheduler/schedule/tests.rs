//! The schedule with clocks that the test holds: what is transferred when, and who has a place.

use super::*;
use crate::domain::queue::Score;

const SECOND: u64 = 1_000_000;
/// The times of Redis's clocks when the local one shows 0: queues in "far" live on a node whose
/// clock is a day ahead.
const NEAR_US: u64 = 1_795_228_205_000_000;
const FAR_US: u64 = NEAR_US + 86_400 * SECOND;

const LATER_MS: u64 = NEAR_US / 1_000 + 60_000;

/// A schedule, the clocks of its nodes, and the local time, which the test holds.
struct Bench {
    schedule: Schedule,
    near: Rc<Clock>,
    far: Rc<Clock>,
    local_us: u64,
}

impl Bench {
    fn new(transfers_in_flight_max: usize, queues_max: usize) -> Self {
        let transfer = TransferSize { messages_max: 64, bytes_max: 1, took_us_max: 2_000 };
        let backoff = Backoff { min_ms: 50, max_ms: 5_000 };
        let limits = Limits { transfers_in_flight_max, transfer, backoff, queues_max };
        let (near, far): (Rc<Clock>, Rc<Clock>) = Default::default();
        near.sample(0, 0, NEAR_US);
        far.sample(0, 0, FAR_US);
        let clocks = (near.clone(), far.clone());
        let clock_of = move |keys: &QueueKeys| match keys.name.starts_with(b"far") {
            true => clocks.1.clone(),
            false => clocks.0.clone(),
        };
        let schedule = Schedule::new(
            0,
            limits,
            Metrics::new(100),
            Ownership::by(|suffix| !suffix.starts_with(b"{others")),
            std::iter::once(Bytes::from_static(b"configured")),
            Box::new(clock_of),
        );
        Self { schedule, near, far, local_us: 0 }
    }

    fn at_ms(&mut self, local_ms: u64) {
        self.local_us = local_ms * 1_000;
    }

    fn hint(&mut self, name: &str, due_ms: u64) {
        self.schedule.hint(&keys_of(name), due_ms, WakeCause::Offer, self.local_us);
    }

    fn look(&mut self, name: &str, urgency: Urgency) {
        self.schedule.look(&keys_of(name), urgency, WakeCause::Scan, self.local_us);
    }

    fn read_head(&mut self, name: &str, head: Option<Moment>) {
        let suffix = keys_of(name).suffix();
        self.schedule.head_read(&suffix, head, WakeCause::Scan, self.local_us);
    }

    /// The transfers that begin now.
    fn begun(&mut self) -> Vec<Transfer> {
        let (schedule, local_us) = (&mut self.schedule, self.local_us);
        std::iter::from_fn(|| schedule.next_transfer(local_us)).collect()
    }

    /// The same, by name; all of them answer that nothing is pending.
    fn run(&mut self) -> Vec<String> {
        let begun = self.begun();
        for transfer in &begun {
            self.answer(transfer, Ok(done("")));
        }
        begun.iter().map(name_of).collect()
    }

    fn answer(&mut self, transfer: &Transfer, result: Result<Transferred, StoreError>) {
        self.schedule.answered(transfer, result, 100, self.local_us);
    }

    /// Offers one message that is the head, or is refused.
    fn offer(&mut self, name: &str, due_ms: u64) -> Result<(), StoreError> {
        let keys = keys_of(name);
        self.schedule.reserve(&keys)?;
        self.schedule.offered(&keys, 1, Some(due_ms), self.local_us);
        Ok(())
    }

    fn serves(&self, name: &str) -> bool {
        self.schedule.serves(keys_of(name).suffix_bytes())
    }
}

fn keys_of(name: &str) -> QueueKeys {
    QueueKeys::new(name.as_bytes())
}

fn name_of(transfer: &Transfer) -> String {
    String::from_utf8(transfer.keys.name.to_vec()).unwrap()
}

/// A transfer that moved one message; `next`: the score of the head after it.
fn done(next: &str) -> Transferred {
    let (moved, next) = (vec![(Score::MIN, 1)], Score::parse(next.as_bytes()));
    Transferred { moved, next, ..Transferred::default() }
}

#[test]
fn each_queue_waits_by_the_clock_of_its_node() {
    let mut bench = Bench::new(8, 8);
    bench.hint("near", NEAR_US / 1_000 + 500);
    bench.hint("far", FAR_US / 1_000 + 300);
    assert_eq!(bench.schedule.next_timer(), Some(299_700), "it drifts while it waits");
    bench.at_ms(301);
    bench.schedule.elapsed(bench.local_us);
    assert_eq!(bench.run(), ["far"]);
    bench.local_us = 499_600;
    bench.schedule.elapsed(bench.local_us);
    assert_eq!(bench.run(), [""; 0], "it fired early, and is armed again");
    assert_eq!(bench.schedule.next_timer(), Some(500_000));
    bench.at_ms(500);
    bench.schedule.elapsed(bench.local_us);
    assert_eq!(bench.run(), ["near"]);
}

#[test]
fn a_step_of_one_clock_arms_the_timers_of_its_node_again_and_no_others() {
    let mut bench = Bench::new(8, 8);
    bench.hint("near", NEAR_US / 1_000 + 90_000);
    bench.hint("far", FAR_US / 1_000 + 50_000);
    let before = bench.schedule.next_timer();
    // The near clock goes a minute ahead: its queue is due after 30 s now.
    bench.near.sample(0, 0, NEAR_US + 60 * SECOND);
    assert_eq!(bench.schedule.next_timer(), before, "nobody has said so yet");
    bench.schedule.clock_stepped(&bench.near.clone(), bench.local_us);
    assert_eq!(bench.schedule.next_timer(), Some(30 * SECOND - 30_000));
    let marked = bench.schedule.take_marked(9);
    assert_eq!(marked, [(keys_of("near").suffix(), Bytes::from("near"))]);
    // The far one goes back: it fires later, and the near one is as it was.
    bench.far.sample(0, 0, FAR_US - 60 * SECOND);
    bench.schedule.clock_stepped(&bench.far.clone(), bench.local_us);
    bench.at_ms(50_000);
    bench.schedule.elapsed(bench.local_us);
    assert_eq!(bench.run(), ["near"]);
    assert_eq!(bench.schedule.next_timer(), Some(110 * SECOND - 110_000));
}

#[test]
fn half_of_the_calls_are_kept_for_what_has_become_due() {
    let mut bench = Bench::new(4, 100);
    for n in 0..5 {
        bench.look(&format!("doubt-{n}"), Urgency::Doubt);
    }
    let doubts = bench.begun();
    assert_eq!(doubts.iter().map(name_of).collect::<Vec<_>>(), ["doubt-0", "doubt-1"]);
    for n in 0..3 {
        bench.hint(&format!("due-{n}"), 0);
    }
    let due = bench.begun();
    assert_eq!(due.iter().map(name_of).collect::<Vec<_>>(), ["due-0", "due-1"]);
    assert_eq!(bench.schedule.in_flight(), 4);
    bench.answer(&due[0], Ok(done("")));
    assert_eq!(bench.run(), ["due-2"]);
    bench.answer(&doubts[0], Ok(done("")));
    assert_eq!(bench.run(), ["doubt-2"]);
}

#[test]
fn calls_in_vain_are_bounded_in_time_and_true_ones_are_not() {
    let mut bench = Bench::new(1_000, 1_000);
    for n in 0..300 {
        bench.look(&format!("q-{n}"), Urgency::Doubt);
    }
    let begun = bench.begun();
    assert_eq!(begun.len() as u64, IN_VAIN_PER_SECOND);
    assert_eq!(bench.schedule.retry_after(), Some(Duration::from_millis(5)));
    // 50 of them find something to do.
    for (n, transfer) in begun.iter().enumerate() {
        let nothing = Transferred::default();
        bench.answer(transfer, Ok(if n < 50 { done("") } else { nothing }));
    }
    assert_eq!(bench.begun().len(), 50);
    bench.local_us += 50_000;
    assert_eq!(bench.begun().len(), 10);
    // A publication costs one too, else its head is marked.
    bench.hint("known", LATER_MS);
    assert!(bench.schedule.published(keys_of("known").suffix_bytes(), 0, bench.local_us));
    assert_eq!(bench.schedule.take_marked(9).len(), 1);
    assert!(!bench.schedule.published(b"{strange}", 0, bench.local_us), "to be found");
}

/// Hundreds of queues wait for calls that may be in vain: one of them that has something to do
/// after all waits no longer.
#[test]
fn who_is_known_to_be_due_does_not_wait_with_those_in_doubt() {
    let tell: [(fn(&mut Bench), _); 5] = [
        (|bench| bench.look("last", Urgency::Due), true),
        (|bench| bench.look("last", Urgency::Doubt), false),
        (|bench| bench.hint("last", LATER_MS), true),
        (|bench| bench.read_head("last", Some(1)), true),
        (|bench| bench.read_head("last", Some(LATER_MS)), false),
    ];
    for (number, (tell, is_due)) in tell.into_iter().enumerate() {
        let mut bench = Bench::new(1_000, 1_000);
        for n in 0..300 {
            bench.look(&format!("q-{n}"), Urgency::Doubt);
        }
        bench.look("last", Urgency::Doubt);
        assert_eq!(bench.begun().len() as u64, IN_VAIN_PER_SECOND);
        tell(&mut bench);
        let begun: Vec<_> = bench.begun().iter().map(name_of).collect();
        assert_eq!(begun, if is_due { vec!["last"] } else { vec![] }, "row {number}");
    }
    // One that failed waits its time out all the same.
    let mut bench = Bench::new(1_000, 1_000);
    bench.hint("last", 0);
    let begun = bench.begun();
    bench.answer(&begun[0], Err(StoreError::Unavailable(String::new())));
    for n in 0..300 {
        bench.look(&format!("q-{n}"), Urgency::Doubt);
    }
    assert_eq!(bench.begun().len() as u64, IN_VAIN_PER_SECOND);
    bench.at_ms(50);
    bench.schedule.elapsed(bench.local_us);
    bench.hint("last", 0);
    assert!(!bench.begun().iter().any(|transfer| name_of(transfer) == "last"));
}

/// A place that can be freed is freed at once, and its queue is pruned all the same.
#[test]
fn an_empty_queue_gives_its_place_away() {
    let mut bench = Bench::new(8, 2);
    let full = Err(StoreError::TooManyQueues { max: 2 });
    assert_eq!(bench.offer("a", 0), Ok(()));
    assert_eq!(bench.offer("b", LATER_MS), Ok(()));
    assert_eq!(bench.offer("c", 0), full, "neither is empty");
    assert_eq!(bench.run(), ["a"]);
    assert_eq!(bench.offer("c", LATER_MS), Ok(()));
    assert_eq!((bench.serves("a"), bench.serves("c")), (false, true));
    assert_eq!(bench.offer("a", 0), full);
    let (suffix, name) = (keys_of("a").suffix(), Bytes::from("a"));
    assert_eq!(bench.schedule.take_empty(), [(suffix.clone(), name.clone())]);
    bench.schedule.prune_again(suffix.clone(), name.clone());
    assert_eq!(bench.schedule.take_empty(), [(suffix.clone(), name.clone())]);
    // Others have offered to it meanwhile: it waits for a place, and gets the next one.
    bench.schedule.is_not_empty(&suffix, &name, bench.local_us);
    bench.schedule.head_read(keys_of("b").suffix_bytes(), None, WakeCause::Scan, 0);
    assert_eq!(bench.run(), ["b"]);
    assert_eq!((bench.serves("a"), bench.serves("b")), (true, false));
    assert_eq!(bench.run(), ["a"]);
}

/// No transfer says that it is empty: it is paused, and what was in it was taken out.
#[test]
fn a_queue_that_sleeps_is_pruned_once_it_is_empty() {
    let mut bench = Bench::new(8, 1);
    bench.hint("a", 0);
    let begun = bench.begun();
    let paused = Transferred { paused_until: Some(-1), ..Transferred::default() };
    bench.answer(&begun[0], Ok(paused));
    assert_eq!(bench.schedule.take_empty(), []);
    bench.read_head("a", None);
    assert_eq!(bench.schedule.take_empty(), [(keys_of("a").suffix(), Bytes::from("a"))]);
    assert_eq!(bench.run(), [""; 0]);
}

#[test]
fn a_queue_that_is_offered_to_keeps_its_place() {
    let mut bench = Bench::new(8, 1);
    assert_eq!(bench.offer("a", 0), Ok(()));
    bench.schedule.reserve(&keys_of("a")).unwrap();
    assert_eq!(bench.run(), ["a"]);
    assert!(bench.offer("b", 0).is_err());
    let suffix = keys_of("a").suffix();
    bench.schedule.pruned(&suffix, bench.local_us);
    assert!(bench.serves("a"));
    assert_eq!(bench.schedule.take_begun(), ["a", "a"], "noted again");
    bench.schedule.release(&keys_of("a"), bench.local_us);
    bench.schedule.pruned(&suffix, bench.local_us);
    assert!(!bench.serves("a"));
    // A reservation that nothing comes of is no place either.
    bench.schedule.reserve(&keys_of("b")).unwrap();
    bench.schedule.release(&keys_of("b"), bench.local_us);
    assert_eq!(bench.offer("c", 0), Ok(()));
}

#[test]
fn a_queue_of_another_broker_is_stored_and_not_served() {
    let mut bench = Bench::new(8, 1);
    assert_eq!(bench.offer("others", 0), Ok(()));
    bench.hint("others", 0);
    bench.look("others", Urgency::Due);
    assert!(!bench.serves("others"));
    assert!(bench.schedule.published(b"{others}", 0, 0), "nothing is to be found");
    assert!(!bench.schedule.is_missing(b"{others}"));
    assert!(bench.schedule.is_missing(b"{mine}"));
    assert_eq!(bench.offer("mine", 0), Ok(()), "it has taken no place");
    assert_eq!(bench.run(), ["mine"]);
}

/// Each row: a queue, what its transfer answers, and the queue that is transferred next.
#[test]
fn what_a_transfer_answers() {
    let owner = |owner: &str| Err(StoreError::BadQueue { owner: owner.into() });
    let quarantine = keys_of("w").quarantine.escape_ascii().to_string();
    let wrong_type = Err(StoreError::WrongType { key: quarantine });
    let rows = [
        ("a", Ok(done("")), None),
        ("a", Ok(done("5")), Some("a")),
        ("a", owner("{a}"), Some("{a}")),
        // Not where the configuration says another, or where it has other keys.
        ("configured", owner("{configured}"), None),
        ("a", owner("b"), None),
        ("w", wrong_type, None),
    ];
    for (queue, answer, next) in rows {
        let mut bench = Bench::new(1, 9);
        bench.hint(queue, 0);
        let begun = bench.begun();
        let what = format!("{queue}: {answer:?}");
        let refuses_offers = queue == "w";
        let failed = answer.is_err() && next.is_none();
        bench.answer(&begun[0], answer);
        assert_eq!(bench.run().first().map(String::as_str), next, "{what}");
        let reserved = bench.schedule.reserve(&keys_of(queue));
        assert_eq!(reserved.is_err(), refuses_offers, "{what}");
        // A failed transfer is tried again later.
        let retry = bench.schedule.next_timer();
        assert_eq!(retry, failed.then_some(50_000), "{what}");
        // Redis is back: its head is read, and the failure forgotten.
        bench.schedule.redis_is_back(bench.local_us);
        assert_eq!(bench.schedule.has_marked(), failed, "{what}");
    }
}

#[test]
fn the_end_of_a_pause_of_all_is_noticed_once() {
    let mut bench = Bench::new(1, 9);
    bench.hint("a", 0);
    let begun = bench.begun();
    let paused = Transferred { paused_until: Some(-1), ..Transferred::default() };
    bench.answer(&begun[0], Ok(paused));
    let suffix = keys_of("a").suffix();
    bench.schedule.set_paused_all(false, 0);
    assert!(!bench.schedule.has_marked(), "it was not");
    bench.schedule.set_paused_all(true, 0);
    bench.schedule.head_read(&suffix, Some(1), WakeCause::Scan, 0);
    assert_eq!(bench.run(), [""; 0], "an overdue head is no news while all are paused");
    bench.schedule.set_paused_all(false, 0);
    assert_eq!(bench.schedule.take_marked(9), [(suffix.clone(), Bytes::from("a"))]);
    bench.schedule.head_read(&suffix, Some(1), WakeCause::Scan, 0);
    assert_eq!(bench.run(), ["a"]);
}

#[test]
fn all_heads_are_read_page_by_page() {
    let mut bench = Bench::new(1, 9);
    let pages = |bench: &mut Bench| -> Vec<usize> {
        let page = || Some(bench.schedule.take_marked(2).len()).filter(|len| *len > 0);
        std::iter::from_fn(page).collect()
    };
    for name in ["a", "b", "c"] {
        bench.hint(name, LATER_MS);
    }
    bench.schedule.mark_all();
    assert_eq!(pages(&mut bench), [2, 1]);
    // Asked again meanwhile: a whole round follows.
    bench.schedule.mark_all();
    assert_eq!(bench.schedule.take_marked(2).len(), 2);
    bench.schedule.mark_all();
    assert_eq!(pages(&mut bench), [1]);
    assert!(bench.schedule.has_marked());
    assert_eq!(pages(&mut bench), [2, 1]);
    assert!(!bench.schedule.has_marked());
    // One by one, each once.
    bench.schedule.mark_again(b"{b}");
    bench.schedule.mark_again(b"{b}");
    assert_eq!(pages(&mut bench), [1]);
    // The round goes on whatever is marked meanwhile.
    bench.schedule.mark_all();
    for _ in 0..9 {
        bench.schedule.mark_again(b"{b}");
        bench.schedule.take_marked(2);
    }
    assert!(!bench.schedule.has_marked());
}

/// It is served, empty or not, as long as it has schedules; then it is pruned as any other.
#[test]
fn a_queue_with_schedules_keeps_its_place() {
    let mut bench = Bench::new(9, 1);
    let keys = keys_of("a");
    bench.schedule.set_crons(&keys, true);
    assert!(bench.serves("a"));
    bench.look("a", Urgency::Due);
    assert_eq!(bench.run(), ["a"]);
    assert_eq!(bench.schedule.take_empty(), []);
    bench.schedule.pruned(&keys.suffix(), 0);
    assert!(bench.serves("a"));
    let full = Err(StoreError::TooManyQueues { max: 1 });
    assert_eq!(bench.offer("b", LATER_MS), full);
    bench.schedule.set_crons(&keys, false);
    assert_eq!(bench.schedule.take_empty(), [(keys.suffix(), Bytes::from("a"))]);
    bench.schedule.pruned(&keys.suffix(), 0);
    assert!(!bench.serves("a"));
    // One that is not known and has none is not served for that.
    bench.schedule.set_crons(&keys, false);
    assert!(!bench.serves("a"));
}
