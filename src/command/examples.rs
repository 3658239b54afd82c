//! The examples of `docs/commands.md`, for DQ.HELP: of each command the first that its section has.

/// The page that people read.
pub const PAGE: &str = include_str!("../../docs/commands.md");

/// Typed before each example, so that there is a pending message.
pub const PENDING: &str = "DQ.OFFER orders AT 2030-01-31T08:00:00Z 'order 42' NAME order:42";

/// What is typed, and what redis-cli shows then; `...` stands for the rest of it.
pub fn example(command: &str) -> Option<(&'static str, &'static str)> {
    let (_, section) = PAGE.split_once(&format!("\n## {command}\n"))?;
    let (_, example) = section.split_once("\n$ redis-cli -p 7379 ")?;
    let (call, reply) = example.split_once('\n')?;
    let ends = ["\n$ ", "\n```"].map(|end| reply.find(end).unwrap_or(reply.len()));
    Some((call, reply.get(..ends.into_iter().min()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::TABLE;

    #[test]
    fn each_own_command_has_one() {
        for spec in TABLE {
            let (call, reply) = example(spec.name).unwrap_or_default();
            let own = spec.name.starts_with("DQ.");
            assert_eq!(call.split(' ').next() == Some(spec.name), own, "{spec:?}: {call}");
            assert_eq!(reply.is_empty(), !own, "{spec:?}: {reply}");
        }
        let last = example("DQ.HELP").unwrap().1;
        assert!(last.starts_with("1) DQ.SIZE queue\n") && last.ends_with("\n5)     (integer) 1"));
        assert_eq!(example("DQ.FIRE"), Some(("DQ.FIRE orders order:42", "(integer) 1")));
    }
}
