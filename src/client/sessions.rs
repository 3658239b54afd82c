//! Sessions of browsers: a token that only the browser has, in place of name and password.
//!
//! They live in memory of this broker: a restart ends all of them. Keeps: at most [`SESSIONS_MAX`],
//! and [`OF_ONE_MAX`] of a user, whose own oldest makes room; each ends after [`LASTS`], when its
//! user logs out, and when a reload changes the rights or the password of its user.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::command::{Access, User};
use crate::config::Secret;

/// 256 random bits.
pub type Token = [u8; 32];

pub const SESSIONS_MAX: usize = 1_000;
/// Those of one user.
pub const OF_ONE_MAX: usize = 50;
pub const LASTS: Duration = Duration::from_secs(12 * 60 * 60);

/// The tokens are keys of a map whose hash has a secret key, so the time of a look-up tells nothing
/// of them.
#[derive(Default)]
pub struct Sessions(RefCell<HashMap<Token, Session>>);

struct Session {
    user: Rc<User>,
    /// That of `server.password`, if the user has it.
    password: Option<Secret>,
    begun: Instant,
}

impl Sessions {
    /// Begins one of a user that has just said the right password; none if there is no randomness.
    pub fn begin(&self, access: &Access, user: Rc<User>) -> Option<Token> {
        let mut token = Token::default();
        let filled = getrandom(&mut token, GetRandomFlags::empty());
        if filled.ok() != Some(token.len()) {
            return None;
        }
        let mut sessions = self.0.borrow_mut();
        sessions.retain(|_, session| session.begun.elapsed() < LASTS);
        let is_own = |session: &Session| session.user.name == user.name;
        let own = sessions.values().filter(|session| is_own(session)).count();
        if own >= OF_ONE_MAX || sessions.len() >= SESSIONS_MAX {
            // Nobody else's, as long as the user has one.
            let all = sessions.iter().filter(|(_, session)| own == 0 || is_own(session));
            let oldest = all.min_by_key(|(_, session)| session.begun).map(|(token, _)| *token);
            oldest.and_then(|oldest| sessions.remove(&oldest));
        }
        let password = access.password_of(&user).cloned();
        sessions.insert(token, Session { user, password, begun: Instant::now() });
        Some(token)
    }

    /// The user of a session, with the rights of now, as long as they are the same.
    pub fn user(&self, access: &Access, token: &Token) -> Option<Rc<User>> {
        let mut sessions = self.0.borrow_mut();
        let session = sessions.get(token)?;
        let now = access.user(session.user.name.as_bytes()).filter(|now| {
            session.begun.elapsed() < LASTS
                && now.has_rights_of(&session.user)
                && now.password == session.user.password
                && access.password_of(now) == session.password.as_ref()
        });
        if now.is_none() {
            sessions.remove(token);
        }
        now.cloned()
    }

    pub fn end(&self, token: &Token) {
        self.0.borrow_mut().remove(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn access(password: &str) -> Access {
        Access::new(&Config::with(&[("server.password", password)]).unwrap())
    }

    #[test]
    fn begins_and_ends() {
        let (sessions, first, other) = (Sessions::default(), access("a"), access("b"));
        let user = Rc::clone(first.user(b"default").unwrap());
        let tokens: Vec<Token> =
            (0..3).map(|_| sessions.begin(&first, Rc::clone(&user)).unwrap()).collect();
        assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2] && tokens[0] != Token::default());
        assert!(sessions.user(&first, &Token::default()).is_none());
        assert_eq!(sessions.user(&first, &tokens[0]).unwrap().name, "default");
        // The same settings, read anew.
        assert!(sessions.user(&access("a"), &tokens[0]).is_some());
        sessions.end(&tokens[0]);
        assert!(sessions.user(&first, &tokens[0]).is_none());
        // Another password; it does not come back.
        assert!(sessions.user(&other, &tokens[1]).is_none());
        assert!(sessions.user(&first, &tokens[1]).is_none());
        assert!(sessions.user(&first, &tokens[2]).is_some());
    }

    #[test]
    fn the_oldest_makes_room() {
        let (sessions, access) = (Sessions::default(), access("a"));
        let begin = |name: &str| sessions.begin(&access, Rc::new(User::unlimited(name))).unwrap();
        let is_there = |token: &Token| sessions.0.borrow().contains_key(token);
        let users: Vec<String> = (0..=SESSIONS_MAX / OF_ONE_MAX).map(|n| format!("u{n}")).collect();
        let others: Vec<Token> = users.iter().skip(2).map(|name| begin(name)).collect();
        let own: Vec<Token> = (0..OF_ONE_MAX).map(|_| begin("u0")).collect();
        assert!(is_there(&own[0]));
        // One user makes room himself, however often he comes.
        for _ in 0..SESSIONS_MAX {
            begin("u0");
        }
        assert!(!own.iter().any(is_there) && others.iter().all(is_there));
        assert_eq!(sessions.0.borrow().len(), OF_ONE_MAX + others.len());
        // Where there is room for nobody, the oldest of all goes for a new user only.
        for name in users.iter().skip(2) {
            (1..OF_ONE_MAX).for_each(|_| _ = begin(name));
        }
        assert_eq!(sessions.0.borrow().len(), SESSIONS_MAX);
        begin("u3");
        assert!(is_there(&others[0]) && !is_there(&others[1]));
        begin("u1");
        assert!(!is_there(&others[0]));
        assert_eq!(sessions.0.borrow().len(), SESSIONS_MAX);
    }
}
