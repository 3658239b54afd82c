//! One connection of a client, from its accept to its end.
//!
//! [`listener`] accepts, [`tls`] shakes hands, [`connection`] is the loop over one client's
//! requests; its parts are the [`buffer`]s, the [`replies`] to come, the [`call`] under way, the
//! [`stream`], and two that are pure: the [`deadline`] and the [`turn`].

pub mod alone;
mod buffer;
mod call;
pub mod connection;
mod deadline;
pub mod listener;
mod replies;
pub mod sessions;
mod settings;
mod stream;
mod tls;
mod turn;
