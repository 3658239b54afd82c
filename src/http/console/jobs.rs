//! Runs of a command over all messages that match, page after page, on this thread: a dry run
//! counts, and only one that has come to its end can be run in earnest.
//!
//! Each page is a command of the user who began it: it ends where his session or his rights do.
//! Keeps: few at a time, few that are remembered, each with an end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use askama::Template;
use hyper::{Response, StatusCode};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::client::alone::{Wants, Who};
use crate::http::body::Body;
use crate::http::problem::{NOT_FOUND, Problem};
use crate::http::{Asked, Came, api};
use crate::resp::{Reply, Words};

use super::pages::{Frame, Reader, queue_path};
use super::show::{self, count, duration, items, whole};
use super::{Visit, page};

/// Runs at one time, and those that are remembered.
const RUNNING_MAX: usize = 4;
const KEPT_MAX: usize = 100;
/// Time after which one is stopped.
const LASTS: Duration = Duration::from_secs(60 * 60);

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
    dry: bool,
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
        let jobs = self.0.borrow();
        jobs.iter().find(|job| job.id == id && same(&job.who, who)).cloned()
    }

    fn add(&self, job: &Rc<Job>) -> Result<(), Problem> {
        let mut jobs = self.0.borrow_mut();
        if jobs.iter().filter(|job| job.end.borrow().is_none()).count() >= RUNNING_MAX {
            let text = format!("UNAVAILABLE {RUNNING_MAX} other runs are under way");
            return Err(Problem::of(text));
        }
        if jobs.len() >= KEPT_MAX
            && let Some(oldest) = jobs.iter().position(|job| job.end.borrow().is_some())
        {
            jobs.remove(oldest);
        }
        jobs.push(Rc::clone(job));
        Ok(())
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
            dry: true,
            begun: Instant::now(),
            looked: Cell::new(0),
            found: Cell::new(0),
            stopped: Cell::new(false),
            end: RefCell::new(None),
        }
    }

    /// The same, not dry; its dry run must have come to its end.
    pub fn in_earnest(&self) -> Result<Self, Problem> {
        let counted = matches!(&*self.end.borrow(), Some((Ok(()), _)));
        if !self.dry || !counted {
            return Err(Problem::bad("a dry run has to come to its end first"));
        }
        let dry = Self::dry(&self.who, self.queue.clone(), self.verb, self.words.clone());
        Ok(Self { dry: false, ..dry })
    }

    pub fn stop(&self) {
        self.stopped.set(true);
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
        if self.dry {
            words.push(b"DRYRUN");
        }
        let _place = asked.places.search().await.map_err(|problem| problem.text)?;
        let done = api::call(asked, came, self.who.clone(), Wants::Command(words), !self.dry);
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

    async fn go_on(&self, asked: &Asked, came: &Came, mut next: Option<String>) {
        let ended = loop {
            let Some(cursor) = next else { break Ok(()) };
            if self.stopped.get() {
                break Err("it was stopped".to_owned());
            }
            if self.begun.elapsed() > LASTS {
                break Err(format!("it took more than {} min", LASTS.as_secs() / 60));
            }
            match self.step(asked, came, Some(&cursor)).await {
                Ok(cursor) => next = cursor,
                Err(why) => break Err(why),
            }
        };
        self.end.replace(Some((ended, self.begun.elapsed())));
    }
}

/// Begins a run, whose first page is waited for: whoever may not run it is told so at once.
pub async fn start(visit: &Visit, job: Job) -> Result<String, Problem> {
    let (asked, came) = (Rc::clone(&visit.asked), visit.came);
    let job = Rc::new(job);
    asked.jobs.add(&job)?;
    match job.step(&asked, &came, None).await {
        Ok(next) => {
            let id = job.id.clone();
            tokio::task::spawn_local(async move { job.go_on(&asked, &came, next).await });
            Ok(id)
        }
        Err(why) => {
            job.end.replace(Some((Err(why.clone()), job.begun.elapsed())));
            Err(Problem::of(why))
        }
    }
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
    let done = match (job.verb, job.dry) {
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
    let pending = match (&end, reader.may("DQ.SIZE")) {
        (None, true) => reader.ask(&[b"DQ.SIZE", &job.queue]).await.ok().and_then(|n| whole(&n)),
        _ => None,
    };
    let gone = if job.dry || job.verb == "reschedule" { 0 } else { job.found.get() };
    let label = super::find::CHANGES.iter().find(|(verb, ..)| *verb == job.verb);
    let mut words: Vec<&[u8]> = job.words.iter().map(Vec::as_slice).collect();
    if job.dry {
        words.push(b"DRYRUN");
    }
    let wrong = match &end {
        Some((Err(why), _)) => show::line(why.as_bytes()),
        _ => String::new(),
    };
    let running = end.is_none();
    let template = JobPage {
        frame: Frame { goes_on: running, ..reader.frame(if job.dry { "Dry run" } else { "Run" }) },
        heading: if job.dry { "Dry run" } else { "Run" },
        queue: show::name(&job.queue),
        queue_path: queue_path(&job.queue, ""),
        command: show::command(&words),
        sentence,
        class: if running || job.dry { "" } else { "ok" },
        ready: job.dry && !running && wrong.is_empty() && job.found.get() > 0,
        wrong,
        running,
        label: label.map_or("", |(_, label, _)| *label),
        found,
        id: job.id.clone(),
        looked: job.looked.get(),
        pending: pending.unwrap_or(0) + gone,
    };
    page(StatusCode::OK, &template)
}
