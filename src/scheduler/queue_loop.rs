//! One queue's loop: (state, event, now) -> what to do next. Pure: no clock, no async, no Redis.
//!
//! Everything that can happen to a queue is an [`Event`]; the answer is a [`Next`]. The loop has at
//! most one transfer under way. A wake-up is a hint: a hint that comes while a transfer is under
//! way is kept, since the answer may be older than the hint; a hint for a later moment than the
//! armed one changes nothing. No progress always means backing off.
//!
//! Times are Redis's, in milliseconds since the epoch.

use crate::domain::queue::SCORE_END;
use crate::scheduler::run_queue::Urgency;

/// A moment of Redis's clock, Unix milliseconds.
pub type Moment = u64;

/// The first wait after a failure, and the longest: a queue whose destination has the wrong type,
/// or a Redis that is away, is asked this often and no oftener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub min_ms: u64,
    pub max_ms: u64,
}

/// Transfers in vain, one after the other, that are free; more are throttled.
const FRUITLESS_FREE: u32 = 3;
/// The longest time that this throttle can hold back a true hint.
const FRUITLESS_MAX_MS: u64 = 100;
/// After this number of them each further head is waited for at least this long, even one that is
/// not due yet: it may move away each time.
const HEADS_FREE: u32 = 32;
const HEADS_EACH_MS: u64 = 10;
/// The longest rest, also where the clock steps.
const REST_MAX_MS: u64 = 250;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Look at the queue whatever is armed: it was found, or resumed. Ends a wait after a failure.
    Look,
    /// An obstacle to all queues may have ended: Redis is back, or all are resumed. The head of the
    /// queue is read next.
    Anew,
    /// Its head was read (`None`: nothing is pending): a hint that is true, but for what happened
    /// since it was asked for.
    Seen(Option<Moment>),
    /// Somebody who knows says that a message is due at this moment: an own offer, a first look.
    Hint(Moment),
    /// A publication says so; anyone can publish.
    Heard(Moment),
    /// The armed moment has come.
    Elapsed,
    /// A transfer answered: it moved something or not, and the head is now due at `next` (`None`:
    /// nothing is pending; `Some(SCORE_END)` or more: nothing that a timer can wait for). The next
    /// transfer is to begin `rest` ms from now at the earliest, so that others of Redis get their
    /// share.
    Moved { any: bool, next: Option<Moment>, rest: u64 },
    /// The queue is paused until this moment, or until somebody resumes it.
    Paused { until: Option<Moment> },
    /// Redis did not answer, or the queue cannot be delivered (wrong type, keys of another name).
    Failed,
    /// The keys belong to another name, which is the queue's from now on.
    Renamed,
    /// Redis's clock stepped.
    Stepped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask Redis to move what is due, when its turn comes.
    Transfer(Urgency),
    /// A publication says that something is due: find out whether that is so.
    Check,
    /// Arm the timer for this moment, in place of what was armed.
    WaitUntil(Moment),
    /// Nothing to do; what is armed stays armed.
    Stay,
    /// Nothing to wait for, but the queue is not empty: disarm and keep the loop.
    Sleep,
    /// The queue is empty: the loop may end, and comes back with the next offer, publication or
    /// scan.
    End,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueLoop {
    in_flight: bool,
    /// Asked to look while a transfer was under way.
    look_again: bool,
    /// The earliest hint since the transfer under way was sent, and the earliest publication.
    hinted: Option<Moment>,
    heard: Option<Moment>,
    armed: Option<Moment>,
    /// A publication named the armed moment.
    doubted: bool,
    paused: bool,
    failures: u32,
    fruitless: u32,
    /// No transfer before this moment, but for a look: the last one took long.
    rest_until: Moment,
    /// Nor before this one, because the last ones were in vain.
    quiet_until: Moment,
}

impl QueueLoop {
    /// Whether nothing is under way and nothing is waited for: the loop may be dropped if its queue
    /// is empty.
    pub fn is_idle(&self) -> bool {
        !self.in_flight && self.armed.is_none()
    }

    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether it asks Redis now, or stands in line for that.
    pub fn is_asking(&self) -> bool {
        self.in_flight
    }

    /// Whether it waits because of a failure.
    pub fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// The moment that it waits for.
    pub fn armed(&self) -> Option<Moment> {
        self.armed
    }

    pub fn on(&mut self, event: Event, now: Moment, backoff: Backoff) -> Next {
        match event {
            Event::Look => self.look(Urgency::Due),
            Event::Anew => {
                self.look_again |= self.in_flight;
                (self.paused, self.failures, self.quiet_until) = (false, 0, 0);
                Next::Stay
            }
            Event::Seen(head) => self.seen(head, now),
            Event::Hint(due) => self.hint(due, now, Urgency::Due),
            Event::Heard(due) => self.heard(due, now),
            Event::Elapsed => self.elapsed(),
            Event::Moved { any, next, rest } => {
                self.answered();
                self.rest_until = now.saturating_add(rest);
                self.failures = 0;
                if any {
                    (self.fruitless, self.quiet_until) = (0, 0);
                } else {
                    self.was_in_vain(now);
                }
                self.after_answer(next, now)
            }
            Event::Paused { until } => {
                self.answered();
                (self.failures, self.paused) = (0, true);
                self.was_in_vain(now);
                if std::mem::take(&mut self.look_again) {
                    return self.transfer(Urgency::Again);
                }
                (self.hinted, self.heard) = (None, None);
                match until {
                    Some(until) if until < SCORE_END => {
                        self.wait_until(until.max(self.quiet_until))
                    }
                    _ => Next::Sleep,
                }
            }
            Event::Failed => self.failed(now, backoff),
            // At once; but two who claim the keys in turn must not become a loop.
            Event::Renamed if self.failures == 0 => {
                self.failed(now, backoff);
                self.transfer(Urgency::Again)
            }
            Event::Renamed => self.failed(now, backoff),
            Event::Stepped => self.stepped(now, backoff),
        }
    }

    fn look(&mut self, urgency: Urgency) -> Next {
        if self.in_flight {
            self.look_again = true;
            return Next::Stay;
        }
        self.transfer(urgency)
    }

    fn seen(&mut self, head: Option<Moment>, now: Moment) -> Next {
        let rests = now < self.rest_until.max(self.quiet_until);
        match head {
            // A transfer under way is answer enough.
            _ if self.in_flight || self.failures > 0 => Next::Stay,
            // Where it slept, no transfer has seen that it is empty now.
            None if self.armed.is_none() => Next::End,
            _ if self.paused && head.is_none_or(|head| head > now) => Next::Stay,
            Some(head) if !self.paused => self.hint(head, now, Urgency::Again),
            _ if rests => Next::Stay,
            // Has somebody resumed it? Or what is waited for was taken out.
            _ => self.transfer(Urgency::Doubt),
        }
    }

    fn hint(&mut self, due: Moment, now: Moment, urgency: Urgency) -> Next {
        if self.in_flight {
            self.hinted = Some(self.hinted.map_or(due, |other| other.min(due)));
            return Next::Stay;
        }
        if self.is_answered(due, now) {
            return Next::Stay;
        }
        self.wait_for(due.max(self.quiet_until), now, urgency)
    }

    fn heard(&mut self, due: Moment, now: Moment) -> Next {
        if self.in_flight {
            self.heard = Some(self.heard.map_or(due, |other| other.min(due)));
            return Next::Stay;
        }
        if self.is_answered(due, now) {
            return Next::Stay;
        }
        match due.max(self.quiet_until).max(self.rest_until) {
            due if due <= now => Next::Check,
            due => self.doubt_until(due),
        }
    }

    /// Whether a hint changes nothing. A paused queue ends its pause by a timer or a look; one that
    /// failed waits its time out.
    fn is_answered(&self, due: Moment, now: Moment) -> bool {
        let due = due.max(now).max(self.quiet_until).max(self.rest_until);
        let waits = self.armed.is_some_and(|armed| armed <= due);
        self.paused || self.failures > 0 || waits || due >= SCORE_END
    }

    fn elapsed(&mut self) -> Next {
        let armed = self.armed.take().unwrap_or(0);
        if std::mem::take(&mut self.doubted) {
            return Next::Check;
        }
        self.look(if self.failures > 0 || armed == self.quiet_until {
            Urgency::Doubt
        } else if armed == self.rest_until {
            Urgency::Again
        } else {
            Urgency::Due
        })
    }

    /// The answer's head, or an earlier hint that the answer may not have seen: a late reply never
    /// postpones an earlier wake-up. A head that should have moved and did not is throttled, a head
    /// to come is not.
    fn after_answer(&mut self, next: Option<Moment>, now: Moment) -> Next {
        let (hinted, heard) = (self.hinted.take(), self.heard.take());
        if std::mem::take(&mut self.look_again) {
            return self.transfer(Urgency::Again);
        }
        let throttled = self.quiet_until.max(now);
        let soonest = match self.fruitless {
            0..=HEADS_FREE => now,
            _ => now + HEADS_EACH_MS,
        };
        let head = next.map(|next| if next > now { next.max(soonest) } else { throttled });
        let hinted = hinted.map(|hinted| hinted.max(throttled));
        let due = head.into_iter().chain(hinted).min();
        // A publication meanwhile may be true or not, which is to be found out next.
        let heard = heard.map(|heard| heard.max(throttled).max(self.rest_until).max(now + 1));
        match (due, heard) {
            (Some(due), Some(heard)) if due <= heard => self.wait_for(due, now, Urgency::Again),
            (_, Some(heard)) if heard < SCORE_END => self.doubt_until(heard),
            (Some(due), _) => self.wait_for(due, now, Urgency::Again),
            (None, _) => Next::End,
        }
    }

    fn failed(&mut self, now: Moment, backoff: Backoff) -> Next {
        self.answered();
        self.failures = self.failures.saturating_add(1);
        (self.hinted, self.heard, self.look_again) = (None, None, false);
        let wait = backoff.min_ms.saturating_mul(1 << (self.failures - 1).min(20));
        self.wait_until(now.saturating_add(wait.min(backoff.max_ms)))
    }

    /// The armed moment is one of Redis's clock, and stays; rests and backoffs are lengths.
    fn stepped(&mut self, now: Moment, backoff: Backoff) -> Next {
        self.rest_until = self.rest_until.min(now.saturating_add(REST_MAX_MS));
        self.quiet_until = self.quiet_until.min(now.saturating_add(FRUITLESS_MAX_MS));
        match self.armed {
            Some(armed) if self.failures > 0 => {
                self.wait_until(armed.min(now.saturating_add(backoff.max_ms)))
            }
            Some(armed) => Next::WaitUntil(armed),
            None => Next::Stay,
        }
    }

    fn was_in_vain(&mut self, now: Moment) {
        self.fruitless = self.fruitless.saturating_add(1);
        let excess = self.fruitless.saturating_sub(FRUITLESS_FREE);
        if excess > 0 {
            self.quiet_until = now.saturating_add(FRUITLESS_MAX_MS.min(1 << excess.min(7)));
        }
    }

    fn wait_for(&mut self, due: Moment, now: Moment, urgency: Urgency) -> Next {
        match due.max(self.rest_until) {
            _ if due >= SCORE_END => Next::Sleep,
            due if due <= now => self.transfer(urgency),
            due => self.wait_until(due),
        }
    }

    fn transfer(&mut self, urgency: Urgency) -> Next {
        self.in_flight = true;
        (self.armed, self.doubted) = (None, false);
        (self.hinted, self.heard) = (None, None);
        Next::Transfer(urgency)
    }

    fn wait_until(&mut self, due: Moment) -> Next {
        (self.armed, self.doubted) = (Some(due), false);
        Next::WaitUntil(due)
    }

    fn doubt_until(&mut self, due: Moment) -> Next {
        (self.armed, self.doubted) = (Some(due), true);
        Next::WaitUntil(due)
    }

    fn answered(&mut self) {
        self.in_flight = false;
        self.paused = false;
        self.armed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { min_ms: 50, max_ms: 5_000 };

    fn moved(any: bool, next: Option<Moment>) -> Event {
        let rest = 0;
        Event::Moved { any, next, rest }
    }

    fn rested(next: Option<Moment>, rest: u64) -> Event {
        let any = true;
        Event::Moved { any, next, rest }
    }

    /// Each row is a life: at `now` this happens, and that is to be done.
    #[test]
    fn table() {
        use Event::{Elapsed, Failed, Heard, Hint, Look, Paused, Renamed, Seen, Stepped};
        use Next::{Check, End, Sleep, Stay, WaitUntil};
        const DUE: Next = Next::Transfer(Urgency::Due);
        const AGAIN: Next = Next::Transfer(Urgency::Again);
        const DOUBT: Next = Next::Transfer(Urgency::Doubt);
        let rows: &[(&str, &[(Moment, Event, Next)])] = &[
            (
                "found, waits for its head, transfers, ends",
                &[
                    (0, Look, DUE),
                    (0, moved(false, Some(500)), WaitUntil(500)),
                    (500, Elapsed, DUE),
                    (501, moved(true, None), End),
                ],
            ),
            (
                "a full transfer goes on, behind those that had none",
                &[
                    (0, Look, DUE),
                    (1, moved(true, Some(0)), AGAIN),
                    (2, moved(true, Some(9)), WaitUntil(9)),
                ],
            ),
            (
                "an earlier hint moves the wait, a later one does not",
                &[
                    (0, Look, DUE),
                    (0, moved(false, Some(500)), WaitUntil(500)),
                    (1, Hint(800), Stay),
                    (1, Hint(500), Stay),
                    (1, Hint(300), WaitUntil(300)),
                    (2, Hint(400), Stay),
                    (3, Hint(3), DUE),
                ],
            ),
            (
                "a late reply does not postpone a hint that came after the call was sent",
                &[
                    (0, Look, DUE),
                    (1, Hint(30), Stay),
                    (2, Hint(20), Stay),
                    (3, moved(false, Some(50_000)), WaitUntil(20)),
                ],
            ),
            (
                "nor does an empty answer",
                &[
                    (0, Look, DUE),
                    (1, Hint(20), Stay),
                    (3, moved(false, None), WaitUntil(20)),
                    (20, Elapsed, DUE),
                    (20, moved(true, None), End),
                ],
            ),
            (
                "a hint from before the call is answered by it",
                &[
                    (0, Hint(20), WaitUntil(20)),
                    (5, Look, DUE),
                    (6, moved(false, Some(70)), WaitUntil(70)),
                ],
            ),
            (
                "a look during a transfer is not lost",
                &[
                    (0, Look, DUE),
                    (1, Look, Stay),
                    (2, moved(true, Some(900)), AGAIN),
                    (3, moved(false, Some(900)), WaitUntil(900)),
                ],
            ),
            (
                "a long transfer is followed by a rest, whatever is due",
                &[
                    (0, Look, DUE),
                    (20, rested(Some(0), 20), WaitUntil(40)),
                    (25, Hint(0), Stay),
                    (30, Seen(Some(0)), Stay),
                    (40, Elapsed, AGAIN),
                    (50, rested(None, 20), End),
                    (55, Hint(0), WaitUntil(70)),
                    (60, Look, DUE),
                    (61, rested(Some(90), 10), WaitUntil(90)),
                ],
            ),
            (
                "failures back off, hints wait, a look ends it",
                &[
                    (0, Look, DUE),
                    (0, Failed, WaitUntil(50)),
                    (10, Hint(0), Stay),
                    (10, Heard(0), Stay),
                    (50, Elapsed, DOUBT),
                    (50, Failed, WaitUntil(150)),
                    (60, Look, DUE),
                    (61, Failed, WaitUntil(261)),
                    (261, Elapsed, DOUBT),
                    (262, moved(true, None), End),
                ],
            ),
            (
                "a name that others recorded is tried at once, and once",
                &[
                    (0, Look, DUE),
                    (0, Renamed, AGAIN),
                    (0, Renamed, WaitUntil(100)),
                    (100, Elapsed, DOUBT),
                    (100, Renamed, WaitUntil(300)),
                    (300, Elapsed, DOUBT),
                    (300, moved(true, None), End),
                ],
            ),
            (
                "a paused queue ignores hints, ends by itself",
                &[
                    (0, Look, DUE),
                    (0, Paused { until: Some(1_000) }, WaitUntil(1_000)),
                    (5, Hint(5), Stay),
                    (5, Heard(5), Stay),
                    (5, Seen(None), Stay),
                    (1_000, Elapsed, DUE),
                    (1_000, moved(true, None), End),
                ],
            ),
            (
                "or sleeps until somebody looks; resumed during the call counts",
                &[
                    (0, Look, DUE),
                    (0, Paused { until: None }, Sleep),
                    (5, Hint(5), Stay),
                    (9, Look, DUE),
                    (9, Look, Stay),
                    (9, Paused { until: None }, AGAIN),
                    (9, moved(false, None), End),
                ],
            ),
            (
                "a pause that is over and goes on is asked about ever less often",
                &[
                    (9, Look, DUE),
                    (9, Paused { until: Some(3) }, WaitUntil(3)),
                    (9, Elapsed, DUE),
                    (9, Paused { until: Some(3) }, WaitUntil(3)),
                    (9, Elapsed, DUE),
                    (9, Paused { until: Some(3) }, WaitUntil(3)),
                    (9, Elapsed, DUE),
                    (9, Paused { until: Some(3) }, WaitUntil(11)),
                    (11, Elapsed, DOUBT),
                    (11, Paused { until: Some(3) }, WaitUntil(15)),
                ],
            ),
            (
                "a scan finds what no wake-up told, and leaves failures alone",
                &[
                    (0, Look, DUE),
                    (1, Seen(Some(0)), Stay),
                    (2, moved(false, Some(900)), WaitUntil(900)),
                    (3, Seen(Some(900)), Stay),
                    (3, Seen(Some(800)), WaitUntil(800)),
                    (3, Seen(Some(2)), AGAIN),
                    (3, Failed, WaitUntil(53)),
                    (4, Seen(Some(2)), Stay),
                    (53, Elapsed, DOUBT),
                    (53, Paused { until: None }, Sleep),
                    (54, Seen(Some(90)), Stay),
                    (54, Seen(Some(2)), DOUBT),
                    (55, Paused { until: None }, Sleep),
                ],
            ),
            (
                "what kept it from being delivered ends for all, and heads are read",
                &[
                    (0, Event::Anew, Stay),
                    (0, Look, DUE),
                    (1, Failed, WaitUntil(51)),
                    (2, Event::Anew, Stay),
                    (3, Seen(Some(0)), AGAIN),
                    (4, Paused { until: None }, Sleep),
                    (5, Event::Anew, Stay),
                    (6, Seen(Some(70)), WaitUntil(70)),
                    (70, Elapsed, DUE),
                    (71, Event::Anew, Stay),
                    (72, Paused { until: None }, AGAIN),
                ],
            ),
            (
                "an empty queue is looked at only if something is waited for",
                &[
                    (0, Seen(None), End),
                    (0, Hint(70), WaitUntil(70)),
                    (1, Seen(None), DOUBT),
                    (1, moved(false, None), End),
                    (2, Seen(None), End),
                    (2, Look, DUE),
                    (2, Paused { until: None }, Sleep),
                    (3, Seen(None), End),
                ],
            ),
            (
                "a huge score arms nothing",
                &[
                    (0, Look, DUE),
                    (0, moved(false, Some(SCORE_END)), Sleep),
                    (1, Hint(u64::MAX), Stay),
                    (1, Heard(u64::MAX), Stay),
                    (1, Seen(Some(u64::MAX)), Stay),
                    (2, Hint(40), WaitUntil(40)),
                    (40, Elapsed, DUE),
                    (40, Paused { until: Some(u64::MAX) }, Sleep),
                ],
            ),
            (
                "hints that lead to nothing are throttled, real heads are not",
                &[
                    (0, Hint(0), DUE),
                    (0, moved(false, None), End),
                    (0, Hint(0), DUE),
                    (0, moved(false, None), End),
                    (0, Hint(0), DUE),
                    (0, moved(false, None), End),
                    (0, Hint(0), DUE),
                    (0, moved(false, None), End),
                    (0, Hint(0), WaitUntil(2)),
                    (1, Hint(0), Stay),
                    (2, Elapsed, DOUBT),
                    (2, moved(false, Some(3)), WaitUntil(3)),
                    (3, Elapsed, DUE),
                    (3, moved(true, None), End),
                    (3, Hint(0), DUE),
                ],
            ),
            (
                "a publication is found out about, now or when what it says is due",
                &[
                    (0, Heard(0), Check),
                    (0, Heard(0), Check),
                    (0, Heard(90), WaitUntil(90)),
                    (1, Heard(90), Stay),
                    (1, Hint(300), Stay),
                    (90, Elapsed, Check),
                    (91, Seen(Some(300)), WaitUntil(300)),
                    (92, Heard(400), Stay),
                    (92, Heard(200), WaitUntil(200)),
                    (93, Hint(150), WaitUntil(150)),
                    (150, Elapsed, DUE),
                ],
            ),
            (
                "so is one during a transfer, unless the answer says enough",
                &[
                    (0, Look, DUE),
                    (0, Heard(5), Stay),
                    (1, moved(true, Some(5)), WaitUntil(5)),
                    (5, Elapsed, DUE),
                    (5, Heard(0), Stay),
                    (6, moved(true, Some(70)), WaitUntil(7)),
                    (7, Elapsed, Check),
                    (7, Look, DUE),
                    (8, Heard(0), Stay),
                    (8, moved(true, Some(0)), AGAIN),
                ],
            ),
            (
                "a step of the clock keeps what is waited for, and bounds its own waits",
                &[
                    (0, Stepped, Stay),
                    (9_000, Hint(9_900), WaitUntil(9_900)),
                    (100, Stepped, WaitUntil(9_900)),
                    (100, Look, DUE),
                    (9_000, Failed, WaitUntil(9_050)),
                    (100, Stepped, WaitUntil(5_100)),
                    (5_100, Elapsed, DOUBT),
                    (9_000, rested(Some(0), 200), WaitUntil(9_200)),
                    (100, Look, DUE),
                    (100, Stepped, Stay),
                    (100, moved(true, None), End),
                ],
            ),
        ];
        for (name, life) in rows {
            let mut state = QueueLoop::default();
            for (step, &(now, event, next)) in life.iter().enumerate() {
                assert_eq!(
                    state.on(event, now, BACKOFF),
                    next,
                    "{name}, step {step}: {event:?} at {now}"
                );
            }
        }
    }

    #[test]
    fn backoff_is_bounded() {
        let mut state = QueueLoop::default();
        for _ in 0..100 {
            state.on(Event::Look, 0, BACKOFF);
            state.on(Event::Failed, 0, BACKOFF);
        }
        state.on(Event::Look, 0, BACKOFF);
        assert_eq!(state.on(Event::Failed, 0, BACKOFF), Next::WaitUntil(5_000));
    }

    /// Numbers in no order, the same in every run.
    fn random() -> impl FnMut(u64) -> u64 {
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        }
    }

    /// Goal: no sequence of events leaves a queue with a known head and neither a timer, nor a
    /// transfer under way, nor a check, nor a pause. Method: random events from a fixed seed
    /// against the rule.
    #[test]
    fn a_known_head_is_never_forgotten() {
        let mut random = random();
        let mut state = QueueLoop::default();
        let mut now = 0;
        for _ in 0..100_000 {
            now += random(5);
            let due = now + random(50);
            let event = match (state.in_flight, random(4)) {
                (true, 0) => Event::Failed,
                (true, 1) => moved(random(2) == 0, Some(due)),
                (true, 2) => Event::Heard(due),
                (true, _) | (false, 0) => Event::Hint(due),
                (false, 1) => Event::Look,
                (false, _) if state.armed.is_some_and(|armed| armed <= now) => Event::Elapsed,
                (false, 2) => Event::Heard(now + random(10)),
                (false, _) => Event::Hint(now + random(10)),
            };
            let next = state.on(event, now, BACKOFF);
            let woken = state.in_flight || state.armed.is_some() || next == Next::Check;
            assert!(woken, "after {event:?} at {now}: {state:?}");
            if next == Next::Check && state.armed.is_none() {
                state.on(Event::Seen(Some(due)), now, BACKOFF);
            }
            if let (Event::Hint(due), false, 0, 0..=FRUITLESS_FREE) =
                (event, state.in_flight, state.failures, state.fruitless)
            {
                assert!(state.armed.is_some_and(|armed| armed <= due), "{event:?}: {state:?}");
            }
        }
    }

    /// Goal: whatever transfers answer and whatever is told meanwhile, those that bring nothing
    /// forward are few in a time. Method: for each seed one kind of answer, or all in turn, comes
    /// back in the same millisecond, hints and sights of a due head come without end, timers fire
    /// when they are due; ten seconds pass.
    #[test]
    fn no_progress_means_backing_off() {
        const SECONDS: u64 = 10;
        let answer = |kind: u64, now: Moment| match kind {
            0 => moved(false, None),
            1 => moved(false, Some(0)),
            2 => moved(false, Some(now)),
            3 => moved(false, Some(now + 1)),
            4 => moved(false, Some(SCORE_END)),
            5 => Event::Paused { until: None },
            6 => Event::Paused { until: Some(0) },
            7 => Event::Paused { until: Some(now + 1) },
            8 => Event::Failed,
            9 => Event::Renamed,
            _ => Event::Moved { any: false, next: Some(now), rest: 1 },
        };
        let mut random = random();
        for kind in 0..=20 {
            let (mut state, mut transfers) = (QueueLoop::default(), 0);
            for now in 0..SECONDS * 1_000 {
                let told =
                    [Event::Hint(0), Event::Seen(Some(0)), Event::Heard(0), Event::Seen(None)];
                let due = state.armed.is_some_and(|armed| armed <= now);
                for event in told.into_iter().chain(due.then_some(Event::Elapsed)) {
                    let mut next = state.on(event, now, BACKOFF);
                    if next == Next::Check {
                        next = state.on(Event::Hint(0), now, BACKOFF);
                    }
                    while let Next::Transfer(_) = next {
                        transfers += 1;
                        assert!(transfers < 10_000, "answers of kind {kind}: a loop at {now}");
                        // Beyond the kinds: any of them.
                        let kind = if kind > 10 { random(11) } else { kind };
                        next = state.on(answer(kind, now), now, BACKOFF);
                    }
                }
            }
            // A head that is always about to be due, alone or among all others.
            let each_ms = if kind == 3 || kind > 10 { HEADS_EACH_MS } else { FRUITLESS_MAX_MS / 2 };
            let most = SECONDS * 1_000 / each_ms + u64::from(HEADS_FREE);
            assert!(transfers <= most, "answers of kind {kind}: {transfers} transfers");
        }
    }
}
