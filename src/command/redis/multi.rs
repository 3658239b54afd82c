//! `MULTI`, `EXEC`, `DISCARD`: offers that are checked as they come and stored by one call.
//!
//! After MULTI the commands DQ.OFFER, DQ.MOFFER, PING and ECHO are answered QUEUED, within the
//! limits of DQ.MOFFER for all together. EXEC pushes them into one batch, so one call of
//! `lua/offer.lua` stores them, and replies with an array of their replies: a group that fails is
//! an error in its place. Where a command was refused meanwhile, EXEC stores nothing. DISCARD,
//! RESET and the end of the connection drop what is queued.
//! Errors: ERR; those of DQ.MOFFER when queued; EXECABORT.

use std::rc::Rc;

use bytes::Bytes;

use crate::broker::{Broker, Ticket};
use crate::domain::durability::Durability;
use crate::domain::envelope::Carries;
use crate::domain::queue::{Due, NameMode};
use crate::resp::Reply;

use crate::command::args::{ArgError, Rules};
use crate::command::redis::basic::Basic;
use crate::command::{
    Command, CommandIndex, Failure, Flag, Flags, Group, Kind, ReplyForm, Run, Session, Spec, Then,
};

const fn spec(name: &'static str, summary: &'static str, parse: crate::command::Parse) -> Spec {
    Spec {
        name,
        summary,
        args: 0..=0,
        flags: Flags::of(&[
            Flag::NoScript,
            Flag::Loading,
            Flag::Stale,
            Flag::Fast,
            Flag::AllowBusy,
        ]),
        ..Spec::local(Group::Transactions, parse)
    }
}

pub const MULTI: Spec =
    spec("MULTI", "Starts a transaction of offers", |_| Ok(Command::Multi(Multi::Begin)));

pub const EXEC: Spec = Spec {
    kind: Kind::Offer,
    flags: Flags::of(&[Flag::NoScript, Flag::Loading, Flag::Stale]),
    ..spec("EXEC", "Stores the offers queued since MULTI, in one call", |_| {
        Ok(Command::Multi(Multi::Exec))
    })
};

pub const DISCARD: Spec = spec("DISCARD", "Discards the offers queued since MULTI", |_| {
    Ok(Command::Multi(Multi::Discard))
});

const NOT_INSIDE: &str = "Command not allowed inside a transaction: a delay broker queues \
                          DQ.OFFER, DQ.MOFFER, PING and ECHO";
/// Memory of a queued command besides its bytes, about.
const OVERHEAD: usize = 128;

#[derive(Debug, PartialEq)]
pub enum Multi {
    Begin,
    Exec,
    Discard,
}

/// The commands that a client queued since MULTI.
#[derive(Debug, Default)]
pub struct Transaction {
    queued: Vec<(CommandIndex, Queued)>,
    messages: usize,
    payload_bytes: usize,
    /// Memory that it takes, about.
    held: usize,
    /// A command was refused: EXEC will store nothing.
    failed: bool,
}

/// A command that waits for EXEC: its arguments are checked, and its own.
#[derive(Debug)]
pub enum Queued {
    Offer {
        queue: Bytes,
        due: Due,
        payload: Bytes,
        name: Option<(Bytes, NameMode)>,
        carries: Carries,
        sync: Option<Durability>,
    },
    Moffer {
        queue: Bytes,
        messages: Vec<(Due, Bytes)>,
        carries: Carries,
        sync: Option<Durability>,
    },
    /// Asks nothing of Redis.
    Local(Reply),
}

impl Queued {
    /// Messages (another command counts as one), bytes of payloads, and all bytes.
    fn size(&self) -> (usize, usize, usize) {
        match self {
            Self::Offer { queue, payload, name, .. } => {
                let name = name.as_ref().map_or(0, |(name, _)| name.len());
                let all = queue.len() + payload.len() + name + OVERHEAD;
                (1, payload.len(), all)
            }
            Self::Moffer { queue, messages, .. } => {
                let payloads = messages.iter().map(|(_, payload)| payload.len()).sum();
                let all = queue.len() + payloads + (messages.len() + 1) * OVERHEAD;
                (messages.len(), payloads, all)
            }
            Self::Local(reply) => {
                let bytes = reply.payload_bytes();
                (1, bytes, bytes + OVERHEAD)
            }
        }
    }

    pub(in crate::command) fn run(self, broker: &Broker) -> Ran {
        match self {
            Self::Offer { queue, due, payload, name, carries, sync } => {
                let ticket = match name {
                    None => broker.offer(&queue, due, &payload, carries),
                    Some((name, mode)) => {
                        broker.offer_named(&queue, due, &payload, (&name, mode), carries)
                    }
                };
                Ran::Offered(ticket.until(sync), ReplyForm::One)
            }
            Self::Moffer { queue, messages, carries, sync } => {
                let messages = messages.iter().map(|(due, payload)| (*due, &payload[..]));
                let ticket = broker.moffer(&queue, messages, carries);
                Ran::Offered(ticket.until(sync), ReplyForm::Many)
            }
            Self::Local(reply) => Ran::Ready(reply),
        }
    }
}

impl Transaction {
    pub fn commands(&self) -> usize {
        self.queued.len()
    }

    /// Memory that it takes, about.
    pub fn held(&self) -> usize {
        self.held
    }

    /// True if EXEC would store something.
    pub fn stores(&self) -> bool {
        let local = |queued: &Queued| matches!(queued, Queued::Local(_));
        !self.failed && !self.queued.iter().all(|(_, queued)| local(queued))
    }

    /// A command was refused: nothing will be stored, so nothing is kept from then on.
    pub fn fail(&mut self) {
        *self = Self { failed: true, ..Self::default() };
    }

    fn push(&mut self, index: CommandIndex, queued: Queued, rules: &Rules) -> Result<(), ArgError> {
        if self.failed {
            return Ok(());
        }
        let (messages_max, bytes_max) = (rules.moffer_messages_max, rules.moffer_bytes_max);
        let (messages, payload_bytes, held) = queued.size();
        self.messages += messages;
        self.payload_bytes += payload_bytes;
        self.held += held;
        if self.messages > messages_max {
            let text = format_args!("more than {messages_max} messages in one transaction");
            return Err(ArgError::new("TOOMANY", text));
        }
        if self.payload_bytes > bytes_max {
            let bytes = self.payload_bytes;
            let text = format_args!(
                "the payloads of this transaction have {bytes} bytes, more than {bytes_max}"
            );
            return Err(ArgError::new("TOOBIG", text));
        }
        self.queued.push((index, queued));
        Ok(())
    }
}

/// A command inside a transaction.
pub(in crate::command) fn inside(
    command: Command<'_>,
    index: CommandIndex,
    session: &mut Session,
    broker: &Rc<Broker>,
) -> Run {
    let queued = match command {
        Command::Multi(_) | Command::Basic(Basic::Quit | Basic::Reset) => {
            return command.run(session, broker);
        }
        Command::Offer(offer) => Ok(offer.queued()),
        Command::Moffer(moffer) => Ok(moffer.queued()),
        Command::Basic(Basic::Ping(None)) => Ok(Queued::Local(Reply::Simple("PONG".into()))),
        Command::Basic(Basic::Ping(Some(message)) | Basic::Echo(message)) => {
            Ok(Queued::Local(Reply::Bulk(message)))
        }
        _ => Err(ArgError::plain(NOT_INSIDE)),
    };
    let awaited = match &queued {
        Ok(Queued::Offer { queue, sync, .. } | Queued::Moffer { queue, sync, .. }) => {
            sync.map(|what| (queue.clone(), what))
        }
        _ => None,
    };
    let queued = queued.map_err(Failure::from);
    let Some((queue, what)) = awaited else {
        return keep(queued, index, session);
    };
    match broker.can_be(&queue, what) {
        Some(can) => keep(can.map_err(Failure::from).and(queued), index, session),
        None => {
            let broker = Rc::clone(broker);
            Run::Verified(Box::pin(async move {
                let can = broker.check(&queue, what).await.map_err(Failure::from);
                Box::new(move |session: &mut Session| keep(can.and(queued), index, session)) as Then
            }))
        }
    }
}

/// Keeps a command for EXEC, if it is one that can be.
fn keep(queued: Result<Queued, Failure>, index: CommandIndex, session: &mut Session) -> Run {
    let rules = Rc::clone(&session.rules);
    let mut transaction = session.transaction.take().unwrap_or_default();
    let kept =
        queued.and_then(|queued| transaction.push(index, queued, &rules).map_err(Failure::from));
    let reply = match kept {
        Ok(()) => Reply::Simple("QUEUED".into()),
        Err(failure) => {
            transaction.fail();
            failure.into()
        }
    };
    session.set_transaction(Some(transaction));
    Run::Ready(reply)
}

/// A command that cannot be read or is not allowed, with its reply: the transaction will store
/// nothing, and ends at once if the command is EXEC.
pub(in crate::command) fn refused(
    spec: Option<&Spec>,
    reply: Reply,
    session: &mut Session,
) -> Reply {
    let Some(transaction) = &mut session.transaction else {
        return reply;
    };
    transaction.fail();
    match reply {
        Reply::Error(text) if spec.is_some_and(|spec| spec.name == EXEC.name) => {
            session.set_transaction(None);
            let why = text.strip_prefix("ERR ").unwrap_or(&text);
            Reply::Error(format!("EXECABORT Transaction discarded because of: {why}"))
        }
        reply => reply,
    }
}

impl Multi {
    pub fn run(self, session: &mut Session, broker: &Rc<Broker>) -> Run {
        let without =
            |name| Run::Ready(ArgError::plain(format_args!("{name} without MULTI")).into());
        let begun = session.transaction.take();
        session.set_transaction(None);
        match (self, begun) {
            (Self::Begin, None) => {
                session.set_transaction(Some(Box::default()));
                Run::Ready(Reply::Ok)
            }
            (Self::Begin, begun) => {
                session.set_transaction(begun);
                Run::Ready(ArgError::plain("MULTI calls can not be nested").into())
            }
            (Self::Discard, Some(_)) => Run::Ready(Reply::Ok),
            (Self::Discard, None) => without("DISCARD"),
            (Self::Exec, None) => without("EXEC"),
            (Self::Exec, Some(transaction)) if transaction.failed => Run::Ready(Reply::Error(
                "EXECABORT Transaction discarded because of previous errors.".to_owned(),
            )),
            (Self::Exec, Some(transaction)) => {
                // Pushed in one go, they are in one batch: nobody closes it in between.
                let queued = transaction.queued.into_iter();
                let ran = queued.map(|(index, queued)| (index, queued.run(broker)));
                Run::Executed(Executed { ran: ran.collect(), silent: false })
            }
        }
    }
}

/// The commands of an EXEC, under way.
pub struct Executed {
    pub(in crate::command) ran: Vec<(CommandIndex, Ran)>,
    /// The client wants no reply.
    pub(in crate::command) silent: bool,
}

pub(in crate::command) enum Ran {
    Ready(Reply),
    Offered(Ticket, ReplyForm),
}

impl Executed {
    pub fn commands(&self) -> usize {
        self.ran.len()
    }

    /// One of the tickets that are done last: those that wait for the same come at once.
    pub fn ticket(&self) -> Option<&Ticket> {
        let tickets = self.ran.iter().filter_map(|(_, ran)| match ran {
            Ran::Offered(ticket, _) => Some(ticket),
            Ran::Ready(_) => None,
        });
        tickets.max_by_key(|ticket| ticket.waits_longer())
    }

    /// Memory of the replies that are there already, about.
    pub fn ready_bytes(&self) -> usize {
        let ready = self.ran.iter().map(|(_, ran)| match ran {
            Ran::Ready(reply) => reply.payload_bytes() + OVERHEAD,
            Ran::Offered(..) => 0,
        });
        ready.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{check, rules};

    #[test]
    fn parse() {
        let of = |multi| Ok(Command::Multi(multi));
        check(&[
            ("multi", of(Multi::Begin)),
            ("EXEC", of(Multi::Exec)),
            ("DISCARD", of(Multi::Discard)),
        ]);
    }

    /// Also those that have no payload: an EXEC may wait behind offers, and many of them in line.
    #[test]
    fn replies_that_are_there_count() {
        let pong = || (None, Ran::Ready(Reply::Simple("PONG".into())));
        let executed = Executed { ran: vec![pong(), pong()], silent: true };
        assert!(executed.ready_bytes() >= 2 * std::mem::size_of_val(&pong()));
    }

    /// Three messages and 24 bytes are allowed.
    #[test]
    fn limits_and_what_is_held() {
        let rules = rules(&[]);
        let offer = |bytes: usize| Queued::Offer {
            sync: None,
            queue: Bytes::from_static(b"q"),
            due: Due::In(5),
            payload: vec![b'x'; bytes].into(),
            name: Some((Bytes::from_static(b"name"), NameMode::Nx)),
            carries: Carries::Nothing,
        };
        let many = |count: usize| Queued::Moffer {
            sync: None,
            queue: Bytes::from_static(b"q"),
            messages: vec![(Due::In(5), Bytes::from_static(b"x")); count],
            carries: Carries::Nothing,
        };
        let echo = |bytes: usize| Queued::Local(Reply::from("e".repeat(bytes)));
        let rows = [
            (vec![offer(8), offer(8), offer(8)], ""),
            (vec![many(3)], ""),
            (vec![echo(12), echo(12)], ""),
            (vec![offer(1), many(3)], "TOOMANY more than 3 messages in one transaction"),
            (
                vec![echo(0), echo(0), offer(0), echo(0)],
                "TOOMANY more than 3 messages in one transaction",
            ),
            (
                vec![offer(12), echo(13)],
                "TOOBIG the payloads of this transaction have 25 bytes, more than 24",
            ),
        ];
        for (row, wanted) in rows {
            let mut transaction = Transaction::default();
            let (mut held, mut said) = (0, String::new());
            for queued in row {
                held += queued.size().2;
                if let Err(error) = transaction.push(None, queued, &rules) {
                    said = error.to_string();
                }
                assert_eq!(transaction.held(), held);
            }
            assert_eq!(said, wanted);
            transaction.fail();
            assert_eq!((transaction.held(), transaction.queued.len()), (0, 0));
            assert!(transaction.push(None, offer(8), &rules).is_ok());
            assert!(transaction.failed && transaction.queued.is_empty());
            assert_eq!(transaction.held(), 0);
        }
    }
}
