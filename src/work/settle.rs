//! ACK, NACK and EXTEND of all handlers of a worker, on one connection of their own.
//!
//! One task owns the connection. What was asked meanwhile goes out in one write. A call whose
//! answer did not come is repeated, at the next broker if there is one, until its handler gives up:
//! all three may be repeated. Knows no message.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use super::broker::{Brokers, Connection, Meaning, Route, Trouble, WITHIN, meaning};

/// Calls of one write.
const BATCH: usize = 256;

/// Asks the task; clones ask the same one.
#[derive(Clone)]
pub struct Settler(mpsc::Sender<Call>);

struct Call {
    command: Vec<Bytes>,
    answer: oneshot::Sender<Result<i64, String>>,
}

impl Settler {
    /// Starts the task; it ends with the last clone.
    pub fn start(brokers: &Rc<Brokers>) -> Self {
        let (sender, calls) = mpsc::channel(BATCH);
        tokio::task::spawn_local(run(Route::new(brokers), calls));
        Self(sender)
    }

    /// The number that the broker answers.
    ///
    /// # Errors
    /// No broker answered until then, or it refuses for good, as a sentence.
    pub async fn call(&self, command: Vec<Bytes>, until: Instant) -> Result<i64, String> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            self.0.send(Call { command, answer }).await.ok()?;
            answered.await.ok()
        };
        match timeout_at(until, asked).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Err("the worker ends".to_owned()),
            Err(_) => Err("no broker has answered in time".to_owned()),
        }
    }
}

async fn run(mut route: Route, mut calls: mpsc::Receiver<Call>) {
    let mut connection = None;
    let mut waiting = VecDeque::new();
    loop {
        // Whoever gave up needs no answer.
        waiting.retain(|call: &Call| !call.answer.is_closed());
        if waiting.is_empty() {
            let Some(call) = calls.recv().await else { return };
            waiting.push_back(call);
        }
        while waiting.len() < BATCH
            && let Ok(call) = calls.try_recv()
        {
            waiting.push_back(call);
        }
        match exchange(&route, &mut connection, &mut waiting).await {
            Ok(()) => route.went_well(),
            Err(trouble) => {
                warn!(broker = route.place(), "not settled yet: {trouble}");
                connection = None;
                sleep(route.failed()).await;
            }
        }
    }
}

/// Sends all that wait, and answers them; those without an answer stay.
async fn exchange(
    route: &Route,
    connection: &mut Option<Connection>,
    waiting: &mut VecDeque<Call>,
) -> Result<(), Trouble> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(route.connect().await?),
    };
    connection.send(waiting.iter().map(|call| &call.command[..]), WITHIN).await?;
    let mut trouble = None;
    for _ in 0..waiting.len() {
        let answer = match connection.reply(WITHIN).await {
            Ok(BytesFrame::Number { data, .. }) => Ok(data),
            Ok(_) => Err("the broker answers no number".to_owned()),
            Err(Trouble::Refused(why)) if passing(&why) => {
                trouble = Some(Trouble::Refused(why));
                waiting.rotate_left(1);
                continue;
            }
            Err(Trouble::Refused(why)) => Err(why),
            Err(lost) => return Err(lost),
        };
        if let Some(call) = waiting.pop_front() {
            // It may have given up.
            let _ = call.answer.send(answer);
        }
    }
    trouble.map_or(Ok(()), Err)
}

/// False of errors that concern one queue: other calls must not wait for them.
fn passing(error: &str) -> bool {
    meaning(error) == Meaning::Again && !error.starts_with("WRONGTYPE")
}
