//! Names, times, sizes, payloads and replies, as people read them. Pure.

use std::fmt::Write as _;

use serde::de::IgnoredAny;
use time::OffsetDateTime;

use crate::domain::text::one_line;
use crate::resp::Reply;

/// Characters of a name that are shown.
const NAME_MAX: usize = 80;
/// Bytes of a payload that a list shows.
const LINE_MAX: usize = 120;
/// Bytes of a payload that are shown at once.
const PAYLOAD_MAX: usize = 64 * 1024;
/// Bytes of a payload that are shown as hexadecimal digits.
const HEX_MAX: usize = 4 * 1024;

/// The field of a map.
pub fn field<'a>(reply: &'a Reply, name: &str) -> Option<&'a Reply> {
    let Reply::Map(fields) = reply else { return None };
    let found =
        fields.iter().find(|(key, _)| matches!(key, Reply::Bulk(key) if **key == *name.as_bytes()));
    found.map(|(_, value)| value).filter(|value| !matches!(value, Reply::Null))
}

/// A whole number of a map; 0 where there is none.
pub fn number(reply: &Reply, name: &str) -> i64 {
    field(reply, name).and_then(whole).unwrap_or(0)
}

pub fn whole(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Integer(n) => Some(*n),
        Reply::Double(n) => Some(*n as i64),
        _ => None,
    }
}

/// Bytes of a map; none where there are none.
pub fn bytes<'a>(reply: &'a Reply, name: &str) -> &'a [u8] {
    match field(reply, name) {
        Some(Reply::Bulk(bytes)) => bytes,
        _ => b"",
    }
}

/// The same as text on one line.
pub fn text(reply: &Reply, name: &str) -> String {
    line(bytes(reply, name))
}

/// The elements of an array.
pub fn items(reply: &Reply) -> &[Reply] {
    match reply {
        Reply::Array(items) => items,
        _ => &[],
    }
}

/// The cursor of a page, if there is a next one, and what stands on it.
pub fn page(reply: &Reply) -> (Option<String>, &[Reply]) {
    let [cursor, .., rows] = items(reply) else { return (None, &[]) };
    let cursor = match cursor {
        Reply::Bulk(cursor) if **cursor != *b"0" => {
            Some(String::from_utf8_lossy(cursor).into_owned())
        }
        _ => None,
    };
    (cursor, items(rows))
}

/// Bytes as one line of text that shows where it is none.
pub fn line(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => one_line(text),
        Err(_) => bytes.escape_ascii().to_string(),
    }
}

/// A name, cut where it is long.
pub fn name(bytes: &[u8]) -> String {
    cut(&line(bytes), NAME_MAX)
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}\u{2026}", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A name as a segment of a path: what browsers would read as a step up stands as digits.
pub fn segment(bytes: &[u8]) -> String {
    if matches!(bytes, b"." | b"..") {
        return format!("hex:{}", hex::encode(bytes));
    }
    let mut path = String::new();
    for byte in bytes {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(*byte));
            }
            // Writing to a string cannot fail.
            byte => _ = write!(path, "%{byte:02X}"),
        }
    }
    path
}

/// Digits in groups of three.
pub fn count(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut shown = if number < 0 { "-".to_owned() } else { String::new() };
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A time in Unix ms, as RFC 3339 has it.
pub fn instant(ms: i64) -> String {
    let nanos = i128::from(ms) * 1_000_000;
    let Ok(time) = OffsetDateTime::from_unix_timestamp_nanos(nanos) else {
        return format!("{ms} ms");
    };
    let (date, clock) = (time.date(), time.time());
    let (hour, minute, second, milli) = clock.as_hms_milli();
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// A length of time in its two largest units.
pub fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    if ms < 10_000 {
        return format!("{}.{} s", ms / 1_000, ms % 1_000 / 100);
    }
    let mut parts = units.iter().enumerate().find(|(_, (unit, _))| ms >= *unit).map_or(
        Vec::new(),
        |(place, (unit, word))| {
            let next = units.get(place + 1);
            let rest = next.map(|(small, word)| (ms % unit / small, *word));
            vec![Some((ms / unit, *word)), rest.filter(|(count, _)| *count > 0)]
        },
    );
    parts.truncate(2);
    let parts = parts.into_iter().flatten().map(|(count, word)| format!("{count} {word}"));
    parts.collect::<Vec<_>>().join(" ")
}

/// A moment, for a `time` element that a script keeps current.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    pub ms: i64,
    pub exact: String,
    /// The same for people that look at it on the same day.
    pub clock: String,
    pub words: String,
}

impl Moment {
    /// Seen from `now`.
    pub fn at(ms: i64, now: i64) -> Self {
        let words = match ms - now {
            left if left > 0 => format!("in {}", duration(left)),
            left => format!("{} ago", duration(-left)),
        };
        let exact = instant(ms);
        let clock = match exact.split_once('T') {
            Some((date, clock)) if instant(now).starts_with(date) => clock.to_owned(),
            Some((date, clock)) => {
                format!("{date} {}", clock.split('.').next().unwrap_or_default())
            }
            None => exact.clone(),
        };
        Self { ms, clock: clock.trim_end_matches('Z').to_owned(), exact, words }
    }

    /// The time of a field, if it has one.
    pub fn of(reply: &Reply, name: &str, now: i64) -> Option<Self> {
        field(reply, name).and_then(whole).map(|ms| Self::at(ms, now))
    }
}

pub fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// Milliseconds with three figures.
pub fn milliseconds(reply: &Reply, name: &str) -> Option<String> {
    let ms = match field(reply, name)? {
        Reply::Integer(ms) => *ms as f64,
        Reply::Double(ms) => *ms,
        _ => return None,
    };
    Some(match ms {
        0.0..10.0 => format!("{ms:.2} ms"),
        10.0..1_000.0 => format!("{ms:.0} ms"),
        _ => duration(ms as i64),
    })
}

/// A payload on one line of a list.
pub fn payload_line(bytes: &[u8]) -> String {
    let part = bytes.get(..LINE_MAX).unwrap_or(bytes);
    let part = std::str::from_utf8(part).or_else(|error| {
        // It may be cut inside a letter.
        let whole = part.get(..error.valid_up_to()).unwrap_or_default();
        let inside = error.error_len().is_none() && part.len() < bytes.len();
        std::str::from_utf8(if inside { whole } else { part })
    });
    let more = if bytes.len() > LINE_MAX { "\u{2026}" } else { "" };
    match part {
        Ok(text) if !text.contains('\0') => one_line(text) + more,
        _ => {
            spaced(bytes.get(..24).unwrap_or(bytes))
                + if bytes.len() > 24 { " \u{2026}" } else { "" }
        }
    }
}

fn spaced(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(" ")
}

/// A payload as text of several lines; JSON is indented. None where it is no text.
pub fn payload_text(bytes: &[u8]) -> Option<String> {
    let part = bytes.get(..PAYLOAD_MAX).unwrap_or(bytes);
    let text = match std::str::from_utf8(part) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && part.len() < bytes.len() => {
            std::str::from_utf8(part.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    if text.contains('\0') {
        return None;
    }
    let is_whole = part.len() == bytes.len();
    let text = indented(text).filter(|_| is_whole).unwrap_or_else(|| text.to_owned());
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' | '\'' | '"' | '\\' => shown.push(letter),
            letter => shown.extend(letter.escape_debug()),
        }
    }
    Some(if part.len() < bytes.len() { shown + "\n\u{2026}" } else { shown })
}

/// JSON with white space between its tokens, which stay as they were written; none where it is
/// none, or would be much longer so.
fn indented(text: &str) -> Option<String> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let most = (2 * text.len() + 1_024).min(PAYLOAD_MAX);
    let (mut shown, mut depth) = (String::new(), 0_usize);
    let (mut in_string, mut escaped, mut opened) = (false, false, false);
    let line = |shown: &mut String, depth| {
        shown.push('\n');
        shown.extend(std::iter::repeat_n("  ", depth));
    };
    for letter in text.chars() {
        if in_string {
            shown.push(letter);
            in_string = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
            continue;
        }
        if letter.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(letter, '}' | ']');
        depth = depth.saturating_sub(usize::from(closes));
        // Nothing stands in brackets that close at once.
        if opened != closes {
            line(&mut shown, depth);
        }
        shown.push(letter);
        opened = matches!(letter, '{' | '[');
        depth += usize::from(opened);
        in_string = letter == '"';
        match letter {
            ',' => line(&mut shown, depth),
            ':' => shown.push(' '),
            _ => {}
        }
        if shown.len() > most {
            return None;
        }
    }
    (shown.len() <= most).then_some(shown)
}

/// Bytes in lines of sixteen, with their letters.
pub fn payload_hex(bytes: &[u8]) -> String {
    let mut dump = String::new();
    for (place, row) in bytes.get(..HEX_MAX).unwrap_or(bytes).chunks(16).enumerate() {
        let letter = |byte: &u8| match byte {
            0x20..0x7f => char::from(*byte),
            _ => '.',
        };
        let letters: String = row.iter().map(letter).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(dump, "{:06x}  {:<47}  {letters}", place * 16, spaced(row));
    }
    if bytes.len() > HEX_MAX {
        let _ = writeln!(dump, "\u{2026} {} in all", size(bytes.len()));
    }
    dump
}

/// A command as people type it in redis-cli.
pub fn command(words: &[&[u8]]) -> String {
    let shown = |word: &&[u8]| {
        let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
        match word.iter().all(plain) && !word.is_empty() {
            true => cut(&String::from_utf8_lossy(word), NAME_MAX),
            false => format!("\"{}\"", cut(&word.escape_ascii().to_string(), NAME_MAX)),
        }
    };
    words.iter().map(shown).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths() {
        let long = "x".repeat(300);
        let rows: [(&[u8], &str, &str); 7] = [
            (b"orders", "orders", "orders"),
            (b"<script>", "<script>", "%3Cscript%3E"),
            (b"a\0b", "a\\0b", "a%00b"),
            (b"..", "..", "hex:2e2e"),
            (b"%2e%2e", "%2e%2e", "%252e%252e"),
            (b"a/b?c=d#e", "a/b?c=d#e", "a%2Fb%3Fc%3Dd%23e"),
            (b"\xff\xfe", "\\xff\\xfe", "%FF%FE"),
        ];
        for (bytes, shown, path) in rows {
            assert_eq!((name(bytes).as_str(), segment(bytes).as_str()), (shown, path));
        }
        assert_eq!(name(long.as_bytes()).chars().count(), 81);
        assert_eq!(name("a\u{202e}b".as_bytes()), "a\\u{202e}b");
    }

    #[test]
    fn figures() {
        for (number, shown) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (-1_234_567, "-1,234,567")]
        {
            assert_eq!(count(number), shown);
        }
        let rows = [
            (0, "0.0 s"),
            (9_999, "9.9 s"),
            (12_400, "12 s"),
            (62_000, "1 min 2 s"),
            (120_000, "2 min"),
            (90_000_000, "1 d 1 h"),
            (-5, "0.0 s"),
        ];
        for (ms, shown) in rows {
            assert_eq!(duration(ms), shown);
        }
        assert_eq!(instant(1_795_331_479_812), "2026-11-22T07:11:19.812Z");
        assert_eq!(instant(i64::MAX), format!("{} ms", i64::MAX));
        assert_eq!(Moment::at(5_000, 0).words, "in 5.0 s");
        assert_eq!(Moment::at(0, 5_000).words, "5.0 s ago");
        assert_eq!((size(5).as_str(), size(2048).as_str()), ("5 B", "2.0 KiB"));
    }

    #[test]
    fn payloads() {
        let long = format!("{}\u{20ac}", "a".repeat(119));
        let rows: [(&[u8], &str); 5] = [
            (b"{\"a\":1}", "{\"a\":1}"),
            (b"a\nb", "a\\nb"),
            (b"\xff\0", "ff 00"),
            (long.as_bytes(), &format!("{}\u{2026}", "a".repeat(119))),
            (&[0; 25], &format!("{} \u{2026}", ["00"; 24].join(" "))),
        ];
        for (bytes, shown) in rows {
            assert_eq!(payload_line(bytes), shown);
        }
        assert_eq!(payload_text(b"{\"a\":1}").unwrap(), "{\n  \"a\": 1\n}");
        // What is shown is what is stored, but for white space.
        for (stored, shown) in [
            ("[]", "[]"),
            ("{ \"b\": {}, \"a\":[ ]}", "{\n  \"b\": {},\n  \"a\": []\n}"),
            ("[1.0,12345678901234567890123]", "[\n  1.0,\n  12345678901234567890123\n]"),
            ("{\"b\":1e5,\"a\":1,\"a\":2}", "{\n  \"b\": 1e5,\n  \"a\": 1,\n  \"a\": 2\n}"),
            ("[\"{,\\\\\",\"\\\"]\"]", "[\n  \"{,\\\\\",\n  \"\\\"]\"\n]"),
            ("[1,]", "[1,]"),
        ] {
            assert_eq!(payload_text(stored.as_bytes()).unwrap(), shown, "{stored}");
        }
        // A small payload makes no huge page.
        for deep in [125, 30_000] {
            let deep = "[".repeat(deep) + &"]".repeat(deep);
            assert_eq!(payload_text(deep.as_bytes()).unwrap(), deep);
            let many = format!("[{}1]", format!("{deep},").repeat(60_000 / deep.len()));
            assert!(payload_text(many.as_bytes()).unwrap().len() <= PAYLOAD_MAX);
        }
        assert_eq!(payload_text(b"\xff"), None);
        assert_eq!(payload_text("a\u{202e}\n".as_bytes()).unwrap(), "a\\u{202e}\n");
        assert!(payload_text(&vec![b'a'; PAYLOAD_MAX + 1]).unwrap().ends_with("a\n\u{2026}"));
        assert!(payload_hex(b"ab").starts_with("000000  61 62 "));
        assert!(payload_hex(b"ab").ends_with("  ab\n"));
        let words: [&[u8]; 3] = [b"DQ.FIRE", b"a b", b"\0"];
        assert_eq!(command(&words), "DQ.FIRE \"a b\" \"\\x00\"");
    }
}
