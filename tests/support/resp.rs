//! A client that speaks RESP2 and RESP3 over one blocking socket: arguments out, one reply in.
//!
//! Written apart from the broker's own reader and writer, so that the two cannot share a mistake.
//! Reads have a deadline: a reply that never comes is an error and not a test that hangs. Knows no
//! command.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const READ_WITHIN: Duration = Duration::from_secs(10);

/// One reply, nested as it came. Both kinds of null of RESP2 and that of RESP3 are `Null`.
#[derive(Clone, PartialEq)]
pub enum Value {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Null,
    Double(String),
    Bool(bool),
    BigNumber(String),
    Verbatim(Vec<u8>),
    Array(Vec<Value>),
    Set(Vec<Value>),
    Push(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// A bulk string.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Value {
        Value::Bulk(bytes.as_ref().to_vec())
    }

    /// The elements of an array, set or push; nothing of another value.
    pub fn elements(&self) -> &[Value] {
        match self {
            Value::Array(all) | Value::Set(all) | Value::Push(all) => all,
            _ => &[],
        }
    }

    /// The bytes of a string, or of a number as text; empty for what holds others, and for null.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Value::Simple(text) | Value::Error(text) => text.clone().into_bytes(),
            Value::Double(text) | Value::BigNumber(text) => text.clone().into_bytes(),
            Value::Bulk(bytes) | Value::Verbatim(bytes) => bytes.clone(),
            Value::Int(number) => number.to_string().into_bytes(),
            Value::Bool(yes) => yes.to_string().into_bytes(),
            _ => Vec::new(),
        }
    }

    /// `bytes` as text, lossy.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// The elements as text.
    pub fn texts(&self) -> Vec<String> {
        self.elements().iter().map(Value::text).collect()
    }

    /// The number of an integer that is not negative.
    pub fn number(self) -> io::Result<u64> {
        match self {
            Value::Int(number) => number.try_into().map_err(io::Error::other),
            other => Err(wrong(&format!("not a number: {other:?}"))),
        }
    }

    /// The bytes of a string.
    pub fn into_bytes(self) -> io::Result<Vec<u8>> {
        match self {
            Value::Bulk(bytes) => Ok(bytes),
            Value::Simple(text) => Ok(text.into_bytes()),
            other => Err(wrong(&format!("not a string: {other:?}"))),
        }
    }

    /// The elements of an array.
    pub fn into_array(self) -> io::Result<Vec<Value>> {
        match self {
            Value::Array(all) => Ok(all),
            other => Err(wrong(&format!("not an array: {other:?}"))),
        }
    }

    /// The number, also of a number in a string.
    pub fn int(&self) -> i64 {
        self.text().parse().unwrap_or_else(|_| panic!("no number: {self:?}"))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Simple(text) => write!(f, "+{text}"),
            Value::Error(text) => write!(f, "-{text}"),
            Value::Int(number) => write!(f, ":{number}"),
            Value::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Value::Verbatim(bytes) => write!(f, "=\"{}\"", bytes.escape_ascii()),
            Value::Null => f.write_str("null"),
            Value::Double(text) => write!(f, ",{text}"),
            Value::BigNumber(text) => write!(f, "({text}"),
            Value::Bool(yes) => write!(f, "#{yes}"),
            Value::Array(all) => f.debug_list().entries(all).finish(),
            Value::Set(all) => f.debug_set().entries(all).finish(),
            Value::Push(all) => write!(f, ">").and_then(|()| f.debug_list().entries(all).finish()),
            Value::Map(all) => f.debug_map().entries(all.iter().map(|(k, v)| (k, v))).finish(),
        }
    }
}

/// One connection.
pub struct Client {
    reader: BufReader<TcpStream>,
    /// What `flush` sends.
    unsent: Vec<u8>,
}

impl Client {
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_WITHIN))?;
        stream.set_write_timeout(Some(READ_WITHIN))?;
        Ok(Client::on(stream))
    }

    /// One that waits long for replies.
    pub fn patient(address: impl ToSocketAddrs) -> io::Result<Client> {
        let mut client = Client::connect(address)?;
        client.read_within(6 * READ_WITHIN)?;
        Ok(client)
    }

    fn on(stream: TcpStream) -> Client {
        Client { reader: BufReader::with_capacity(64 * 1024, stream), unsent: Vec::new() }
    }

    /// The same connection, for another thread: only one of the two may read, and one write.
    pub fn second(&self) -> io::Result<Client> {
        self.stream().try_clone().map(Client::on)
    }

    /// Another deadline for reads.
    pub fn read_within(&mut self, timeout: Duration) -> io::Result<()> {
        self.reader.get_ref().set_read_timeout(Some(timeout))
    }

    /// The socket itself, for tests that close or shut a half of it.
    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// Sends one command and reads its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Value> {
        self.send(args)?;
        self.read()
    }

    /// The same, where an error reply is an error.
    pub fn ask(&mut self, args: &[&[u8]]) -> io::Result<Value> {
        self.send(args)?;
        self.answer()
    }

    /// Adds a command to what `flush` sends.
    pub fn push(&mut self, args: &[&[u8]]) {
        encode_to(&mut self.unsent, args);
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.reader.get_mut().write_all(&self.unsent)?;
        self.unsent.clear();
        Ok(())
    }

    /// Sends one command.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<()> {
        self.send_bytes(&encode(args))
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Reads exactly so many bytes, for tests that compare a reply byte by byte.
    pub fn read_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads until the other side closes.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The reader, for what is no reply (MONITOR); what was read ahead is in it.
    pub fn reader(&mut self) -> &mut BufReader<TcpStream> {
        &mut self.reader
    }

    /// Reads one reply; an error reply is an error.
    pub fn answer(&mut self) -> io::Result<Value> {
        match self.read()? {
            Value::Error(text) => Err(io::Error::other(format!("an error reply: {text}"))),
            value => Ok(value),
        }
    }

    /// Reads one reply.
    pub fn read(&mut self) -> io::Result<Value> {
        let line = self.read_line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| wrong("an empty line"))?;
        let rest = rest.to_owned();
        Ok(match kind {
            "+" => Value::Simple(rest),
            "-" => Value::Error(rest),
            ":" => Value::Int(rest.parse().map_err(|_| wrong(&line))?),
            "," => Value::Double(rest),
            "(" => Value::BigNumber(rest),
            "#" => Value::Bool(rest == "t"),
            "_" => Value::Null,
            "$" | "=" | "!" => match count(&rest)? {
                None => Value::Null,
                Some(size) => {
                    let mut bytes = self.read_bytes(size + 2)?;
                    if bytes.split_off(size) != b"\r\n" {
                        return Err(wrong("a string without its end"));
                    }
                    match kind {
                        "$" => Value::Bulk(bytes),
                        "=" => Value::Verbatim(bytes),
                        _ => Value::Error(String::from_utf8_lossy(&bytes).into_owned()),
                    }
                }
            },
            "*" | "~" | ">" => match count(&rest)? {
                None => Value::Null,
                Some(size) => {
                    let all = (0..size).map(|_| self.read()).collect::<io::Result<_>>()?;
                    match kind {
                        "*" => Value::Array(all),
                        "~" => Value::Set(all),
                        _ => Value::Push(all),
                    }
                }
            },
            "%" => {
                let size = count(&rest)?.ok_or_else(|| wrong(&line))?;
                let pair = |_| Ok((self.read()?, self.read()?));
                Value::Map((0..size).map(pair).collect::<io::Result<_>>()?)
            }
            _ => return Err(wrong(&line)),
        })
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.reader.read_until(b'\n', &mut bytes)?;
        match bytes.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None if bytes.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
            None => Err(wrong("a line without CR LF")),
        }
    }
}

/// One command as clients send it.
pub fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_to(&mut bytes, args);
    bytes
}

fn encode_to<A: AsRef<[u8]>>(bytes: &mut Vec<u8>, args: &[A]) {
    bytes.extend(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        bytes.extend(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        bytes.extend(arg.as_ref());
        bytes.extend(b"\r\n");
    }
}

fn count(text: &str) -> io::Result<Option<usize>> {
    if text == "-1" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| wrong(text))
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("not RESP: {what}"))
}
