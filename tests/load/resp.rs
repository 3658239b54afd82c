//! A client connection to Redis or to the broker: RESP2, blocking, pipelines by hand.
//!
//! Knows no command. Keeps: an error reply is an `Err`, so that no row measures errors.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::Outcome;

/// Nothing here takes so long; without it a server that hangs would hang the tool.
const SILENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub enum Reply {
    Text(Vec<u8>),
    Int(u64),
    Array(Vec<Reply>),
    Nil,
}

impl Reply {
    pub fn int(self) -> Outcome<u64> {
        match self {
            Reply::Int(number) => Ok(number),
            other => Err(format!("not a number: {other:?}").into()),
        }
    }

    pub fn text(self) -> Outcome<Vec<u8>> {
        match self {
            Reply::Text(text) => Ok(text),
            other => Err(format!("not a text: {other:?}").into()),
        }
    }

    pub fn array(self) -> Outcome<Vec<Reply>> {
        match self {
            Reply::Array(replies) => Ok(replies),
            other => Err(format!("not an array: {other:?}").into()),
        }
    }
}

pub struct Connection {
    stream: BufReader<TcpStream>,
    out: Vec<u8>,
}

impl Connection {
    pub fn open(port: u16) -> Outcome<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        let (stream, out) = (BufReader::with_capacity(64 * 1024, stream), Vec::new());
        Ok(Connection { stream, out })
    }

    /// The same connection, for another thread: only one of the two may read, and one write.
    pub fn second(&self) -> Outcome<Self> {
        let stream = self.stream.get_ref().try_clone()?;
        let (stream, out) = (BufReader::with_capacity(64 * 1024, stream), Vec::new());
        Ok(Connection { stream, out })
    }

    /// Adds a command to what `flush` sends.
    pub fn push(&mut self, args: &[&[u8]]) {
        self.out
            .extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
        for arg in args {
            self.out
                .extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            self.out.extend_from_slice(arg);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    pub fn flush(&mut self) -> Outcome<()> {
        self.stream.get_mut().write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    pub fn call(&mut self, args: &[&[u8]]) -> Outcome<Reply> {
        self.push(args);
        self.flush()?;
        self.reply()
    }

    pub fn reply(&mut self) -> Outcome<Reply> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        let text = String::from_utf8_lossy(&line);
        let text = text
            .strip_suffix("\r\n")
            .ok_or("the connection was closed")?;
        let (kind, rest) = text.split_at_checked(1).ok_or("an empty reply")?;
        Ok(match kind {
            "+" => Reply::Text(rest.as_bytes().to_vec()),
            "-" => return Err(format!("an error reply: {rest}").into()),
            ":" => Reply::Int(rest.parse()?),
            "$" | "*" if rest == "-1" => Reply::Nil,
            "$" => {
                let mut text = vec![0; rest.parse::<usize>()? + 2];
                self.stream.read_exact(&mut text)?;
                text.truncate(text.len() - 2);
                Reply::Text(text)
            }
            "*" => {
                let count = rest.parse::<usize>()?;
                Reply::Array((0..count).map(|_| self.reply()).collect::<Outcome<_>>()?)
            }
            _ => return Err(format!("no RESP2: {text}").into()),
        })
    }

    /// The stream itself, for what is no reply (MONITOR); what was read ahead stays in it.
    pub fn stream(&mut self) -> &mut BufReader<TcpStream> {
        &mut self.stream
    }
}
