//! Everything that can be wrong with a command, and the one place where it becomes an error reply:
//! the first word is a code, then comes a sentence.

use std::fmt;

use crate::broker::StoreError;
use crate::domain::queue::Shown;
use crate::resp::Reply;

use super::args::ArgError;

#[derive(Debug)]
pub enum Failure {
    Arg(ArgError),
    /// No command has this name.
    Unknown(String),
    Store(StoreError),
    NoAuth,
    Disabled(&'static str),
    /// It changes a connection, and came through a door that has none.
    NeedsConnection(&'static str),
    NoCommand {
        user: String,
        command: &'static str,
    },
    NoPayloads {
        user: String,
        command: &'static str,
    },
    NoQueue {
        user: String,
        queue: Vec<u8>,
    },
}

impl From<ArgError> for Failure {
    fn from(error: ArgError) -> Self {
        Self::Arg(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ArgError> for Reply {
    fn from(error: ArgError) -> Self {
        Failure::from(error).into()
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        Reply::Error(failure.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lower = |command: &str| command.to_ascii_lowercase();
        match self {
            Self::Arg(error) => write!(f, "{error}"),
            Self::Unknown(words) => write!(f, "ERR {words}"),
            Self::NoAuth => f.write_str("NOAUTH Authentication required."),
            Self::Disabled(command) => {
                let command = lower(command);
                write!(
                    f,
                    "NOPERM the command '{command}' is disabled in this broker's configuration"
                )
            }
            Self::NeedsConnection(command) => {
                let command = lower(command);
                write!(f, "ERR the command '{command}' needs a connection of the Redis protocol")
            }
            Self::NoCommand { user, command } => {
                let command = lower(command);
                write!(f, "NOPERM User {user} has no permissions to run the '{command}' command")
            }
            Self::NoPayloads { user, command } => {
                let command = lower(command);
                write!(
                    f,
                    "NOPERM User {user} has no permissions to see payloads, which '{command}' shows"
                )
            }
            Self::NoQueue { user, queue } => {
                let queue = Shown(queue);
                write!(f, "NOPERM User {user} has no permissions to access the queue {queue}")
            }
            Self::Store(error) => store_error(error, f),
        }
    }
}

fn store_error(error: &StoreError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error {
        StoreError::BadQueue { owner } => {
            let owner = Shown(owner);
            write!(f, "BADQUEUE the keys of this queue already belong to the queue {owner}")
        }
        StoreError::WrongType { key } => {
            write!(f, "WRONGTYPE the key {key} holds a value of another type; nothing was changed")
        }
        StoreError::BadCursor | StoreError::LostCursor => write!(f, "ERR {error}"),
        StoreError::TooBig { .. } => write!(f, "TOOBIG {error}"),
        StoreError::TooManyQueues { .. } => write!(f, "TOOMANY {error}"),
        StoreError::Unavailable(why) => write!(f, "UNAVAILABLE {why}"),
        StoreError::Uncertain(why) => write!(f, "UNCERTAIN {why}"),
        StoreError::Internal(why) => write!(f, "INTERNAL {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_errors() {
        let rows = [
            (StoreError::BadQueue { owner: b"{a}".to_vec() }, "BADQUEUE the keys of this queue"),
            (StoreError::WrongType { key: "q".into() }, "WRONGTYPE the key q holds"),
            (StoreError::Unavailable("OOM".into()), "UNAVAILABLE OOM"),
            (StoreError::Uncertain("lost".into()), "UNCERTAIN lost"),
            (StoreError::Internal("bug".into()), "INTERNAL bug"),
        ];
        for (error, wanted) in rows {
            assert!(Failure::from(error).to_string().starts_with(wanted), "{wanted}");
        }
    }
}
