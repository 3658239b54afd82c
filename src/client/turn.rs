//! How much a connection has done since the others had their turn. Pure.
//!
//! A command counts one, bytes that are read or written about as much as commands that take as
//! long. Some commands take much longer than others, so there is a bound in time too.

use std::time::Duration;

const TURN_MAX: usize = 64;
const TURN_TIME: Duration = Duration::from_micros(250);
const READ_PER_COMMAND: usize = 512;
const WRITE_PER_COMMAND: usize = 2048;

#[derive(Debug, Default)]
pub struct Turn {
    done: usize,
    /// The connection has more to do than one turn allows: it waits in line before it goes on, even
    /// if something else held it up meanwhile. Otherwise all connections that one thing held up
    /// would have their turns at once.
    in_line: bool,
}

impl Turn {
    pub fn ran(&mut self, commands: usize) {
        self.done += commands;
        self.in_line |= self.is_over();
    }

    /// Records the time that the commands of this turn took together.
    pub fn took(&mut self, time: Duration) {
        if time >= TURN_TIME {
            self.done = TURN_MAX;
            self.in_line = true;
        }
    }

    pub fn read(&mut self, bytes: usize) {
        self.done += bytes / READ_PER_COMMAND;
    }

    pub fn wrote(&mut self, bytes: usize) {
        self.done += bytes / WRITE_PER_COMMAND;
    }

    pub fn is_over(&self) -> bool {
        self.done >= TURN_MAX
    }

    /// The connection has run all requests that it has read.
    pub fn has_caught_up(&mut self) {
        self.in_line = false;
    }

    /// True if other connections go first now; a new turn begins then. `goes_on`: nothing else
    /// holds this connection up.
    pub fn ends(&mut self, goes_on: bool) -> bool {
        let ends = self.is_over() || (self.in_line && goes_on);
        if ends {
            self.done = 0;
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_end_and_are_waited_for_until_all_is_done() {
        let mut turn = Turn::default();
        turn.ran(TURN_MAX - 2);
        turn.took(TURN_TIME - Duration::from_nanos(1));
        turn.read(READ_PER_COMMAND);
        turn.wrote(WRITE_PER_COMMAND - 1);
        assert!(!turn.is_over() && !turn.ends(true));
        turn.ran(1);
        assert!(turn.is_over() && turn.ends(true), "too many commands");
        // Not done yet: it waits in line, unless something else holds it up.
        assert!(!turn.is_over() && !turn.ends(false) && turn.ends(true));
        turn.has_caught_up();
        assert!(!turn.ends(true));
        turn.took(TURN_TIME);
        assert!(turn.ends(false), "too long");
        turn.has_caught_up();
        turn.read(TURN_MAX * READ_PER_COMMAND);
        assert!(turn.ends(false), "too many bytes in");
        turn.wrote(TURN_MAX * WRITE_PER_COMMAND);
        assert!(turn.ends(false) && !turn.ends(true), "too many bytes out");
    }
}
