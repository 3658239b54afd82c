//! Judges what the clients of a queue with consumers saw, whoever failed meanwhile.
//!
//! Clients note what they sent and were told, and the test notes which faults there were. Times are
//! Unix ms: those of clients by this machine's clock, due times and leases by Redis's, which may
//! step; [`Clock`] says how far it was ahead when. Hand-outs are told apart by their numbers, never
//! by the time of their arrival.
//! Keeps: pure. What was not told counts as "may be".

use std::collections::{BTreeMap, HashMap, HashSet};

/// Clocks of two readers differ by their rounding.
const ROUNDING_MS: i64 = 2;

/// What was seen, in no order.
#[derive(Clone, Default)]
pub struct Log {
    pub offers: Vec<Offer>,
    pub hands: Vec<Hand>,
    pub settles: Vec<Settle>,
    /// Takes whose reply nobody read.
    pub unread: Vec<Unread>,
    pub faults: Vec<Fault>,
    pub clocks: Vec<Clock>,
    pub dead: Vec<Dead>,
    /// Payloads that are in Redis and not dead: pending, in the list, leased, waiting.
    pub left: Vec<String>,
    /// Attempts after which a message dies, by queue.
    pub limits: HashMap<String, i64>,
}

#[derive(Clone, Debug)]
pub struct Offer {
    /// No two are equal.
    pub payload: String,
    pub sent: i64,
    /// None: it may be stored.
    pub stored: Option<bool>,
    /// By Redis's clock, where it is stored.
    pub due: i64,
}

/// A message that a consumer was given.
#[derive(Clone, Debug)]
pub struct Hand {
    pub id: String,
    pub number: u64,
    pub payload: String,
    pub sent: i64,
    pub came: i64,
    /// When it was handed out, and the end of the lease, by Redis's clock, where that was shown.
    pub lease: Option<(i64, i64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Ack,
    /// With the wait.
    Nack(i64),
    /// With the least wait that the queue's settings give.
    Backoff(i64),
    Fatal,
    /// With the length of the lease.
    Extend(i64),
}

#[derive(Clone, Debug)]
pub struct Settle {
    pub payload: String,
    pub number: u64,
    pub how: How,
    pub sent: i64,
    pub came: i64,
    /// Whether it counted. None: nobody knows.
    pub told: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct Unread {
    pub from: i64,
    pub to: i64,
    /// The most messages that it may have been given.
    pub count: usize,
}

/// A time in which replies of takes may have been lost between Redis and the clients.
#[derive(Clone, Debug)]
pub struct Fault {
    pub from: i64,
    pub to: i64,
}

/// Redis's clock was ahead of this machine's by so much. Where it steps two of them overlap.
#[derive(Clone, Debug)]
pub struct Clock {
    pub from: i64,
    pub to: i64,
    pub ahead: i64,
}

#[derive(Clone, Debug)]
pub struct Dead {
    pub queue: String,
    pub payload: String,
    pub attempts: i64,
}

/// What was counted, and what must not be.
#[derive(Debug, Default, PartialEq)]
pub struct Account {
    pub stored: usize,
    pub maybe_stored: usize,
    pub refused: usize,
    pub handed_out: usize,
    /// Hand-outs that are not the first of their message, by what came before.
    pub after_lapse: usize,
    pub after_nack: usize,
    pub after_unread: usize,
    /// Numbers that were given, and that nobody saw.
    pub unseen: usize,
    pub acked: usize,
    pub maybe_acked: usize,
    pub dead: usize,
    pub left: usize,
    /// Receipts that did not count any more.
    pub stale: usize,
    pub wrong: Vec<String>,
}

impl Log {
    pub fn extend(&mut self, other: Log) {
        self.offers.extend(other.offers);
        self.hands.extend(other.hands);
        self.settles.extend(other.settles);
        self.unread.extend(other.unread);
        self.faults.extend(other.faults);
    }

    /// Whether Redis's clock can have shown `moment` between two times of this machine, where its
    /// last reading is known to be `at`.
    fn reached(&self, moment: i64, from: i64, to: i64, at: Option<i64>) -> bool {
        let clocks: Vec<&Clock> =
            self.clocks.iter().filter(|c| c.from <= to && c.to >= from).collect();
        match (at, &clocks[..]) {
            (Some(at), [_]) => at >= moment,
            _ => {
                let shows = |clock: &&Clock| clock.to.min(to) + clock.ahead + ROUNDING_MS >= moment;
                at.is_some_and(|at| at >= moment) || clocks.iter().any(shows)
            }
        }
    }

    /// The least that Redis's clock can have shown between two times of this machine.
    fn least(&self, from: i64, to: i64) -> i64 {
        let clocks = self.clocks.iter().filter(|clock| clock.from <= to && clock.to >= from);
        clocks.map(|clock| clock.from.max(from) + clock.ahead).min().unwrap_or(from) - ROUNDING_MS
    }
}

/// All about one message.
#[derive(Default)]
struct Story<'a> {
    offer: Option<&'a Offer>,
    /// By number.
    hands: Vec<&'a Hand>,
    settles: Vec<&'a Settle>,
    dead: Vec<&'a Dead>,
    left: usize,
}

/// Why a message could be handed out again.
#[derive(PartialEq)]
enum Cause {
    Lapse,
    Nack,
}

pub fn judge(log: &Log) -> Account {
    let mut stories: BTreeMap<&str, Story> = BTreeMap::new();
    for offer in &log.offers {
        stories.entry(&offer.payload).or_default().offer = Some(offer);
    }
    for hand in &log.hands {
        stories.entry(&hand.payload).or_default().hands.push(hand);
    }
    for settle in &log.settles {
        stories.entry(&settle.payload).or_default().settles.push(settle);
    }
    for dead in &log.dead {
        stories.entry(&dead.payload).or_default().dead.push(dead);
    }
    for payload in &log.left {
        stories.entry(payload).or_default().left += 1;
    }
    let mut account = Account { handed_out: log.hands.len(), ..Account::default() };
    // Of numbers that nobody saw, those that no fault explains.
    let mut by_clients = 0;
    for (payload, mut story) in stories {
        story.hands.sort_by_key(|hand| hand.number);
        story.settles.sort_by_key(|settle| settle.sent);
        let mut wrong = Vec::new();
        offered(&story, &mut account, &mut wrong);
        identity(&story, &mut wrong);
        by_clients += handed_out(log, &story, &mut account, &mut wrong);
        settled(log, &story, &mut account, &mut wrong);
        account.wrong.extend(wrong.into_iter().map(|what| {
            let Story { offer, hands, settles, dead, .. } = &story;
            format!("{payload} {what}: {offer:?}\n  {hands:?}\n  {settles:?}\n  {dead:?}")
        }));
    }
    let room: usize = log.unread.iter().map(|unread| unread.count).sum();
    if by_clients > room {
        account.wrong.push(format!("{by_clients} hand-outs were unseen, of {room} that may be"));
    }
    account
}

/// Nothing that was stored is lost, and nothing comes that was not.
fn offered(story: &Story, account: &mut Account, wrong: &mut Vec<String>) {
    let came = !story.hands.is_empty() || !story.dead.is_empty() || story.left > 0;
    let ack = |told: Option<bool>| {
        let of = |one: &&&Settle| one.how == How::Ack && one.told == told;
        story.settles.iter().any(|one| of(&one))
    };
    account.acked += usize::from(ack(Some(true)));
    account.maybe_acked += usize::from(ack(None) && !ack(Some(true)));
    account.dead += story.dead.len();
    account.left += story.left;
    match story.offer.map(|offer| offer.stored) {
        None => wrong.push("was never offered".to_owned()),
        Some(Some(false)) => {
            account.refused += 1;
            if came {
                wrong.push("was refused, and came".to_owned());
            }
        }
        Some(None) => account.maybe_stored += 1,
        Some(Some(true)) => account.stored += 1,
    }
    let stored = story.offer.is_some_and(|offer| offer.stored == Some(true));
    let there = story.dead.len() + story.left;
    if (stored || came) && there == 0 && !ack(Some(true)) && !ack(None) {
        wrong.push("is lost".to_owned());
    }
    if there > 1 || (there > 0 && ack(Some(true))) {
        wrong.push("is there once more".to_owned());
    }
}

/// One id, and each number in one hand.
fn identity(story: &Story, wrong: &mut Vec<String>) {
    let ids: HashSet<&str> = story.hands.iter().map(|hand| &hand.id[..]).collect();
    if ids.len() > 1 {
        wrong.push("was doubled: it has two ids".to_owned());
    }
    if story.hands.windows(2).any(|pair| pair[0].number == pair[1].number) {
        wrong.push("was in two hands under one number".to_owned());
    }
}

/// Each hand-out has a reason, and is not early. Gives the unseen ones that no fault explains.
fn handed_out(log: &Log, story: &Story, account: &mut Account, wrong: &mut Vec<String>) -> usize {
    let mut by_clients = 0;
    let mut before: Option<&Hand> = None;
    for hand in &story.hands {
        let since = match (before, story.offer) {
            (Some(before), _) => before.sent,
            (None, Some(offer)) => offer.sent,
            (None, None) => continue,
        };
        let unseen = hand.number - before.map_or(0, |before| before.number);
        let unseen = unseen.saturating_sub(1) as usize;
        account.unseen += unseen;
        let at = hand.lease.map(|(at, _)| at);
        match before {
            None => {
                let due = story.offer.filter(|offer| offer.stored == Some(true)).map(|o| o.due);
                if due.is_some_and(|due| !log.reached(due, since, hand.came, at)) {
                    wrong.push(format!("came early, as number {}", hand.number));
                }
            }
            Some(before) => match cause(log, story, before, hand) {
                Some(_) if unseen > 0 => {}
                Some(Cause::Lapse) => account.after_lapse += 1,
                Some(Cause::Nack) => account.after_nack += 1,
                None if before.number == hand.number => {}
                None => wrong.push(format!(
                    "was handed out again after number {} without \
                     a reason, or too early",
                    before.number
                )),
            },
        }
        if unseen > 0 {
            account.after_unread += 1;
            let meets = |from, to| from <= hand.came && to >= since;
            if !log.faults.iter().any(|fault| meets(fault.from, fault.to)) {
                by_clients += unseen;
                if !log.unread.iter().any(|unread| meets(unread.from, unread.to)) {
                    wrong.push(format!("was handed out to nobody before number {}", hand.number));
                }
            }
        }
        before = Some(hand);
    }
    by_clients
}

/// What ended a hand, so that the next one could be.
fn cause(log: &Log, story: &Story, hand: &Hand, next: &Hand) -> Option<Cause> {
    let at = next.lease.map(|(at, _)| at);
    let of = story.settles.iter().filter(|one| one.number == hand.number && one.sent <= next.came);
    // Where the end is not known it may have come at any time.
    let mut end = Some(hand.lease.map_or(i64::MIN, |(_, until)| until));
    for settle in of {
        match (settle.how, settle.told) {
            (_, Some(false)) | (How::Ack | How::Fatal, _) => {}
            (How::Nack(wait) | How::Backoff(wait), told) => {
                // Then it has no lease any more.
                end = end.filter(|_| told.is_none());
                let from = log.least(settle.sent, settle.came.min(next.came)) + wait;
                if log.reached(from, settle.sent, next.came, at) {
                    return Some(Cause::Nack);
                }
            }
            (How::Extend(lease), told) => {
                let extended = log.least(settle.sent, settle.came.min(next.came)) + lease;
                end = end.map(|end| if told.is_some() { extended } else { end.min(extended) });
            }
        }
    }
    let lapsed = |end| log.reached(end, hand.sent, next.came, at);
    end.is_some_and(lapsed).then_some(Cause::Lapse)
}

/// What was settled is settled: once, by the last number. A receipt that does not count has a
/// reason, and so has a death.
fn settled(log: &Log, story: &Story, account: &mut Account, wrong: &mut Vec<String>) {
    let last = story.hands.last().map_or(0, |hand| hand.number);
    let counted = |one: &&&Settle| one.how == How::Ack && one.told == Some(true);
    if story.settles.iter().filter(counted).count() > 1 {
        wrong.push("was settled twice".to_owned());
    }
    for settle in &story.settles {
        if counted(&settle) && last > settle.number {
            wrong.push(format!(
                "was handed out as number {last} behind the ack of number {}",
                settle.number
            ));
        }
        if settle.told != Some(false) {
            continue;
        }
        account.stale += 1;
        let done = |one: &&Settle| {
            one.told != Some(false)
                && one.sent <= settle.came
                && match one.how {
                    How::Ack => true,
                    How::Fatal => settle.how != How::Ack,
                    How::Nack(_) | How::Backoff(_) => matches!(settle.how, How::Extend(_)),
                    How::Extend(_) => false,
                }
        };
        let hand = story.hands.iter().find(|hand| hand.number == settle.number);
        let lapsed = |hand: &Hand| {
            hand.lease.is_none_or(|(_, until)| log.reached(until, hand.sent, settle.came, None))
        };
        let newer = |hand: &&Hand| hand.number > settle.number && hand.sent <= settle.came;
        let unseen = story.hands.iter().any(|hand| hand.number > settle.number + 1);
        let reason = story.settles.iter().copied().any(|one| done(&one))
            || story.hands.iter().copied().any(|hand| newer(&hand))
            || unseen
            || !story.dead.is_empty()
            || (matches!(settle.how, How::Extend(_)) && hand.is_none_or(|hand| lapsed(hand)));
        if !reason {
            wrong.push(format!("has a receipt that did not count: number {}", settle.number));
        }
    }
    let fatal = story.settles.iter().any(|one| one.how == How::Fatal && one.told != Some(false));
    for dead in &story.dead {
        let limit = log.limits.get(&dead.queue).copied().unwrap_or(i64::MAX);
        if !fatal && dead.attempts < limit {
            wrong.push("died without a reason".to_owned());
        }
    }
}

/// One message that was offered for 1,000, given as number 1 until 1,200, given again as number 2,
/// and acknowledged; one that died; one that was refused.
fn good() -> Log {
    let offer = |payload: &str, stored| Offer {
        payload: payload.to_owned(),
        sent: 900,
        stored,
        due: 1_000,
    };
    let hand = |payload: &str, number, at: i64| Hand {
        id: format!("id of {payload}"),
        number,
        payload: payload.to_owned(),
        sent: at - 20,
        came: at + 5,
        lease: Some((at, at + 200)),
    };
    let settle = |payload: &str, number, how, at| Settle {
        payload: payload.to_owned(),
        number,
        how,
        sent: at,
        came: at + 5,
        told: Some(true),
    };
    Log {
        offers: vec![offer("a", Some(true)), offer("b", Some(true)), offer("c", Some(false))],
        hands: vec![hand("a", 1, 1_000), hand("b", 1, 1_000), hand("a", 2, 1_200)],
        settles: vec![settle("a", 2, How::Ack, 1_230), settle("b", 1, How::Fatal, 1_100)],
        dead: vec![Dead { queue: "q".to_owned(), payload: "b".to_owned(), attempts: 1 }],
        clocks: vec![Clock { from: 0, to: 10_000, ahead: 0 }],
        limits: HashMap::from([("q".to_owned(), 16)]),
        ..Log::default()
    }
}

#[test]
fn a_log_without_fault() {
    let expected = Account {
        stored: 2,
        refused: 1,
        handed_out: 3,
        after_lapse: 1,
        acked: 1,
        dead: 1,
        ..Account::default()
    };
    assert_eq!(judge(&good()), expected);
}

/// What is done to the good log, and what the judge says of it; "" is nothing.
type Row = (&'static str, fn(&mut Log));

#[test]
fn every_wrong_is_seen() {
    let nack = |log: &mut Log, wait: i64, told| {
        let (how, payload) = (How::Nack(wait), "a".to_owned());
        log.settles.push(Settle { payload, number: 1, how, sent: 1_050, came: 1_055, told });
    };
    // Moves what the second hand-out of `a` shows.
    fn again(log: &mut Log, number: u64, at: i64) {
        let hand = &mut log.hands[2];
        (hand.number, hand.sent, hand.came) = (number, at - 20, at + 5);
        hand.lease = Some((at, at + 200));
        log.settles[0].number = number;
    }
    let rows: &[Row] = &[
        ("is lost", |log| log.settles[0].how = How::Extend(1)),
        ("is lost", |log| log.settles[0].told = Some(false)),
        ("", |log| log.settles[0].told = None),
        ("is lost", |log| log.dead.clear()),
        ("is lost", |log| {
            log.hands.retain(|hand| hand.payload != "a");
            log.settles.remove(0);
        }),
        ("", |log| {
            log.settles.remove(0);
            log.left.push("a".to_owned());
        }),
        ("is there once more", |log| log.left.push("a".to_owned())),
        ("is there once more", |log| log.left.push("b".to_owned())),
        ("was refused, and came", |log| log.left.push("c".to_owned())),
        ("was never offered", |log| log.left.push("d".to_owned())),
        ("was never offered", |log| drop(log.offers.remove(0))),
        ("has two ids", |log| log.hands[2].id = "another".to_owned()),
        ("in two hands", |log| log.hands[2].number = 1),
        // As number 1, at the moment at which it is due, and before.
        ("", |log| log.offers[0].due = 1_000),
        ("came early, as number 1", |log| log.offers[0].due = 1_001),
        // The lease of the first ends at 1,200.
        ("without a reason, or too early", |log| again(log, 2, 1_199)),
        ("", |log| again(log, 2, 1_201)),
        // The same where Redis's clock was an hour ahead for a moment, and where that was before.
        ("", |log| {
            again(log, 2, 1_100);
            log.clocks.push(Clock { from: 1_040, to: 1_050, ahead: 3_600_000 });
        }),
        ("without a reason, or too early", |log| {
            again(log, 2, 1_199);
            log.clocks.push(Clock { from: 800, to: 850, ahead: 3_600_000 });
        }),
        // Behind the ack, and twice.
        ("behind the ack of number 2", |log| {
            let mut later = log.hands[2].clone();
            (later.number, later.sent, later.came) = (3, 1_480, 1_505);
            later.lease = Some((1_500, 1_700));
            log.hands.push(later);
        }),
        ("behind the ack of number 1", |log| log.settles[0].number = 1),
        ("settled twice", |log| log.settles.push(log.settles[0].clone())),
        // Numbers that nobody saw.
        ("handed out to nobody before number 4", |log| again(log, 4, 1_300)),
        ("", |log| {
            again(log, 4, 1_300);
            log.faults.push(Fault { from: 1_100, to: 1_150 });
        }),
        ("handed out to nobody before number 4", |log| {
            again(log, 4, 1_300);
            log.faults.push(Fault { from: 1_400, to: 1_500 });
        }),
        ("", |log| {
            again(log, 4, 1_300);
            log.unread.push(Unread { from: 1_100, to: 1_150, count: 2 });
        }),
        ("2 hand-outs were unseen, of 1 that may be", |log| {
            again(log, 4, 1_300);
            log.unread.push(Unread { from: 1_100, to: 1_150, count: 1 });
        }),
        ("handed out to nobody before number 2", |log| log.hands[1].number = 2),
        // Receipts that do not count, and deaths.
        ("has a receipt that did not count", |log| {
            let (how, told) = (How::Nack(0), Some(false));
            let ack = log.settles[0].clone();
            log.settles.push(Settle { how, told, sent: 1_210, came: 1_215, ..ack });
        }),
        ("died without a reason", |log| log.settles[1].told = Some(false)),
        ("died without a reason", |log| log.settles[1].how = How::Extend(1)),
        ("", |log| {
            log.settles.remove(1);
            log.dead[0].attempts = 16;
        }),
    ];
    for (place, (says, change)) in rows.iter().enumerate() {
        let mut log = good();
        change(&mut log);
        let wrong = judge(&log).wrong.join("\n");
        assert_eq!(wrong.is_empty(), says.is_empty(), "row {place}, {says}: {wrong}");
        assert!(wrong.contains(says), "row {place}, {says}: {wrong}");
    }
    // A message that was given back, with a wait: told, not known, did not count.
    let given_back: &[(i64, Option<bool>, i64, &str)] = &[
        (50, Some(true), 1_104, ""),
        (50, None, 1_104, ""),
        (50, Some(true), 1_097, "too early"),
        (50, Some(false), 1_104, "too early"),
        (500, Some(true), 1_300, "too early"),
        (500, None, 1_300, ""),
    ];
    for (wait, told, at, says) in given_back {
        let mut log = good();
        again(&mut log, 2, *at);
        nack(&mut log, *wait, *told);
        let wrong = judge(&log).wrong.join("\n");
        assert_eq!(wrong.is_empty(), says.is_empty(), "{wait} {told:?} {at}: {wrong}");
        assert!(wrong.contains(says), "{wait} {told:?} {at}: {wrong}");
    }
}
