//! The score of a member: a double, as Redis keeps it. Text only on the way in and out, since the
//! versions of Redis write doubles differently.

use std::fmt::{self, Display};

/// A score from here on, in Unix ms, is no time that a timer could wait for (the year 33658): its
/// message stays pending.
pub const SCORE_END: u64 = 1_000_000_000_000_000;

/// A score as text has at most this many bytes (Redis prints up to 17 digits, sign and exponent).
const BYTES_MAX: usize = 40;

/// Whole numbers below this are written as digits, others as mantissa and exponent.
const WHOLE_END: f64 = 1e17;

/// A due time in Unix ms where it is one of ours; of others any double, infinite ones too. Never
/// NaN, which Redis does not store.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Score(pub(super) f64);

impl Score {
    /// The ends of all scores.
    pub const MIN: Self = Self(f64::NEG_INFINITY);
    pub const MAX: Self = Self(f64::INFINITY);
    pub const ZERO: Self = Self(0.0);

    /// Reads decimal digits, with a fraction and an exponent or without, and `inf`. `None` for any
    /// other text.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= BYTES_MAX)?;
        text.parse().ok().filter(|score: &f64| !score.is_nan()).map(Self)
    }

    /// In ms since the epoch, exactly.
    pub fn ms(self) -> f64 {
        self.0
    }

    /// In ms since the epoch, if it is a whole number that Redis 7.0 writes without an exponent.
    pub fn whole_ms(self) -> Option<i64> {
        (self.0.fract() == 0.0 && self.0.abs() < WHOLE_END).then_some(self.0 as i64)
    }

    /// The first millisecond at which it has passed: 0 (at once) for a negative one, [`SCORE_END`]
    /// (never) for a huge one.
    pub fn moment(self) -> u64 {
        // `as` makes 0 of what is negative.
        self.0.ceil().min(SCORE_END as f64) as u64
    }
}

/// It is never NaN, so each equals itself.
impl Eq for Score {}

/// As `%.17g` of C, and so as Redis 7.0 writes it: read again, it is the same double.
impl Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.whole_ms().is_some() || self.0.is_infinite() {
            return write!(f, "{:.0}", self.0);
        }
        let short = |digits: &str| digits.trim_end_matches('0').trim_end_matches('.').to_owned();
        let scientific = format!("{:.16e}", self.0);
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or_default();
        match exponent.parse().unwrap_or(0) {
            // It is not whole, so it has fewer than 17 digits before the point.
            at @ -4..=16 => f.write_str(&short(&format!("{:.*}", (16 - at) as usize, self.0))),
            exponent => write!(f, "{}e{exponent:+03}", short(mantissa)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: what Redis or a client writes, the text that it becomes, and its moment.
    #[test]
    fn read_and_written() {
        let max = "1.7976931348623157e+308";
        let rows = [
            ("0", "0", 0),
            ("-0", "-0", 0),
            ("5", "5", 5),
            ("005.00", "5", 5),
            ("+5", "5", 5),
            ("-5", "-5", 0),
            ("1795228205123", "1795228205123", 1_795_228_205_123),
            ("1.7e+12", "1700000000000", 1_700_000_000_000),
            ("1e15", "1000000000000000", SCORE_END),
            ("999999999999999", "999999999999999", SCORE_END - 1),
            ("9007199254740992", "9007199254740992", SCORE_END),
            ("9007199254740993", "9007199254740992", SCORE_END),
            ("9007199254740994", "9007199254740994", SCORE_END),
            ("-9007199254740994", "-9007199254740994", 0),
            ("99999999999999984", "99999999999999984", SCORE_END),
            // As Redis 7.0 and newer ones write the same score, here and with 0.1.
            ("1e+17", "1e+17", SCORE_END),
            ("100000000000000000", "1e+17", SCORE_END),
            ("-1e+17", "-1e+17", 0),
            ("123456789012345678", "1.2345678901234568e+17", SCORE_END),
            ("1e300", "1.0000000000000001e+300", SCORE_END),
            (max, max, SCORE_END),
            ("1e400", "inf", SCORE_END),
            ("inf", "inf", SCORE_END),
            ("+inf", "inf", SCORE_END),
            ("-inf", "-inf", 0),
            ("1.5", "1.5", 2),
            ("-1.5", "-1.5", 0),
            ("1795228205123.5", "1795228205123.5", 1_795_228_205_124),
            ("0.10000000000000001", "0.10000000000000001", 1),
            ("0.1", "0.10000000000000001", 1),
            ("0.30000000000000004", "0.30000000000000004", 1),
            // Halfway between two texts of 17 digits: the even one.
            ("1125899906842624.25", "1125899906842624.2", SCORE_END),
            ("0.0001", "0.0001", 1),
            ("0.00001", "1.0000000000000001e-05", 1),
            ("-1e-05", "-1.0000000000000001e-05", 0),
            ("5e-324", "4.9406564584124654e-324", 1),
        ];
        for (text, written, moment) in rows {
            let score = Score::parse(text.as_bytes()).unwrap();
            assert_eq!(score.to_string(), written, "{text}");
            assert_eq!(score.moment(), moment, "{text}");
            assert_eq!(Score::parse(written.as_bytes()), Some(score), "{text}");
        }
        let long = "1".repeat(BYTES_MAX + 1);
        for text in ["", "nan", "-NaN", "(5", "5ms", " 5", "5 ", "0x10", "1e", ">", "-", "\u{665}"]
        {
            assert_eq!(Score::parse(text.as_bytes()), None, "{text}");
        }
        for bytes in [b"\xff", long.as_bytes()] {
            assert_eq!(Score::parse(bytes), None);
        }
    }

    #[test]
    fn compared_as_numbers() {
        let score = |text: &str| Score::parse(text.as_bytes()).unwrap();
        for (a, b) in [("5", "5.0"), ("0", "-0"), ("1.7e+12", "1700000000000"), ("inf", "1e999")] {
            assert_eq!(score(a), score(b));
        }
        for (a, b) in [("9", "10"), ("-10", "-9"), ("-inf", "-1e300"), ("1e300", "inf")] {
            assert!(score(a) < score(b), "{a} {b}");
        }
    }

    #[test]
    fn whole() {
        for (text, ms) in [
            ("-0", Some(0)),
            ("-5", Some(-5)),
            ("1e+15", Some(1_000_000_000_000_000)),
            ("9007199254740993", Some(9_007_199_254_740_992)),
            ("99999999999999984", Some(99_999_999_999_999_984)),
            ("1e+17", None),
            ("1.5", None),
            ("inf", None),
            ("-inf", None),
        ] {
            assert_eq!(Score::parse(text.as_bytes()).unwrap().whole_ms(), ms, "{text}");
        }
    }
}
