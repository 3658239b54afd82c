//! Requests of HTTP, byte by byte, and their answers. Knows no path.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const READ_WITHIN: Duration = Duration::from_secs(30);

/// An answer, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// In lower case, a line each.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    fn read(bytes: &[u8]) -> Option<Answer> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer { status, head, body: bytes[end + 4..].to_vec() })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null where there is none.
    pub fn json(&self) -> Value {
        match self.body.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&self.body).unwrap(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        lines.filter_map(|line| line.split_once(": ")).find(|(key, _)| *key == name).map(|l| l.1)
    }

    /// `status CODE applied` of a problem.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        let text = |key: &str| problem[key].as_str().unwrap().to_owned();
        format!("{} {} {}", self.status, text("code"), text("applied"))
    }
}

/// The answer to these bytes, up to the end of the connection; none if it ended without one.
pub fn exchange(address: &str, bytes: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(READ_WITHIN)).unwrap();
    // Not all of it may be taken.
    stream.write_all(bytes).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    Answer::read(&answer)
}

/// A caller of a broker's API.
#[derive(Clone)]
pub struct Api {
    pub address: String,
    pub headers: String,
}

impl Api {
    pub fn new(address: String) -> Api {
        Api { address, headers: String::new() }
    }

    /// The same with a name and a password.
    pub fn user(&self, name: &str, password: &str) -> Api {
        let token = STANDARD.encode(format!("{name}:{password}"));
        self.with(&format!("Authorization: Basic {token}"))
    }

    /// The same with one more header.
    pub fn with(&self, header: &str) -> Api {
        Api { headers: format!("{}{header}\r\n", self.headers), ..self.clone() }
    }

    /// `path` is behind `/api/v1`; `body` is none where it is null.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let host = if self.headers.contains("Host: ") { "" } else { "Host: localhost\r\n" };
        let request = format!(
            "{method} /api/v1{path} HTTP/1.1\r\n{host}Connection: close\r\n{kind}{}\
             Content-Length: {}\r\n\r\n{body}",
            self.headers,
            body.len()
        );
        let answer = exchange(&self.address, request.as_bytes());
        answer.unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }
}
