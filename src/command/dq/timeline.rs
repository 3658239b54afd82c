//! `DQ.TIMELINE queue from to step`: how many pending messages fall due when.
//!
//! Replies with a map of the start of each step, Unix ms, to the messages that are due in it: from
//! its start on and before the next one. `from` and `to` are times as for AT, or delays from now.
//! Errors: ERR (too many steps), BADQUEUE, BADDELAY, BADTIME, WRONGTYPE, UNAVAILABLE.
//! Way: `lua/timeline.lua`.

use std::rc::Rc;

use crate::broker::Broker;
use crate::domain::queue::{Due, QueueName, moment};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, bad_delay, bad_time};
use crate::command::{Caller, Command, Run, Spec, later};

/// Steps of one command.
const STEPS_MAX: u64 = 200;

pub const SPEC: Spec = Spec {
    name: "DQ.TIMELINE",
    usage: "queue from to step",
    summary: "Counts the pending messages by due time, step by step",
    args: 4..=4,
    ..Spec::reading(parse)
};

#[derive(Debug, PartialEq)]
pub struct Timeline {
    queue: QueueName,
    from: Due,
    to: Due,
    step_ms: u64,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let delay_max_ms = args.rules.delay_max_ms;
    let mut time = |name: &str| {
        let raw = args.value()?;
        moment(raw, delay_max_ms).map_err(|rule| bad_time(name, raw, rule))
    };
    let (from, to) = (time("from")?, time("to")?);
    let raw = args.value()?;
    let step = Due::parse_delay(raw, delay_max_ms).map_err(|rule| bad_delay("step", raw, rule))?;
    match step {
        Due::In(0) => Err(bad_delay("step", raw, "must be at least 1 ms")),
        Due::In(step_ms) | Due::At(step_ms) => {
            Ok(Command::Timeline(Timeline { queue, from, to, step_ms }))
        }
    }
}

impl Timeline {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let moments = match self.moments(broker.queue(&self.queue).now_ms()) {
            Ok(moments) => moments,
            Err(error) => return Run::Ready(error.into()),
        };
        let starts = moments.clone();
        let call = async move |broker: &Broker| broker.queue(&self.queue).timeline(&moments).await;
        later(broker, call, move |counts| {
            let counts = counts.into_iter().map(Reply::count);
            Reply::Map(starts.into_iter().map(Reply::count).zip(counts).collect())
        })
    }

    /// The start of each step, and the end of the last one.
    fn moments(&self, now_ms: u64) -> Result<Vec<u64>, ArgError> {
        let [from, to] = [self.from, self.to].map(|due| match due {
            Due::In(ms) => now_ms.saturating_add(ms),
            Due::At(ms) => ms,
        });
        if from >= to {
            let text = format_args!("from '{from}' must be earlier than to '{to}'");
            return Err(ArgError::new("BADTIME", text));
        }
        let steps = (to - from).div_ceil(self.step_ms);
        if steps > STEPS_MAX {
            let step_ms = self.step_ms;
            return Err(ArgError::plain(format_args!(
                "a step of {step_ms} ms divides this time into {steps} steps, more than {STEPS_MAX}"
            )));
        }
        let starts = (0..steps).map(|step| from + step * self.step_ms);
        Ok(starts.chain([to]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    fn of(from: Due, to: Due, step_ms: u64) -> Timeline {
        Timeline { queue: queue("q"), from, to, step_ms }
    }

    #[test]
    fn parse() {
        let now = Due::In(0);
        let at = Due::At(1_999_999_999_999);
        check(&[
            ("DQ.TIMELINE q 0 1h 5m", Ok(Command::Timeline(of(now, Due::In(3_600_000), 300_000)))),
            ("DQ.TIMELINE q 0s 1999999999999 7", Ok(Command::Timeline(of(now, at, 7)))),
            ("DQ.TIMELINE q 0 1h 0", Err("BADDELAY step '0' must be at least 1 ms")),
            ("DQ.TIMELINE q 0 1h -1", Err("BADDELAY step '-1' must not be negative")),
            ("DQ.TIMELINE q 0 1h AT", Err("BADDELAY step 'AT' must be whole milliseconds")),
            ("DQ.TIMELINE q - 1h 1m", Err("BADTIME from '-' must be Unix milliseconds")),
            ("DQ.TIMELINE q 0 1893484800 1m", Err("BADTIME to '1893484800' is 1970-01-22")),
            ("DQ.TIMELINE q 0 1h", Err("ERR wrong number of arguments")),
        ]);
    }

    #[test]
    fn moments() {
        let rows: &[(Timeline, Result<&[u64], &str>)] = &[
            (of(Due::In(0), Due::In(3), 1), Ok(&[1_000, 1_001, 1_002, 1_003])),
            // The last step ends where all end.
            (of(Due::At(5), Due::At(10), 2), Ok(&[5, 7, 9, 10])),
            (of(Due::At(5), Due::In(0), u64::MAX / 2), Ok(&[5, 1_000])),
            (of(Due::In(0), Due::At(1_000), 1), Err("from '1000' must be earlier than to '1000'")),
            (of(Due::In(2), Due::In(1), 1), Err("from '1002' must be earlier than to '1001'")),
            (
                of(Due::In(0), Due::In(201), 1),
                Err("a step of 1 ms divides this time into 201 steps, more than 200"),
            ),
        ];
        for (timeline, wanted) in rows {
            let got = timeline.moments(1_000).map_err(|error| error.to_string());
            match wanted {
                Ok(moments) => assert_eq!(got.as_deref(), Ok(*moments)),
                Err(words) => assert!(got.unwrap_err().ends_with(words), "{words}"),
            }
        }
        assert_eq!(of(Due::In(0), Due::In(200), 1).moments(0).unwrap().len(), 201);
    }
}
