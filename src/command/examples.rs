//! An example of each command of the broker: a line for redis-cli, and the output of it.
//!
//! DQ.HELP shows them; a test types each and compares the output, but for ids and times.

use Before::{Nothing, Pending};

pub struct Example {
    /// As redis-cli takes it.
    pub call: &'static str,
    /// As redis-cli shows it on a terminal, line by line; `...` stands for the lines that follow.
    pub reply: &'static str,
    pub before: Before,
}

/// The state before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Nothing,
    /// The message of [`PENDING`] is pending.
    Pending,
}

pub const PENDING: &str = "DQ.OFFER orders AT 2030-01-31T08:00:00Z 'order 42' NAME order:42";

impl Example {
    /// The command that it is of.
    pub fn command(&self) -> &'static str {
        self.call.split(' ').next().unwrap_or_default()
    }
}

const fn example(before: Before, call: &'static str, reply: &'static str) -> Example {
    Example { call, reply, before }
}

pub const EXAMPLES: [Example; 20] = [
    example(
        Nothing,
        "DQ.OFFER orders 30m 'order 42' NAME order:42",
        "\"1795345538590-0550205cb7151000\"",
    ),
    example(
        Nothing,
        "DQ.MOFFER orders 30m 'order 42' 1h30m 'order 43'",
        "1) \"1795345538616-0550205cbdd51000\"\n2) \"1795349138616-0550205cbdd51001\"",
    ),
    example(Pending, "DQ.CANCEL orders order:42", "(integer) 1"),
    example(Pending, "DQ.RESCHEDULE orders order:42 2h", "\"1795350938772-0550205cdf551000\""),
    example(Pending, "DQ.REMOVE orders 'order 42'", "(integer) 1"),
    example(Pending, "DQ.FIRE orders order:42", "(integer) 1"),
    example(
        Pending,
        "DQ.GET orders order:42",
        " 1) \"id\"\n 2) \"1896076800000-0550205d1a951000\"\n 3) \"name\"\n 4) \"order:42\"\n \
         5) \"due\"\n 6) (integer) 1896076800000\n 7) \"payload\"\n 8) \"order 42\"\n 9) \
         \"format\"\n10) \"modern\"",
    ),
    example(Pending, "DQ.SIZE orders", "(integer) 1"),
    example(
        Pending,
        "DQ.PEEK orders COUNT 1",
        "1)  1) \"id\"\n    2) \"1896076800000-0550205d36951000\"\n    3) \"name\"\n...",
    ),
    example(
        Pending,
        "DQ.RANGE orders 2030-01-31T00:00:00Z + COUNT 1",
        "1) \"0\"\n2) 1)  1) \"id\"\n       2) \"1896076800000-0550205d40151000\"\n       3) \
         \"name\"\n...",
    ),
    example(Pending, "DQ.CONTAINS orders 'order 42' 'order 43'", "1) (integer) 1\n2) (integer) 0"),
    example(Pending, "DQ.POLL orders", "1) \"order 42\""),
    example(Pending, "DQ.CLEAR orders", "(integer) 1"),
    example(
        Pending,
        "DQ.CONVERT orders LEGACY",
        "1) \"converted\"\n2) (integer) 1\n3) \"left\"\n4) (integer) 0",
    ),
    example(Nothing, "DQ.PAUSE orders 10m", "OK"),
    example(Nothing, "DQ.RESUME orders", "OK"),
    example(Nothing, "DQ.QUARANTINE orders LIST", "(empty array)"),
    example(
        Pending,
        "DQ.QUEUES MATCH ord* COUNT 1",
        "1) \"0\"\n2) 1)  1) \"queue\"\n       2) \"orders\"\n       3) \"pending\"\n       4) \
         (integer) 1\n...",
    ),
    example(
        Pending,
        "DQ.INFO orders",
        " 1) \"queue\"\n 2) \"orders\"\n 3) \"known\"\n 4) (integer) 1\n 5) \"pending\"\n 6) \
         (integer) 1\n...",
    ),
    example(
        Nothing,
        "DQ.HELP SIZE",
        "1) DQ.SIZE queue\n2)     Counts the pending messages.\n3) Example:\n4)     > DQ.SIZE \
         orders\n5)     (integer) 1",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::TABLE;

    #[test]
    fn each_own_command_has_one() {
        let own = TABLE.iter().filter(|spec| spec.name.starts_with("DQ."));
        for spec in own.clone() {
            let here = EXAMPLES.iter().filter(|e| e.command() == spec.name);
            assert_eq!(here.count(), 1, "{spec:?}");
        }
        assert_eq!(own.count(), EXAMPLES.len());
    }
}
