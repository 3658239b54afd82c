//! A cursor over the arguments of one request: each is read once, into a type that cannot be wrong.
//!
//! Every error names the argument, its value and the rule, and begins with its code. Nothing is
//! copied that the command does not keep; the arguments lie in the connection's read buffer.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;

use bytes::Bytes;

use crate::config::{Config, Secret};
use crate::encoding::{Encoding, WORDS};
use crate::queue::{Due, MessageName, MessageRef, QueueName, QueueRules, Shown};
use crate::resp::Request;

use super::Spec;

/// COUNT of commands that page: what it is without, and at most.
pub const COUNT_DEFAULT: usize = 10;
pub const COUNT_MAX: u64 = 1_000;

/// What arguments may be; made from the configuration, shared by all connections.
#[derive(Debug)]
pub struct Rules {
    pub queue: QueueRules,
    pub delay_max_ms: u64,
    pub payload_bytes_max: usize,
    pub name_bytes_max: usize,
    pub moffer_messages_max: usize,
    pub moffer_bytes_max: usize,
    /// Of queues that have one of their own.
    pub encodings: HashMap<Vec<u8>, Encoding>,
    pub password: Option<Secret>,
    /// By place in the table of commands.
    pub(super) disabled: Vec<bool>,
}

impl Rules {
    /// `cluster`: the backing Redis is a Cluster, which narrows the names that queues may have.
    pub fn new(config: &Config, cluster: bool) -> Rc<Self> {
        let (limits, server) = (&config.limits, &config.server);
        let disabled = |name: &str| {
            server
                .disabled_commands
                .iter()
                .any(|d| d.eq_ignore_ascii_case(name))
        };
        Rc::new(Self {
            queue: QueueRules {
                bytes_max: limits.queue_name_bytes_max,
                pattern: limits.queue_pattern.clone(),
                cluster,
            },
            delay_max_ms: limits.delay_max_ms,
            payload_bytes_max: limits.payload_bytes_max,
            name_bytes_max: limits.message_name_bytes_max,
            moffer_messages_max: limits.moffer_messages_max,
            moffer_bytes_max: limits.moffer_bytes_max,
            encodings: config
                .queues
                .iter()
                .filter(|queue| queue.encoding != Encoding::Raw)
                .map(|queue| (queue.name.clone().into_bytes(), queue.encoding))
                .collect(),
            password: server.password.clone(),
            disabled: super::TABLE
                .iter()
                .map(|spec| disabled(spec.name))
                .collect(),
        })
    }
}

/// An argument that breaks a rule. Nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgError {
    code: &'static str,
    text: String,
}

impl ArgError {
    pub fn new(code: &'static str, text: impl fmt::Display) -> Self {
        Self {
            code,
            text: text.to_string(),
        }
    }

    /// An `ERR`: syntax, and what has no code of its own.
    pub fn plain(text: impl fmt::Display) -> Self {
        Self::new("ERR", text)
    }

    /// The same error, saying which message of a batch it is about (1 is the first).
    pub fn of_message(self, number: usize) -> Self {
        Self {
            text: format!("message {number}: {}", self.text),
            ..self
        }
    }
}

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.text)
    }
}

/// Reads the arguments of one request after the command's name, from left to right.
#[derive(Debug)]
pub struct Args<'a, 'r> {
    request: Request<'a>,
    at: usize,
    spec: &'static Spec,
    pub rules: &'r Rules,
}

impl<'a, 'r> Args<'a, 'r> {
    pub fn new(request: Request<'a>, spec: &'static Spec, rules: &'r Rules) -> Self {
        Self {
            request,
            at: 1,
            spec,
            rules,
        }
    }

    pub fn left(&self) -> usize {
        self.request.len().saturating_sub(self.at)
    }

    /// The next argument, if there is one.
    pub fn option(&mut self) -> Option<&'a [u8]> {
        let value = self.request.get(self.at)?;
        self.at += 1;
        Some(value)
    }

    pub fn value(&mut self) -> Result<&'a [u8], ArgError> {
        self.option().ok_or_else(|| self.spec.arity_error())
    }

    /// Takes the next argument if it is this word, in any case.
    pub fn takes(&mut self, word: &str) -> bool {
        let taken = self
            .request
            .get(self.at)
            .is_some_and(|value| is(value, word));
        self.at += usize::from(taken);
        taken
    }

    /// The argument of an option.
    pub fn value_of(&mut self, option: &str) -> Result<&'a [u8], ArgError> {
        let text = format_args!("syntax error: {option} needs a value");
        self.option().ok_or_else(|| ArgError::plain(text))
    }

    pub fn queue(&mut self) -> Result<QueueName, ArgError> {
        Ok(QueueName::trusted(Bytes::copy_from_slice(
            self.queue_bytes()?,
        )))
    }

    /// Checked like `queue`, without a copy.
    pub fn queue_bytes(&mut self) -> Result<&'a [u8], ArgError> {
        let raw = self.value()?;
        let refused = |rule| ArgError::new("BADQUEUE", format_args!("queue {} {rule}", Shown(raw)));
        self.rules.queue.check(raw).map_err(refused)?;
        Ok(raw)
    }

    /// A delay, or `AT` and a time.
    pub fn due(&mut self) -> Result<Due, ArgError> {
        if self.takes("AT") {
            let raw = self.value()?;
            return Due::parse_at(raw).map_err(|rule| bad_time("time", raw, rule));
        }
        let raw = self.value()?;
        Due::parse_delay(raw, self.rules.delay_max_ms).map_err(|rule| bad_delay("delay", raw, rule))
    }

    pub fn payload(&mut self) -> Result<&'a [u8], ArgError> {
        let payload = self.value()?;
        self.fits(payload.len(), "")?;
        Ok(payload)
    }

    fn fits(&self, size: usize, written: &str) -> Result<(), ArgError> {
        let max = self.rules.payload_bytes_max;
        if size > max {
            let text = format_args!("payload of {size} bytes{written} is larger than {max} bytes");
            return Err(ArgError::new("TOOBIG", text));
        }
        Ok(())
    }

    /// The value of `AS`.
    pub fn encoding(&mut self) -> Result<Encoding, ArgError> {
        let raw = self.value_of("AS")?;
        Encoding::parse(raw).ok_or_else(|| {
            let words = WORDS.map(|(word, _)| word).join(", ");
            let raw = Shown(raw);
            ArgError::plain(format_args!("encoding {raw} must be one of {words}"))
        })
    }

    /// The encoding that holds for a queue: what `AS` said, else what the configuration says.
    pub fn encoding_of(&self, queue: &[u8], said: Option<Encoding>) -> Encoding {
        let configured = || self.rules.encodings.get(queue).copied();
        said.or_else(configured).unwrap_or_default()
    }

    /// A payload as it is stored in that encoding.
    pub fn encoded<'p>(
        &self,
        encoding: Encoding,
        payload: &'p [u8],
    ) -> Result<Cow<'p, [u8]>, ArgError> {
        encoding.encode(payload).map_err(|rule| {
            let (shown, word) = (Shown(payload), encoding.word());
            ArgError::plain(format_args!("payload {shown} {rule} (encoding {word})"))
        })
    }

    /// The same, held to the limit of payloads.
    pub fn stored(&self, encoding: Encoding, payload: &'a [u8]) -> Result<Cow<'a, [u8]>, ArgError> {
        let stored = self.encoded(encoding, payload)?;
        if let Cow::Owned(bytes) = &stored {
            self.fits(bytes.len(), &format!(" as {}", encoding.word()))?;
        }
        Ok(stored)
    }

    /// A message id or a message name.
    pub fn message(&mut self) -> Result<MessageRef, ArgError> {
        let raw = self.value()?;
        let refused = |rule| ArgError::new("BADID", format_args!("message {} {rule}", Shown(raw)));
        MessageRef::parse(raw, self.rules.name_bytes_max).map_err(refused)
    }

    /// All that is left as messages, at least one.
    pub fn messages(&mut self) -> Result<Vec<MessageRef>, ArgError> {
        let mut messages = vec![self.message()?];
        while self.left() > 0 {
            let number = messages.len() + 1;
            messages.push(self.message().map_err(|error| error.of_message(number))?);
        }
        Ok(messages)
    }

    /// The value of `NAME`.
    pub fn name(&mut self) -> Result<&'a [u8], ArgError> {
        let raw = self.value_of("NAME")?;
        let refused = |rule| ArgError::new("BADID", format_args!("name {} {rule}", Shown(raw)));
        MessageName::check(raw, self.rules.name_bytes_max).map_err(refused)?;
        Ok(raw)
    }

    /// The value of `COUNT`.
    pub fn count(&mut self, allowed: RangeInclusive<u64>) -> Result<u64, ArgError> {
        let raw = self.value_of("COUNT")?;
        let (least, most) = (*allowed.start(), *allowed.end());
        integer(raw)
            .filter(|count| allowed.contains(count))
            .ok_or_else(|| {
                let raw = Shown(raw);
                match most {
                    u64::MAX => ArgError::plain(format_args!("COUNT {raw} must be a whole number")),
                    _ => ArgError::plain(format_args!(
                        "COUNT {raw} must be a whole number from {least} to {most}"
                    )),
                }
            })
    }

    /// `[COUNT n]` and nothing else: how the pages of most commands are asked for.
    pub fn only_count(&mut self) -> Result<usize, ArgError> {
        match self.option() {
            None => Ok(COUNT_DEFAULT),
            Some(option) if is(option, "COUNT") => self.page(),
            Some(option) => Err(self.unexpected(option)),
        }
    }

    /// The value of `COUNT` where it is the size of a page.
    pub fn page(&mut self) -> Result<usize, ArgError> {
        Ok(usize::try_from(self.count(1..=COUNT_MAX)?).unwrap_or(COUNT_DEFAULT))
    }

    /// All that is left, kept.
    pub fn rest(&mut self) -> Vec<Bytes> {
        let rest = std::iter::from_fn(|| self.option());
        rest.map(Bytes::copy_from_slice).collect()
    }

    pub fn unexpected(&self, value: &[u8]) -> ArgError {
        let usage = self.spec.full_usage();
        let value = Shown(value);
        ArgError::plain(format_args!(
            "syntax error: unexpected argument {value}; usage: {usage}"
        ))
    }

    /// Every argument was read; called once for all commands after `parse`.
    pub fn finish(&mut self) -> Result<(), ArgError> {
        match self.option() {
            None => Ok(()),
            Some(value) => Err(self.unexpected(value)),
        }
    }
}

/// Whether an argument is a word, in any case.
pub fn is(value: &[u8], word: &str) -> bool {
    value.eq_ignore_ascii_case(word.as_bytes())
}

/// A whole number without sign.
pub fn integer(raw: &[u8]) -> Option<u64> {
    let digits = !raw.is_empty() && raw.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(raw)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}

pub fn bad_delay(argument: &str, raw: &[u8], rule: impl fmt::Display) -> ArgError {
    ArgError::new("BADDELAY", format_args!("{argument} {} {rule}", Shown(raw)))
}

pub fn bad_time(argument: &str, raw: &[u8], rule: impl fmt::Display) -> ArgError {
    ArgError::new("BADTIME", format_args!("{argument} {} {rule}", Shown(raw)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        let rows: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1.0", None),
            ("1 ", None),
        ];
        for (raw, wanted) in rows {
            assert_eq!(integer(raw.as_bytes()), *wanted, "{raw:?}");
        }
    }
}
