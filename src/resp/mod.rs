//! The part of RESP that a server speaks: requests in, replies out, both protocol versions.
//!
//! Requests are arrays of bulk strings, or inline commands; nothing nested. [`request`] reads them
//! within [`limits`] that hold before anything is waited for; [`reply`] has the types of replies
//! and writes them.
//! [`peer`] is the other side, for links to Redis and for workers.
//! Does no IO, and knows no command.

mod limits;
pub mod peer;
mod reply;
mod request;

pub use limits::RequestLimits;
pub use reply::{Encoded, Reply, encode_bulk};
pub use request::{ProtocolError, Request, RequestReader, Words};

/// The protocol that replies are written in. Requests look the same in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    Resp2 = 2,
    Resp3 = 3,
}
