//! Helpers for the tests of all commands, and tests of the rules for all commands.

use std::time::Instant;

use bytes::BytesMut;

use super::*;
use crate::config::Config as Settings;
use crate::domain::queue::{MessageRef, QueueName};
use crate::peers::registry::Clients;
use crate::resp::{RequestLimits, RequestReader};

const LIMITS: RequestLimits = RequestLimits {
    args_max: 100,
    arg_bytes_max: 1 << 20,
    request_bytes_max: 1 << 20,
    inline_bytes_max: 1 << 20,
};

/// Rules small enough to break in a row of a table.
pub fn rules(settings: &[(&'static str, &str)]) -> Rc<Rules> {
    let small = [("limits.queue_name_bytes_max", "64"), ("limits.message_name_bytes_max", "16")];
    let settings: Vec<_> = small.iter().chain(settings).copied().collect();
    let mut rules = Rules::new(&Settings::with(&settings).unwrap());
    let limits = Rc::get_mut(&mut rules).unwrap();
    (limits.payload_bytes_max, limits.delay_max_ms) = (16, 86_400_000);
    (limits.moffer_messages_max, limits.moffer_bytes_max) = (3, 24);
    rules
}

pub fn read<T>(line: &str, then: impl FnOnce(Request<'_>) -> T) -> T {
    let (mut reader, mut buf) = (RequestReader::new(LIMITS), BytesMut::from(line));
    buf.extend_from_slice(b"\n");
    assert_eq!(reader.next(&mut buf), Ok(Some(())), "{line}");
    then(reader.request(&buf))
}

/// The error of a line, or that it has none.
pub fn refused(line: &str) -> String {
    let (rules, connection) = (rules(&[]), LocalConnection::new(&[]));
    read(line, |request| {
        let found = lookup(request.get(0).unwrap_or_default());
        match super::check(request, found, &connection.session.caller, &rules, &rules.access) {
            Ok(command) => format!("no error: {command:?}"),
            Err(failure) => failure.to_string(),
        }
    })
}

/// Rows of a line, and the command that it is or the beginning of its error.
pub fn check(rows: &[(&str, Result<Command<'_>, &str>)]) {
    let (rules, connection) = (rules(&[]), LocalConnection::new(&[]));
    for (line, wanted) in rows {
        read(line, |request| {
            let found = lookup(request.get(0).unwrap_or_default());
            let got =
                super::check(request, found, &connection.session.caller, &rules, &rules.access);
            match (got, wanted) {
                (Ok(got), Ok(wanted)) => assert_eq!(got, *wanted, "{line}"),
                (Err(got), Err(wanted)) => {
                    assert!(got.to_string().starts_with(wanted), "{line}: {got}");
                }
                (got, wanted) => panic!("{line}: {got:?}, not {wanted:?}"),
            }
        });
    }
}

pub fn queue(name: &'static str) -> QueueName {
    QueueName::trusted(Bytes::from_static(name.as_bytes()))
}

/// A message by its id or name.
pub fn message(text: &str) -> MessageRef {
    MessageRef::parse(text.as_bytes(), 64).unwrap()
}

/// A connection without a socket, for commands that answer at once.
pub struct LocalConnection {
    pub session: Session,
    pub clients: Clients,
    _registered: crate::peers::registry::Registered,
    rules: Rc<Rules>,
}

impl LocalConnection {
    pub fn new(settings: &[(&'static str, &str)]) -> Self {
        let clients = Clients::default();
        let registered =
            clients.register("1.2.3.4:5".parse().unwrap(), "5.6.7.8:9".into(), Instant::now());
        let rules = rules(settings);
        let session = Session::new(registered.client(), Rc::clone(&rules));
        Self { session, clients, _registered: registered, rules }
    }

    /// Parses a line as this session would be allowed to.
    pub fn parse<T>(
        &mut self,
        line: &str,
        then: impl FnOnce(Result<Command<'_>, Failure>, &mut Session) -> T,
    ) -> T {
        let rules = Rc::clone(&self.rules);
        read(line, |request| {
            let found = lookup(request.get(0).unwrap_or_default());
            let command = super::check(request, found, &self.session.caller, &rules, &rules.access);
            then(command, &mut self.session)
        })
    }
}

/// The parts of an unknown command that its error shows are bounded.
#[test]
fn unknown_commands() {
    let long = "x".repeat(200);
    let cut = format!("ERR unknown command '{}', with args beginning with: ", "x".repeat(128));
    assert_eq!(refused(&long), cut);
    let many = refused(&format!("nope {0} {0} {0}", "y".repeat(70)));
    assert!(many.ends_with(&format!("'{}' '{}' ", "y".repeat(70), "y".repeat(55))), "{many}");
}

/// A queue that is named as a key of the broker, which no table of `wire` has.
#[test]
fn names_of_keys() {
    let refused = refused("DQ.SIZE redisson_delay_queue:x");
    assert!(refused.starts_with("BADQUEUE queue 'redisson_delay_queue:x' begins with"));
}

#[test]
fn the_table() {
    for spec in TABLE {
        assert_eq!(spec.name, spec.name.to_ascii_uppercase());
        assert_eq!(TABLE.iter().filter(|other| other.name == spec.name).count(), 1, "{spec:?}");
        let calls = spec.name.starts_with("DQ.") || ["TIME", "EXEC"].contains(&spec.name);
        let local = !calls || spec.name == "DQ.HELP";
        assert_eq!(spec.kind == Kind::Local, local, "{spec:?}");
        // Rights are given by category: so each command about queues has one.
        let about_queues = spec.name.starts_with("DQ.") && spec.name != "DQ.HELP";
        let has_category = spec.categories != Categories::NONE;
        assert_eq!(
            has_category,
            about_queues || ["INFO", "CONFIG"].contains(&spec.name),
            "{spec:?}"
        );
        if spec.group == Group::Queue {
            let first = spec.usage.trim_start_matches('<');
            assert!(first.starts_with("queue"), "{spec:?}");
            assert!(*spec.args.start() >= 1, "{spec:?}");
        }
    }
}
