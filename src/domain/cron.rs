//! Schedules: at which moments something comes again and again, and what is to be done about the
//! moments that have passed.
//!
//! The words of an expression are those of cron, as the library reads them; what it would accept
//! and nobody can mean is refused here. Moments are whole Unix milliseconds.

use std::fmt::{self, Display};

use croner::parser::CronParser;
use croner::{Cron, CronComponent};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::domain::due::{DUE_LIMIT_MS, DelayError, Due};

/// Bytes of an expression, and of the name of a time zone.
pub const EXPRESSION_BYTES_MAX: usize = 256;
const ZONE_BYTES_MAX: usize = 64;
/// Schedules of one queue.
pub const CRONS_MAX: usize = 1_000;
/// The shortest and the longest time from one occurrence to the next of `every`, ms.
pub const EVERY_MS_MIN: u64 = 1_000;
pub const EVERY_MS_MAX: u64 = 31_536_000_000;
/// Missed occurrences that one schedule can have offered.
pub const CATCHUP_MAX: u64 = 100;
/// An occurrence is missed if nobody came to offer it for so long, ms.
pub const GRACE_MS: u64 = 10_000;
/// Missed occurrences that are counted one by one; beyond, the rest is passed over at once.
const MISSED_MAX: u64 = 100;
/// An expression that fits no moment for so long fits none. 29 February is on a certain day of the
/// week every 28 years, and once within 40.
const YEARS_MAX: i16 = 50;
/// Where Redis's clock stepped back by more than this, what was offered before was offered by a
/// wrong clock.
const STEP_MS: u64 = 86_400_000;

/// In front of the name of a schedule in that of its messages.
pub const NAME_PREFIX: &str = "cron:";

/// What is recorded of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    pub expr: String,
    /// None: `every`, which knows no zones.
    pub tz: Option<String>,
    pub overlap: Overlap,
    /// Of the missed occurrences so many are offered.
    pub catchup: u64,
}

/// Whether an occurrence comes while the one before is still pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    Skip,
    Allow,
}

impl Overlap {
    /// As clients have it.
    pub const WORDS: [(Self, &str); 2] = [(Self::Skip, "skip"), (Self::Allow, "allow")];

    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(one, _)| *one == self).map_or("skip", |(_, word)| word)
    }
}

impl Spec {
    /// As it is recorded.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What was recorded, and its moments; `None` where somebody else wrote it.
    pub fn read(text: &[u8], now_ms: u64) -> Option<(Self, Moments)> {
        let spec: Self = serde_json::from_slice(text).ok()?;
        let zone = spec.tz.as_ref().map(String::as_bytes);
        let moments = Moments::parse(spec.expr.as_bytes(), zone, now_ms).ok()?;
        Some((spec, moments))
    }
}

/// The moments of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum Moments {
    /// Whole multiples of so many ms since 1970, so that they stay the same when a schedule is set
    /// anew.
    Every(u64),
    Cron(Box<Cron>, TimeZone),
}

impl Moments {
    /// `every 15m`, or an expression of cron and the zone that its clock shows; UTC if none is
    /// given. `now_ms`: about.
    ///
    /// # Errors
    /// The rule that the expression or the zone breaks.
    pub fn parse(expr: &[u8], zone: Option<&[u8]>, now_ms: u64) -> Result<Self, ScheduleError> {
        let text = std::str::from_utf8(expr).unwrap_or("\0").trim();
        let is_text = text.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
        match text {
            "" => return Err(ExprError::Empty.into()),
            _ if expr.len() > EXPRESSION_BYTES_MAX => return Err(ExprError::TooLong.into()),
            _ if !is_text => return Err(ExprError::Letters.into()),
            _ => {}
        }
        if let Some((word, length)) = text.split_once(' ')
            && word.eq_ignore_ascii_case("every")
        {
            let length = Due::parse_delay(length.trim().as_bytes(), EVERY_MS_MAX);
            let every = length.map_err(ExprError::Every)?;
            return match (every, zone) {
                (Due::In(ms), None) if ms >= EVERY_MS_MIN => Ok(Self::Every(ms)),
                (_, None) => Err(ExprError::TooOften.into()),
                (_, Some(_)) => Err(ScheduleError::ZoneOfEvery),
            };
        }
        let zone = self::zone(zone.unwrap_or(b"UTC")).ok_or(ScheduleError::Zone)?;
        let cron = cron(text, moment(now_ms, &zone).map_or(0, |now| now.year()))?;
        let moments = Self::Cron(Box::new(cron), zone);
        moments.next(now_ms).ok_or(ExprError::Never)?;
        Ok(moments)
    }

    /// The zone under its own name.
    pub fn zone(&self) -> Option<&str> {
        match self {
            Self::Every(_) => None,
            Self::Cron(_, zone) => zone.iana_name(),
        }
    }

    /// The first moment after this one; `None` if there is none before long.
    ///
    /// An expression with one second, minute and hour fits each day once: a time that the change to
    /// summer time leaves out comes right after the gap, one that the change back repeats comes the
    /// first time. Any other one fits whatever the clock shows.
    pub fn next(&self, after_ms: u64) -> Option<u64> {
        match self {
            Self::Every(ms) => Some((after_ms / ms + 1) * ms),
            Self::Cron(cron, zone) => {
                let found = cron.find_next_occurrence(&moment(after_ms, zone)?, false).ok()?;
                let ms = u64::try_from(found.timestamp().as_millisecond()).ok()?;
                (after_ms < ms && ms < DUE_LIMIT_MS).then_some(ms)
            }
        }
    }

    /// The next one of a schedule that goes on now: none that was offered before, unless by a clock
    /// that was wrong.
    pub fn resumed(&self, last_ms: u64, now_ms: u64) -> Option<u64> {
        let was_wrong = is_wrong(last_ms, now_ms);
        self.next(if was_wrong { now_ms } else { last_ms.max(now_ms) })
    }

    /// A moment as the clock of the zone shows it, RFC 3339.
    pub fn shown(&self, ms: u64) -> String {
        let zone = match self {
            Self::Every(_) => &TimeZone::UTC,
            Self::Cron(_, zone) => zone,
        };
        let form = |moment: Zoned| moment.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        moment(ms, zone).map(form).unwrap_or_default()
    }

    /// What is to be done of an occurrence that is due, and of those after it.
    pub fn plan(&self, due_ms: u64, catchup: u64, now_ms: u64) -> Plan {
        let mut plan = Plan { occurrences: Vec::new(), missed: 0, next: Some(due_ms) };
        let (mut caught, mut missed) = (0, 0);
        let catchup = catchup.min(CATCHUP_MAX);
        while let Some(moment) = plan.next.filter(|next| *next <= now_ms) {
            let mut behind = moment;
            if now_ms - moment <= GRACE_MS {
                plan.occurrences.push(moment);
            } else if caught < catchup {
                caught += 1;
                plan.occurrences.push(moment);
            } else {
                missed += 1;
                if missed >= MISSED_MAX {
                    behind = behind.max(now_ms - GRACE_MS - 1);
                }
            }
            plan.next = self.next(behind);
        }
        plan.missed = missed;
        plan
    }
}

/// Whether the last occurrence was offered by a clock that was wrong.
pub fn is_wrong(last_ms: u64, now_ms: u64) -> bool {
    last_ms > now_ms.saturating_add(STEP_MS)
}

/// What is to be done of a schedule.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// Those to be offered.
    pub occurrences: Vec<u64>,
    /// How many were missed and are passed over, as far as they are counted.
    pub missed: u64,
    /// The next one, which is still to come; `None`: there is none.
    pub next: Option<u64>,
}

fn moment(ms: u64, zone: &TimeZone) -> Option<Zoned> {
    let ms = i64::try_from(ms).ok()?;
    Some(Timestamp::from_millisecond(ms).ok()?.to_zoned(zone.clone()))
}

/// A zone of the database that is compiled in.
fn zone(name: &[u8]) -> Option<TimeZone> {
    let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= ZONE_BYTES_MAX)?;
    TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some())
}

/// The short forms of cron.
const SHORT: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The fields of an expression: their names, and what may stand in them.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31, L (the last) or 15W (the weekday next to the 15th)"),
    ("month", "1 to 12 or JAN to DEC"),
    ("day of the week", "0 to 7 (0 and 7 are Sunday), SUN to SAT, 1#2 (the second Monday) or 1L"),
];

/// `year`: that of now.
fn cron(text: &str, year: i16) -> Result<Cron, ExprError> {
    let text = match SHORT.iter().find(|(short, _)| text.eq_ignore_ascii_case(short)) {
        Some((_, long)) => *long,
        None if text.starts_with('@') => return Err(ExprError::Short),
        None => text,
    };
    let mut fields: Vec<&str> = text.split_ascii_whitespace().collect();
    match fields.len() {
        5 => fields.insert(0, "0"),
        6 => {}
        count => return Err(ExprError::Fields(count)),
    }
    // The library takes a part that is empty for no value, and `+` for a word of its own.
    let is_plain =
        |field: &str| !field.contains('+') && field.split(',').all(|one| !one.is_empty());
    let is_read = |place: usize, field: &str| {
        let alone = (0..FIELDS.len()).map(|other| if other == place { field } else { "*" });
        CronParser::new().parse(&alone.collect::<Vec<_>>().join(" ")).is_ok()
    };
    let all_plain = fields.iter().all(|field| is_plain(field));
    let Some(mut cron) = CronParser::new().parse(&fields.join(" ")).ok().filter(|_| all_plain)
    else {
        let mut each = fields.iter().zip(FIELDS).enumerate();
        let wrong = each.find(|(place, (field, _))| !is_plain(field) || !is_read(*place, field));
        return Err(wrong.map_or(ExprError::Fields(fields.len()), |(_, (field, (name, rule)))| {
            ExprError::Field { name, field: (*field).to_owned(), rule }
        }));
    };
    // So that the search for what never comes ends.
    let mut years = CronComponent::new(1, croner::YEAR_UPPER_LIMIT as u16, 0, 0);
    let first = year.clamp(1, 4_900);
    let range = format!("{first}-{}", first + YEARS_MAX);
    years.parse(&range).map_err(|_| ExprError::Never)?;
    cron.pattern.years = years;
    Ok(cron)
}

/// A rule that a schedule breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    #[error(transparent)]
    Expr(#[from] ExprError),
    #[error("is no zone of the time zone database; names are as Europe/Berlin or UTC")]
    Zone,
    #[error("has no use with every, which counts time and not the days of a zone")]
    ZoneOfEvery,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprError {
    Empty,
    TooLong,
    Letters,
    Short,
    Fields(usize),
    Field { name: &'static str, field: String, rule: &'static str },
    Never,
    Every(DelayError),
    TooOften,
}

impl std::error::Error for ExprError {}

impl Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("must not be empty"),
            Self::TooLong => write!(f, "is longer than {EXPRESSION_BYTES_MAX} bytes"),
            Self::Letters => f.write_str("must be plain text: fields of cron, or as every 15m"),
            Self::Short => {
                f.write_str("must be one of ")?;
                let words: Vec<&str> = SHORT.iter().map(|(short, _)| *short).collect();
                f.write_str(&words.join(", "))
            }
            Self::Fields(count) => write!(
                f,
                "must have 5 fields (minute, hour, day of the month, month, day of the week) or 6 \
                 (second first), or be as every 15m or @daily; it has {count}"
            ),
            Self::Field { name, field, rule } => write!(
                f,
                "has the {name} '{field}', which must be {rule}; with * , - and / as in 1,5-9 and \
                 */5"
            ),
            Self::Never => write!(f, "fits no moment within {YEARS_MAX} years"),
            Self::Every(error) => write!(f, "has a length of time that {error}"),
            Self::TooOften => f.write_str("must not come more often than every second"),
        }
    }
}

#[cfg(test)]
mod tests;
