//! Everything that can be wrong with a command, and the one place where it becomes an error reply:
//! the first word is a code, then comes a sentence.

use thiserror::Error;

use crate::broker::StoreError;
use crate::domain::queue::Shown;
use crate::resp::Reply;

use super::args::ArgError;

#[derive(Debug, Error)]
pub enum Failure {
    #[error(transparent)]
    Arg(#[from] ArgError),
    /// No command has this name.
    #[error("ERR {0}")]
    Unknown(String),
    #[error("{}", store_error(.0))]
    Store(#[from] StoreError),
    #[error("NOAUTH Authentication required.")]
    NoAuth,
    #[error("NOPERM the command '{}' is disabled in this broker's configuration", lower(.0))]
    Disabled(&'static str),
    /// It changes a connection, and came through a door that has none.
    #[error("ERR the command '{}' needs a connection of the Redis protocol", lower(.0))]
    NeedsConnection(&'static str),
    #[error("NOPERM User {user} has no permissions to run the '{}' command", lower(.command))]
    NoCommand { user: String, command: &'static str },
    #[error(
        "NOPERM User {user} has no permissions to see payloads, which '{}' shows",
        lower(.command)
    )]
    NoPayloads { user: String, command: &'static str },
    #[error("NOPERM User {user} has no permissions to access the queue {}", Shown(.queue))]
    NoQueue { user: String, queue: Vec<u8> },
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

fn lower(command: &str) -> String {
    command.to_ascii_lowercase()
}

fn store_error(error: &StoreError) -> String {
    let code = match error {
        StoreError::BadQueue { owner } => {
            let owner = Shown(owner);
            return format!("BADQUEUE the keys of this queue already belong to the queue {owner}");
        }
        StoreError::WrongType { key } => {
            return format!(
                "WRONGTYPE the key {key} holds a value of another type; nothing was changed"
            );
        }
        StoreError::BadCursor
        | StoreError::LostCursor
        | StoreError::InUse { .. }
        | StoreError::NotCarried { .. }
        | StoreError::IsStream
        | StoreError::TakersAlone
        | StoreError::NoStream
        | StoreError::NoFsync
        | StoreError::NoGroup => "ERR",
        StoreError::TooBig { .. } => "TOOBIG",
        StoreError::TooManyQueues { .. }
        | StoreError::TooManyTakers { .. }
        | StoreError::QueueFull { .. }
        | StoreError::TooManyCrons { .. } => "TOOMANY",
        StoreError::Unavailable(_) => "UNAVAILABLE",
        StoreError::Uncertain(_) => "UNCERTAIN",
        StoreError::Internal(_) => "INTERNAL",
    };
    format!("{code} {error}")
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
