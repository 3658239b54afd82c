//! Where the master is: one answer for every connection to it.
//!
//! The URL of a Redis is an answer that never changes. Behind Sentinels the address with the
//! highest epoch that any of them ever named counts, and the broker never goes back to an older
//! one. Whoever is connected elsewhere then leaves at once; a server is used only if it is a master
//! by its own word, and one that restarted only if the Sentinels still hold it for up: for ten
//! seconds it is a writable master, perhaps without data, also where its successor serves already.
//! [`sentinel`](super::sentinel) asks; this file decides, and knows no connection.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use redis_protocol::resp3::types::BytesFrame;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::config::{Place, Site};
use crate::metrics::Metrics;
use crate::store::backend::Backend;
use crate::store::facts::fields;
use crate::store::sentinel;

/// Once a Sentinel answered at the start, the others have so long to know better.
const FIRST_WITHIN: Duration = Duration::from_millis(500);
/// Until a Sentinel has told how long a master may be silent: Redis's default.
const DOWN_AFTER: Duration = Duration::from_secs(30);
/// Until a node of a Cluster has told how long a primary may be silent: Redis's default.
const NODE_TIMEOUT: Duration = Duration::from_secs(15);
/// An election, and a connection to the master that was elected.
const ELECTED_WITHIN: Duration = Duration::from_secs(3);
/// The longest that interrupted calls wait for the next master.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// Without an answer for so long, where one that hangs is noticed sooner, this process stood still.
const STOOD_STILL: Duration = Duration::from_secs(3);
/// The most that calls wait for an answer then.
const CATCH_UP_WITHIN: Duration = Duration::from_millis(250);
/// Of what Sentinels say, in one line.
const SHOWN_MAX: usize = 3;

/// A number that grows, and can be waited for.
#[derive(Default)]
struct Count {
    number: Cell<u64>,
    grew: Notify,
}

impl Count {
    fn add(&self) {
        self.number.set(self.number.get() + 1);
        self.grew.notify_waiters();
    }

    async fn beyond(&self, number: u64) {
        loop {
            let grew = self.grew.notified();
            if self.number.get() > number {
                return;
            }
            grew.await;
        }
    }
}

pub struct Master {
    /// `None`: no Sentinel has named it yet.
    place: RefCell<Option<Place>>,
    /// How often it was named.
    named: Count,
    /// `None`: the answer never changes.
    watched: Option<Watched>,
    /// Of a node of a Cluster.
    times: Option<Times>,
}

/// How long the nodes of a Cluster let a primary be silent before they replace it.
#[derive(Clone, Default)]
pub(super) struct Times(Rc<Cell<Option<Duration>>>);

impl Times {
    pub(super) fn learn(&self, node_timeout: Duration) {
        self.0.set(Some(node_timeout));
    }

    /// A primary that was stopped and continues must not run a call after its successor began.
    fn valid_for(&self, at_most: Duration) -> Duration {
        self.0.get().map_or(at_most, |node_timeout| at_most.min(node_timeout))
    }

    /// How long the outcome of an interrupted call is looked for: the successor can tell.
    pub(super) fn settle_within(&self, at_least: Duration) -> Duration {
        let node_timeout = self.0.get().unwrap_or(NODE_TIMEOUT);
        at_least.max((node_timeout + ELECTED_WITHIN).min(SETTLE_MAX))
    }
}

/// A master that Sentinels watch.
struct Watched {
    name: String,
    sentinels: Vec<Sentinel>,
    /// Of the place that was named.
    epoch: Cell<u64>,
    /// Of the server that was used there; empty before.
    run_id: RefCell<String>,
    /// Questions that the Sentinels are to be asked, and answers that came.
    asks: Count,
    answers: Count,
    /// At the start: when the best answer until then counts.
    first_until: Cell<Option<Instant>>,
    /// The shortest and the longest that a Sentinel waits for a master that is silent.
    down_after: Cell<(Duration, Duration)>,
    /// When the last question was sent that was answered, while one can be asked.
    answered: Cell<Option<Instant>>,
    /// That a Sentinel names another one was said.
    disputed: Cell<bool>,
    metrics: Metrics,
}

struct Sentinel {
    place: Place,
    heard: RefCell<Option<Heard>>,
}

struct Heard {
    /// When it was asked.
    asked: Instant,
    /// Or why there is no answer.
    said: Result<Said, String>,
}

/// The words of one Sentinel about the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) epoch: u64,
    pub(super) place: Place,
    /// It does not answer this Sentinel.
    pub(super) down: bool,
    /// The Sentinels agree on that, or replace it.
    pub(super) given_up: bool,
    /// How long it may be silent before it is down.
    pub(super) down_after: Duration,
}

/// The state of things, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    pub name: String,
    /// Empty before it is known.
    pub master: String,
    pub epoch: u64,
    pub failovers: u64,
    pub sentinels: usize,
    pub reachable: usize,
}

impl Master {
    /// Asks the Sentinels, if there are any, as long as the runtime lives; does not wait.
    pub fn start(backend: &Backend, metrics: &Metrics, within: Duration) -> Rc<Self> {
        let (name, places) = match &backend.site {
            Site::At(place) => return Rc::new(Self::fixed(place.clone())),
            // Each primary of a Cluster has its own, once it is known.
            Site::Cluster { .. } => return Rc::new(Self::nowhere()),
            Site::Named { name, sentinels } => (name, sentinels),
        };
        let master = Rc::new(Self::named_by(name, places, metrics));
        for at in 0..places.len() {
            let (master, login) = (master.clone(), backend.sentinels.clone());
            tokio::task::spawn_local(sentinel::watch(master, at, login, within));
        }
        master
    }

    pub(super) fn fixed(place: Place) -> Self {
        let place = RefCell::new(Some(place));
        Self { place, named: Count::default(), watched: None, times: None }
    }

    fn nowhere() -> Self {
        Self { place: RefCell::default(), named: Count::default(), watched: None, times: None }
    }

    pub(super) fn of_cluster(place: Place, times: Times) -> Self {
        Self { times: Some(times), ..Self::fixed(place) }
    }

    fn named_by(name: &str, places: &[Place], metrics: &Metrics) -> Self {
        let sentinel = |place: &Place| Sentinel { place: place.clone(), heard: RefCell::default() };
        metrics.sentinels.of([]).set(places.len() as f64);
        let watched = Watched {
            name: name.to_owned(),
            sentinels: places.iter().map(sentinel).collect(),
            epoch: Cell::default(),
            run_id: RefCell::default(),
            asks: Count::default(),
            answers: Count::default(),
            first_until: Cell::default(),
            down_after: Cell::new((DOWN_AFTER, DOWN_AFTER)),
            answered: Cell::default(),
            disputed: Cell::default(),
            metrics: metrics.clone(),
        };
        let (place, named) = (RefCell::default(), Count::default());
        Self { place, named, watched: Some(watched), times: None }
    }

    /// The same; waits for the first answer, since at the start a moment is no trouble.
    ///
    /// # Errors
    /// As `place`.
    pub(super) async fn first_place(&self) -> Result<Place, String> {
        if self.place.borrow().is_none() {
            let _ = timeout(2 * FIRST_WITHIN, self.named.beyond(0)).await;
        }
        self.place()
    }

    /// # Errors
    /// It is not known yet; the reason is one line.
    pub fn place(&self) -> Result<Place, String> {
        self.place.borrow().clone().ok_or_else(|| self.why_unknown())
    }

    /// True if it can change.
    pub fn can_move(&self) -> bool {
        self.watched.is_some()
    }

    /// How often it was named: connections are to the place that was named last.
    pub fn named(&self) -> u64 {
        self.named.number.get()
    }

    /// Waits until it was named more often.
    pub async fn named_beyond(&self, named: u64) {
        match self.can_move() {
            true => self.named.beyond(named).await,
            false => std::future::pending().await,
        }
    }

    /// Where this process stood still, waits until a Sentinel has answered, for a moment: another
    /// master may have been named meanwhile.
    pub async fn caught_up(&self) {
        let Some(watched) = &self.watched else { return };
        let stood_still = |at: Instant| at.elapsed() > STOOD_STILL;
        if watched.answered.get().is_some_and(stood_still) {
            let fresh = async {
                while watched.answered.get().is_some_and(stood_still) {
                    watched.asks.add();
                    watched.answers.beyond(watched.answers.number.get()).await;
                }
            };
            let _ = timeout(CATCH_UP_WITHIN, fresh).await;
        }
    }

    /// A call must not be valid for so long that a master runs it after its successor began, as one
    /// does that was stopped and continues.
    pub fn valid_for(&self, at_most: Duration) -> Duration {
        match (&self.watched, &self.times) {
            (Some(watched), _) => at_most.min(watched.down_after.get().0),
            (None, Some(times)) => times.valid_for(at_most),
            (None, None) => at_most,
        }
    }

    /// How long the outcome of an interrupted call is looked for: the next master can tell.
    pub fn settle_within(&self, at_least: Duration) -> Duration {
        let watched = self.watched.as_ref();
        watched.map_or(at_least, |watched| {
            at_least.max((watched.down_after.get().1 + ELECTED_WITHIN).min(SETTLE_MAX))
        })
    }

    /// Questions to a server at the login, whose answers [`Master::admits`] judges.
    pub(super) fn questions(&self) -> &'static [&'static [&'static str]] {
        match self.can_move() {
            true => &[&["INFO", "replication"], &["INFO", "server"]],
            false => &[],
        }
    }

    /// Judges the server at the place that was named.
    ///
    /// # Errors
    /// It must not be used now; the reason is one line.
    pub(super) async fn admits(
        &self,
        answers: &[BytesFrame],
        within: Duration,
    ) -> Result<(), String> {
        let (Some(watched), [replication, server]) = (&self.watched, answers) else {
            return Ok(());
        };
        let at = self.place()?;
        let role = field(replication, "role")?;
        if role != "master" {
            watched.asks.add();
            return Err(format!(
                "{at} is a replica (role:{role}), and the Sentinels name no other master yet"
            ));
        }
        let run_id = field(server, "run_id")?;
        if *watched.run_id.borrow() == run_id {
            return Ok(());
        }
        let restarted = !watched.run_id.borrow().is_empty();
        if restarted {
            watched.confirmed(&at, within).await?;
        }
        if watched.holds_for_down(&at) {
            watched.asks.add();
            return Err(format!(
                "the Sentinels hold {at} for down: it is used again when they do not, or name \
                 another master"
            ));
        }
        watched.run_id.replace(run_id);
        Ok(())
    }

    /// Waits until the Sentinels are to be asked beyond so many times.
    pub(super) async fn asked_beyond(&self, asks: u64) {
        if let Some(watched) = &self.watched {
            watched.asks.beyond(asks).await;
        }
    }

    pub(super) fn asks(&self) -> u64 {
        self.watched.as_ref().map_or(0, |watched| watched.asks.number.get())
    }

    /// The name of the master, and the place of one of its Sentinels.
    pub(super) fn sentinel(&self, at: usize) -> Option<(&str, &Place)> {
        let watched = self.watched.as_ref()?;
        Some((&watched.name, &watched.sentinels.get(at)?.place))
    }

    /// A Sentinel answered, or cannot.
    pub(super) fn heard(self: &Rc<Self>, at: usize, asked: Instant, said: Result<Said, String>) {
        let Some(watched) = &self.watched else { return };
        let Some(sentinel) = watched.sentinels.get(at) else { return };
        let before = sentinel.heard.replace(Some(Heard { asked, said: said.clone() }));
        let before = before.map(|before| before.said);
        let place = &sentinel.place;
        match (&before, &said) {
            (Some(Ok(_)), Ok(_)) => {}
            (_, Ok(said)) => {
                tracing::info!(sentinel = %place, master = %said.place, "a Sentinel answers");
            }
            (Some(Err(before)), Err(why)) if before == why => {}
            (_, Err(why)) => tracing::warn!(sentinel = %place, why, "a Sentinel cannot be asked"),
        }
        watched.learn_down_after();
        let reachable = watched.reachable();
        let latest = watched.said().map(|(asked, _)| asked).max();
        watched.answered.set(latest);
        watched.metrics.sentinels_reachable.of([]).set(reachable as f64);
        if reachable == 0 && matches!((&before, &said), (Some(Ok(_)), Err(_))) {
            tracing::warn!(
                "no Sentinel can be asked: the broker stays with the master it knows, and will not \
                 hear of another one"
            );
        }
        self.choose();
        if self.place.borrow().is_none()
            && reachable > 0
            && watched.first_until.replace(watched.first_until.get().or(Some(soon()))).is_none()
        {
            let master = self.clone();
            tokio::task::spawn_local(async move {
                tokio::time::sleep(FIRST_WITHIN).await;
                master.choose();
            });
        }
        // Twice the same: not between two commands of one answer.
        if let (Some(Ok(before)), Ok(said)) = (&before, &said)
            && before == said
        {
            self.dispute(place, said);
        }
        watched.answers.add();
    }

    /// Takes up the best that was said, if it is better than what is known.
    fn choose(&self) {
        let Some(watched) = &self.watched else { return };
        if let Some(epoch) = self.place.borrow().as_ref().and_then(|at| watched.counts_anew(at)) {
            let before = watched.epoch.replace(epoch);
            tracing::info!(
                epoch,
                before,
                "all Sentinels count the masters anew, and name this one"
            );
        }
        let Some(best) = watched.best() else { return };
        let known = self.place.borrow().is_some();
        let is_better =
            if known { best.epoch > watched.epoch.get() } else { watched.is_heard_out() };
        if !is_better {
            return;
        }
        watched.epoch.set(best.epoch);
        watched.run_id.take();
        watched.disputed.set(false);
        let (name, master, epoch) = (&watched.name, &best.place, best.epoch);
        match self.place.replace(Some(best.place.clone())) {
            None => tracing::info!(name, %master, epoch, "the Sentinels name the master"),
            Some(left) => {
                watched.metrics.failovers.of([]).increment(1);
                tracing::warn!(
                    name, %master, %left, epoch, "failover: the Sentinels name another master"
                );
            }
        }
        watched.metrics.set_master(&best.place.to_string());
        self.named.add();
    }

    /// Somebody named another place by the same epoch, as after `SENTINEL REMOVE` and `MONITOR`.
    fn dispute(&self, sentinel: &Place, said: &Said) {
        let Some(watched) = &self.watched else { return };
        let known = self.place.borrow();
        let Some(known) = known.as_ref().filter(|known| **known != said.place) else { return };
        let epoch = watched.epoch.get();
        if said.epoch <= epoch && !watched.disputed.replace(true) {
            tracing::warn!(
                %sentinel, names = %said.place, its_epoch = said.epoch, master = %known, epoch,
                "a Sentinel names another master by an epoch that is not higher: it is not \
                 followed; if it is right, start the broker anew"
            );
        }
    }

    fn why_unknown(&self) -> String {
        let Some(watched) = &self.watched else { return String::new() };
        let whys = watched.sentinels.iter().filter_map(|sentinel| {
            let heard = sentinel.heard.borrow();
            let why = heard.as_ref()?.said.as_ref().err()?;
            Some(format!("{}: {why}", sentinel.place))
        });
        let whys: Vec<String> = whys.take(SHOWN_MAX).collect();
        let name = &watched.name;
        match whys.is_empty() {
            true => format!("no Sentinel has named the master '{name}' yet"),
            false => format!("no Sentinel names the master '{name}': {}", whys.join("; ")),
        }
    }

    /// Nothing where there are no Sentinels.
    pub fn watch(&self) -> Option<Watch> {
        let watched = self.watched.as_ref()?;
        Some(Watch {
            name: watched.name.clone(),
            master: self.place.borrow().as_ref().map(Place::to_string).unwrap_or_default(),
            epoch: watched.epoch.get(),
            failovers: self.named().saturating_sub(1),
            sentinels: watched.sentinels.len(),
            reachable: watched.reachable(),
        })
    }
}

fn soon() -> Instant {
    Instant::now() + FIRST_WITHIN
}

impl Watched {
    /// What those say that can be asked, in the order of the URL.
    fn said(&self) -> impl Iterator<Item = (Instant, Said)> {
        self.sentinels.iter().filter_map(|sentinel| {
            let heard = sentinel.heard.borrow();
            let heard = heard.as_ref()?;
            heard.said.clone().ok().map(|said| (heard.asked, said))
        })
    }

    fn reachable(&self) -> usize {
        self.said().count()
    }

    fn best(&self) -> Option<Said> {
        // Of several the first.
        self.said().map(|(_, said)| said).reduce(|best, said| match said.epoch > best.epoch {
            true => said,
            false => best,
        })
    }

    /// The highest epoch, where every Sentinel names the known place by a lower one than the known,
    /// as after `SENTINEL REMOVE` and `MONITOR` at all of them.
    fn counts_anew(&self, known: &Place) -> Option<u64> {
        let said: Vec<Said> = self.said().map(|(_, said)| said).collect();
        let lower = |said: &Said| said.place == *known && said.epoch < self.epoch.get();
        let all = said.len() == self.sentinels.len() && said.iter().all(lower);
        said.iter().map(|said| said.epoch).max().filter(|_| all)
    }

    /// Most have answered, or whoever has not had its time. A single one may be behind.
    fn is_heard_out(&self) -> bool {
        let all = self.sentinels.len();
        let heard = self.sentinels.iter().filter(|one| one.heard.borrow().is_some()).count();
        let is_late = self.first_until.get().is_some_and(|until| Instant::now() >= until);
        2 * self.reachable() > all || heard == all || is_late
    }

    fn learn_down_after(&self) {
        let all: Vec<Duration> = self.said().map(|(_, said)| said.down_after).collect();
        if let (Some(shortest), Some(longest)) = (all.iter().min(), all.iter().max()) {
            self.down_after.set((*shortest, *longest));
        }
    }

    /// They agree on it, or half of those that name this place say so.
    fn holds_for_down(&self, at: &Place) -> bool {
        let current: Vec<Said> =
            self.said().map(|(_, said)| said).filter(|said| said.place == *at).collect();
        let down = current.iter().filter(|said| said.down).count();
        current.iter().any(|said| said.given_up) || (down > 0 && 2 * down >= current.len())
    }

    /// Waits until all that can be asked have answered again, or the time is up; one of them has to
    /// name this place still.
    async fn confirmed(&self, at: &Place, within: Duration) -> Result<(), String> {
        let since = Instant::now();
        self.asks.add();
        let all = async {
            while self.said().any(|(asked, _)| asked < since) {
                self.answers.beyond(self.answers.number.get()).await;
            }
        };
        // One that hangs is not waited for.
        let _ = timeout(within.min(FIRST_WITHIN), all).await;
        match self.said().any(|(asked, said)| asked >= since && said.place == *at) {
            true => Ok(()),
            false => {
                Err(format!("{at} has restarted, and no Sentinel says that it is the master still"))
            }
        }
    }
}

/// A field of INFO.
fn field(info: &BytesFrame, name: &str) -> Result<String, String> {
    let text = match info {
        BytesFrame::BlobString { data, .. } => String::from_utf8_lossy(data).into_owned(),
        BytesFrame::SimpleError { data, .. } => {
            return Err(format!("behind Sentinels the broker has to ask INFO of Redis: {data}"));
        }
        _ => String::new(),
    };
    fields(&text).remove(name).ok_or_else(|| format!("Redis's INFO has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const WITHIN: Duration = Duration::from_millis(100);

    fn place(port: u16) -> Place {
        Place::Tcp { host: "h".to_owned(), port, tls: false }
    }

    fn master(sentinels: u16) -> Rc<Master> {
        let places: Vec<Place> = (0..sentinels).map(|at| place(26_379 + at)).collect();
        Rc::new(Master::named_by("orders", &places, &Metrics::new(1)))
    }

    fn said(epoch: u64, port: u16) -> Said {
        let down_after = Duration::from_millis(500);
        Said { epoch, place: place(port), down: false, given_up: false, down_after }
    }

    fn hear(master: &Rc<Master>, at: usize, said: Said) {
        master.heard(at, Instant::now(), Ok(said));
    }

    fn silent(master: &Rc<Master>, at: usize) {
        master.heard(at, Instant::now(), Err("Connection refused".to_owned()));
    }

    async fn run(test: impl Future<Output = ()>) {
        tokio::task::LocalSet::new().run_until(test).await;
    }

    /// Each row: what three Sentinels say one after the other, as number, epoch and port; the port
    /// that is named then, 0 for none.
    #[tokio::test]
    async fn who_is_believed() {
        #[rustfmt::skip]
        let rows: [(&[(usize, u64, u16)], u16); 10] = [
            (&[], 0),
            (&[(0, 0, 1)], 0),
            (&[(0, 0, 1), (1, 0, 1)], 1),
            // One that is behind answers first.
            (&[(0, 0, 1), (1, 3, 2)], 2),
            (&[(0, 0, 1), (1, 0, 1), (2, 1, 2)], 2),
            // Never back, and not to another of the same epoch.
            (&[(0, 1, 2), (1, 1, 2), (2, 0, 1), (0, 0, 1), (1, 0, 1)], 2),
            (&[(0, 1, 2), (1, 1, 2), (2, 1, 3), (2, 1, 3)], 2),
            (&[(0, 1, 2), (1, 1, 2), (2, 2, 1), (0, 3, 2)], 2),
            // All began to count anew at the same place, and then not all.
            (&[(0, 3, 2), (1, 3, 2), (2, 3, 2), (0, 0, 2), (1, 0, 2), (2, 0, 2), (1, 1, 1)], 1),
            (&[(0, 3, 2), (1, 3, 2), (2, 3, 2), (0, 0, 2), (1, 0, 2), (2, 1, 1)], 2),
        ];
        for (words, port) in rows {
            run(async {
                let master = master(3);
                for (at, epoch, port) in words {
                    hear(&master, *at, said(*epoch, *port));
                }
                let wanted = Some(place(port)).filter(|_| port > 0);
                assert_eq!(master.place().ok(), wanted, "{words:?}");
            })
            .await;
        }
    }

    #[tokio::test]
    async fn the_first_answer_waits_for_others_that_can_answer() {
        run(async {
            // Those that cannot are not waited for.
            let lone = master(3);
            hear(&lone, 0, said(0, 1));
            silent(&lone, 1);
            assert!(lone.place().is_err());
            silent(&lone, 2);
            assert_eq!(lone.place(), Ok(place(1)));
            // Those that say nothing for long are not, either.
            let slow = master(3);
            hear(&slow, 0, said(0, 1));
            assert!(slow.place().is_err());
            assert_eq!(slow.first_place().await, Ok(place(1)));
            // The name is known to nobody.
            let lost = master(2);
            silent(&lost, 0);
            let why = lost.place().unwrap_err();
            assert!(why.ends_with("'orders': h:26379: Connection refused"), "{why}");
        })
        .await;
    }

    fn info(text: &str) -> BytesFrame {
        BytesFrame::BlobString { data: text.to_owned().into(), attributes: None }
    }

    async fn admits(master: &Master, role: &str, run_id: &str) -> String {
        let role = info(&format!("# Replication\r\nrole:{role}\r\n"));
        let server = info(&format!("# Server\r\nrun_id:{run_id}\r\n"));
        master.admits(&[role, server], WITHIN).await.err().unwrap_or_default()
    }

    #[tokio::test]
    async fn which_server_is_used() {
        run(async {
            let master = master(1);
            hear(&master, 0, said(0, 1));
            let asks = master.asks();
            assert!(admits(&master, "slave", "a").await.contains("h:1 is a replica (role:slave)"));
            assert!(master.asks() > asks);
            assert_eq!(admits(&master, "master", "a").await, "");
            // The same process, whatever Sentinels say by now.
            silent(&master, 0);
            assert_eq!(admits(&master, "master", "a").await, "");
            let why = admits(&master, "master", "b").await;
            assert!(why.contains("has restarted, and no Sentinel says"), "{why}");
            // An answer from before it restarted does not count.
            hear(&master, 0, said(0, 1));
            let why = admits(&master, "master", "b").await;
            assert!(why.contains("has restarted, and no Sentinel says"), "{why}");
            for (doubt, admitted) in [
                (Said { given_up: true, ..said(0, 1) }, false),
                (Said { down: true, ..said(0, 1) }, false),
                // Of another place it says nothing about this one, by whichever epoch.
                (said(0, 2), false),
                (said(0, 1), true),
            ] {
                let (answering, shown) = (master.clone(), format!("{doubt:?}"));
                let asked = master.asks();
                let answer = async move {
                    answering.asked_beyond(asked).await;
                    hear(&answering, 0, doubt);
                };
                let (why, ()) =
                    futures_util::future::join(admits(&master, "master", "b"), answer).await;
                assert_eq!(why.is_empty(), admitted, "{shown}: {why}");
            }
            // Another place begins anew.
            hear(&master, 0, said(1, 2));
            assert_eq!(admits(&master, "master", "c").await, "");
            let refused = BytesFrame::SimpleError { data: "NOPERM".into(), attributes: None };
            let answers = [refused.clone(), refused];
            assert!(master.admits(&answers, WITHIN).await.unwrap_err().contains("INFO"));
        })
        .await;
    }

    /// One Sentinel of three that cannot reach the master proves nothing.
    #[tokio::test]
    async fn one_of_many_may_be_wrong() {
        run(async {
            let master = master(3);
            hear(&master, 0, Said { down: true, ..said(0, 1) });
            hear(&master, 1, said(0, 1));
            hear(&master, 2, said(0, 1));
            assert_eq!(admits(&master, "master", "a").await, "");
        })
        .await;
    }

    #[tokio::test]
    async fn a_process_that_stood_still_asks_first() {
        run(async {
            let at_once = |master: &Master| master.caught_up().now_or_never().is_some();
            let master = master(1);
            assert!(at_once(&master) && at_once(&Master::fixed(place(1))));
            hear(&master, 0, said(0, 1));
            assert!(at_once(&master));
            let long_ago = Instant::now().checked_sub(2 * STOOD_STILL).unwrap();
            master.heard(0, long_ago, Ok(said(0, 1)));
            assert!(!at_once(&master));
            let asks = master.asks();
            let then = async {
                master.caught_up().await;
                master.place()
            };
            let answer = async {
                master.asked_beyond(asks).await;
                hear(&master, 0, said(1, 2));
            };
            let (then, ()) = futures_util::future::join(then, answer).await;
            assert_eq!(then, Ok(place(2)));
            // Nobody answers, or can: calls go on.
            master.heard(0, long_ago, Ok(said(1, 2)));
            master.caught_up().await;
            silent(&master, 0);
            assert!(at_once(&master));
        })
        .await;
    }

    #[test]
    fn times_follow_the_nodes_of_a_cluster() {
        let (short, long) = (Duration::from_millis(500), Duration::from_secs(2));
        let times = Times::default();
        let master = Master::of_cluster(place(1), times.clone());
        assert_eq!(master.valid_for(long), long);
        assert_eq!(times.settle_within(long), NODE_TIMEOUT + ELECTED_WITHIN);
        times.learn(short);
        assert_eq!(master.valid_for(long), short);
        assert_eq!(times.settle_within(long), short + ELECTED_WITHIN);
        assert_eq!(times.settle_within(Duration::from_secs(9)), Duration::from_secs(9));
        times.learn(Duration::from_secs(600));
        assert_eq!(times.settle_within(long), SETTLE_MAX);
    }

    #[tokio::test]
    async fn times_follow_the_sentinels() {
        run(async {
            let (short, long) = (Duration::from_millis(500), Duration::from_secs(2));
            let fixed = Master::fixed(place(1));
            assert_eq!((fixed.valid_for(long), fixed.settle_within(long)), (long, long));
            assert_eq!((fixed.questions().len(), fixed.watch()), (0, None));
            let master = master(2);
            assert_eq!((master.valid_for(long), master.settle_within(long)), (long, SETTLE_MAX));
            hear(&master, 0, said(0, 1));
            assert_eq!(master.valid_for(long), short);
            assert_eq!(master.settle_within(long), short + ELECTED_WITHIN);
            let slow = Duration::from_secs(5);
            hear(&master, 1, Said { down_after: slow, ..said(0, 1) });
            assert_eq!(master.valid_for(long), short);
            assert_eq!(master.settle_within(long), slow + ELECTED_WITHIN);
        })
        .await;
    }
}
