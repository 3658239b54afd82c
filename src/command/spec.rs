//! The facts about a command that hold before it runs: name, usage, arguments, flags, categories.
//!
//! The gate and COMMAND read the same sets, so what clients are told is what is checked.

use std::fmt;
use std::ops::RangeInclusive;

use super::Command;
use super::args::{ArgError, Args, is};

/// For `Spec::args` of commands that take any number.
pub const MANY: usize = usize::MAX;

pub struct Spec {
    /// Upper case.
    pub name: &'static str,
    /// The arguments after the name; `usage.rs` says the grammar.
    pub usage: &'static str,
    pub summary: &'static str,
    /// How many arguments after the name.
    pub args: RangeInclusive<usize>,
    pub kind: Kind,
    pub group: Group,
    pub flags: Flags,
    /// Categories that a user needs for it; none = everyone may run it.
    pub categories: Categories,
    /// Categories that it needs as well where its first argument is one of these words. Of a
    /// command about a queue such a word names all queues.
    pub words: &'static [(&'static str, Categories)],
    /// Forms of it that need more, by the first words of each.
    pub forms: &'static [Form],
    pub parse: Parse,
}

/// How a form of a command is called, and the categories that it needs besides.
pub type Form = (&'static str, Categories);

/// Reads the arguments; that none is left over is checked for all.
pub type Parse = for<'a> fn(&mut Args<'a, '_>) -> Result<Command<'a>, ArgError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Answered at once, from what the broker knows.
    Local,
    /// Packed into a batch, answered together with others.
    Offer,
    /// Runs when all before it are answered.
    Store,
    /// The same, but for others of its kind: those that settle in one way are made together.
    Settle,
    /// The same, and its reply holds messages: it may be as large as `limits.reply_bytes_max`.
    Messages,
    /// The same, and it takes its time: no other command waits for it.
    Search,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The queue is the first argument.
    Queue,
    /// About the broker or all queues.
    Server,
    /// About the connection itself: only where there is one that stays.
    Connection,
    /// The same.
    Transactions,
    /// A command of Redis that this broker does not have: answered with an error, not listed.
    Refused,
}

/// A set of a few words: the enum of its members, and the set.
macro_rules! set {
    ($(#[$doc:meta])* $set:ident of $member:ident { $($name:ident = $word:literal),+ $(,)? }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $member {
            $($name),+
        }

        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set(u16);

        impl $set {
            pub const NONE: Self = Self(0);
            pub const ALL: Self = Self::of(&[$($member::$name),+]);

            pub const fn of(members: &[$member]) -> Self {
                let (mut bits, mut at) = (0, 0);
                while at < members.len() {
                    bits |= 1 << members[at] as u16;
                    at += 1;
                }
                Self(bits)
            }

            pub const fn has(self, member: $member) -> bool {
                self.0 >> member as u16 & 1 == 1
            }

            pub const fn and(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// True if all members of the other set are in this one.
            pub const fn covers(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Those in this one that are not in the other set.
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// The set of the member that is called so, in any case.
            pub fn of_word(word: &str) -> Option<Self> {
                let mut all = [$(($member::$name, $word)),+].into_iter();
                let found = all.find(|(_, known)| known.eq_ignore_ascii_case(word));
                found.map(|(member, _)| Self::of(&[member]))
            }

            /// Its words, in the order of the list.
            pub fn words(self) -> impl Iterator<Item = &'static str> {
                let all = [$(($member::$name, $word)),+].into_iter();
                all.filter(move |(member, _)| self.has(*member)).map(|(_, word)| word)
            }
        }
    };
}

set! {
    /// Flags of a command, as COMMAND lists them.
    Flags of Flag {
        Write = "write",
        ReadOnly = "readonly",
        DenyOom = "denyoom",
        Admin = "admin",
        NoScript = "noscript",
        Loading = "loading",
        Stale = "stale",
        Fast = "fast",
        NoAuth = "no_auth",
        AllowBusy = "allow_busy",
        Blocking = "blocking",
    }
}

set! {
    /// Categories of commands, by which rights are given.
    Categories of Category {
        Read = "@read",
        Write = "@write",
        Admin = "@admin",
        Dangerous = "@dangerous",
        // Its reply shows payloads.
        Payload = "@payload",
    }
}

/// Of commands that a client may send before it has said the password.
pub const OPEN: Flags = Flags::of(&[
    Flag::NoScript,
    Flag::Loading,
    Flag::Stale,
    Flag::Fast,
    Flag::NoAuth,
    Flag::AllowBusy,
]);

impl Spec {
    /// A command about the queue that is its first argument; the rest is to be named.
    pub const fn of_queue(parse: Parse) -> Self {
        Self {
            name: "",
            usage: "queue",
            summary: "",
            args: 1..=1,
            kind: Kind::Store,
            group: Group::Queue,
            flags: Flags::NONE,
            categories: Categories::NONE,
            words: &[],
            forms: &[],
            parse,
        }
    }

    /// The same, and it changes nothing.
    pub const fn reading(parse: Parse) -> Self {
        let (flags, categories) = (Flags::of(&[Flag::ReadOnly]), Categories::of(&[Category::Read]));
        Self { flags, categories, ..Self::of_queue(parse) }
    }

    /// The same, and it changes the queue, as its users do.
    pub const fn writing(parse: Parse) -> Self {
        let (flags, categories) = (Flags::of(&[Flag::Write]), Categories::of(&[Category::Write]));
        Self { flags, categories, ..Self::of_queue(parse) }
    }

    /// A command that is answered at once, by what the broker knows.
    pub const fn local(group: Group, parse: Parse) -> Self {
        let flags = Flags::of(&[Flag::Loading, Flag::Stale]);
        Self { usage: "", args: 0..=MANY, kind: Kind::Local, group, flags, ..Self::of_queue(parse) }
    }

    pub fn full_usage(&self) -> String {
        format!("{} {}", self.name, self.usage).trim_end().to_owned()
    }

    /// The categories that a user needs where this is the first argument; and whether it is a word
    /// that names all queues.
    pub fn needs(&self, first: Option<&[u8]>) -> (Categories, bool) {
        let word = first.and_then(|raw| self.words.iter().find(|(word, _)| is(raw, word)));
        match word {
            Some((_, more)) => (self.categories.and(*more), true),
            None => (self.categories, false),
        }
    }

    /// Redis's wording; then how it should have been, where Redis's documentation does not help.
    pub fn arity_error(&self) -> ArgError {
        let name = self.name.to_ascii_lowercase();
        let wrong = format!("wrong number of arguments for '{name}' command");
        match name.starts_with("dq.") {
            true => ArgError::plain(format_args!("{wrong}; usage: {}", self.full_usage())),
            false => ArgError::plain(wrong),
        }
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
