//! `DQ.SETUP queue [RESET|IFABSENT] [setting value ...]`: shows or changes the settings of a queue,
//! which all brokers go by.
//!
//! Without more than the queue: an array of maps, setting, value (ms, percent, messages, or a rate
//! as `100/s`), origin (`default`, `setup`, or `file`: `[[queues]]` of a broker). Else OK. The
//! value DEFAULT, in any case, unsets one; RESET unsets all that is not named behind it; IFABSENT
//! leaves each that is set. Calls that came before go on as they began.
//! Errors: ERR (unknown setting, value), BADQUEUE, WRONGTYPE, UNAVAILABLE, UNCERTAIN (it may be
//! repeated). Way: `lua/setup.lua`, `lua/info.lua`.

use std::rc::Rc;

use crate::broker::{Broker, Effect};
use crate::domain::queue::{QueueName, Shown};
use crate::domain::setting::{SETTINGS, Setting, Value};
use crate::domain::setup::{ChangeMode, Origin, Settings, SettingsChange};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, is};
use crate::command::{
    Caller, Categories, Category, Command, Flag, Flags, MANY, Run, Spec, later, logged,
};

pub const SPEC: Spec = Spec {
    name: "DQ.SETUP",
    usage: "queue [RESET|IFABSENT] [setting value ...]",
    summary: "Shows or changes the settings of a queue",
    args: 1..=MANY,
    flags: Flags::of(&[Flag::Write, Flag::Fast]),
    categories: Categories::of(&[Category::Admin]),
    ..Spec::of_queue(parse)
};

#[derive(Debug, PartialEq)]
pub struct Setup {
    queue: QueueName,
    /// `None`: they are shown.
    change: Option<SettingsChange>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let queue = args.queue()?;
    if args.left() == 0 {
        return Ok(Command::Setup(Setup { queue, change: None }));
    }
    let mode = match (args.takes("RESET"), args.takes("IFABSENT")) {
        (true, true) => return Err(ArgError::plain("RESET and IFABSENT exclude each other")),
        (true, false) => ChangeMode::Reset,
        (false, true) => ChangeMode::IfAbsent,
        (false, false) => ChangeMode::Named,
    };
    let mut change = SettingsChange { mode, origin: Origin::Setup, values: Vec::new() };
    while args.left() > 0 || (change.values.is_empty() && mode == ChangeMode::IfAbsent) {
        let (setting, value) = pair(args)?;
        if change.values.iter().any(|(known, _)| *known == setting) {
            let text = format_args!("the setting '{}' is named twice", setting.name);
            return Err(ArgError::plain(text));
        }
        change.values.push((setting, value));
    }
    Ok(Command::Setup(Setup { queue, change: Some(change) }))
}

fn pair(args: &mut Args<'_, '_>) -> Result<(&'static Setting, Option<Value>), ArgError> {
    let name = args.value()?;
    let Some(setting) = Setting::named(name) else {
        let known = SETTINGS.map(|setting| setting.name).join(", ");
        let text = format_args!("unknown setting {}; there are {known}", Shown(name));
        return Err(ArgError::plain(text));
    };
    let raw = args.value_of(setting.name)?;
    if is(raw, "DEFAULT") {
        return Ok((setting, None));
    }
    let refused = |rule| ArgError::plain(format_args!("{} {} {rule}", setting.name, Shown(raw)));
    setting.parse(raw).map(|value| (setting, Some(value))).map_err(refused)
}

impl Setup {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let Self { queue, change } = self;
        let name = queue.to_bytes();
        match change {
            None => {
                let call = async move |broker: &Broker| broker.queue(&queue).info().await;
                later(broker, call, |info| shown(&info.state.settings))
            }
            Some(change) => {
                let call = async move |broker: &Broker| broker.queue(&queue).setup(&change).await;
                let effect = |_: &_| Some(Effect::default());
                logged(caller, broker, (SPEC.name, name), call, effect, |_| Reply::Ok)
            }
        }
    }
}

fn shown(settings: &Settings) -> Reply {
    let row = |setting: &'static Setting| {
        let (value, origin) = settings.get(setting);
        let fields = [
            ("setting", setting.name.into()),
            ("value", shown_value(setting, &value)),
            ("origin", origin.word().into()),
        ];
        Reply::map(fields)
    };
    Reply::Array(SETTINGS.into_iter().map(row).collect())
}

fn shown_value(setting: &'static Setting, value: &Value) -> Reply {
    match (setting.shown(value), value) {
        (None, Value::Number(number)) => Reply::count(*number),
        (shown, _) => shown.unwrap_or_default().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, queue};
    use crate::domain::setting::{LEASE, LIMIT};

    #[test]
    fn parse() {
        let of = |mode, values: &[(&'static Setting, Option<u64>)]| {
            let values = values.iter().map(|(setting, value)| (*setting, value.map(Value::from)));
            let change = SettingsChange { mode, origin: Origin::Setup, values: values.collect() };
            Ok(Command::Setup(Setup { queue: queue("q"), change: Some(change) }))
        };
        check(&[
            ("DQ.SETUP q", Ok(Command::Setup(Setup { queue: queue("q"), change: None }))),
            ("DQ.SETUP q reset", of(ChangeMode::Reset, &[])),
            ("DQ.SETUP q RESET limit 3", of(ChangeMode::Reset, &[(&LIMIT, Some(3))])),
            (
                "DQ.SETUP q Limit default lease_ms 1m",
                of(ChangeMode::Named, &[(&LIMIT, None), (&LEASE, Some(60_000))]),
            ),
            ("DQ.SETUP q ifabsent limit 5", of(ChangeMode::IfAbsent, &[(&LIMIT, Some(5))])),
            ("DQ.SETUP q IFABSENT", Err("ERR wrong number of arguments for 'dq.setup'")),
            ("DQ.SETUP q RESET IFABSENT limit 5", Err("ERR RESET and IFABSENT exclude each")),
            ("DQ.SETUP q limit", Err("ERR syntax error: limit needs a value")),
            ("DQ.SETUP q limit 5 LIMIT 6", Err("ERR the setting 'limit' is named twice")),
            ("DQ.SETUP q limt 5", Err("ERR unknown setting 'limt'; there are lease_ms, limit, ")),
            ("DQ.SETUP q limit x", Err("ERR limit 'x' must be a whole number from 0 to 1000000")),
            ("DQ.SETUP q lease_ms 50", Err("ERR lease_ms '50' must be at least 100 ms")),
        ]);
    }
}
