//! `delay-broker hash`: the hash of a password, for `[[users]]`.
//!
//! On a terminal it asks, and shows nothing of what is typed; else the password is the first line
//! of the input. It is never an argument, which every user of the machine could see.

use std::io::{self, BufRead, IsTerminal};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

use crate::domain::password::PasswordHash;

/// Bytes; a request before the password is no larger.
const PASSWORD_MAX: usize = 16 * 1024;
/// The byte of Ctrl-C.
const INTERRUPT: u8 = 3;

/// Reads a password and makes its hash.
///
/// # Errors
/// The password cannot be read, or cannot be one, as a sentence.
pub fn hash() -> Result<String, String> {
    let password = if io::stdin().is_terminal() { asked() } else { line(io::stdin().lock()) };
    let password = password.map_err(|error| format!("no password can be read: {error}"))?;
    match password.len() {
        0 => Err("the password must not be empty".to_owned()),
        1..=PASSWORD_MAX => PasswordHash::of(&password),
        _ => Err(format!("the password must not have more than {PASSWORD_MAX} bytes")),
    }
}

/// Twice, since nobody sees what is typed.
fn asked() -> io::Result<Vec<u8>> {
    let _hidden = Hidden::new()?;
    let ask = |prompt| {
        eprint!("{prompt}");
        let mut input = io::stdin().lock();
        // A terminal gives a line at a time.
        if input.fill_buf()?.last() == Some(&INTERRUPT) {
            eprintln!();
            return Err(io::Error::other("it was interrupted"));
        }
        line(input)
    };
    let first = ask("Password: ")?;
    match ask("Again: ")? == first {
        true => Ok(first),
        false => Err(io::Error::other("the two are not the same")),
    }
}

/// The terminal shows ends of lines only of what is typed, until this is dropped. Ctrl-C ends a
/// line: as a signal it would end the process, and leave the terminal so.
struct Hidden(Termios);

impl Hidden {
    fn new() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        hidden.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        hidden.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

fn line(from: impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(PASSWORD_MAX as u64 + 2).read_until(b'\n', &mut line)?;
    while line.pop_if(|byte| matches!(byte, b'\r' | b'\n')).is_some() {}
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line() {
        for input in ["a b\n", "a b\r\n", "a b", "a b\nnot this"] {
            assert_eq!(line(input.as_bytes()).unwrap(), b"a b", "{input:?}");
        }
        let long = "x".repeat(PASSWORD_MAX + 1);
        assert_eq!(line(long.as_bytes()).unwrap().len(), PASSWORD_MAX + 1);
    }
}
