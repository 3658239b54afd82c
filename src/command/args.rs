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
use thiserror::Error;

use crate::config::Config;
use crate::domain::durability::Durability;
use crate::domain::encoding::{Encoding, WORDS};
use crate::domain::lease::Receipt;
use crate::domain::queue::{
    DelayError, Due, MessageName, MessageRef, QueueName, QueueRules, Score, Shown, score_bound,
};
use crate::resp::Request;

use super::gate::Access;
use super::spec::{Form, Spec};

/// COUNT of commands that page: by default, and at most.
const COUNT_DEFAULT: usize = 10;
const COUNT_MAX: u64 = 1_000;
/// Bytes; the longest name of a queue, each byte of it escaped, is less.
const PATTERNS_MAX: usize = 4 * 1024;

/// The limits of arguments, and who may run commands; made from the configuration, shared by all
/// connections.
#[derive(Debug)]
pub struct Rules {
    pub queue: QueueRules,
    pub delay_max_ms: u64,
    pub payload_bytes_max: usize,
    pub name_bytes_max: usize,
    pub headers_max: usize,
    pub headers_bytes_max: usize,
    pub moffer_messages_max: usize,
    pub moffer_bytes_max: usize,
    pub take_count_max: usize,
    pub receipts_max: usize,
    pub block_ms_max: u64,
    /// Of queues that have one of their own.
    pub encodings: HashMap<Vec<u8>, Encoding>,
    /// The same of offers.
    pub durabilities: HashMap<Vec<u8>, Durability>,
    pub access: Rc<Access>,
}

impl Rules {
    pub fn new(config: &Config) -> Rc<Self> {
        let limits = &config.limits;
        Rc::new(Self {
            queue: QueueRules {
                bytes_max: limits.queue_name_bytes_max,
                pattern: limits.queue_pattern.clone(),
                cluster: config.on_cluster(),
            },
            delay_max_ms: limits.delay_max_ms,
            payload_bytes_max: limits.payload_bytes_max,
            name_bytes_max: limits.message_name_bytes_max,
            headers_max: limits.headers_max,
            headers_bytes_max: limits.headers_bytes_max,
            moffer_messages_max: limits.moffer_messages_max,
            moffer_bytes_max: limits.moffer_bytes_max,
            take_count_max: limits.take_count_max,
            receipts_max: limits.receipts_max,
            block_ms_max: limits.block_ms_max,
            encodings: config
                .queues
                .iter()
                .filter(|queue| queue.encoding != Encoding::Raw)
                .map(|queue| (queue.name.clone().into_bytes(), queue.encoding))
                .collect(),
            durabilities: config
                .queues
                .iter()
                .filter_map(|queue| Some((queue.name.clone().into_bytes(), queue.durability?)))
                .collect(),
            access: Rc::new(Access::new(config)),
        })
    }
}

/// The options of a command that shows or takes many.
#[derive(Debug, Default, PartialEq)]
pub struct Page {
    count: Option<usize>,
    cursor: Option<Bytes>,
    pub pattern: Option<Bytes>,
    pub from: Option<Score>,
    pub to: Option<Score>,
    pub decode: bool,
    pub dry_run: bool,
}

impl Page {
    /// The most that it may have.
    pub fn count(&self) -> usize {
        self.count_or(COUNT_DEFAULT)
    }

    pub fn count_or(&self, default: usize) -> usize {
        self.count.unwrap_or(default)
    }

    /// As an earlier reply gave it; `None` = from the start.
    pub fn cursor(&self) -> Option<Bytes> {
        self.cursor.clone().filter(|cursor| !cursor.is_empty() && cursor != "0")
    }
}

/// An argument that breaks a rule. Nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{code} {text}")]
pub struct ArgError {
    code: &'static str,
    text: String,
}

impl ArgError {
    pub fn new(code: &'static str, text: impl fmt::Display) -> Self {
        Self { code, text: text.to_string() }
    }

    pub fn code(&self) -> &'static str {
        self.code
    }

    /// An `ERR`: syntax, and errors without a code of their own.
    pub fn plain(text: impl fmt::Display) -> Self {
        Self::new("ERR", text)
    }

    /// The same error, saying which message of a batch it is about (1 is the first).
    pub fn of_message(self, number: usize) -> Self {
        Self { text: format!("message {number}: {}", self.text), ..self }
    }
}

fn encoding_word(raw: &[u8]) -> Result<Encoding, ArgError> {
    Encoding::parse(raw).ok_or_else(|| {
        let words = WORDS.map(|(word, _)| word).join(", ");
        let raw = Shown(raw);
        ArgError::plain(format_args!("encoding {raw} must be one of {words}"))
    })
}

/// Reads the arguments of one request after the command's name, from left to right.
#[derive(Debug)]
pub struct Args<'a, 'r> {
    request: Request<'a>,
    at: usize,
    spec: &'static Spec,
    /// The form of the command that was found, if it is one that needs more rights.
    form: Option<&'static Form>,
    pub rules: &'r Rules,
}

impl<'a, 'r> Args<'a, 'r> {
    pub fn new(request: Request<'a>, spec: &'static Spec, rules: &'r Rules) -> Self {
        Self { request, at: 1, spec, form: None, rules }
    }

    /// Notes which of the forms of its command this is.
    pub fn is_form(&mut self, place: usize) -> Result<(), ArgError> {
        self.form = self.spec.forms.get(place);
        self.form.map(drop).ok_or_else(|| self.spec.arity_error())
    }

    pub fn form(&self) -> Option<&'static Form> {
        self.form
    }

    /// Takes the word MATCH, if it begins a form of its own: so many arguments follow it, or more.
    /// `MATCH AT time` is a message of that name.
    pub fn takes_match(&mut self, least: usize) -> bool {
        let has =
            |place: usize, word: &str| self.request.get(place).is_some_and(|raw| is(raw, word));
        let is_name = self.left() == 3 && least == 2 && has(self.at + 1, "AT");
        self.left() > least && !is_name && self.takes("MATCH")
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
        let taken = self.request.get(self.at).is_some_and(|value| is(value, word));
        self.at += usize::from(taken);
        taken
    }

    /// The argument of an option.
    pub fn value_of(&mut self, option: &str) -> Result<&'a [u8], ArgError> {
        let text = format_args!("syntax error: {option} needs a value");
        self.option().ok_or_else(|| ArgError::plain(text))
    }

    pub fn queue(&mut self) -> Result<QueueName, ArgError> {
        Ok(QueueName::trusted(Bytes::copy_from_slice(self.queue_bytes()?)))
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

    /// Refuses a message of this place where a command may not have so many.
    pub fn may_have(&self, number: usize) -> Result<(), ArgError> {
        let max = self.rules.moffer_messages_max;
        if number > max {
            let text = format_args!("more than {max} messages in one command");
            return Err(ArgError::new("TOOMANY", text));
        }
        Ok(())
    }

    /// The payload of one more message of a command, within the bounds of DQ.MOFFER. `number`: its
    /// place; `bytes`: of those before, as they are stored.
    pub fn one_more(
        &mut self,
        encoding: Encoding,
        number: usize,
        bytes: &mut usize,
    ) -> Result<Cow<'a, [u8]>, ArgError> {
        let payload = self.payload().and_then(|payload| self.stored(encoding, payload));
        let payload = payload.map_err(|error| error.of_message(number))?;
        *bytes += payload.len();
        if *bytes > self.rules.moffer_bytes_max {
            let (bytes, max) = (*bytes, self.rules.moffer_bytes_max);
            let text = format_args!("the payloads up to message {number} have {bytes} bytes");
            return Err(ArgError::new("TOOBIG", format_args!("{text}, more than {max}")));
        }
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
        encoding_word(self.value_of("AS")?)
    }

    /// The value of `SYNC`.
    pub fn sync(&mut self) -> Result<Option<Durability>, ArgError> {
        let word = self.value_of("SYNC")?;
        let refused = |rule| ArgError::plain(format_args!("SYNC {} {rule}", Shown(word)));
        Durability::parse(word, || self.option()).map_err(refused)
    }

    /// How durable offers to a queue are to be: as `SYNC` said, else as the configuration says.
    pub fn durability_of(
        &self,
        queue: &[u8],
        said: Option<Option<Durability>>,
    ) -> Option<Durability> {
        match said {
            Some(said) => said,
            None if self.rules.durabilities.is_empty() => None,
            None => self.rules.durabilities.get(queue).copied(),
        }
    }

    /// The encoding that the last two arguments say behind at least one other, if they do.
    pub fn last_encoding(&self) -> Result<Option<Encoding>, ArgError> {
        let last = self.request.len().saturating_sub(1);
        let says = self.left() > 2 && self.request.get(last - 1).is_some_and(|raw| is(raw, "AS"));
        let raw = self.request.get(last).filter(|_| says);
        raw.map(encoding_word).transpose()
    }

    /// The encoding for a queue: that of `AS`, else that of the configuration.
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

    /// At least one receipt, up to the end or the first of these words.
    pub fn receipts(&mut self, words: &[&str]) -> Result<Vec<Receipt>, ArgError> {
        self.each_to(words, "receipts", Self::receipt)
    }

    /// The ids of entries of a stream, as receipts.
    pub fn entries(&mut self, words: &[&str]) -> Result<Vec<Bytes>, ArgError> {
        self.each_to(words, "entries", Self::entry)
    }

    fn each_to<T>(
        &mut self,
        words: &[&str],
        things: &str,
        one: fn(&mut Self, usize) -> Result<T, ArgError>,
    ) -> Result<Vec<T>, ArgError> {
        let mut each = vec![one(self, 1)?];
        while let Some(raw) = self.request.get(self.at)
            && !words.iter().any(|word| is(raw, word))
        {
            let (number, most) = (each.len() + 1, self.rules.receipts_max);
            if number > most {
                let text =
                    format_args!("more {things} than {most} (limits.receipts_max) in one command");
                return Err(ArgError::new("TOOMANY", text));
            }
            each.push(one(self, number)?);
        }
        Ok(each)
    }

    fn entry(&mut self, number: usize) -> Result<Bytes, ArgError> {
        let raw = self.value()?;
        let is_number = |half: &str| half.parse::<u64>().is_ok() && !half.starts_with('+');
        let text = std::str::from_utf8(raw).ok();
        match text.and_then(|text| text.split_once('-')) {
            Some((ms, sequence)) if is_number(ms) && is_number(sequence) => {
                Ok(Bytes::copy_from_slice(raw))
            }
            _ => {
                let raw = Shown(raw);
                let rule = "must be the id that XREADGROUP gave, as 1795345538590-0";
                Err(ArgError::new("BADID", format_args!("entry {number}: {raw} {rule}")))
            }
        }
    }

    fn receipt(&mut self, number: usize) -> Result<Receipt, ArgError> {
        let raw = self.value()?;
        Receipt::parse(raw).ok_or_else(|| {
            let raw = Shown(raw);
            let rule = "must be the receipt that DQ.TAKE gave, as 054ee59a82cd6000:1";
            ArgError::new("BADID", format_args!("receipt {number}: receipt {raw} {rule}"))
        })
    }

    /// The value of an option that is a time, in ms.
    pub fn ms(&mut self, option: &'static str, max: u64) -> Result<u64, ArgError> {
        Ok(self.raw_ms(option, max)?.1)
    }

    /// The same, and how it was written.
    pub fn raw_ms(&mut self, option: &'static str, max: u64) -> Result<(&'a [u8], u64), ArgError> {
        let raw = self.value_of(option)?;
        match Due::parse_delay(raw, max) {
            Ok(Due::In(ms) | Due::At(ms)) => Ok((raw, ms)),
            // There is no AT to give it as.
            Err(DelayError::Negative) => Err(bad_delay(option, raw, "must not be negative")),
            Err(rule) => Err(bad_delay(option, raw, rule)),
        }
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
        integer(raw).filter(|count| allowed.contains(count)).ok_or_else(|| {
            let raw = Shown(raw);
            match most {
                u64::MAX => ArgError::plain(format_args!("COUNT {raw} must be a whole number")),
                _ => ArgError::plain(format_args!(
                    "COUNT {raw} must be a whole number from {least} to {most}"
                )),
            }
        })
    }

    /// All that is left as options of a command that shows or takes many, each once at most.
    /// `allowed`: the options of this command.
    pub fn page(&mut self, allowed: &[&str]) -> Result<Page, ArgError> {
        let mut page = Page::default();
        while let Some(option) = self.option() {
            let allows = |word: &str| allowed.contains(&word) && is(option, word);
            if allows("COUNT") && page.count.is_none() {
                let count = self.count(1..=COUNT_MAX)?;
                page.count = Some(usize::try_from(count).unwrap_or(COUNT_DEFAULT));
            } else if allows("CURSOR") && page.cursor.is_none() {
                page.cursor = Some(Bytes::copy_from_slice(self.value_of("CURSOR")?));
            } else if allows("MATCH") && page.pattern.is_none() {
                let value = self.value_of("MATCH")?;
                page.pattern = Some(self.pattern(value)?);
            } else if allows("FROM") && page.from.is_none() {
                page.from = Some(bound("FROM", self.value_of("FROM")?)?);
            } else if allows("TO") && page.to.is_none() {
                page.to = Some(bound("TO", self.value_of("TO")?)?);
            } else if allows("DECODE") && !page.decode {
                page.decode = true;
            } else if allows("DRYRUN") && !page.dry_run {
                page.dry_run = true;
            } else {
                return Err(self.unexpected(option));
            }
        }
        Ok(page)
    }

    /// All that is left, kept.
    pub fn rest(&mut self) -> Vec<Bytes> {
        let rest = std::iter::from_fn(|| self.option());
        rest.map(Bytes::copy_from_slice).collect()
    }

    /// Patterns of one command, kept. To match one takes its length times that of a name.
    pub fn patterns(&self, values: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Bytes>, ArgError> {
        let mut bytes = 0;
        let each = values.map(|value| {
            bytes += value.len();
            match bytes {
                0..=PATTERNS_MAX => Ok(Bytes::copy_from_slice(value)),
                _ => Err(ArgError::plain(format_args!(
                    "pattern {} is too long: the patterns of one command may have {PATTERNS_MAX} \
                     bytes in total",
                    Shown(value)
                ))),
            }
        });
        each.collect()
    }

    pub fn pattern(&self, value: &'a [u8]) -> Result<Bytes, ArgError> {
        let mut one = self.patterns(std::iter::once(value))?;
        Ok(one.pop().unwrap_or_default())
    }

    pub fn unexpected(&self, value: &[u8]) -> ArgError {
        let usage = self.spec.full_usage();
        let value = Shown(value);
        ArgError::plain(format_args!("syntax error: unexpected argument {value}; usage: {usage}"))
    }

    /// Every argument was read; called once for all commands after `parse`.
    pub fn finish(&mut self) -> Result<(), ArgError> {
        match self.option() {
            None => Ok(()),
            Some(value) => Err(self.unexpected(value)),
        }
    }
}

/// An end of a range of due times.
pub fn bound(argument: &str, raw: &[u8]) -> Result<Score, ArgError> {
    score_bound(raw).map_err(|rule| bad_time(argument, raw, rule))
}

/// Both ends of one.
pub fn in_order(from: Score, to: Score) -> Result<(Score, Score), ArgError> {
    if from > to {
        let plus = if from == Score::MAX { "+" } else { "" };
        let text = format_args!("from '{plus}{from}' must not be later than to '{to}'");
        return Err(ArgError::new("BADTIME", text));
    }
    Ok((from, to))
}

/// True if an argument is this word, in any case.
pub fn is(value: &[u8], word: &str) -> bool {
    value.eq_ignore_ascii_case(word.as_bytes())
}

/// A whole number without sign.
pub fn integer(raw: &[u8]) -> Option<u64> {
    let digits = !raw.is_empty() && raw.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(raw).ok().filter(|_| digits)?.parse().ok()
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
    use crate::command::tests::{read, rules};

    fn page(line: &str, allowed: &[&str]) -> Result<Page, String> {
        let rules = rules(&[]);
        read(line, |request| {
            let page = Args::new(request, &crate::command::dq::peek::SPEC, &rules).page(allowed);
            page.map_err(|error| error.to_string())
        })
    }

    #[test]
    fn options_of_pages() {
        let all = ["COUNT", "CURSOR", "MATCH", "DECODE"];
        let bytes = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let rows = [
            ("x", Page::default()),
            ("x count 7", Page { count: Some(7), ..Page::default() }),
            (
                "x CURSOR DECODE decode",
                Page { cursor: bytes("DECODE"), decode: true, ..Page::default() },
            ),
            (
                "x match a* COUNT 1000",
                Page { count: Some(1_000), pattern: bytes("a*"), ..Page::default() },
            ),
        ];
        for (line, wanted) in rows {
            assert_eq!(page(line, &all), Ok(wanted), "{line}");
        }
        assert_eq!(page("x", &all).unwrap().count(), 10);
        for (line, first) in [("x CURSOR 0", true), ("x CURSOR ''", true), ("x CURSOR 00", false)] {
            assert_eq!(page(line, &all).unwrap().cursor().is_none(), first, "{line}");
        }
        for (line, wanted) in [
            ("x COUNT 1001", "ERR COUNT '1001' must be a whole number from 1 to 1000"),
            ("x COUNT 1 COUNT 2", "ERR syntax error: unexpected argument 'COUNT'"),
            ("x DECODE DECODE", "ERR syntax error: unexpected argument 'DECODE'"),
            ("x CURSOR", "ERR syntax error: CURSOR needs a value"),
        ] {
            assert!(page(line, &all).unwrap_err().starts_with(wanted), "{line}");
        }
        let other = page("x MATCH a", &["COUNT"]).unwrap_err();
        assert!(other.starts_with("ERR syntax error: unexpected argument 'MATCH'"), "{other}");
    }

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
