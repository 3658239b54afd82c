//! `DQ.HELP [command]`: the commands of this broker, a line for each and one for what it does; or
//! one command, with an example and its reply.
//!
//! Replies with an array of simple strings, as HELP of Redis's container commands. The `DQ.` may be
//! left out. Errors: ERR, where there is no such command.

use std::rc::Rc;

use crate::broker::Broker;
use crate::domain::queue::Shown;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, is};
use crate::command::examples::example;
use crate::command::{Caller, Command, Group, Run, Spec, TABLE, unknown};

pub const SPEC: Spec = Spec {
    name: "DQ.HELP",
    usage: "[command]",
    summary: "Lists the commands of the delay broker, or shows one of them",
    args: 0..=1,
    ..Spec::local(Group::Server, parse)
};

/// The command that is asked for; none = all.
#[derive(Debug, PartialEq)]
pub struct Help(Option<&'static Spec>);

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let Some(name) = args.option() else {
        return Ok(Command::Help(Help(None)));
    };
    let listed = || TABLE.iter().filter(|spec| spec.group != Group::Refused);
    let whole = listed().find(|spec| is(name, spec.name));
    let own = || listed().find(|spec| spec.name.strip_prefix("DQ.").is_some_and(|s| is(name, s)));
    // GET and INFO alone are ours as well, and what is asked here is about ours.
    match own().or(whole) {
        Some(spec) => Ok(Command::Help(Help(Some(spec)))),
        None => {
            let (shown, advice) = (Shown(name), unknown::advice_on(name));
            Err(ArgError::plain(format_args!("no command {shown}{advice}")))
        }
    }
}

impl Help {
    pub fn run(self, _: &Caller, _: &Rc<Broker>) -> Run {
        let lines = self.0.map_or_else(all, one).into_iter();
        let lines = lines.map(|line| Reply::Simple(line.into()));
        Run::Ready(Reply::Array(lines.collect()))
    }
}

fn all() -> Vec<String> {
    let own = TABLE.iter().filter(|spec| spec.name.starts_with("DQ."));
    let mut lines = vec![
        "DQ.<command> <arguments>. A delay is milliseconds, units as in 1h30m, or AT and a time \
         (Unix milliseconds or RFC 3339). A message is an id or a name. DQ.HELP <command> has an \
         example. Commands are:"
            .to_owned(),
    ];
    lines.extend(own.flat_map(|spec| about(spec)));
    lines
}

fn about(spec: &Spec) -> [String; 2] {
    [spec.full_usage(), format!("    {}.", spec.summary)]
}

fn one(spec: &'static Spec) -> Vec<String> {
    let mut lines = Vec::from(about(spec));
    if let Some((call, reply)) = example(spec.name) {
        lines.push("Example:".to_owned());
        lines.push(format!("    > {call}"));
        lines.extend(reply.lines().map(|line| format!("    {line}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::check;
    use crate::command::{dq, redis};

    #[test]
    fn parse() {
        let of = |spec| Ok(Command::Help(Help(spec)));
        check(&[
            ("dq.help", of(None)),
            ("DQ.HELP offer", of(Some(&dq::offer::SPEC))),
            ("DQ.HELP dq.offer", of(Some(&dq::offer::SPEC))),
            ("DQ.HELP info", of(Some(&dq::info::SPEC))),
            ("DQ.HELP ping", of(Some(&redis::basic::PING))),
            ("DQ.HELP dq.len", Err("ERR no command 'dq.len'; did you mean DQ.SIZE?")),
            ("DQ.HELP len", Err("ERR no command 'len'; did you mean DQ.SIZE?")),
            ("DQ.HELP cluster", Err("ERR no command 'cluster'; DQ.HELP lists the commands")),
        ]);
    }

    #[test]
    fn every_own_command_is_listed() {
        let lines = all();
        assert!(lines.iter().any(|line| line == "DQ.SIZE queue"));
        assert!(lines.iter().all(|line| !line.contains(['\r', '\n'])));
        for spec in TABLE {
            let lines = one(spec);
            assert!(lines.iter().all(|line| !line.contains(['\r', '\n'])), "{spec:?}");
            assert_eq!(lines.len() > 2, spec.name.starts_with("DQ."), "{spec:?}");
        }
    }
}
