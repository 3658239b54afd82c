//! Runs before a broker that answers when the test says so.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::*;
use crate::client::alone::{Ask, Done};
use crate::config::Config;
use crate::http::HttpRequest;
use crate::http::door::Settings;

type Answer = oneshot::Sender<Done>;

struct Place {
    visit: Visit,
    requests: mpsc::Receiver<HttpRequest>,
    settings: watch::Sender<Arc<Settings>>,
}

/// Runs a test.
fn with_place<T: Future<Output = ()>>(test: impl FnOnce(Place) -> T) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let (send, requests) = mpsc::channel(8);
        let (settings, current) = watch::channel(settings(&[]));
        let asked = Rc::new(Asked::new(current, true, send));
        let came = Came { from: ([127, 0, 0, 1], 1).into(), loopback: true };
        let settings_of_now = settings.borrow().clone();
        let visit = Visit { asked, came, who: Who::Session([1; 32]), settings: settings_of_now };
        let test = test(Place { visit, requests, settings });
        timeout(Duration::from_secs(60), test).await.unwrap();
    });
}

fn settings(given: &[(&'static str, &str)]) -> Arc<Settings> {
    Settings::new(&Config::with(given).unwrap())
}

fn dry(who: &Who) -> Job {
    let words = ["DQ.CANCEL", "q", "MATCH", "*"].map(|word| word.as_bytes().to_vec());
    Job::dry(who, b"q".to_vec(), "cancel", words.to_vec())
}

fn page(cursor: &'static str) -> Done {
    let cursor = Reply::Bulk(cursor.as_bytes().into());
    Done::from(Reply::Array(vec![cursor, Reply::Integer(2), Reply::Integer(1)]))
}

fn error(text: &str) -> Done {
    Done::from(Reply::Error(text.to_owned()))
}

impl Place {
    /// The next command, and where its answer goes.
    async fn asked(&mut self) -> (String, Answer) {
        match self.requests.recv().await {
            Some(HttpRequest::Run(Ask { wants: Wants::Command(words), .. }, answer)) => {
                let words = words.request();
                let words = (0..words.len()).filter_map(|place| words.get(place));
                (String::from_utf8(words.collect::<Vec<_>>().join(&b' ')).unwrap(), answer)
            }
            _ => panic!("no command"),
        }
    }

    /// The result of a request, whose first page is answered so.
    async fn answered(
        &mut self,
        request: impl AsyncFnOnce(&Visit) -> Result<String, Problem>,
        done: Done,
    ) -> Result<String, Problem> {
        let visit = self.visit.now();
        let answer = async {
            let (_, answer) = self.asked().await;
            let _ = answer.send(done);
        };
        tokio::join!(request(&visit), answer).0
    }

    async fn counted(&mut self) -> Rc<Job> {
        let job = dry(&self.visit.who);
        let id = self.answered(async |visit| start(visit, job).await, page("0")).await.unwrap();
        let job = self.visit.asked.jobs.get(&id, &self.visit.who).unwrap();
        assert_eq!(ended(&job).await, Ok(()));
        job
    }

    fn kept(&self) -> usize {
        self.visit.asked.jobs.0.borrow().len()
    }
}

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

async fn ended(job: &Job) -> Result<(), String> {
    until(|| job.has_ended()).await;
    job.end.borrow().clone().unwrap().0
}

#[test]
fn a_browser_that_leaves_during_the_first_page() {
    with_place(async |mut place| {
        let visit = place.visit.now();
        for _ in 0..=RUNNING_MAX {
            let (_, answer) = tokio::select! {
                biased;
                _ = start(&visit, dry(&visit.who)) => panic!("answered"),
                asked = place.asked() => asked,
            };
            // Nobody can know this run.
            answer.send(page("1")).ok().unwrap();
            until(|| place.kept() == 0).await;
        }
        // One in earnest goes on, and its dry run leads to it.
        let counted = place.counted().await;
        let (_, answer) = tokio::select! {
            biased;
            _ = in_earnest(&visit, &counted) => panic!("answered"),
            asked = place.asked() => asked,
        };
        answer.send(page("1")).ok().unwrap();
        let (words, answer) = place.asked().await;
        assert_eq!(words, "DQ.CANCEL q MATCH * CURSOR 1");
        answer.send(page("0")).ok().unwrap();
        let id = in_earnest(&visit, &counted).await.unwrap();
        assert_eq!(ended(&visit.asked.jobs.get(&id, &visit.who).unwrap()).await, Ok(()));
    });
}

#[test]
fn what_is_refused_is_not_kept() {
    with_place(async |mut place| {
        for text in ["NOPERM no", "ERR no", "UNAVAILABLE no"] {
            let job = dry(&place.visit.who);
            let refused = place.answered(async |visit| start(visit, job).await, error(text)).await;
            assert_eq!((refused.unwrap_err().text.as_str(), place.kept()), (text, 0));
        }
        // The oldest makes room, of one's own.
        let other = Rc::new(dry(&Who::Session([2; 32])));
        other.end.replace(Some((Ok(()), Duration::ZERO)));
        place.visit.asked.jobs.add(&other).unwrap();
        for _ in 0..OF_ONE_MAX * 2 {
            place.counted().await;
        }
        assert_eq!(place.kept(), OF_ONE_MAX + 1);
        let jobs = &place.visit.asked.jobs;
        assert!(jobs.get(&other.id, &other.who).is_some());
        jobs.leave(&place.visit.who);
        assert_eq!(place.kept(), 1);
        jobs.forget(other.begun + DRY_LASTS / 2);
        assert_eq!(place.kept(), 1);
        jobs.forget(other.begun + DRY_LASTS);
        assert_eq!(place.kept(), 0);
    });
}

#[test]
fn a_dry_run_is_run_in_earnest_once() {
    with_place(async |mut place| {
        let counted = place.counted().await;
        // Nothing was done.
        let run = async |visit: &Visit| in_earnest(visit, &counted).await;
        place.answered(run, error("UNAVAILABLE no")).await.unwrap_err();
        let first = place.answered(run, page("0")).await.unwrap();
        assert_eq!(in_earnest(&place.visit, &counted).await.unwrap(), first);
        // Something may have been done: it is kept, with what is known.
        let counted = place.counted().await;
        let run = async |visit: &Visit| in_earnest(visit, &counted).await;
        place.answered(run, error("UNCERTAIN lost")).await.unwrap_err();
        let id = in_earnest(&place.visit, &counted).await.unwrap();
        let job = place.visit.asked.jobs.get(&id, &place.visit.who).unwrap();
        assert_eq!(ended(&job).await, Err("UNCERTAIN lost".to_owned()));
        assert!(in_earnest(&place.visit, &job).await.is_err());
    });
}

#[test]
fn a_console_for_looking_stops_what_changes() {
    with_place(async |mut place| {
        for (given, ends) in [("ui.read_only", [false, true]), ("ui.enabled", [true, true])] {
            for (in_earnest_too, ends) in [false, true].into_iter().zip(ends) {
                let counted = place.counted().await;
                let job = dry(&place.visit.who);
                let request = async |visit: &Visit| match in_earnest_too {
                    true => in_earnest(visit, &counted).await,
                    false => start(visit, job).await,
                };
                let id = place.answered(request, page("1")).await.unwrap();
                let job = place.visit.asked.jobs.get(&id, &place.visit.who).unwrap();
                let (_, second) = place.asked().await;
                let value = if given == "ui.enabled" { "false" } else { "true" };
                place.settings.send_replace(settings(&[(given, value)]));
                second.send(page("2")).ok().unwrap();
                if ends {
                    let why = ended(&job).await.unwrap_err();
                    assert!(why.contains(given), "{why}");
                } else {
                    place.asked().await.1.send(page("0")).ok().unwrap();
                    assert_eq!(ended(&job).await, Ok(()));
                }
                place.settings.send_replace(settings(&[]));
            }
        }
    });
}
