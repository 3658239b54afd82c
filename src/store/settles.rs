//! Settlements of many clients, made by one call: DQ.ACK, DQ.NACK and DQ.EXTEND.
//!
//! There is no timer: one call of a queue and a kind is under way, what comes meanwhile gathers and
//! goes with the next. A call alone costs Redis four times as much as a receipt in a large one.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::domain::lease::{Nack, NackMode, Receipt};
use crate::domain::queue::QueueName;
use crate::domain::setting::{BACKOFF_MAX, BACKOFF_MIN, JITTER, LIMIT};
use crate::store::leases::lease;
use crate::store::script::{ACK, EXTEND, NACK};
use crate::store::{Store, StoreError, number};

/// Receipts of one call, about 3 ms of Redis; those of one client go together, however many.
const CALL_RECEIPTS_MAX: usize = 1_000;

/// What becomes of messages that a consumer has taken. Equal ones of a queue share calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Settlement {
    /// They are done.
    Ack,
    /// They are given back.
    Nack(Nack),
    /// They are leased for longer, from now on. `lease_ms`: `None` for that of the queue.
    Extend { lease_ms: Option<u64> },
}

impl Settlement {
    /// The messages can be taken again at once, and the delivery does not count.
    pub const RETURN: Self =
        Self::Nack(Nack { mode: NackMode::Silent, delay_ms: None, reason: Bytes::new() });
}

/// The outcome of one client's settlement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Those of its receipts that counted.
    pub count: u64,
    /// Of them the messages that are dead now.
    pub died: u64,
    /// Only so many of the queue may be leased at a time, so others may be taken now.
    pub makes_room: bool,
    /// Dead messages that the settings of the queue keep no longer; those of a call are told to
    /// its first client.
    pub dropped: u64,
}

type Answer = oneshot::Sender<Result<Settled, StoreError>>;

/// The receipts of one client, before they are sent.
struct Group {
    number: u64,
    receipts: Vec<Receipt>,
    answer: Answer,
}

/// A queue, and what becomes of its messages.
pub type SettleLine = (QueueName, Settlement);

/// Groups that wait for the next call, oldest first. A line is there while a call of it is under
/// way.
#[derive(Default)]
pub(super) struct Settles {
    lines: RefCell<HashMap<SettleLine, VecDeque<Group>>>,
    last: Cell<u64>,
}

impl Settles {
    /// True if no call of the line is under way; from then on one is.
    fn begins(&self, line: &SettleLine) -> bool {
        let mut lines = self.lines.borrow_mut();
        let is_free = !lines.contains_key(line);
        if is_free {
            lines.insert(line.clone(), VecDeque::new());
        }
        is_free
    }

    /// Puts receipts into a line; the number of the group.
    fn put(&self, line: &SettleLine, receipts: Vec<Receipt>, answer: Answer) -> u64 {
        let number = self.last.get() + 1;
        self.last.set(number);
        let (group, mut lines) = (Group { number, receipts, answer }, self.lines.borrow_mut());
        lines.entry(line.clone()).or_default().push_back(group);
        number
    }

    /// The groups of the next call. Without any the line is gone.
    fn next(&self, line: &SettleLine) -> Vec<Group> {
        let (mut lines, mut receipts) = (self.lines.borrow_mut(), 0);
        let groups = lines.get_mut(line).map_or_else(Vec::new, |waiting| {
            let fit = waiting.iter().take_while(|group| {
                let is_first = receipts == 0;
                receipts += group.receipts.len();
                is_first || receipts <= CALL_RECEIPTS_MAX
            });
            let count = fit.count();
            waiting.drain(..count).collect()
        });
        if groups.is_empty() {
            lines.remove(line);
        }
        groups
    }

    /// Takes a group back, unless it was sent.
    fn withdraw(&self, line: &SettleLine, number: u64) -> bool {
        let mut lines = self.lines.borrow_mut();
        let found = lines.get_mut(line).and_then(|waiting| {
            let at = waiting.binary_search_by_key(&number, |group| group.number).ok()?;
            waiting.remove(at)
        });
        found.is_some()
    }
}

/// Whoever has come while a call was under way, when this is dropped.
struct Others<'a> {
    store: &'a Rc<Store>,
    line: &'a SettleLine,
}

impl Drop for Others<'_> {
    fn drop(&mut self) {
        let groups = self.store.settles.next(self.line);
        if !groups.is_empty() {
            let store = self.store.clone();
            tokio::task::spawn_local(store.settle_line(self.line.clone(), groups));
        }
    }
}

impl Store {
    /// Settles messages of one client, together with those of others. Given up, it may be done all
    /// the same, and the others are.
    ///
    /// # Errors
    /// As every call.
    pub async fn settle(
        self: &Rc<Self>,
        queue: &QueueName,
        how: Settlement,
        receipts: Vec<Receipt>,
    ) -> Result<Settled, StoreError> {
        let line = (queue.clone(), how);
        let lost = || Err(StoreError::Internal("a settlement has no outcome".into()));
        if self.settles.begins(&line) {
            // Alone it needs no task, which would cost it a turn of the runtime.
            let _others = Others { store: self, line: &line };
            let outcomes = self.settle_now(queue, &line.1, &[receipts]).await;
            return outcomes.into_iter().next().unwrap_or_else(lost);
        }
        let (answer, answered) = oneshot::channel();
        let mut answered = pin!(answered);
        let number = self.settles.put(&line, receipts, answer);
        let lost = |_| lost();
        match timeout(self.limits.call_timeout, &mut answered).await {
            Ok(answer) => answer.unwrap_or_else(lost),
            Err(_) if self.settles.withdraw(&line, number) => {
                let why = "settlements that came before it are under way for too long";
                Err(StoreError::Unavailable(why.into()))
            }
            Err(_) => answered.await.unwrap_or_else(lost),
        }
    }

    /// Makes the call of some groups, and those of a line until nothing waits there.
    async fn settle_line(self: Rc<Self>, line: SettleLine, mut groups: Vec<Group>) {
        let (queue, how) = &line;
        let mut told: Vec<(Answer, _)> = Vec::new();
        while !groups.is_empty() {
            let (receipts, answers): (Vec<_>, Vec<_>) =
                groups.into_iter().map(|group| (group.receipts, group.answer)).unzip();
            // Redis has its next call before the clients have their replies: it works meanwhile.
            let tell = async { tell(told) };
            let (outcomes, ()) = join(self.settle_now(queue, how, &receipts), tell).await;
            told = answers.into_iter().zip(outcomes).collect();
            groups = self.settles.next(&line);
        }
        tell(told);
    }

    /// One call; the outcome of each client.
    pub(super) async fn settle_now(
        &self,
        queue: &QueueName,
        how: &Settlement,
        clients: &[Vec<Receipt>],
    ) -> Vec<Result<Settled, StoreError>> {
        let (script, mut more) = match how {
            Settlement::Ack => (&ACK, Vec::new()),
            Settlement::Extend { lease_ms } => (&EXTEND, vec![lease(*lease_ms)]),
            Settlement::Nack(nack) => (&NACK, terms(nack).into()),
        };
        let is_nack = matches!(how, Settlement::Nack(_));
        let receipts = clients.iter().map(Vec::len).sum::<usize>();
        let mut chances = chances(if is_nack { receipts } else { 0 });
        for (nth, receipts) in clients.iter().enumerate() {
            if nth > 0 {
                more.resize(more.len() + if is_nack { 3 } else { 2 }, Bytes::new());
            }
            for receipt in receipts {
                more.extend([Bytes::copy_from_slice(&receipt.id), number(receipt.delivery)]);
                more.extend(chances.next());
            }
        }
        let mut answer = match self.change(script, queue, more).await {
            Ok(answer) => answer,
            Err(error) => return vec![Err(error); clients.len()],
        };
        let counts = clients.iter().map(|_| {
            let count = answer.count()?;
            let died = if is_nack { answer.count()? } else { 0 };
            Ok(Settled { count, died, ..Settled::default() })
        });
        let mut outcomes: Vec<_> = counts.collect();
        if matches!(how, Settlement::Ack) && !answer.is_empty() {
            outcomes.iter_mut().flatten().for_each(|one: &mut Settled| one.makes_room = true);
        }
        if is_nack && answer.bytes().is_ok() && !answer.is_empty() {
            let dropped = answer.count().unwrap_or(0);
            outcomes.iter_mut().flatten().take(1).for_each(|one| one.dropped = dropped);
        }
        outcomes
    }
}

/// How messages are given back, as scripts take it: with the backoff of a queue that sets none.
pub(super) fn terms(nack: &Nack) -> [Bytes; 7] {
    let [limit, min, max, jitter] =
        [&LIMIT, &BACKOFF_MIN, &BACKOFF_MAX, &JITTER].map(|setting| number(setting.default));
    let mode = Bytes::from_static(nack.mode.word().as_bytes());
    let delay = nack.delay_ms.map_or_else(Bytes::new, number);
    [mode, delay, nack.reason.clone(), limit, min, max, jitter]
}

/// What each of so many waits owes to chance, 0 to 999.
pub(super) fn chances(count: usize) -> impl Iterator<Item = Bytes> {
    let mut bytes = vec![[0_u8; 2]; count];
    // Without randomness the waits are as long as they may be.
    let _ = getrandom(bytes.as_flattened_mut(), GetRandomFlags::empty());
    bytes.into_iter().map(|two| number(u16::from_le_bytes(two) % 1_000))
}

fn tell(outcomes: Vec<(Answer, Result<Settled, StoreError>)>) {
    for (answer, outcome) in outcomes {
        drop(answer.send(outcome));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the receipts of clients in the order in which they came, and those of the calls.
    #[test]
    fn calls_take_as_many_as_they_may() {
        let rows: [(&[usize], &[&[usize]]); 6] = [
            (&[1], &[&[1]]),
            (&[1, 2, 3], &[&[1, 2, 3]]),
            (&[999, 1, 1], &[&[999, 1], &[1]]),
            // The order is kept, also where a later one would fit.
            (&[600, 600, 1], &[&[600], &[600, 1]]),
            (&[10_000, 1, 10_000, 10_000], &[&[10_000], &[1], &[10_000], &[10_000]]),
            (&[1_001], &[&[1_001]]),
        ];
        for (clients, calls) in rows {
            let settles = Settles::default();
            let line = (QueueName::trusted(Bytes::from_static(b"q")), Settlement::Ack);
            let mut numbers = Vec::new();
            assert!(settles.begins(&line));
            for &receipts in clients {
                assert!(!settles.begins(&line), "{clients:?}");
                let receipts = vec![Receipt { id: [0; 8], delivery: 1 }; receipts];
                numbers.push(settles.put(&line, receipts, oneshot::channel().0));
            }
            for (nth, call) in calls.iter().enumerate() {
                let groups = settles.next(&line);
                let sizes: Vec<usize> = groups.iter().map(|one| one.receipts.len()).collect();
                assert_eq!(sizes, *call, "{clients:?}: {nth}");
            }
            assert!(numbers.iter().all(|number| !settles.withdraw(&line, *number)));
            assert!(!settles.begins(&line), "the last call is under way");
            assert!(settles.next(&line).is_empty() && settles.lines.borrow().is_empty());
        }
    }

    #[test]
    fn what_was_not_sent_can_be_withdrawn() {
        let settles = Settles::default();
        let line = (QueueName::trusted(Bytes::from_static(b"q")), Settlement::RETURN);
        let put = || {
            let receipts = vec![Receipt { id: [0; 8], delivery: 1 }];
            settles.put(&line, receipts, oneshot::channel().0)
        };
        let [first, second, third] = [put(), put(), put()];
        assert!(settles.withdraw(&line, second) && !settles.withdraw(&line, second));
        let sent: Vec<u64> = settles.next(&line).iter().map(|group| group.number).collect();
        assert_eq!(sent, [first, third]);
        assert!(!settles.withdraw(&line, first));
        assert!(settles.next(&line).is_empty() && !settles.withdraw(&line, third));
    }
}
