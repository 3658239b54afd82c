//! `DQ.CRON queue SET name expression payload [TZ zone] [OVERLAP SKIP|ALLOW] [CATCHUP n] [AS
//! encoding]`, `DEL name`, `PAUSE name`, `RESUME name`, `LIST [COUNT n] [CURSOR c]`, `NEXT
//! expression [TZ zone] [COUNT n]`: schedules, which offer a payload again and again.
//!
//! SET replies with the next occurrence (Unix ms; nil while the schedule is paused), DEL, PAUSE and
//! RESUME with 1, or 0 if there was no such schedule, or none that ran, or none that was paused.
//! LIST replies with the next cursor (`0` at the end) and an array of maps: name, expression (nil
//! where somebody else wrote what cannot be read), tz (nil for `every`), overlap, catchup, paused,
//! next (Unix ms, nil while it is paused), bytes (of the payload). NEXT, a question for people,
//! replies with an array of maps: due (Unix ms), at (the same as the clock of the zone shows it).
//! Errors: ERR (expression, TZ, OVERLAP, CATCHUP, COUNT, the payload's encoding), BADQUEUE, BADID,
//! TOOBIG, TOOMANY (queues, schedules), WRONGTYPE, UNAVAILABLE, UNCERTAIN.
//! Way: `lua/cron_set.lua`, `lua/cron_stop.lua`, `lua/cron_read.lua`; occurrences:
//! `scheduler::crons`, `lua/cron.lua`.

use std::rc::Rc;
use std::time::SystemTime;

use bytes::Bytes;

use crate::broker::{Broker, CronInfo, Effect};
use crate::domain::cron::{
    CATCHUP_MAX, Moments, NAME_PREFIX, Overlap, ScheduleError, Spec as Schedule,
};
use crate::domain::envelope::Envelope;
use crate::domain::queue::{MessageName, QueueName, Shown};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, Page, integer, is};
use crate::command::{Caller, Command, Flag, Flags, MANY, Run, Spec, later, logged, show};

/// Moments that NEXT tells, by default and at most.
const MOMENTS: u64 = 5;
const MOMENTS_MAX: u64 = 100;

pub const SPEC: Spec = Spec {
    name: "DQ.CRON",
    usage: "queue <SET name expression payload [TZ zone] [OVERLAP <SKIP|ALLOW>] [CATCHUP n] \
            [AS encoding]|DEL name|PAUSE name|RESUME name|LIST [COUNT n] [CURSOR c]|\
            NEXT expression [TZ zone] [COUNT n]>",
    summary: "Sets, lists and stops schedules, which offer a payload again and again",
    args: 2..=MANY,
    flags: Flags::of(&[Flag::Write, Flag::DenyOom]),
    ..Spec::writing(parse)
};

#[derive(Debug, PartialEq)]
pub struct Cron {
    queue: QueueName,
    action: Action,
}

#[derive(Debug, PartialEq)]
enum Action {
    Set { name: Bytes, schedule: Schedule, moments: Moments, payload: Bytes },
    Del(Bytes),
    Pause(Bytes),
    Resume(Bytes),
    List(Page),
    Next(Moments, u64),
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    let action = if args.takes("SET") {
        set(args, &queue)?
    } else if args.takes("DEL") {
        Action::Del(name(args)?)
    } else if args.takes("PAUSE") {
        Action::Pause(name(args)?)
    } else if args.takes("RESUME") {
        Action::Resume(name(args)?)
    } else if args.takes("LIST") {
        Action::List(args.page(&["COUNT", "CURSOR"])?)
    } else if args.takes("NEXT") {
        next(args)?
    } else {
        let word = Shown(args.value()?);
        let text = "SET, DEL, PAUSE, RESUME, LIST or NEXT is expected";
        return Err(ArgError::plain(format_args!("unknown subcommand {word}; {text}")));
    };
    Ok(Command::Cron(Cron { queue, action }))
}

fn set(args: &mut Args<'_, '_>, queue: &QueueName) -> Result<Action, ArgError> {
    let (name, expression, payload) = (name(args)?, args.value()?, args.payload()?);
    let (mut zone, mut overlap, mut catchup, mut encoding) = (None, None, None, None);
    while let Some(option) = args.option() {
        if is(option, "TZ") && zone.is_none() {
            zone = Some(args.value_of("TZ")?);
        } else if is(option, "OVERLAP") && overlap.is_none() {
            overlap = Some(self::overlap(args.value_of("OVERLAP")?)?);
        } else if is(option, "CATCHUP") && catchup.is_none() {
            catchup = Some(self::catchup(args.value_of("CATCHUP")?)?);
        } else if is(option, "AS") && encoding.is_none() {
            encoding = Some(args.encoding()?);
        } else {
            return Err(args.unexpected(option));
        }
    }
    let moments = moments(expression, zone)?;
    let (overlap, catchup) = (overlap.unwrap_or(Overlap::Skip), catchup.unwrap_or(1));
    if overlap == Overlap::Skip && catchup > 1 {
        return Err(ArgError::plain(format_args!(
            "CATCHUP '{catchup}' needs OVERLAP ALLOW: with SKIP the first of them is still pending \
             when the others come"
        )));
    }
    let schedule = Schedule {
        expr: String::from_utf8_lossy(expression).trim().to_owned(),
        tz: moments.zone().map(str::to_owned),
        overlap,
        catchup,
    };
    let payload = args.stored(args.encoding_of(queue.as_bytes(), encoding), payload)?;
    let payload = Envelope::default().around(payload).into_owned().into();
    Ok(Action::Set { name, schedule, moments, payload })
}

fn next(args: &mut Args<'_, '_>) -> Result<Action, ArgError> {
    let expression = args.value()?;
    let (mut zone, mut count) = (None, None);
    while let Some(option) = args.option() {
        if is(option, "TZ") && zone.is_none() {
            zone = Some(args.value_of("TZ")?);
        } else if is(option, "COUNT") && count.is_none() {
            count = Some(args.count(1..=MOMENTS_MAX)?);
        } else {
            return Err(args.unexpected(option));
        }
    }
    Ok(Action::Next(moments(expression, zone)?, count.unwrap_or(MOMENTS)))
}

fn name(args: &mut Args<'_, '_>) -> Result<Bytes, ArgError> {
    let raw = args.value()?;
    // It is a part of the name of messages.
    let max = args.rules.name_bytes_max.saturating_sub(NAME_PREFIX.len());
    let refused = |rule| ArgError::new("BADID", format_args!("schedule {} {rule}", Shown(raw)));
    MessageName::check(raw, max).map_err(refused)?;
    Ok(Bytes::copy_from_slice(raw))
}

fn moments(expression: &[u8], zone: Option<&[u8]>) -> Result<Moments, ArgError> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_ms = since.map_or(0, |since| since.as_millis() as u64);
    Moments::parse(expression, zone, now_ms).map_err(|rule| match rule {
        ScheduleError::Expr(rule) => {
            ArgError::plain(format_args!("expression {} {rule}", Shown(expression)))
        }
        rule => ArgError::plain(format_args!("TZ {} {rule}", Shown(zone.unwrap_or_default()))),
    })
}

fn overlap(raw: &[u8]) -> Result<Overlap, ArgError> {
    let word = Overlap::WORDS.iter().find(|(_, word)| is(raw, word));
    let wrong = || ArgError::plain(format_args!("OVERLAP {} must be SKIP or ALLOW", Shown(raw)));
    word.map(|(overlap, _)| *overlap).ok_or_else(wrong)
}

fn catchup(raw: &[u8]) -> Result<u64, ArgError> {
    integer(raw).filter(|n| *n <= CATCHUP_MAX).ok_or_else(|| {
        let raw = Shown(raw);
        ArgError::plain(format_args!(
            "CATCHUP {raw} must be a whole number from 0 to {CATCHUP_MAX}"
        ))
    })
}

impl Cron {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, action } = self;
        let done = |done| Reply::Integer(i64::from(done));
        let effect = |done: &bool| done.then(Effect::default);
        match action {
            Action::Set { name, schedule, moments, payload } => logged(
                caller,
                broker,
                ("DQ.CRON SET", queue.to_bytes()),
                async move |broker| {
                    broker.queue(&queue).cron_set(name, schedule, moments, payload).await
                },
                |_| Some(Effect::default()),
                |next| next.map_or(Reply::Null, Reply::count),
            ),
            Action::Del(name) => logged(
                caller,
                broker,
                ("DQ.CRON DEL", queue.to_bytes()),
                async move |broker| broker.queue(&queue).cron_del(name).await,
                effect,
                done,
            ),
            Action::Pause(name) => logged(
                caller,
                broker,
                ("DQ.CRON PAUSE", queue.to_bytes()),
                async move |broker| broker.queue(&queue).cron_pause(name).await,
                effect,
                done,
            ),
            Action::Resume(name) => logged(
                caller,
                broker,
                ("DQ.CRON RESUME", queue.to_bytes()),
                async move |broker| broker.queue(&queue).cron_resume(name).await,
                effect,
                done,
            ),
            Action::List(page) => later(
                broker,
                async move |broker| {
                    broker.queue(&queue).cron_list(page.count(), page.cursor()).await
                },
                |(next, all)| show::page(next, Reply::Array(all.into_iter().map(row).collect())),
            ),
            Action::Next(moments, count) => {
                Run::Ready(upcoming(&moments, broker.redis_ms(), count))
            }
        }
    }
}

fn row(schedule: CronInfo) -> Reply {
    let CronInfo { name, spec, next_ms, bytes } = schedule;
    let of = |value: fn(&Schedule) -> Reply| spec.as_ref().map_or(Reply::Null, value);
    Reply::map([
        ("name", Reply::Bulk(name)),
        ("expression", of(|spec| spec.expr.clone().into())),
        ("tz", of(|spec| spec.tz.clone().map_or(Reply::Null, Into::into))),
        ("overlap", of(|spec| spec.overlap.word().into())),
        ("catchup", of(|spec| Reply::count(spec.catchup))),
        ("paused", show::yes(next_ms.is_none())),
        ("next", next_ms.map_or(Reply::Null, Reply::count)),
        ("bytes", Reply::count(bytes as u64)),
    ])
}

fn upcoming(moments: &Moments, now_ms: u64, count: u64) -> Reply {
    let mut after = now_ms;
    let next = std::iter::from_fn(|| {
        after = moments.next(after)?;
        Some(Reply::map([("due", Reply::count(after)), ("at", moments.shown(after).into())]))
    });
    Reply::Array(next.take(count as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue, refused};

    fn set(expr: &str, tz: Option<&str>, overlap: Overlap, catchup: u64) -> Action {
        Action::Set {
            name: Bytes::from_static(b"n"),
            schedule: Schedule { expr: expr.into(), tz: tz.map(str::to_owned), overlap, catchup },
            moments: moments(expr.as_bytes(), tz.map(str::as_bytes)).unwrap(),
            payload: Bytes::from_static(b"p"),
        }
    }

    #[test]
    fn parse() {
        let of = |action| Ok(Command::Cron(Cron { queue: queue("q"), action }));
        let name = || Bytes::from_static(b"n");
        let (skip, allow) = (Overlap::Skip, Overlap::Allow);
        let daily = |tz: &str| moments(b"@daily", Some(tz.as_bytes())).unwrap();
        check(&[
            ("DQ.CRON q SET n @daily p", of(set("@daily", Some("UTC"), skip, 1))),
            (
                "dq.cron q set n '0 3 * * *' p tz europe/berlin overlap ALLOW catchup 100 as raw",
                of(set("0 3 * * *", Some("Europe/Berlin"), allow, 100)),
            ),
            ("DQ.CRON q SET n 'every 15m' p CATCHUP 0", of(set("every 15m", None, skip, 0))),
            ("DQ.CRON q DEL n", of(Action::Del(name()))),
            ("DQ.CRON q PAUSE n", of(Action::Pause(name()))),
            ("DQ.CRON q resume n", of(Action::Resume(name()))),
            ("DQ.CRON q LIST", of(Action::List(Page::default()))),
            ("DQ.CRON q NEXT @daily", of(Action::Next(daily("UTC"), 5))),
            (
                "DQ.CRON q NEXT @daily COUNT 100 TZ Asia/Tokyo",
                of(Action::Next(daily("Asia/Tokyo"), 100)),
            ),
            ("DQ.CRON q", Err("ERR wrong number of arguments")),
            ("DQ.CRON q SET n @daily", Err("ERR wrong number of arguments")),
            ("DQ.CRON q SET n @daily 12345678901234567", Err("TOOBIG payload of 17 bytes")),
            ("DQ.CRON q SET '' @daily p", Err("BADID schedule '' must not be empty")),
            ("DQ.CRON q SET 123456789012 @daily p", Err("BADID schedule '123456789012' is longer")),
            ("DQ.CRON q SET n '0 0 31 2 *' p", Err("ERR expression '0 0 31 2 *' fits no moment")),
            ("DQ.CRON q SET n '0 0 * *' p", Err("ERR expression '0 0 * *' must have 5 fields")),
            ("DQ.CRON q NEXT '60 * * * *'", Err("ERR expression '60 * * * *' has the minute '60'")),
            ("DQ.CRON q SET n @daily p TZ Mars/X", Err("ERR TZ 'Mars/X' is no zone of the time")),
            ("DQ.CRON q SET n 'every 1m' p TZ UTC", Err("ERR TZ 'UTC' has no use with every")),
            ("DQ.CRON q SET n @daily p OVERLAP no", Err("ERR OVERLAP 'no' must be SKIP or ALLOW")),
            ("DQ.CRON q SET n @daily p CATCHUP 101", Err("ERR CATCHUP '101' must be a whole")),
            ("DQ.CRON q SET n @daily p CATCHUP 2", Err("ERR CATCHUP '2' needs OVERLAP ALLOW")),
            ("DQ.CRON q SET n @daily p TZ UTC TZ UTC", Err("ERR syntax error: unexpected argum")),
            ("DQ.CRON q SET n @daily p AS x", Err("ERR encoding 'x' must be one of")),
            ("DQ.CRON q NEXT @daily COUNT 101", Err("ERR COUNT '101' must be")),
            ("DQ.CRON q LIST COUNT 0", Err("ERR COUNT '0' must be")),
            ("DQ.CRON q DEL n m", Err("ERR syntax error: unexpected argument 'm'")),
            ("DQ.CRON q RUN n", Err("ERR unknown subcommand 'RUN'; SET, DEL, PAUSE, RESUME, LIST")),
        ]);
        assert!(refused("DQ.CRON cron:q SET 12345678901 @daily p").starts_with("no error"));
    }

    #[test]
    fn upcoming_moments() {
        let daily = moments(b"0 2 * * *", Some(b"Europe/Berlin")).unwrap();
        let row =
            |due, at: &'static str| Reply::map([("due", Reply::Integer(due)), ("at", at.into())]);
        // In November 2026, from 03:00 on.
        let wanted = [
            row(1_795_482_000_000, "2026-11-24T02:00:00+01:00"),
            row(1_795_568_400_000, "2026-11-25T02:00:00+01:00"),
        ];
        assert_eq!(upcoming(&daily, 1_795_399_200_000, 2), Reply::Array(wanted.into()));
    }
}
