//! Bytes into requests: arrays of bulk strings, and inline commands.
//!
//! The reader can resume: it keeps the arguments of a partial request that it has found, so it
//! never reads them again, however small the pieces. It does not recurse: an argument is a bulk
//! string or an error. It checks every announced length before it waits for anything, and then the
//! line end behind each argument. It does no IO and knows no command. Errors have Redis's wording,
//! which clients know, followed by the setting whose limit was exceeded.

use bytes::{Buf, BytesMut};
use thiserror::Error;

use super::limits::RequestLimits;

/// The byte stream cannot be trusted any more: the connection closes after the error reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    #[error("invalid multibulk length")]
    ArrayLength,
    #[error("invalid bulk length")]
    BulkLength,
    #[error("unauthenticated multibulk length")]
    UnauthenticatedArrayLength,
    #[error("unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    #[error("too big mbulk count string")]
    ArrayLine,
    #[error("too big bulk count string")]
    BulkLine,
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NotBulk(u8),
    #[error("missing CRLF after an argument")]
    NoLineEnd,
    #[error("invalid multibulk length: more arguments than limits.arguments_max, {0}")]
    TooManyArguments(usize),
    #[error("invalid bulk length: more bytes than limits.request_bytes_max, {0}")]
    ArgumentTooBig(usize),
    #[error("too big request: more bytes than limits.request_bytes_max, {0}")]
    RequestTooBig(usize),
    #[error("too big inline request: more bytes than limits.inline_bytes_max, {0}")]
    InlineTooBig(usize),
    #[error("unbalanced quotes in request")]
    Quotes,
    #[error("this is TLS, and this port is without (server.tls_listen is with)")]
    Tls,
}

/// A length line needs at most 23 bytes: `*` or `$`, a sign, 19 digits, CR LF. A longer one is an
/// error.
const LENGTH_LINE_MAX: usize = 32;

/// Room for arguments that a connection keeps between requests.
const RANGES_KEPT: usize = 128;
const UNQUOTED_KEPT: usize = 4 * 1024;

pub(super) type Range = (usize, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the first byte of a request.
    Start,
    /// In an inline command, whose first `searched` bytes have no line end.
    Inline { searched: usize },
    /// At the length of an argument; `left` counts the arguments to come, with this one.
    Length { left: usize },
    /// At the first byte of an argument of `length` bytes.
    Body { left: usize, length: usize },
    /// Behind the last byte of a request.
    Whole { inline: bool },
}

/// Reads requests from the front of a buffer that it does not own.
#[derive(Debug)]
pub struct RequestReader {
    limits: RequestLimits,
    state: State,
    /// The first byte that has not been read, counted from the start of the request.
    at: usize,
    /// The arguments so far: in the buffer, or in `unquoted` for an inline command.
    args: Vec<Range>,
    unquoted: Vec<u8>,
    needs: usize,
}

impl RequestReader {
    pub fn new(limits: RequestLimits) -> Self {
        Self {
            limits,
            state: State::Start,
            at: 0,
            args: Vec::new(),
            unquoted: Vec::new(),
            needs: 0,
        }
    }

    /// Sets the limits of the requests that begin from now on.
    pub fn set_limits(&mut self, limits: RequestLimits) {
        self.limits = limits;
    }

    /// Reads one request from the front of `buf`. `None`: more bytes are needed.
    ///
    /// Input that asks for no reply (blank lines, `*0`, `*-1`) is skipped and dropped from `buf`.
    ///
    /// # Errors
    /// The bytes break the protocol or a limit. The reader must not be used any more.
    pub fn next(&mut self, buf: &mut BytesMut) -> Result<Option<()>, ProtocolError> {
        self.needs = 0;
        loop {
            match self.state {
                State::Whole { .. } => return Ok(Some(())),
                State::Start => match buf.first() {
                    None => return Ok(None),
                    Some(b'*') => match length_line(buf, 1) {
                        Line::Partial => return Ok(None),
                        Line::Endless => return Err(ProtocolError::ArrayLine),
                        Line::Bad => return Err(ProtocolError::ArrayLength),
                        Line::Length { length, end } if length <= 0 => buf.advance(end),
                        Line::Length { length, end } => {
                            let left = self.limits.check_count(length)?;
                            self.at = end;
                            self.state = State::Length { left };
                        }
                    },
                    // The first byte of a TLS ClientHello, which may never contain a line end.
                    Some(0x16) => return Err(ProtocolError::Tls),
                    Some(_) => self.state = State::Inline { searched: 0 },
                },
                State::Length { left } => match buf.get(self.at) {
                    None => return Ok(None),
                    Some(b'$') => match length_line(buf, self.at + 1) {
                        Line::Partial => return Ok(None),
                        Line::Endless => return Err(ProtocolError::BulkLine),
                        Line::Bad => return Err(ProtocolError::BulkLength),
                        Line::Length { length, end } => {
                            let length = self.limits.check_length(length, end)?;
                            self.at = end;
                            self.state = State::Body { left, length };
                        }
                    },
                    Some(&other) => return Err(ProtocolError::NotBulk(other)),
                },
                State::Body { left, length } => {
                    let end = self.at + length;
                    match buf.get(end..).unwrap_or_default() {
                        [b'\r', b'\n', ..] => {}
                        [] | [b'\r'] => {
                            self.needs = (end + 2).saturating_sub(buf.len());
                            return Ok(None);
                        }
                        [_, ..] => return Err(ProtocolError::NoLineEnd),
                    }
                    self.args.push((self.at, end));
                    self.at = end + 2;
                    self.state = match left {
                        0 | 1 => State::Whole { inline: false },
                        _ => State::Length { left: left - 1 },
                    };
                }
                State::Inline { searched } => {
                    let unsearched = buf.get(searched..).unwrap_or_default();
                    let found = unsearched.iter().position(|&b| b == b'\n');
                    let length = found.map_or(buf.len(), |place| searched + place);
                    self.limits.check_inline_bytes(length)?;
                    if found.is_none() {
                        self.state = State::Inline { searched: length };
                        return Ok(None);
                    }
                    let line = buf.get(..length).unwrap_or_default();
                    split(line, &mut self.unquoted, &mut self.args)?;
                    self.limits.check_inline_args(&self.args)?;
                    if self.args.is_empty() {
                        buf.advance(length + 1);
                        self.state = State::Start;
                    } else {
                        self.at = length + 1;
                        self.state = State::Whole { inline: true };
                    }
                }
            }
        }
    }

    /// The request that `next` found; `buf` must be the same buffer, unchanged.
    pub fn request<'a>(&'a self, buf: &'a [u8]) -> Request<'a> {
        match self.state {
            State::Whole { inline: true } => Request { data: &self.unquoted, args: &self.args },
            State::Whole { inline: false } => Request { data: buf, args: &self.args },
            State::Start | State::Inline { .. } | State::Length { .. } | State::Body { .. } => {
                Request { data: &[], args: &[] }
            }
        }
    }

    /// How many bytes of the buffer the request that `next` found takes.
    pub fn request_bytes(&self) -> usize {
        self.at
    }

    /// Drops the request just read from the front of `buf`.
    pub fn consume(&mut self, buf: &mut BytesMut) {
        if !matches!(self.state, State::Whole { .. }) {
            return;
        }
        buf.advance(self.at.min(buf.len()));
        self.at = 0;
        self.state = State::Start;
        self.args.clear();
        if self.args.capacity() > RANGES_KEPT {
            self.args.shrink_to(RANGES_KEPT);
        }
        self.unquoted.clear();
        if self.unquoted.capacity() > UNQUOTED_KEPT {
            self.unquoted.shrink_to(UNQUOTED_KEPT);
        }
    }

    /// The bytes that the unfinished argument still lacks. Reserve them in steps only: to announce
    /// a length costs the sender nothing.
    pub fn needs(&self) -> usize {
        self.needs
    }

    /// True if a request has begun and is not whole.
    pub fn is_partial(&self) -> bool {
        !matches!(self.state, State::Start | State::Whole { .. })
    }
}

/// The arguments of a request, the command's name first; at least one after `next` found it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    data: &'a [u8],
    args: &'a [Range],
}

impl<'a> Request<'a> {
    pub fn len(&self) -> usize {
        self.args.len()
    }

    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    pub fn get(&self, place: usize) -> Option<&'a [u8]> {
        let &(start, end) = self.args.get(place)?;
        self.data.get(start..end)
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let data = self.data;
        self.args.iter().filter_map(move |&(start, end)| data.get(start..end))
    }
}

/// The arguments of a request that did not come as RESP, the command's name first.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Words {
    data: Vec<u8>,
    args: Vec<Range>,
}

impl Words {
    pub fn push(&mut self, word: &[u8]) {
        let start = self.data.len();
        self.data.extend_from_slice(word);
        self.args.push((start, self.data.len()));
    }

    pub fn request(&self) -> Request<'_> {
        Request { data: &self.data, args: &self.args }
    }
}

enum Line {
    Length {
        length: i64,
        end: usize,
    },
    Partial,
    /// Not a number as Redis writes it: a plus sign, a leading zero, another byte than a digit, or
    /// a CR without LF.
    Bad,
    Endless,
}

/// The number at `start`, up to its line end. Looks at no more than [`LENGTH_LINE_MAX`] bytes.
fn length_line(buf: &[u8], start: usize) -> Line {
    let rest = buf.get(start..).unwrap_or_default();
    // Nearly all lengths have one or two digits, which need no loop.
    let digit = |b: u8| i64::from(b - b'0');
    match *rest {
        [b @ b'0'..=b'9', b'\r', b'\n', ..] => {
            return Line::Length { length: digit(b), end: start + 3 };
        }
        [a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] => {
            return Line::Length { length: 10 * digit(a) + digit(b), end: start + 4 };
        }
        _ => {}
    }
    let (negative, number) = match rest.split_first() {
        Some((b'-', number)) => (true, number),
        Some(_) | None => (false, rest),
    };
    let mut length = 0_i64;
    for (used, &b) in number.iter().take(LENGTH_LINE_MAX).enumerate() {
        match b {
            b'0'..=b'9' if used > 0 && length == 0 => return Line::Bad,
            // A number that does not fit is beyond every limit, and its value does not matter.
            b'0'..=b'9' => length = length.saturating_mul(10).saturating_add(i64::from(b - b'0')),
            b'\r' if used == 0 => return Line::Bad,
            b'\r' => {
                return match number.get(used + 1) {
                    None => Line::Partial,
                    Some(b'\n') => Line::Length {
                        length: if negative { -length } else { length },
                        end: start + usize::from(negative) + used + 2,
                    },
                    Some(_) => Line::Bad,
                };
            }
            _ => return Line::Bad,
        }
    }
    if number.len() < LENGTH_LINE_MAX { Line::Partial } else { Line::Endless }
}

/// Splits a line into arguments by Redis's rules: spaces divide; in "double quotes" \n \r \t \b \a
/// \\ \" and \xHH are read, in 'single quotes' only \'; a closing quote must end its argument.
fn split(line: &[u8], out: &mut Vec<u8>, args: &mut Vec<Range>) -> Result<(), ProtocolError> {
    let space = |b: u8| b.is_ascii_whitespace() || b == 0x0b;
    let mut rest = line;
    loop {
        let blank = rest.iter().take_while(|&&b| space(b)).count();
        rest = rest.get(blank..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        let start = out.len();
        let mut quote = None;
        loop {
            let Some((&b, tail)) = rest.split_first() else {
                match quote {
                    None => break,
                    Some(_) => return Err(ProtocolError::Quotes),
                }
            };
            rest = tail;
            match (quote, b) {
                (None, b) if space(b) => break,
                (None, b'"' | b'\'') => quote = Some(b),
                (Some(open), b) if b == open => {
                    if rest.first().is_some_and(|&b| !space(b)) {
                        return Err(ProtocolError::Quotes);
                    }
                    break;
                }
                (Some(b'"'), b'\\') => {
                    let (byte, used) = escaped(rest);
                    out.push(byte);
                    rest = rest.get(used..).unwrap_or_default();
                }
                (Some(b'\''), b'\\') if rest.first() == Some(&b'\'') => {
                    out.push(b'\'');
                    rest = rest.get(1..).unwrap_or_default();
                }
                (Some(_) | None, b) => out.push(b),
            }
        }
        args.push((start, out.len()));
    }
}

/// The byte that an escape stands for, and how many bytes after the backslash it took.
fn escaped(rest: &[u8]) -> (u8, usize) {
    let hex = |b: u8| char::from(b).to_digit(16).and_then(|n| u8::try_from(n).ok());
    match *rest {
        [] => (b'\\', 0),
        [b'x', high, low, ..] => match (hex(high), hex(low)) {
            (Some(high), Some(low)) => (high << 4 | low, 3),
            _ => (b'x', 1),
        },
        [b'n', ..] => (b'\n', 1),
        [b'r', ..] => (b'\r', 1),
        [b't', ..] => (b'\t', 1),
        [b'b', ..] => (0x08, 1),
        [b'a', ..] => (0x07, 1),
        [other, ..] => (other, 1),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::type_complexity)]
mod tests {
    use super::*;

    const LIMITS: RequestLimits = RequestLimits {
        args_max: 8,
        arg_bytes_max: 64,
        request_bytes_max: 160,
        inline_bytes_max: 80,
    };

    type Read = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

    /// Feeds `input` in pieces and collects what comes out until it ends or breaks.
    fn read<'a>(limits: RequestLimits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
        let (mut reader, mut buf) = (RequestReader::new(limits), BytesMut::new());
        let mut requests = Vec::new();
        for piece in pieces {
            buf.extend_from_slice(piece);
            loop {
                match reader.next(&mut buf) {
                    Err(error) => return (requests, Some(error)),
                    Ok(None) => break,
                    Ok(Some(())) => {
                        let request = reader.request(&buf);
                        requests.push(request.iter().map(<[u8]>::to_vec).collect());
                        reader.consume(&mut buf);
                    }
                }
            }
        }
        (requests, None)
    }

    fn rows() -> Vec<(Vec<u8>, Vec<Vec<&'static [u8]>>, Option<ProtocolError>)> {
        use ProtocolError as E;
        let big = |n: usize| format!("*1\r\n${n}\r\n{}\r\n", "x".repeat(n)).into_bytes();
        vec![
            (b"".to_vec(), vec![], None),
            (b"*1\r\n$4\r\nPING\r\n".to_vec(), vec![vec![b"PING"]], None),
            (
                b"*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\0*\r\n*1\r\n$0\r\n\r\n".to_vec(),
                vec![vec![b"ECHO", b"\r\n\0*"], vec![b""]],
                None,
            ),
            (b"\r\n\n*0\r\n*-1\r\n  \r\nPING\r\n".to_vec(), vec![vec![b"PING"]], None),
            (b"ping\n*1\r\n$1\r\na\r\n".to_vec(), vec![vec![b"ping"], vec![b"a"]], None),
            (
                b"set \"a\\x00\\n\\\"\\q\" 'it\\'s \\n' \"\" \r\n".to_vec(),
                vec![vec![b"set", b"a\0\n\"q", b"it's \\n", b""]],
                None,
            ),
            (b"a\"b c\"\r\n".to_vec(), vec![vec![b"ab c"]], None),
            (b"a \"b\r\n".to_vec(), vec![], Some(E::Quotes)),
            (b"a 'b\r\n".to_vec(), vec![], Some(E::Quotes)),
            (b"a \"b\"c\r\n".to_vec(), vec![], Some(E::Quotes)),
            (b"a \"b\\\r\n".to_vec(), vec![], Some(E::Quotes)),
            (b"1 2 3 4 5 6 7 8 9\r\n".to_vec(), vec![], Some(E::TooManyArguments(8))),
            ([b'a'; 65].into_iter().chain(*b"\r\n").collect(), vec![], Some(E::ArgumentTooBig(64))),
            (vec![b' '; 81], vec![], Some(E::InlineTooBig(80))),
            ([b' '; 81].into_iter().chain(*b"a\n").collect(), vec![], Some(E::InlineTooBig(80))),
            (b"*9\r\n".to_vec(), vec![], Some(E::TooManyArguments(8))),
            (b"*2147483647\r\n".to_vec(), vec![], Some(E::TooManyArguments(8))),
            (b"*99999999999999999999\r\n".to_vec(), vec![], Some(E::TooManyArguments(8))),
            (b"*a".to_vec(), vec![], Some(E::ArrayLength)),
            (b"*+1\r\n".to_vec(), vec![], Some(E::ArrayLength)),
            (b"*01\r\n".to_vec(), vec![], Some(E::ArrayLength)),
            (b"*\r\n".to_vec(), vec![], Some(E::ArrayLength)),
            (b"*1\rx".to_vec(), vec![], Some(E::ArrayLength)),
            (vec![b'*'].into_iter().chain([b'1'; 40]).collect(), vec![], Some(E::ArrayLine)),
            (b"*1\r\n*1\r\n".to_vec(), vec![], Some(E::NotBulk(b'*'))),
            (b"*1\r\n:1\r\n".to_vec(), vec![], Some(E::NotBulk(b':'))),
            (b"*1\r\n\r\n".to_vec(), vec![], Some(E::NotBulk(b'\r'))),
            (b"*1\r\n$-1\r\n".to_vec(), vec![], Some(E::BulkLength)),
            (b"*1\r\n$65\r\n".to_vec(), vec![], Some(E::ArgumentTooBig(64))),
            (b"*1\r\n$9223372036854775807\r\n".to_vec(), vec![], Some(E::ArgumentTooBig(64))),
            (b"*1\r\n$ 4\r\n".to_vec(), vec![], Some(E::BulkLength)),
            (b"*1\r\n$+3\r\n".to_vec(), vec![], Some(E::BulkLength)),
            (b"*1\r\n$".iter().copied().chain([b'1'; 40]).collect(), vec![], Some(E::BulkLine)),
            (b"*1\r\n$3\r\nfooX".to_vec(), vec![], Some(E::NoLineEnd)),
            (b"*1\r\n$3\r\nfoo\rX".to_vec(), vec![], Some(E::NoLineEnd)),
            (b"*1\n$4\nPING\n".to_vec(), vec![], Some(E::ArrayLength)),
            (big(64), vec![vec![&[b'x'; 64]]], None),
            (
                b"*3\r\n"
                    .iter()
                    .chain(big(60).iter().skip(4))
                    .chain(big(60).iter().skip(4))
                    .chain(b"$20\r\n")
                    .copied()
                    .collect(),
                vec![],
                Some(E::RequestTooBig(160)),
            ),
        ]
    }

    #[test]
    fn any_split_gives_the_same() {
        for (input, requests, error) in rows() {
            let wanted: Read = (
                requests.iter().map(|args| args.iter().map(|arg| arg.to_vec()).collect()).collect(),
                error,
            );
            let shown = input.escape_ascii();
            assert_eq!(read(LIMITS, [&input[..]]), wanted, "whole: {shown}");
            assert_eq!(read(LIMITS, input.chunks(1)), wanted, "bytes: {shown}");
            for place in 0..=input.len() {
                let (head, tail) = input.split_at(place);
                assert_eq!(read(LIMITS, [head, tail]), wanted, "at {place}: {shown}");
            }
        }
    }

    /// All good rows in one input, cut and damaged at random: nothing panics, and requests and
    /// error are the same however the bytes arrive.
    #[test]
    fn random_splits_and_damage() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed % u64::try_from(below).unwrap()).unwrap()
        };
        let rows = rows();
        let good: Vec<u8> =
            rows.iter().filter(|r| r.2.is_none()).flat_map(|r| r.0.clone()).collect();
        let alphabet = b"*$\r\n0123456789-+\"'\\x ab\0\xff";
        for round in 0..4_000 {
            let mut input = good.clone();
            for _ in 0..random(4) {
                let place = random(input.len());
                input[place] = alphabet[random(alphabet.len())];
            }
            if round % 4 == 0 {
                input = (0..random(80)).map(|_| alphabet[random(alphabet.len())]).collect();
            }
            let whole = read(LIMITS, [&input[..]]);
            let mut pieces = Vec::new();
            let mut rest = &input[..];
            while !rest.is_empty() {
                let (piece, tail) = rest.split_at(1 + random(rest.len().min(24)));
                pieces.push(piece);
                rest = tail;
            }
            assert_eq!(read(LIMITS, pieces), whole, "round {round}: {}", input.escape_ascii());
        }
    }

    /// A partial request is not read again: the reader keeps the arguments that it has found.
    #[test]
    fn many_arguments_in_small_pieces() {
        let limits = RequestLimits { args_max: 50_000, request_bytes_max: 1 << 20, ..LIMITS };
        let mut input = b"*50000\r\n".to_vec();
        (0..50_000).for_each(|_| input.extend_from_slice(b"$5\r\nhello\r\n"));
        let (requests, error) = read(limits, input.chunks(7));
        assert_eq!(error, None);
        assert_eq!(requests.iter().map(Vec::len).collect::<Vec<_>>(), [50_000]);

        let (mut reader, mut buf) = (RequestReader::new(limits), BytesMut::new());
        buf.extend_from_slice(b"*3\r\n$1\r\na\r\n$5\r\nhe");
        assert_eq!(reader.next(&mut buf), Ok(None));
        assert_eq!((reader.args.len(), reader.needs(), reader.is_partial()), (1, 5, true));
    }

    #[test]
    fn before_authentication() {
        let limits = RequestLimits::UNAUTHENTICATED;
        let rows: [(&[u8], ProtocolError); 3] = [
            (b"*11\r\n", ProtocolError::UnauthenticatedArrayLength),
            (b"1 2 3 4 5 6 7 8 9 10 11\n", ProtocolError::UnauthenticatedArrayLength),
            (b"*1\r\n$16385\r\n", ProtocolError::UnauthenticatedBulkLength),
        ];
        for (input, wanted) in rows {
            assert_eq!(read(limits, [input]).1, Some(wanted), "{}", input.escape_ascii());
        }
    }

    #[test]
    fn wording() {
        let rows = [
            (ProtocolError::NotBulk(b'*'), "expected '$', got '*'"),
            (ProtocolError::NotBulk(b'\r'), "expected '$', got '\\r'"),
            (ProtocolError::ArrayLength, "invalid multibulk length"),
            (ProtocolError::BulkLength, "invalid bulk length"),
        ];
        for (error, wanted) in rows {
            assert_eq!(error.to_string(), wanted);
        }
    }
}
