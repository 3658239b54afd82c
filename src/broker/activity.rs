//! A line of the log for each command that takes messages out, drops them or holds them back, with
//! its client; repeated ones are summed up.
//!
//! Of a command on a queue the first is a line at once; what follows within [`SUM_FOR`] is one more
//! line at its end. A flood of one command hides no other one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use crate::broker::Broker;
use crate::domain::queue::Cut;
use crate::peers::registry::Client;

const SUM_FOR: Duration = Duration::from_secs(10);
/// Queues of one command that are summed up at a time; beyond, those of further queues together.
const KEPT_MAX: usize = 256;

/// A line of the log. Each command has a kind of its own, since lines of one kind are bounded
/// together.
macro_rules! line {
    ($command:expr, $($fields:tt)*) => {
        line!(@ [
            "DQ.CANCEL MATCH" "DQ.CLEAR" "DQ.CONVERT" "DQ.CRON DEL" "DQ.CRON PAUSE"
            "DQ.CRON RESUME" "DQ.CRON SET"
            "DQ.DEAD DROP" "DQ.DEAD REQUEUE" "DQ.FIRE MATCH" "DQ.PAUSE" "DQ.POLL"
            "DQ.QUARANTINE DROP" "DQ.QUARANTINE RESTORE" "DQ.REMOVE COUNT 0"
            "DQ.RESCHEDULE MATCH" "DQ.RESUME"
            "DQ.SETUP" "DQ.TAKEN RELEASE"
        ] $command, ($($fields)*))
    };
    (@ [$($name:literal)*] $command:expr, $fields:tt) => {
        match $command {
            $($name => line!(@ $name, $fields),)*
            other => line!(@ other, $fields),
        }
    };
    (@ $command:expr, ($($fields:tt)*)) => {
        tracing::info!(command = $command, $($fields)*)
    };
}

/// The effect of a command.
#[derive(Debug, Clone, Copy, Default)]
pub struct Effect {
    /// The number of messages that it took out, changed or brought back, where it is known.
    pub messages: Option<u64>,
    /// True if there was anything of the queue; told where its name could be a mistake.
    pub known: Option<bool>,
}

impl Effect {
    pub fn of(messages: u64) -> Self {
        Self { messages: Some(messages), ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub struct Activity(RefCell<HashMap<&'static str, HashMap<Option<Bytes>, Sum>>>);

/// The commands that followed a line.
#[derive(Debug, Default)]
struct Sum {
    calls: u64,
    messages: u64,
    client: String,
    user: Option<String>,
    name: String,
}

impl Activity {
    /// `effect` is none where the command may have been applied or not.
    pub fn record(
        &self,
        command: &'static str,
        queue: &Bytes,
        client: &Client,
        effect: Option<Effect>,
    ) {
        let uncertain = effect.is_none().then_some(true);
        let Effect { messages, known } = effect.unwrap_or_default();
        let about = client.about.borrow();
        let (user, name) = (about.user.clone(), Cut(&about.name).to_string());
        let mut commands = self.0.borrow_mut();
        let sums = commands.entry(command).or_default();
        let mut key = Some(queue.clone());
        if sums.len() >= KEPT_MAX && !sums.contains_key(&key) {
            key = None;
        }
        if let Some(sum) = sums.get_mut(&key) {
            sum.calls += 1;
            sum.messages += messages.unwrap_or(0);
            sum.client.clone_from(&client.addr);
            (sum.user, sum.name) = (user, name);
            return;
        }
        sums.insert(key, Sum::default());
        let (queue, client) = (Cut(queue), &client.addr);
        line!(command, %queue, messages, known, uncertain, client, user, name, "by a client");
    }

    /// Logs the sums and starts anew; commands that were not repeated are forgotten.
    fn sum_up(&self) {
        for (&command, sums) in self.0.borrow_mut().iter_mut() {
            sums.retain(|queue, sum| sum.is_logged(command, queue.as_ref()));
        }
    }
}

impl Sum {
    /// Logs the sum and starts anew; false if there is nothing to log.
    fn is_logged(&mut self, command: &'static str, queue: Option<&Bytes>) -> bool {
        let Self { calls, messages, client, user, name } = std::mem::take(self);
        if calls == 0 {
            return false;
        }
        let queue = queue.map(|queue| Cut(queue).to_string());
        let queue = queue.unwrap_or_else(|| "(others)".to_owned());
        line!(
            command,
            queue,
            calls,
            messages,
            client,
            user,
            name,
            "by clients meanwhile; the last one is named"
        );
        true
    }
}

/// Logs the sums for ever: run as a task of its own.
pub(super) async fn sum_up(broker: Rc<Broker>) {
    loop {
        tokio::time::sleep(SUM_FOR).await;
        broker.activity.sum_up();
    }
}
