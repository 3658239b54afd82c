//! When something is due: delays and moments as people and programs write them.
//!
//! What is refused says what it was read as, since most mistakes here are silent ones: a number of
//! seconds is a moment in January 1970 where it is read as milliseconds.

use std::fmt::{self, Display};

use thiserror::Error;
use time::format_description::well_known::Rfc3339;
use time::{Month, OffsetDateTime};

use crate::domain::score::Score;

/// Due times lie below this: Redis scores are doubles, and beyond it Redisson's clients read
/// exponents.
pub const DUE_LIMIT_MS: u64 = 1_000_000_000_000_000;

/// A number below this is no moment in ms that anybody means (1973), but one in seconds (of any
/// time up to the year 5138).
const SECONDS_BELOW: u64 = 100_000_000_000;
/// A number of seconds from here on is one of our days (2001).
const SECONDS_FROM: u64 = 1_000_000_000;

/// When a message becomes due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Milliseconds from the moment of storing.
    In(u64),
    /// Unix milliseconds, below [`DUE_LIMIT_MS`]; in the past means now.
    At(u64),
}

/// Units of a delay, large to small, with their milliseconds.
const UNITS: [(&[&str], u64); 6] = [
    (&["w", "week", "weeks"], 604_800_000),
    (&["d", "day", "days"], 86_400_000),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600_000),
    (&["m", "min", "mins", "minute", "minutes"], 60_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000),
    (&["ms", "msec", "msecs", "millisecond", "milliseconds"], 1),
];

/// Units without one length.
const MONTHS: [&str; 9] = ["mo", "mon", "month", "months", "y", "yr", "yrs", "year", "years"];

/// Letters of a unit that an error shows.
const UNIT_SHOWN_MAX: usize = 16;

impl Due {
    /// `1500`, `250ms`, `30s`, `15min`, `2h`, `7d`, `1w`, `1h30m`: whole milliseconds, or numbers
    /// with units from large to small, each at most once.
    pub fn parse_delay(raw: &[u8], delay_max_ms: u64) -> Result<Self, DelayError> {
        let ms = match raw {
            b"" => return Err(DelayError::Empty),
            _ if raw.iter().all(u8::is_ascii_digit) => digits(raw).0,
            [b'-', ..] => return Err(DelayError::Negative),
            [b'P' | b'p', b'T' | b't' | b'0'..=b'9', ..] => return Err(DelayError::Iso),
            _ if raw.contains(&b':') || is_dated(raw) => return Err(DelayError::Moment),
            _ if raw.contains(&b'.') || raw.contains(&b',') => return Err(DelayError::Fraction),
            _ if raw.contains(&b' ') => return Err(DelayError::Blank),
            _ => with_units(raw)?,
        };
        if ms > delay_max_ms {
            return Err(DelayError::TooLong(delay_max_ms));
        }
        Ok(Self::In(ms))
    }

    /// Unix milliseconds, or RFC 3339 (rounded up to a millisecond: never early).
    pub fn parse_at(raw: &[u8]) -> Result<Self, TimeError> {
        let (sign, number) = match raw.split_first() {
            None => return Err(TimeError::Empty),
            Some((b'-', number)) => (-1, number),
            Some(_) => (1, raw),
        };
        if !number.is_empty() && number.iter().all(u8::is_ascii_digit) {
            let ms = digits(number).0;
            return match ms {
                _ if sign < 0 || ms < SECONDS_BELOW => Err(TimeError::Seconds(sign * signed(ms))),
                DUE_LIMIT_MS.. => Err(TimeError::TooFar),
                _ => Ok(Self::At(ms)),
            };
        }
        let text = std::str::from_utf8(raw).map_err(|_| TimeError::Form)?;
        let ms = (parse_date(text)?.unix_timestamp_nanos() + 999_999).div_euclid(1_000_000);
        match u64::try_from(ms) {
            // All of 1970 is what becomes of seconds that a program read as milliseconds.
            Ok(ms) if text.starts_with("1970-") => Err(TimeError::Seconds(signed(ms))),
            Ok(ms) => Ok(Self::At(ms)),
            Err(_) => Ok(Self::At(0)),
        }
    }

    /// The due time in Unix ms of what was stored at `now_ms` of Redis's clock.
    pub fn ms(self, now_ms: u64) -> u64 {
        match self {
            Self::In(delay_ms) => now_ms + delay_ms,
            Self::At(ms) => ms.max(now_ms),
        }
    }

    /// One integer for the scripts: a delay as it is, a moment negated.
    pub fn packed(self) -> i64 {
        match self {
            Self::In(ms) => signed(ms),
            Self::At(ms) => -signed(ms.max(1)),
        }
    }
}

/// An end of a range of due times as a score: `-` and `+` for no end, Unix milliseconds (negative
/// or fractional too, as scores of others are), or RFC 3339 (to its last digit). What is surely
/// meant as seconds is refused; with a fraction, as `1893484800.0`, it is a score.
pub fn score_bound(raw: &[u8]) -> Result<Score, TimeError> {
    let text = match raw {
        b"" => return Err(TimeError::Empty),
        b"-" => return Ok(Score::MIN),
        b"+" => return Ok(Score::MAX),
        _ => std::str::from_utf8(raw).map_err(|_| TimeError::Form)?,
    };
    if text.bytes().all(|b| b.is_ascii_digit()) {
        let ms = digits(raw).0;
        if (SECONDS_FROM..SECONDS_BELOW).contains(&ms) {
            return Err(TimeError::Seconds(signed(ms)));
        }
    }
    let number = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if all_digits(whole) && all_digits(fraction) {
        return Score::parse(raw).ok_or(TimeError::TooFar);
    }
    let ns = parse_date(text)?.unix_timestamp_nanos();
    // Apart, since a double holds the whole ms of any date, but not its ns.
    Ok(Score((ns / 1_000_000) as f64 + (ns % 1_000_000) as f64 / 1e6))
}

/// A time as for AT, past ones too, or a delay from now. A bare number is a delay up to 10^9 (11
/// days), and Unix milliseconds from 10^11 on; between them it is probably meant as seconds.
///
/// # Errors
/// What keeps it from being a time.
pub fn moment(raw: &[u8], delay_max_ms: u64) -> Result<Due, TimeError> {
    let is_number = raw.iter().all(u8::is_ascii_digit);
    match Due::parse_delay(raw, delay_max_ms) {
        Ok(delay) if !is_number || digits(raw).0 < SECONDS_FROM => Ok(delay),
        _ => Due::parse_at(raw),
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// The number that `raw` begins with (too large becomes the largest), and how many bytes it took.
fn digits(raw: &[u8]) -> (u64, usize) {
    let taken = raw.iter().take_while(|b| b.is_ascii_digit());
    taken.fold((0_u64, 0), |(number, used), &b| {
        (number.saturating_mul(10).saturating_add(u64::from(b - b'0')), used + 1)
    })
}

/// `2030-...`
fn is_dated(raw: &[u8]) -> bool {
    matches!(raw, [a, b, c, d, b'-', ..] if [a, b, c, d].iter().all(|b| b.is_ascii_digit()))
}

fn with_units(raw: &[u8]) -> Result<u64, DelayError> {
    let mut rest = raw;
    let mut smaller = UNITS.iter();
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, used) = digits(rest);
        let tail = rest.get(used..).unwrap_or_default();
        let letters = tail.iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let (letters, tail) = tail.split_at_checked(letters).ok_or(DelayError::Form)?;
        if used == 0 {
            return Err(DelayError::Form);
        }
        let ms = unit(letters, tail)?;
        let found = smaller.find(|(_, known)| *known == ms);
        found.ok_or(DelayError::Order)?;
        total = total.saturating_add(number.saturating_mul(ms));
        rest = tail;
    }
    Ok(total)
}

/// The milliseconds of a unit, in any case; a lone `M` is both minutes and months to somebody.
fn unit(letters: &[u8], tail: &[u8]) -> Result<u64, DelayError> {
    let cut = letters.get(..UNIT_SHOWN_MAX).unwrap_or(letters);
    let shown = || String::from_utf8_lossy(cut).into_owned();
    let is = |word: &&str| letters.eq_ignore_ascii_case(word.as_bytes());
    if letters == b"M" || MONTHS.iter().any(is) {
        return Err(DelayError::Month(shown()));
    }
    let known = UNITS.iter().find(|(words, _)| words.iter().any(is));
    match known {
        Some((_, ms)) => Ok(*ms),
        None if !letters.is_empty() => Err(DelayError::Unit(shown())),
        None if tail.is_empty() => Err(DelayError::NoUnit),
        None => Err(DelayError::Form),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DelayError {
    #[error("must not be empty")]
    Empty,
    #[error("must not be negative (a moment in the past is given as AT time)")]
    Negative,
    #[error("must be a whole number (smaller units instead of fractions, as in 1h30m)")]
    Fraction,
    #[error("must be whole milliseconds, or numbers with units (ms, s, m, h, d, w), as 1h30m")]
    Form,
    #[error("must have no blanks, as in 1h30m")]
    Blank,
    #[error("is an ISO 8601 duration, and these are not read; write 5s, 15m, 1h30m")]
    Iso,
    #[error("is a moment, and no delay; a moment is given as AT time")]
    Moment,
    #[error("has the unit '{0}', which there is not; units are w, d, h, m, s, ms (min, sec too)")]
    Unit(String),
    #[error("has the unit '{0}', but months and years have no one length; minutes are m, days d")]
    Month(String),
    #[error("has a number without its unit behind one that has a unit, as 1h30; write 1h30m")]
    NoUnit,
    #[error("must have its units from large to small, each at most once, as in 1h30m")]
    Order,
    #[error("must be at most {0} ms")]
    TooLong(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TimeError {
    #[error("must not be empty")]
    Empty,
    #[error("must be Unix milliseconds, or RFC 3339 as in 2030-01-31T08:00:00Z")]
    Form,
    #[error("must be below {DUE_LIMIT_MS} (Unix milliseconds); are these micro- or nanoseconds?")]
    TooFar,
    /// As it would be in milliseconds.
    #[error("{}", Seconds(*.0))]
    Seconds(i64),
    #[error("must be whole milliseconds; seconds with a fraction are not read")]
    Fraction,
    #[error("has no time: a day is written as 2030-01-31T00:00:00Z")]
    NoTime,
    #[error("has no seconds: a time is written as 08:00:00")]
    NoSeconds,
    #[error("has no zone: add Z, or an offset such as +02:00")]
    NoZone,
    #[error("has a zone that is not read: Z, or an offset such as +02:00")]
    Zone,
    #[error("has the {0} {1}, which there is not")]
    NoSuch(&'static str, u32),
    #[error("has a day that there is not: day {0} does not exist in month {1} of {2}")]
    Day(u32, u32, u32),
}

/// What a number that is surely in seconds would be in milliseconds, and what it is.
struct Seconds(i64);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = date(self.0).unwrap_or_else(|| "a time before all dates".to_owned());
        write!(f, "is {read} when it is read as milliseconds: are these seconds? ")?;
        let meant = self.0.checked_mul(1_000);
        match meant.filter(|ms| u64::try_from(*ms).is_ok_and(|ms| ms >= SECONDS_BELOW)) {
            Some(ms) => {
                let date = date(ms).unwrap_or_default();
                write!(f, "In milliseconds they are {ms}, which is {date}")
            }
            None => f.write_str("For now write a delay of 0"),
        }
    }
}

/// A moment in ms as RFC 3339, where there is one.
fn date(ms: i64) -> Option<String> {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000).ok()?;
    moment.format(&Rfc3339).ok()
}

fn parse_date(text: &str) -> Result<OffsetDateTime, TimeError> {
    OffsetDateTime::parse(text, &Rfc3339).map_err(|_| fault(text))
}

/// What keeps a text from being a date of RFC 3339.
fn fault(text: &str) -> TimeError {
    let number = |at: usize, length: usize| -> Option<u32> {
        let part = text.get(at..at + length)?;
        let digits = part.bytes().all(|b| b.is_ascii_digit());
        part.parse().ok().filter(|_| digits)
    };
    let is = |at: usize, any: &[u8]| text.as_bytes().get(at).is_some_and(|b| any.contains(b));
    let fraction = text.split_once('.').filter(|(whole, fraction)| {
        let part = [*whole, *fraction].concat();
        !whole.is_empty() && !fraction.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
    });
    if fraction.is_some() {
        return TimeError::Fraction;
    }
    let dashes = is(4, b"-") && is(7, b"-");
    let (Some(year), Some(month), Some(day), true) =
        (number(0, 4), number(5, 2), number(8, 2), dashes)
    else {
        return TimeError::Form;
    };
    let known = u8::try_from(month).ok().and_then(|month| Month::try_from(month).ok());
    let Some(known) = known else {
        return TimeError::NoSuch("month", month);
    };
    let days = known.length(i32::try_from(year).unwrap_or_default());
    if day == 0 || day > u32::from(days) {
        return TimeError::Day(day, month, year);
    }
    if text.len() == 10 {
        return TimeError::NoTime;
    }
    let (Some(hour), Some(minute), true) = (number(11, 2), number(14, 2), is(13, b":")) else {
        return TimeError::Form;
    };
    for (what, value, most) in [("hour", hour, 23), ("minute", minute, 59)] {
        if value > most {
            return TimeError::NoSuch(what, value);
        }
    }
    let Some(second) = number(17, 2).filter(|_| is(16, b":")) else {
        return match is(16, b":.") {
            true => TimeError::Form,
            false => TimeError::NoSeconds,
        };
    };
    if second > 59 {
        return TimeError::NoSuch("second", second);
    }
    let rest = text.get(19..).unwrap_or_default();
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    match rest.trim_start_matches(|c: char| c.is_ascii_digit()) {
        "" => TimeError::NoZone,
        _ => TimeError::Zone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays() {
        const DAY: u64 = 86_400_000;
        let max = 365 * DAY;
        let rows: &[(&str, Result<u64, DelayError>)] = &[
            ("0", Ok(0)),
            ("1500", Ok(1_500)),
            ("0000000000000000000000000007", Ok(7)),
            ("250ms", Ok(250)),
            ("30s", Ok(30_000)),
            ("15m", Ok(900_000)),
            ("2h", Ok(7_200_000)),
            ("7d", Ok(7 * DAY)),
            ("1h30m", Ok(5_400_000)),
            ("1d2h3m4s5ms", Ok(DAY + 7_384_005)),
            ("90m", Ok(5_400_000)),
            ("0s", Ok(0)),
            ("365d", Ok(max)),
            ("", Err(DelayError::Empty)),
            ("-1", Err(DelayError::Negative)),
            ("-", Err(DelayError::Negative)),
            ("1.5", Err(DelayError::Fraction)),
            ("1.5h", Err(DelayError::Fraction)),
            ("+5", Err(DelayError::Form)),
            (" 5", Err(DelayError::Blank)),
            ("5 s", Err(DelayError::Blank)),
            ("5min", Ok(300_000)),
            ("5sec", Ok(5_000)),
            ("5Seconds", Ok(5_000)),
            ("1w", Ok(7 * DAY)),
            ("2weeks1day", Ok(15 * DAY)),
            ("1HOUR30MIN", Ok(5_400_000)),
            ("1H30Min", Ok(5_400_000)),
            ("250MS", Ok(250)),
            ("5S", Ok(5_000)),
            ("1h60m", Ok(7_200_000)),
            ("5M", Err(DelayError::Month("M".into()))),
            ("1month", Err(DelayError::Month("month".into()))),
            ("1y", Err(DelayError::Month("y".into()))),
            ("PT5S", Err(DelayError::Iso)),
            ("P1D", Err(DelayError::Iso)),
            ("pt5s", Err(DelayError::Iso)),
            ("P", Err(DelayError::Form)),
            ("2030-01-31T08:00:00Z", Err(DelayError::Moment)),
            ("2030-01-31", Err(DelayError::Moment)),
            ("00:05:00", Err(DelayError::Moment)),
            ("5x", Err(DelayError::Unit("x".into()))),
            ("5minutess", Err(DelayError::Unit("minutess".into()))),
            ("1min1m", Err(DelayError::Order)),
            ("1d1w", Err(DelayError::Order)),
            ("5s!", Err(DelayError::Form)),
            ("s", Err(DelayError::Form)),
            ("1h30", Err(DelayError::NoUnit)),
            ("1e3", Err(DelayError::Unit("e".into()))),
            ("1mms", Err(DelayError::Unit("mms".into()))),
            ("5\r\n", Err(DelayError::Form)),
            ("30m1h", Err(DelayError::Order)),
            ("1s1s", Err(DelayError::Order)),
            ("365d1ms", Err(DelayError::TooLong(max))),
            ("99999999999999999999999999", Err(DelayError::TooLong(max))),
            ("18446744073709551615d18446744073709551615h", Err(DelayError::TooLong(max))),
        ];
        for (raw, wanted) in rows {
            let got = Due::parse_delay(raw.as_bytes(), max);
            assert_eq!(got, wanted.clone().map(Due::In), "{raw:?}");
        }
        assert_eq!(Due::parse_delay(&[0xff, b's'], max), Err(DelayError::Form));
    }

    #[test]
    fn moments() {
        let rows: &[(&str, Result<u64, TimeError>)] = &[
            ("0", Err(TimeError::Seconds(0))),
            ("1893484800", Err(TimeError::Seconds(1_893_484_800))),
            ("99999999999", Err(TimeError::Seconds(99_999_999_999))),
            ("100000000000", Ok(100_000_000_000)),
            ("01795228205123", Ok(1_795_228_205_123)),
            ("999999999999999", Ok(DUE_LIMIT_MS - 1)),
            ("1000000000000000", Err(TimeError::TooFar)),
            ("99999999999999999999999", Err(TimeError::TooFar)),
            ("-5", Err(TimeError::Seconds(-5))),
            ("-99999999999999999999999", Err(TimeError::Seconds(-i64::MAX))),
            ("1970-01-22T21:58:04.8Z", Err(TimeError::Seconds(1_893_484_800))),
            ("1970-01-01T00:00:00Z", Err(TimeError::Seconds(0))),
            ("2001-09-09T01:46:40Z", Ok(1_000_000_000_000)),
            ("2001-09-09T01:46:40.0001Z", Ok(1_000_000_000_001)),
            ("2001-09-09T02:46:40.250+01:00", Ok(1_000_000_000_250)),
            ("1969-12-31T23:59:59Z", Ok(0)),
            ("2026-11-21T10:30:05.123Z", Ok(1_795_257_005_123)),
            ("9999-12-31T23:59:59Z", Ok(253_402_300_799_000)),
            ("", Err(TimeError::Empty)),
            ("-", Err(TimeError::Form)),
            ("+5", Err(TimeError::Form)),
            ("1.5", Err(TimeError::Fraction)),
            ("1893484800.25", Err(TimeError::Fraction)),
            ("5s", Err(TimeError::Form)),
            ("2030-01-31T08:00:00", Err(TimeError::NoZone)),
            ("2030-01-31 08:00:00.5", Err(TimeError::NoZone)),
            ("2030-01-31T08:00:00+0200", Err(TimeError::Zone)),
            ("2030-01-31T08:00:00 CET", Err(TimeError::Zone)),
            ("2030-01-31T08:00Z", Err(TimeError::NoSeconds)),
            ("2030-01-31T08Z", Err(TimeError::Form)),
            ("2030-13-01T08:00:00Z", Err(TimeError::NoSuch("month", 13))),
            ("2030-01-31T24:00:00Z", Err(TimeError::NoSuch("hour", 24))),
            ("2030-01-31T08:60:00Z", Err(TimeError::NoSuch("minute", 60))),
            ("2030-01-31T08:00:61Z", Err(TimeError::NoSuch("second", 61))),
            ("2030-02-31T08:00:00Z", Err(TimeError::Day(31, 2, 2030))),
            ("2030-04-31", Err(TimeError::Day(31, 4, 2030))),
            ("2030-01-00T08:00:00Z", Err(TimeError::Day(0, 1, 2030))),
            ("tomorrow", Err(TimeError::Form)),
            ("2028-02-29T00:00:00Z", Ok(1_835_395_200_000)),
            ("2026-11-21", Err(TimeError::NoTime)),
            ("20ü0-01-31", Err(TimeError::Form)),
        ];
        for (raw, wanted) in rows {
            assert_eq!(Due::parse_at(raw.as_bytes()), wanted.clone().map(Due::At), "{raw:?}");
        }
    }

    #[test]
    fn ends_of_ranges() {
        let rows: &[(&str, Result<&str, TimeError>)] = &[
            ("-", Ok("-inf")),
            ("+", Ok("+inf")),
            ("0", Ok("0")),
            ("999999999", Ok("999999999")),
            ("1893484800", Err(TimeError::Seconds(1_893_484_800))),
            ("1893484800.0", Ok("1893484800.0")),
            ("-1893484800", Ok("-1893484800")),
            ("100000000000", Ok("100000000000")),
            ("2030-01-31T08:00:00", Err(TimeError::NoZone)),
            ("1795228205123", Ok("1795228205123")),
            ("-5", Ok("-5")),
            ("1.5", Ok("1.5")),
            ("1970-01-01T00:00:01.5Z", Ok("1500")),
            ("1970-01-01T00:00:01.0000005Z", Ok("1000.000500")),
            ("1969-12-31T23:59:59.9995Z", Ok("-0.500000")),
            ("", Err(TimeError::Empty)),
            ("inf", Err(TimeError::Form)),
            ("(5", Err(TimeError::Form)),
            ("1e5", Err(TimeError::Form)),
            ("--5", Err(TimeError::Form)),
            (".", Err(TimeError::Form)),
            ("99999999999999999999999999999999999999999", Err(TimeError::TooFar)),
        ];
        for (raw, wanted) in rows {
            let wanted = wanted.clone().map(|text| Score::parse(text.as_bytes()).unwrap());
            assert_eq!(score_bound(raw.as_bytes()), wanted, "{raw:?}");
        }
    }

    /// What a mistake with seconds is told.
    #[test]
    fn seconds() {
        for (ms, text) in [
            (
                1_893_484_800,
                "is 1970-01-22T21:58:04.8Z when it is read as milliseconds: are these seconds? In \
                 milliseconds they are 1893484800000, which is 2030-01-01T08:00:00Z",
            ),
            (
                0,
                "is 1970-01-01T00:00:00Z when it is read as milliseconds: are these seconds? For \
                 now write a delay of 0",
            ),
            (
                -i64::MAX,
                "is a time before all dates when it is read as milliseconds: are these seconds? \
                 For now write a delay of 0",
            ),
        ] {
            assert_eq!(TimeError::Seconds(ms).to_string(), text);
        }
    }

    #[test]
    fn packed_for_scripts() {
        let rows = [(Due::In(0), 0), (Due::In(5), 5), (Due::At(0), -1), (Due::At(1_000), -1_000)];
        for (due, wanted) in rows {
            assert_eq!(due.packed(), wanted, "{due:?}");
        }
    }
}
