//! What the tests of all commands share, and tests of what is the same for all commands.

use std::time::Instant;

use bytes::BytesMut;

use super::*;
use crate::clients::Clients;
use crate::config::Config as Settings;
use crate::resp::{RequestLimits, RequestReader};

const LIMITS: RequestLimits = RequestLimits {
    args_max: 100,
    arg_bytes_max: 1 << 20,
    request_bytes_max: 1 << 20,
    inline_bytes_max: 1 << 20,
};

/// Rules small enough to break in a row of a table.
pub fn rules(settings: &[(&'static str, &str)]) -> Rc<Rules> {
    let small = [
        ("limits.queue_name_bytes_max", "64"),
        ("limits.message_name_bytes_max", "16"),
    ];
    let settings: Vec<_> = small.iter().chain(settings).copied().collect();
    let mut rules = Rules::new(&Settings::with(&settings).unwrap(), false);
    let limits = Rc::get_mut(&mut rules).unwrap();
    (limits.payload_bytes_max, limits.delay_max_ms) = (16, 86_400_000);
    (limits.moffer_messages_max, limits.moffer_bytes_max) = (3, 24);
    rules
}

fn read<T>(line: &str, then: impl FnOnce(Request<'_>) -> T) -> T {
    let (mut reader, mut buf) = (RequestReader::new(LIMITS), BytesMut::from(line));
    buf.extend_from_slice(b"\n");
    assert_eq!(reader.next(&mut buf), Ok(Some(())), "{line}");
    then(reader.request(&buf))
}

/// A command typed as a line, parsed: how it reads, or the error reply.
pub fn parsed(line: &str) -> String {
    let rules = rules(&[]);
    read(line, |request| {
        let found = lookup(request.get(0).unwrap_or_default());
        match parse(request, found, true, &rules) {
            Ok(command) => format!("{command:?}"),
            Err(failure) => match Reply::from(failure) {
                Reply::Error(text) => text,
                other => panic!("{other:?}"),
            },
        }
    })
}

/// Rows of (line, how it reads or the error; an error may go on after what is given).
pub fn check(rows: &[(&str, &str)]) {
    for (line, wanted) in rows {
        let got = parsed(line);
        let error = wanted
            .split(' ')
            .next()
            .is_some_and(|code| code.len() > 2 && code.bytes().all(|b| b.is_ascii_uppercase()));
        let fits = if error {
            got.starts_with(wanted)
        } else {
            got == *wanted
        };
        assert!(fits, "{line}\n got: {got}\nwant: {wanted}");
    }
}

/// A connection without a socket, for commands that answer at once.
pub struct Desk {
    pub session: Session,
    pub clients: Clients,
    _registered: crate::clients::Registered,
    rules: Rc<Rules>,
}

impl Desk {
    pub fn new(settings: &[(&'static str, &str)]) -> Self {
        let clients = Clients::default();
        let registered = clients.register("1.2.3.4:5".into(), "5.6.7.8:9".into(), Instant::now());
        let rules = rules(settings);
        let session = Session::new(registered.client(), Rc::clone(&rules));
        Self {
            session,
            clients,
            _registered: registered,
            rules,
        }
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
            let command = parse(request, found, self.session.authenticated, &rules);
            then(command, &mut self.session)
        })
    }
}

#[test]
fn unknown_commands() {
    let long = "x".repeat(200);
    let cut = format!(
        "ERR unknown command '{}', with args beginning with: ",
        "x".repeat(128)
    );
    let lines = [
        (
            "nope",
            "ERR unknown command 'nope', with args beginning with: ",
        ),
        (
            "GET a 'b c'",
            "ERR unknown command 'GET', with args beginning with: 'a' 'b c' ",
        ),
        (
            "GET \"a\\r\\n\"",
            "ERR unknown command 'GET', with args beginning with: 'a\\r\\n' ",
        ),
        (long.as_str(), cut.as_str()),
        (
            "DQ.OFFERS q",
            "ERR unknown command 'DQ.OFFERS', with args beginning with: 'q' ",
        ),
    ];
    for (line, wanted) in lines {
        assert_eq!(parsed(line), wanted);
    }
    let many = parsed(&format!("nope {0} {0} {0}", "y".repeat(70)));
    assert!(
        many.ends_with(&format!("'{}' '{}' ", "y".repeat(70), "y".repeat(55))),
        "{many}"
    );
}

#[test]
fn what_is_the_same_for_all() {
    check(&[
        (
            "dq.size",
            "ERR wrong number of arguments for 'dq.size' command; usage: DQ.SIZE queue",
        ),
        (
            "dq.size a b",
            "ERR wrong number of arguments for 'dq.size' command",
        ),
        ("echo", "ERR wrong number of arguments for 'echo' command"),
        ("dQ.sIzE a", "Size { queue: QueueName('a') }"),
        ("DQ.SIZE ''", "BADQUEUE queue '' must not be empty"),
        (
            "DQ.SIZE redisson_delay_queue:x",
            "BADQUEUE queue 'redisson_delay_queue:x' begins with",
        ),
    ]);
}

#[test]
fn password_and_disabled_commands() {
    let settings = [
        ("server.password", "secret"),
        ("server.disabled_commands", "DQ.CLEAR,DQ.POLL"),
    ];
    let mut desk = Desk::new(&settings);
    let mut error = |line: &str, authenticated| {
        desk.session.authenticated = authenticated;
        desk.parse(line, |command, _| match command {
            Ok(command) => format!("{command:?}"),
            Err(failure) => format!("{:?}", Reply::from(failure)),
        })
    };
    let noauth = r#"Error("NOAUTH Authentication required.")"#;
    assert_eq!(error("DQ.SIZE q", false), noauth);
    assert_eq!(error("nope", false), noauth);
    assert_eq!(error("quit", false), "Quit");
    assert_eq!(error("DQ.SIZE q", true), "Size { queue: QueueName('q') }");
    assert!(error("DQ.POLL q", true).contains("NOPERM the command 'dq.poll' is disabled"));
}

#[test]
fn the_table() {
    for spec in TABLE {
        assert_eq!(spec.name, spec.name.to_ascii_uppercase());
        assert_eq!(
            TABLE.iter().filter(|other| other.name == spec.name).count(),
            1,
            "{spec:?}"
        );
        let local = !spec.name.starts_with("DQ.") && spec.name != "TIME" || spec.name == "DQ.HELP";
        assert_eq!(spec.kind == Kind::Local, local, "{spec:?}");
        if spec.group == Group::Queue {
            assert!(spec.usage.starts_with("queue"), "{spec:?}");
            assert!(*spec.args.start() >= 1, "{spec:?}");
        }
    }
}

#[test]
fn store_errors() {
    let rows = [
        (
            StoreError::BadQueue {
                owner: b"{a}".to_vec(),
            },
            "BADQUEUE the keys of this queue",
        ),
        (
            StoreError::WrongType { key: "q".into() },
            "WRONGTYPE the key q holds",
        ),
        (StoreError::Unavailable("OOM".into()), "UNAVAILABLE OOM"),
        (StoreError::Uncertain("lost".into()), "UNCERTAIN lost"),
        (StoreError::Internal("bug".into()), "INTERNAL bug"),
    ];
    for (error, wanted) in rows {
        let Reply::Error(text) = Reply::from(Failure::from(error)) else {
            panic!("{wanted}")
        };
        assert!(text.starts_with(wanted), "{text}");
    }
}
