//! `DQ.PAUSE queue|ALL [duration]`: holds due messages back, until DQ.RESUME or for a duration.
//!
//! Replies with OK; from then on no broker moves anything of this queue, or of any. Offers, cancels
//! and polls go on. Redisson's own transfer does not know a pause. `ALL`, in any case, is the word
//! for all queues, also where a queue has this name.
//! Errors: BADQUEUE, BADDELAY, WRONGTYPE, UNAVAILABLE, UNCERTAIN. Way: `lua/pause.lua`,
//! `lua/pause_all.lua`.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::{Broker, Effect};
use crate::domain::queue::{Due, QueueName};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, bad_delay};
use crate::command::{Caller, Categories, Category, Command, Flag, Flags, Run, Spec, logged};

pub const SPEC: Spec = Spec {
    name: "DQ.PAUSE",
    usage: "<queue|ALL> [duration]",
    summary: "Holds due messages back, for a duration or until DQ.RESUME",
    args: 1..=2,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    categories: Categories::of(&[Category::Admin]),
    words: &[("ALL", Categories::of(&[Category::Dangerous]))],
    ..Spec::of_queue(parse)
};

#[derive(Debug, PartialEq)]
pub struct Pause {
    target: Target,
    /// At least 1; none = until DQ.RESUME.
    duration_ms: Option<u64>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let target = target(args)?;
    let duration_ms =
        args.option().map(|raw| duration(raw, args.rules.delay_max_ms)).transpose()?;
    Ok(Command::Pause(Pause { target, duration_ms }))
}

/// The queues that are paused or resumed.
#[derive(Debug, PartialEq)]
pub enum Target {
    All,
    One(QueueName),
}

impl Target {
    pub fn name(&self) -> Bytes {
        match self {
            Self::All => Bytes::from_static(b"ALL"),
            Self::One(queue) => queue.to_bytes(),
        }
    }
}

pub fn target(args: &mut Args<'_, '_>) -> Result<Target, ArgError> {
    Ok(match args.takes("ALL") {
        true => Target::All,
        false => Target::One(args.queue()?),
    })
}

fn duration(raw: &[u8], max: u64) -> Result<u64, ArgError> {
    match Due::parse_delay(raw, max).map_err(|rule| bad_delay("duration", raw, rule))? {
        Due::In(0) | Due::At(_) => Err(bad_delay("duration", raw, "must be at least 1 ms")),
        Due::In(ms) => Ok(ms),
    }
}

impl Pause {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { target, duration_ms } = self;
        let name = target.name();
        let call = async move |broker: &Broker| match target {
            Target::All => broker.pause_all(duration_ms).await.map(|()| None),
            Target::One(queue) => {
                let queue = broker.queue(&queue);
                queue.pause(duration_ms).await?;
                // For the log: a name with a mistake is paused as well.
                Ok(queue.info().await.ok().map(|info| info.known))
            }
        };
        let effect = |known: &Option<bool>| Some(Effect { known: *known, ..Effect::default() });
        logged(caller, broker, (SPEC.name, name), call, effect, |_| Reply::Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};

    #[test]
    fn parse() {
        let of = |target, duration_ms| Ok(Command::Pause(Pause { target, duration_ms }));
        check(&[
            ("DQ.PAUSE q", of(Target::One(queue("q")), None)),
            ("DQ.PAUSE q 1m", of(Target::One(queue("q")), Some(60_000))),
            ("DQ.PAUSE all 1m", of(Target::All, Some(60_000))),
        ]);
    }
}
