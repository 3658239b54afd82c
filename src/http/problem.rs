//! Errors of the API, as RFC 9457 has them: the codes of commands, each with a status.

use bytes::Bytes;
use hyper::header::{ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::body::Body;
use super::json;

/// Each code of a command, its status, and whether the command may have been applied.
pub const CODES: [(&str, StatusCode, bool); 17] = [
    ("ERR", StatusCode::BAD_REQUEST, false),
    ("BADQUEUE", StatusCode::BAD_REQUEST, false),
    ("BADDELAY", StatusCode::BAD_REQUEST, false),
    ("BADTIME", StatusCode::BAD_REQUEST, false),
    ("BADID", StatusCode::BAD_REQUEST, false),
    ("TOOBIG", StatusCode::PAYLOAD_TOO_LARGE, false),
    ("TOOMANY", StatusCode::UNPROCESSABLE_ENTITY, false),
    ("NOAUTH", StatusCode::UNAUTHORIZED, false),
    ("WRONGPASS", StatusCode::UNAUTHORIZED, false),
    ("NOPERM", StatusCode::FORBIDDEN, false),
    ("NOPROTO", StatusCode::BAD_REQUEST, false),
    ("DENIED", StatusCode::SERVICE_UNAVAILABLE, false),
    ("WRONGTYPE", StatusCode::CONFLICT, false),
    ("UNAVAILABLE", StatusCode::SERVICE_UNAVAILABLE, false),
    ("UNCERTAIN", StatusCode::GATEWAY_TIMEOUT, true),
    ("EXECABORT", StatusCode::CONFLICT, false),
    ("INTERNAL", StatusCode::INTERNAL_SERVER_ERROR, true),
];

/// Of HTTP alone: there is no such message, and a message of the name is there already (or, with
/// `xx`, is not).
pub const NOT_FOUND: &str = "NOTFOUND";
pub const CONFLICT: &str = "CONFLICT";

/// An error: its status, and its text as a command says it, the code first.
#[derive(Debug)]
pub struct Problem {
    pub status: StatusCode,
    pub text: String,
    /// The methods that there are instead.
    pub allow: Option<String>,
}

impl Problem {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), allow: None }
    }

    /// The request itself is wrong.
    pub fn bad(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("ERR {detail}"))
    }

    /// The error of a command.
    pub fn of(text: String) -> Self {
        let code = text.split(' ').next().unwrap_or_default();
        let known = CODES.iter().find(|(known, ..)| *known == code);
        let status = known.map_or(StatusCode::INTERNAL_SERVER_ERROR, |(_, status, _)| *status);
        Self::new(status, text)
    }

    /// The command may have been run.
    pub fn may_be_applied(&self) -> bool {
        let code = self.text.split(' ').next().unwrap_or_default();
        CODES.iter().any(|(known, _, maybe)| *known == code && *maybe)
    }

    pub fn response(self) -> Response<Body> {
        let (code, detail) = self.text.split_once(' ').unwrap_or((&self.text, ""));
        let maybe = self.may_be_applied();
        let document = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "code": code,
            "detail": detail,
            "applied": if maybe { "maybe" } else { "no" },
        });
        let body = Bytes::from(document.to_string());
        let mut response = json::response(self.status, "application/problem+json", body.into());
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                let realm = "Basic realm=\"delay-broker\", charset=\"UTF-8\"";
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(realm));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        if let Some(Ok(allow)) = self.allow.map(HeaderValue::try_from) {
            headers.insert(ALLOW, allow);
        }
        response
    }
}
