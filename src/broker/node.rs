//! This broker among all that share a Redis: a random token, and a claimed node number for its ids.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::broker::Broker;
use crate::snowflake::{NODES, Snowflake};

/// A node number is claimed for so long, and refreshed long before.
const NODE_EXPIRY: Duration = Duration::from_secs(60);
const NODE_REFRESH: Duration = Duration::from_secs(15);

/// Claims a node number and holds on to it, for ever; without one nothing is stored.
pub(super) async fn hold_node(broker: Rc<Broker>, ids: Rc<Snowflake>, token: String) {
    let expiry_ms = NODE_EXPIRY.as_millis() as u64;
    let mut node = u64::from_str_radix(token.get(..8).unwrap_or("0"), 16).unwrap_or(0) % NODES;
    let mut held: Option<Instant> = None;
    let mut tried = 0;
    loop {
        let asked = Instant::now();
        let pause = match broker.store.node(node, &token, expiry_ms).await {
            Ok(true) => {
                if held.replace(asked).is_none() {
                    ids.set_node(node);
                    broker.offers.set_closed(None);
                }
                NODE_REFRESH
            }
            Ok(false) => {
                held = None;
                tried += 1;
                node = (node + 1) % NODES;
                broker.offers.set_closed(Some(format!(
                    "no node number is free: {NODES} brokers use this Redis, or did within {}s",
                    NODE_EXPIRY.as_secs()
                )));
                if tried % NODES == 0 {
                    Duration::from_secs(1)
                } else {
                    Duration::ZERO
                }
            }
            Err(error) => {
                if held.is_none() {
                    broker.offers.set_closed(Some(error.to_string()));
                }
                // Held as long as the claim lasts, with room for a call on its way.
                if held.is_some_and(|held| held.elapsed() + NODE_REFRESH > NODE_EXPIRY) {
                    held = None;
                    let why = format!("the claim of a node number could not be refreshed: {error}");
                    broker.offers.set_closed(Some(why));
                }
                Duration::from_millis(50)
            }
        };
        // A Redis that is back may not know of the claim any more.
        let _ = tokio::time::timeout(pause, broker.store.comes_up()).await;
    }
}

/// 16 random hexadecimal digits: this broker among all that share a Redis.
pub(super) fn token() -> String {
    let mut bytes = [0_u8; 8];
    // Without randomness the process number and the time must do.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        bytes = (crate::clock::monotonic_us() ^ u64::from(std::process::id()) << 40).to_be_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
