//! `CONFIG GET pattern [pattern ...]`: the settings in effect, and those that clients read.
//!
//! Replies with a map. Our settings are named `section.key` as in the file, secrets hidden; beside
//! them stand the few of Redis's that clients read. CONFIG SET and the rest are errors: settings
//! are read at start and at SIGHUP.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::Broker;
use crate::config::shown;
use crate::domain::glob;
use crate::domain::queue::Shown;
use crate::resp::Reply;

use crate::command::args::{ArgError, Args, is};
use crate::command::{Caller, Categories, Category, Command, Flag, Flags, Group, MANY, Run, Spec};

pub const SPEC: Spec = Spec {
    name: "CONFIG",
    usage: "GET pattern [pattern ...]",
    summary: "Shows the settings in effect",
    args: 1..=MANY,
    flags: Flags::of(&[Flag::Admin, Flag::Loading, Flag::Stale]),
    categories: Categories::of(&[Category::Dangerous]),
    ..Spec::local(Group::Server, parse)
};

#[derive(Debug, PartialEq)]
pub struct Config {
    patterns: Vec<Bytes>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    if args.takes("GET") {
        if args.left() == 0 {
            return Err(ArgError::plain("wrong number of arguments for 'config|get' command"));
        }
        let values: Vec<&[u8]> = std::iter::from_fn(|| args.option()).collect();
        let patterns = args.patterns(values.into_iter())?;
        return Ok(Command::Config(Config { patterns }));
    }
    let word = args.value()?;
    let known = ["SET", "REWRITE", "RESETSTAT"].iter().any(|known| is(word, known));
    let word = Shown(word);
    Err(match known {
        true => ArgError::plain(format_args!(
            "CONFIG {word} is not supported: settings are read at start and at SIGHUP"
        )),
        false => ArgError::plain(format_args!("unknown subcommand {word}. Try CONFIG HELP.")),
    })
}

impl Config {
    pub fn run(self, _: &Caller, broker: &Rc<Broker>) -> Run {
        let (config, info) = (broker.config(), broker.server_info());
        let own = config.settings.iter().map(|(name, value)| (name.clone(), shown(value)));
        let of_redis = [
            // redis-benchmark asks for these two, StackExchange.Redis for the next three.
            ("save", String::new()),
            ("appendonly", String::new()),
            ("timeout", config.server.idle_timeout_s.to_string()),
            ("databases", "1".to_owned()),
            ("replica-read-only", "no".to_owned()),
            ("port", info.plain_port.to_string()),
            ("tls-port", info.tls_port.to_string()),
            ("maxclients", broker.clients_max.get().to_string()),
        ];
        let of_redis = of_redis.into_iter().map(|(name, value)| (name.to_owned(), value));
        Run::Ready(self.chosen(of_redis.chain(own)))
    }

    fn chosen(&self, settings: impl Iterator<Item = (String, String)>) -> Reply {
        let wanted = |name: &str| {
            let fits = |p: &Bytes| glob::matches(&p.to_ascii_lowercase(), name.as_bytes());
            self.patterns.iter().any(fits)
        };
        let chosen = settings.filter(|(name, _)| wanted(name));
        Reply::Map(chosen.map(|(name, value)| (name.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, refused};

    #[test]
    fn parse() {
        let of = |patterns: &[&'static str]| {
            let patterns = patterns.iter().map(|one| Bytes::from_static(one.as_bytes())).collect();
            Ok(Command::Config(Config { patterns }))
        };
        check(&[
            ("config get save", of(&["save"])),
            ("CONFIG GET a* b", of(&["a*", "b"])),
            ("CONFIG RESETSTAT", Err("ERR CONFIG 'RESETSTAT' is not supported")),
        ]);
    }

    /// Matching takes the length of a pattern times that of a name.
    #[test]
    fn long_patterns() {
        let (fits, long) = ("x".repeat(2_048), "[".repeat(4_097));
        let lines = ["CONFIG GET", "COMMAND LIST FILTERBY PATTERN", "DQ.QUEUES MATCH"];
        let error = "is too long: the patterns of one command may have 4096 bytes in total";
        for line in lines {
            let long = refused(&format!("{line} {long}"));
            assert!(long.starts_with("ERR pattern '[[") && long.ends_with(error));
            assert!(refused(&format!("{line} {fits}")).starts_with("no error"));
        }
        assert!(refused(&format!("CONFIG GET {fits} {fits}")).starts_with("no error"));
        assert!(refused(&format!("CONFIG GET {fits} {fits} y")).ends_with(error));
    }

    #[test]
    fn by_pattern() {
        let settings = || {
            let names = ["save", "server.listen", "server.password"];
            names.into_iter().map(|name| (name.to_owned(), "x".to_owned()))
        };
        let rows = [("SAVE", 1), ("server.*", 2), ("*", 3), ("nope", 0)];
        for (pattern, wanted) in rows {
            let config = Config { patterns: vec![pattern.into()] };
            match config.chosen(settings()) {
                Reply::Map(fields) => assert_eq!(fields.len(), wanted, "{pattern}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
