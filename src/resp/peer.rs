//! The other side of RESP2, that of a client: commands as bytes, and replies out of a stream of
//! bytes: a measure with bounds in front of redis-protocol's decoder.
//!
//! The decoder has no bound of its own: it would wait for ever for a length that never comes,
//! recurse as deep as a reply says, and begin anew with each read. So a reply is measured first,
//! going on where the last read ended, and only one that is whole, small and flat enough is
//! decoded. Memory grows with what came, not with what was announced.

use bytes::{BufMut, BytesMut};
use redis_protocol::resp2::decode::decode_bytes;
use redis_protocol::resp3::types::BytesFrame;

/// Room for one read.
const READ_BYTES: usize = 64 << 10;
/// With less room than this there is more made.
const READ_BYTES_LEAST: usize = 16 << 10;
/// The buffer of a reply larger than this is not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// A line: an error, a status, a number or a length.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Arrays in arrays: scripts answer with one array, SSCAN with one in another.
const DEPTH_MAX: usize = 8;
/// Elements of one reply, those of inner arrays too.
const ELEMENTS_MAX: usize = 1 << 20;

/// A command as RESP.
pub fn encode<'a>(out: &mut BytesMut, parts: impl ExactSizeIterator<Item = &'a [u8]>) {
    head(out, b'*', parts.len());
    for part in parts {
        head(out, b'$', part.len());
        out.put_slice(part);
        out.put_slice(b"\r\n");
    }
}

fn head(out: &mut BytesMut, kind: u8, number: usize) {
    out.put_u8(kind);
    out.put_slice(itoa::Buffer::new().format(number).as_bytes());
    out.put_slice(b"\r\n");
}

/// Replies of one connection.
pub struct Reader {
    buffer: BytesMut,
    bytes_max: usize,
    /// Bytes of the first reply that are measured.
    measured: usize,
    /// Elements that the arrays around the next one still lack, the outermost first.
    lacking: Vec<usize>,
    elements: usize,
}

impl Reader {
    /// `bytes_max`: of one reply.
    pub fn new(bytes_max: usize) -> Self {
        let buffer = BytesMut::new();
        Self { buffer, bytes_max, measured: 0, lacking: Vec::new(), elements: 0 }
    }

    /// Where the next read goes, with room for it.
    pub fn room(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES_LEAST {
            self.buffer.reserve(READ_BYTES);
        }
        &mut self.buffer
    }

    /// The next reply, if all of it has come.
    ///
    /// # Errors
    /// It is none, or goes beyond a bound: nothing that follows can be understood.
    pub fn reply(&mut self) -> Result<Option<BytesFrame>, String> {
        if !self.measure()? {
            return Ok(None);
        }
        let reply = self.buffer.split_to(std::mem::take(&mut self.measured)).freeze();
        self.elements = 0;
        if reply.len() > KEPT_BYTES_MAX {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        // The decoder refuses errors that are not UTF-8.
        if let Some(error) = reply.strip_prefix(b"-") {
            let text = String::from_utf8_lossy(error.trim_ascii_end()).into_owned();
            return Ok(Some(BytesFrame::SimpleError { data: text.into(), attributes: None }));
        }
        match decode_bytes(&reply) {
            Ok(Some((frame, size))) if size == reply.len() => Ok(Some(frame.into_resp3())),
            Ok(_) => Err("a reply of Redis has another size than it says".into()),
            Err(error) => Err(format!("a reply of Redis cannot be read: {}", error.details())),
        }
    }

    /// Goes on until the first reply ends, or what has come: whether the reply is whole.
    fn measure(&mut self) -> Result<bool, String> {
        loop {
            let rest = self.buffer.get(self.measured..).unwrap_or_default();
            let Some(&kind) = rest.first() else { return Ok(false) };
            let Some(line) = line(rest)? else { return Ok(false) };
            let mut size = line.len() + 2;
            let mut inner = 0;
            match kind {
                b'+' | b'-' | b':' => {}
                b'$' => {
                    if let Some(length) = self.length(line)? {
                        size += length + 2;
                        let Some(element) = rest.get(..size) else {
                            self.fits(size)?;
                            return Ok(false);
                        };
                        if !element.ends_with(b"\r\n") {
                            return Err("a string of Redis does not end where it should".into());
                        }
                    }
                }
                b'*' => inner = self.length(line)?.unwrap_or(0),
                other => {
                    let other = other.escape_ascii();
                    return Err(format!("a reply of Redis begins with '{other}'"));
                }
            }
            self.fits(size)?;
            self.measured += size;
            self.elements += 1;
            if inner > ELEMENTS_MAX || self.elements > ELEMENTS_MAX {
                return Err(format!("a reply of Redis has more than {ELEMENTS_MAX} elements"));
            }
            if inner > 0 {
                if self.lacking.len() == DEPTH_MAX {
                    return Err(format!("a reply of Redis is more than {DEPTH_MAX} arrays deep"));
                }
                self.lacking.push(inner);
                continue;
            }
            // An array ends with its last element, which may be the last one of another array.
            while let Some(lacks) = self.lacking.last_mut() {
                *lacks -= 1;
                if *lacks > 0 {
                    break;
                }
                self.lacking.pop();
            }
            if self.lacking.is_empty() {
                return Ok(true);
            }
        }
    }

    fn fits(&self, size: usize) -> Result<(), String> {
        if self.measured.saturating_add(size) <= self.bytes_max {
            return Ok(());
        }
        Err(format!("a reply of Redis has more than {} bytes", self.bytes_max))
    }

    /// The length in the line of a string or an array; nothing for -1, which is nil.
    fn length(&self, line: &[u8]) -> Result<Option<usize>, String> {
        let text = line.get(1..).and_then(|digits| std::str::from_utf8(digits).ok());
        match text.and_then(|text| text.parse::<i64>().ok()) {
            Some(-1) => Ok(None),
            Some(length @ 0..) if length as u64 <= self.bytes_max as u64 => {
                Ok(Some(length as usize))
            }
            Some(0..) => Err(format!("a reply of Redis has more than {} bytes", self.bytes_max)),
            _ => Err(format!("'{}' is no length", line.escape_ascii())),
        }
    }
}

/// The first line without its end; nothing if that has not come.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, String> {
    let head = bytes.get(..LINE_BYTES_MAX).unwrap_or(bytes);
    match head.windows(2).position(|two| two == b"\r\n") {
        Some(end) => Ok(bytes.get(..end)),
        None if head.len() < LINE_BYTES_MAX => Ok(None),
        None => Err(format!("a line of Redis has more than {LINE_BYTES_MAX} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 100_000;

    /// The replies of a stream that arrives in pieces of these sizes, and the error.
    fn read(stream: &[u8], mut piece: impl FnMut() -> usize) -> (Vec<BytesFrame>, Option<String>) {
        let (mut reader, mut replies, mut left) = (Reader::new(BYTES_MAX), Vec::new(), stream);
        while !left.is_empty() {
            let (some, rest) = left.split_at(piece().clamp(1, left.len()));
            reader.room().extend_from_slice(some);
            left = rest;
            loop {
                match reader.reply() {
                    Ok(Some(reply)) => replies.push(reply),
                    Ok(None) => break,
                    Err(why) => return (replies, Some(why)),
                }
            }
            let held = reader.buffer.len();
            assert!(held <= BYTES_MAX + READ_BYTES, "{held} bytes held");
            assert!(reader.buffer.capacity() <= 4 * (held + READ_BYTES), "room for more than came");
            assert!(reader.lacking.len() <= DEPTH_MAX);
        }
        (replies, None)
    }

    fn text(frame: &BytesFrame) -> String {
        match frame {
            BytesFrame::Array { data, .. } => {
                format!("[{}]", data.iter().map(text).collect::<Vec<_>>().join(" "))
            }
            BytesFrame::BlobString { data, .. } => format!("'{}'", data.escape_ascii()),
            BytesFrame::SimpleString { data, .. } => format!("+{}", data.escape_ascii()),
            BytesFrame::SimpleError { data, .. } => format!("-{data}"),
            BytesFrame::Number { data, .. } => data.to_string(),
            BytesFrame::Null => "nil".to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// A small generator, so that a failure can be run again.
    fn random(seed: u64) -> impl FnMut(usize) -> usize {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        }
    }

    #[test]
    fn replies() {
        for (stream, said) in [
            ("+OK\r\n:-7\r\n", "+OK -7"),
            ("$0\r\n\r\n$2\r\n\r\n\r\n", r"'' '\r\n'"),
            ("$-1\r\n*-1\r\n*0\r\n", "nil nil []"),
            ("-OOM no\r\n", "-OOM no"),
            ("*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n*0\r\n:5\r\n", "['0' ['a' []]] 5"),
            ("*1\r\n*1\r\n*1\r\n:1\r\n", "[[[1]]]"),
        ] {
            for size in [1, 2, 3, 7, stream.len()] {
                let (replies, error) = read(stream.as_bytes(), || size);
                let read: Vec<String> = replies.iter().map(text).collect();
                assert_eq!((read.join(" ").as_str(), error), (said, None), "{stream:?} by {size}");
            }
        }
        let (replies, _) = read(b"-ERR \xff\xfe\r\n", || 9);
        assert_eq!(text(&replies[0]), "-ERR \u{fffd}\u{fffd}");
    }

    /// Refused as soon as it is known, however little has come.
    #[test]
    fn refusals() {
        let deep = "*1\r\n".repeat(DEPTH_MAX + 1);
        let long = format!("+{}", "x".repeat(LINE_BYTES_MAX));
        let many = format!("*2\r\n{}", "$40000\r\n".to_owned() + &"x".repeat(40_000) + "\r\n");
        let many = many.clone() + "$99000\r\nx";
        for (stream, part) in [
            ("$9223372036854775807\r\n", "more than 100000 bytes"),
            ("$100001\r\n", "more than 100000 bytes"),
            ("$99999\r\n", "more than 100000 bytes"),
            (&many, "more than 100000 bytes"),
            ("*2147483647\r\n", "more than 100000 bytes"),
            ("$-2\r\n", "is no length"),
            ("*x\r\n", "is no length"),
            ("$99999999999999999999\r\n", "is no length"),
            ("$3\r\nabcde\r\n", "does not end where it should"),
            (":x\r\n", "cannot be read"),
            ("HTTP/1.1 400 Bad Request\r\n", "begins with 'H'"),
            ("%1\r\n", "begins with '%'"),
            (&deep, "arrays deep"),
            (&long, "a line of Redis"),
        ] {
            let (replies, error) = read(stream.as_bytes(), || 5_000);
            assert!(replies.is_empty(), "{part}");
            assert!(error.as_ref().is_some_and(|why| why.contains(part)), "{part}: {error:?}");
        }
        // Only the reader's own bound tells: an array of empty ones is small in bytes.
        let mut reader = Reader::new(usize::MAX);
        reader.room().extend_from_slice(format!("*{}\r\n", ELEMENTS_MAX + 1).as_bytes());
        assert!(reader.reply().unwrap_err().contains("elements"));
    }

    fn reply(random: &mut impl FnMut(usize) -> usize, depth: usize, out: &mut Vec<u8>) {
        match random(if depth < DEPTH_MAX { 8 } else { 6 }) {
            0 => out.extend(b"+fine\r\n"),
            1 => out.extend(b":-12345678901\r\n"),
            2 => out.extend(b"$-1\r\n"),
            3..=5 => {
                let size = random(300);
                out.extend(format!("${size}\r\n").bytes());
                out.extend((0..size).map(|_| random(256) as u8));
                out.extend(b"\r\n");
            }
            _ => {
                let count = random(5);
                out.extend(format!("*{count}\r\n").bytes());
                (0..count).for_each(|_| reply(random, depth + 1, out));
            }
        }
    }

    /// Whatever the pieces, the replies are the same; what is cut or spoiled never panics, and
    /// holds no more than came.
    #[test]
    fn random_streams() {
        for seed in 0..400 {
            let mut random = random(seed);
            let mut stream = Vec::new();
            (0..1 + random(8)).for_each(|_| reply(&mut random, 0, &mut stream));
            let (whole, error) = read(&stream, || stream.len());
            assert_eq!(error, None, "seed {seed}");
            let (pieces, error) = read(&stream, || 1 + random(50));
            assert_eq!((&pieces, error), (&whole, None), "seed {seed}");
            let cut = random(stream.len());
            let (some, error) = read(&stream[..cut], || 64);
            assert_eq!(error, None, "seed {seed}");
            assert!(some.len() <= whole.len() && some == whole[..some.len()], "seed {seed}");
            for _ in 0..20 {
                let mut spoiled = stream.clone();
                for _ in 0..1 + random(4) {
                    let at = random(spoiled.len());
                    spoiled[at] = b"*$:+-0919\r\n\xff"[random(12)];
                }
                read(&spoiled, || 1 + random(200));
            }
            let noise: Vec<u8> = (0..random(400)).map(|_| random(256) as u8).collect();
            read(&noise, || 1 + random(50));
        }
    }
}
