//! `DQ.HELP`: the commands of this broker, a line for each and one for what it does.
//!
//! Replies with an array of simple strings, as HELP of Redis's container commands. No errors.

use std::rc::Rc;

use crate::broker::Broker;
use crate::resp::Reply;

use super::args::{ArgError, Args};
use super::{Command, Group, Kind, Run, Session, Spec, TABLE};

pub const SPEC: Spec = Spec {
    name: "DQ.HELP",
    usage: "",
    summary: "Lists the commands of the delay broker",
    args: 0..=0,
    kind: Kind::Local,
    group: Group::Server,
    flags: &["loading", "stale"],
    parse,
};

#[derive(Debug, PartialEq)]
pub struct Help;

fn parse<'a>(_: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    Ok(Command::Help(Help))
}

impl Help {
    pub fn run(self, _: &mut Session, _: &Rc<Broker>) -> Run {
        Run::Ready(Reply::Array(
            lines()
                .into_iter()
                .map(|line| Reply::Simple(line.into()))
                .collect(),
        ))
    }
}

fn lines() -> Vec<String> {
    let own = TABLE.iter().filter(|spec| spec.name.starts_with("DQ."));
    let mut lines = vec![
        "DQ.<command> <arguments>. A delay is milliseconds, units as in 1h30m, or AT and a time \
         (Unix milliseconds or RFC 3339). A message is an id or a name. Commands are:"
            .to_owned(),
    ];
    for spec in own {
        lines.push(spec.full_usage());
        lines.push(format!("    {}.", spec.summary));
    }
    lines
}

#[cfg(test)]
mod tests {
    use crate::command::tests::check;

    #[test]
    fn every_own_command_is_listed() {
        check(&[
            ("dq.help", "Help"),
            (
                "DQ.HELP x",
                "ERR wrong number of arguments for 'dq.help' command",
            ),
        ]);
        let lines = super::lines();
        assert!(lines.iter().any(|line| line == "DQ.SIZE queue"));
        assert!(lines.iter().all(|line| !line.contains(['\r', '\n'])));
    }
}
