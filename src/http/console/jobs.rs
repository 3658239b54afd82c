//! Runs of a command over all messages that match, page after page, on this thread: a dry run
//! counts, and only one that has come to its end can be run in earnest.
//!
//! Each page is a command of the user who began it: it ends where his session or his rights do, and
//! where the console may not change anything any more. Keeps: few at a time, few that are
//! remembered, each with an end; what a dry run has counted is run in earnest once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use askama::Template;
use hyper::{Response, StatusCode};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::oneshot;

use crate::client::alone::{Wants, Who};
use crate::http::body::Body;
use crate::http::problem::{NOT_FOUND, Problem};
use crate::http::{Asked, Came, api};
use crate::resp::{Reply, Words};

use super::pages::{Frame, Reader, queue_path};
use super::show::{self, count, duration, items, whole};
use super::{Visit, page};

/// Runs at one time, and those that are remembered: of all, and of one session.
const RUNNING_MAX: usize = 4;
const KEPT_MAX: usize = 100;
const OF_ONE_MAX: usize = 10;
/// Time after which one is stopped, and after which one that has ended is forgotten;
const LASTS: Duration = Duration::from_secs(60 * 60);
/// the latter of a dry run, since what it has counted is soon something else.
const DRY_LASTS: Duration = Duration::from_secs(10 * 60);

#[derive(Default)]
pub struct Jobs(RefCell<Vec<Rc<Job>>>);

pub struct Job {
    pub id: String,
    who: Who,
    queue: Vec<u8>,
    /// Of [`super::find::CHANGES`].
    verb: &'static str,
    /// The command without cursor and DRYRUN.
    words: Vec<Vec<u8>>,
    /// The dry run that it is in earnest; none: it is a dry run itself.
    of: Option<Rc<Job>>,
    /// The run in earnest of this one.
    earnest: RefCell<Option<String>>,
    begun: Instant,
    looked: Cell<i64>,
    found: Cell<i64>,
    stopped: Cell<bool>,
    /// How it ended, and when.
    end: RefCell<Option<(Result<(), String>, Duration)>>,
}

fn same(one: &Who, other: &Who) -> bool {
    match (one, other) {
        (Who::Nobody, Who::Nobody) => true,
        (Who::Session(one), Who::Session(other)) => one == other,
        _ => false,
    }
}

impl Jobs {
    /// One of somebody's own.
    pub fn get(&self, id: &str, who: &Who) -> Option<Rc<Job>> {
        self.forget(Instant::now());
        let jobs = self.0.borrow();
        jobs.iter().find(|job| job.id == id && same(&job.who, who)).cloned()
    }

    fn add(&self, job: &Rc<Job>) -> Result<(), Problem> {
        self.forget(Instant::now());
        let mut jobs = self.0.borrow_mut();
        if jobs.iter().filter(|job| !job.has_ended()).count() >= RUNNING_MAX {
            let text = format!("UNAVAILABLE {RUNNING_MAX} other runs are under way");
            return Err(Problem::of(text));
        }
        let is_own = |other: &Rc<Job>| same(&other.who, &job.who);
        let own_makes_room = jobs.iter().filter(|other| is_own(other)).count() >= OF_ONE_MAX;
        let makes_room = |other: &Rc<Job>| other.has_ended() && (!own_makes_room || is_own(other));
        if (own_makes_room || jobs.len() >= KEPT_MAX)
            && let Some(oldest) = jobs.iter().position(makes_room)
        {
            jobs.remove(oldest);
        }
        jobs.push(Rc::clone(job));
        Ok(())
    }

    fn remove(&self, job: &Rc<Job>) {
        self.0.borrow_mut().retain(|other| !Rc::ptr_eq(other, job));
    }

    /// Those that ended long ago.
    fn forget(&self, now: Instant) {
        self.0.borrow_mut().retain(|job| match &*job.end.borrow() {
            None => true,
            Some((_, took)) => {
                let lasts = if job.is_dry() { DRY_LASTS } else { LASTS };
                now.saturating_duration_since(job.begun + *took) < lasts
            }
        });
    }

    /// Somebody ends his session.
    pub fn leave(&self, who: &Who) {
        if matches!(who, Who::Session(_)) {
            let mut jobs = self.0.borrow_mut();
            jobs.iter().filter(|job| same(&job.who, who)).for_each(|job| job.stop());
            jobs.retain(|job| !same(&job.who, who) || !job.has_ended());
        }
    }
}

impl Job {
    pub fn dry(who: &Who, queue: Vec<u8>, verb: &'static str, words: Vec<Vec<u8>>) -> Self {
        let mut id = [0; 16];
        // It is found by its owner only; this tells it from others of his.
        let _ = getrandom(&mut id, GetRandomFlags::empty());
        Self {
            id: hex::encode(id),
            who: who.clone(),
            queue,
            verb,
            words,
            of: None,
            earnest: RefCell::default(),
            begun: Instant::now(),
            looked: Cell::new(0),
            found: Cell::new(0),
            stopped: Cell::new(false),
            end: RefCell::new(None),
        }
    }

    fn is_dry(&self) -> bool {
        self.of.is_none()
    }

    fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    pub fn stop(&self) {
        self.stopped.set(true);
    }

    /// Why it does not go on.
    fn stops(&self, asked: &Asked) -> Result<(), String> {
        if self.stopped.get() {
            return Err("it was stopped".to_owned());
        }
        if self.begun.elapsed() > LASTS {
            return Err(format!("it took more than {} min", LASTS.as_secs() / 60));
        }
        let settings = asked.settings.borrow();
        match settings.ui.enabled {
            false => Err("the console is switched off (ui.enabled)".to_owned()),
            true if settings.ui.read_only && !self.is_dry() => {
                Err("the console is for looking only (ui.read_only)".to_owned())
            }
            true => Ok(()),
        }
    }

    /// One page; the cursor of the next.
    async fn step(
        &self,
        asked: &Asked,
        came: &Came,
        cursor: Option<&str>,
    ) -> Result<Option<String>, String> {
        let mut words = Words::default();
        self.words.iter().for_each(|word| words.push(word));
        if let Some(cursor) = cursor {
            words.push(b"CURSOR");
            words.push(cursor.as_bytes());
        }
        if self.is_dry() {
            words.push(b"DRYRUN");
        }
        // It has time, and nothing of this page is sent yet.
        let _place = asked.places.search().await;
        self.stops(asked)?;
        let changes = !self.is_dry();
        let done = api::call(asked, came, self.who.clone(), Wants::Command(words), changes);
        let reply = done.await.map_err(|problem| problem.text)?.reply;
        if let Reply::Error(text) = reply {
            return Err(text);
        }
        let [_, looked, found] = items(&reply) else {
            return Err("INTERNAL the reply has no page".to_owned());
        };
        self.looked.set(self.looked.get() + whole(looked).unwrap_or(0));
        self.found.set(self.found.get() + whole(found).unwrap_or(0));
        Ok(show::page(&reply).0)
    }

    /// All pages. `first` is told of the first one, and is still there if that failed.
    async fn run(
        &self,
        asked: &Asked,
        came: &Came,
        first: &mut Option<Waiting>,
    ) -> Result<(), String> {
        let mut cursor = None;
        loop {
            cursor = self.step(asked, came, cursor.as_deref()).await?;
            // A dry run whose page nobody has cannot even be stopped.
            if self.is_dry() && first.as_ref().is_some_and(Waiting::is_closed) {
                return Err("its browser has left".to_owned());
            }
            if let Some(first) = first.take() {
                let _ = first.send(Ok(()));
            }
            if cursor.is_none() {
                return Ok(());
            }
        }
    }
}

/// The request that began a run.
type Waiting = oneshot::Sender<Result<(), Problem>>;

/// Begins a run, whose first page is waited for: whoever may not run it is told so at once. The
/// run goes on without the request, whose browser may leave.
pub async fn start(visit: &Visit, job: Job) -> Result<String, Problem> {
    let (asked, came) = (Rc::clone(&visit.asked), visit.came);
    let id = job.id.clone();
    let job = Rc::new(job);
    asked.jobs.add(&job)?;
    if let Some(dry) = &job.of {
        dry.earnest.replace(Some(id.clone()));
    }
    let (first, answer) = oneshot::channel();
    tokio::task::spawn_local(async move {
        let mut first = Some(first);
        let ended = job.run(&asked, &came, &mut first).await;
        let refused = match (&ended, first) {
            (Err(why), Some(first)) => {
                let problem = Problem::of(why.clone());
                let refused = !problem.may_be_applied();
                let _ = first.send(Err(problem));
                refused
            }
            _ => false,
        };
        job.end.replace(Some((ended, job.begun.elapsed())));
        // Nothing was done: it may be tried again.
        if refused {
            asked.jobs.remove(&job);
            job.of.as_ref().and_then(|dry| dry.earnest.take());
        }
    });
    let lost = |_| Err(Problem::of("INTERNAL the run was lost".to_owned()));
    answer.await.unwrap_or_else(lost).map(|()| id)
}

/// Runs in earnest what a dry run has counted; if that was begun before, it is not begun again.
pub async fn in_earnest(visit: &Visit, dry: &Rc<Job>) -> Result<String, Problem> {
    let begun = dry.earnest.borrow().clone();
    if let Some(id) = begun {
        return Ok(id);
    }
    let counted = matches!(&*dry.end.borrow(), Some((Ok(()), _)));
    if !dry.is_dry() || !counted {
        return Err(Problem::bad("a dry run has to come to its end first"));
    }
    let job = Job::dry(&dry.who, dry.queue.clone(), dry.verb, dry.words.clone());
    start(visit, Job { of: Some(Rc::clone(dry)), ..job }).await
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    frame: Frame,
    heading: &'static str,
    queue: String,
    queue_path: String,
    command: String,
    sentence: String,
    class: &'static str,
    wrong: String,
    running: bool,
    /// It may be run in earnest.
    ready: bool,
    label: &'static str,
    found: String,
    id: String,
    looked: i64,
    pending: i64,
}

/// The page of one run.
pub async fn job(reader: &Reader<'_>) -> Result<Response<Body>, Problem> {
    // The segment stands where that of a queue does.
    let id = String::from_utf8_lossy(&reader.queue).into_owned();
    let Some(job) = reader.visit.asked.jobs.get(&id, &reader.visit.who) else {
        let text = format!("{NOT_FOUND} there is no such run; perhaps it was long ago");
        return Err(Problem::new(StatusCode::NOT_FOUND, text));
    };
    let end = job.end.borrow().clone();
    let found = count(job.found.get());
    let looked = count(job.looked.get());
    let done = match (job.verb, job.is_dry()) {
        ("cancel", true) => "would be cancelled",
        ("fire", true) => "would be made due",
        (_, true) => "would get another due time",
        ("cancel", false) => "are cancelled",
        ("fire", false) => "are due now",
        (_, false) => "have another due time",
    };
    let sentence = match &end {
        None => format!("{found} messages {done} so far; it has looked at {looked}."),
        Some((_, took)) => {
            let took = duration(i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
            format!("{found} messages {done}. It looked at {looked} in {took}.")
        }
    };
    // For the bar: those that are still there, and those that it has taken out.
    // A part of the queue by due time is fewer than those.
    let part = job.words.iter().skip(4).any(|word| [&b"FROM"[..], b"TO"].contains(&&**word));
    let pending = match (&end, !part && reader.may("DQ.SIZE")) {
        (None, true) => reader.ask(&[b"DQ.SIZE", &job.queue]).await.ok().and_then(|n| whole(&n)),
        _ => None,
    };
    let gone = if job.is_dry() || job.verb == "reschedule" { 0 } else { job.found.get() };
    let label = super::find::CHANGES.iter().find(|(verb, ..)| *verb == job.verb);
    let mut words: Vec<&[u8]> = job.words.iter().map(Vec::as_slice).collect();
    if job.is_dry() {
        words.push(b"DRYRUN");
    }
    let wrong = match &end {
        Some((Err(why), _)) => show::line(why.as_bytes()),
        _ => String::new(),
    };
    let (running, dry) = (end.is_none(), job.is_dry());
    let heading = if dry { "Dry run" } else { "Run" };
    let template = JobPage {
        frame: Frame { goes_on: running, ..reader.frame(heading) },
        heading,
        queue: show::name(&job.queue),
        queue_path: queue_path(&job.queue, ""),
        command: show::command(&words),
        sentence,
        class: if running || dry { "" } else { "ok" },
        ready: dry && !running && wrong.is_empty() && job.found.get() > 0,
        wrong,
        running,
        label: label.map_or("", |(_, label, _)| *label),
        found,
        id: job.id.clone(),
        looked: job.looked.get(),
        pending: pending.map_or(0, |pending| pending + gone),
    };
    page(StatusCode::OK, &template)
}

#[cfg(test)]
mod tests;
