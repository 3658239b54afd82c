//! This broker among all that share a Redis: a random token, and a claimed node number for its ids.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::broker::Broker;
use crate::domain::snowflake::{NODES, Snowflake};
use crate::store::StoreError;

/// The number of times that a claim is refreshed while it lasts.
const REFRESHES: u32 = 4;
/// The most that ids may run ahead of Redis's clock; beyond it others would not take them for ours.
const AHEAD_MAX_MS: u64 = 43_200_000;
/// For so long all primaries of a Cluster are waited for before the noted time is done without.
const CONNECTED_WITHIN: Duration = Duration::from_secs(2);
/// A noted time so far ahead is no step back of Redis's clock: another broker noted it after this
/// one asked for the time, or its estimate of Redis's clock was fast.
const NO_STEP_MS: u64 = 1_000;

/// Claims a node number and holds on to it, for ever; without one nothing is stored.
pub(super) async fn hold_node(broker: Rc<Broker>, ids: Rc<Snowflake>) {
    let claim_ms = broker.config().redis.node_claim_ms;
    let start = broker.token.get(..8).unwrap_or("0");
    let mut node = u64::from_str_radix(start, 16).unwrap_or(0) % NODES;
    let (mut begun, mut tried, mut passed_over) = (false, 0, None);
    let mut claimed: Option<Instant> = None;
    loop {
        // Near its end, or there is none.
        let is_due =
            || claimed.is_none_or(|at| at.elapsed() >= Duration::from_millis(claim_ms) / 2);
        if is_due() && !broker.store.reaches_number(node) {
            node = reached_after(&broker, node);
        }
        let pause = match claim(&broker, &ids, node, claim_ms, &mut begun).await {
            Ok(Some(until_ms)) => {
                ids.set_node(node);
                claimed = Some(Instant::now());
                broker.offers.claim.open_until(until_ms);
                passed_over = None;
                Duration::from_millis(claim_ms) / REFRESHES
            }
            taken @ (Ok(None) | Err(StoreError::WrongType { .. })) => {
                if let (Err(StoreError::WrongType { key }), None) = (taken, &passed_over) {
                    tracing::warn!(key, "the key of a node number holds another type: skipped");
                    passed_over = Some(key);
                }
                tried += 1;
                node = (node + 1) % NODES;
                let mut why = format!(
                    "no node number is free: {NODES} brokers use this Redis, or did within \
                     {claim_ms} ms"
                );
                if let Some(key) = &passed_over {
                    why += &format!("; and keys such as {key} hold another type");
                }
                broker.offers.claim.close(why);
                if tried % NODES == 0 { Duration::from_secs(1) } else { Duration::ZERO }
            }
            Err(error) => {
                if broker.offers.claim.is_over() {
                    broker.offers.claim.close(error.to_string());
                }
                let is_cluster = broker.store.primaries().is_some();
                if is_cluster && is_due() && matches!(error, StoreError::Unavailable(_)) {
                    node = reached_after(&broker, node);
                }
                Duration::from_millis(50)
            }
        };
        tokio::select! {
            biased;
            () = broker.offers.claim.ended() => {}
            // A Redis that is back may not know of the claim any more.
            _ = tokio::time::timeout(pause, broker.store.comes_up()) => {}
        }
    }
}

/// The next number whose node of a Cluster can be reached, if any can.
fn reached_after(broker: &Broker, node: u64) -> u64 {
    let mut others = (1..=NODES).map(|by| (node + by) % NODES);
    others.find(|other| broker.store.reaches_number(*other)).unwrap_or(node)
}

/// Until when this number is ours, in ms of Redis's time; nothing if it is another broker's.
async fn claim(
    broker: &Broker,
    ids: &Snowflake,
    node: u64,
    claim_ms: u64,
    begun: &mut bool,
) -> Result<Option<u64>, StoreError> {
    let Some(now_ms) = broker.store.node(node, &broker.token, claim_ms).await? else {
        return Ok(None);
    };
    if !*begun {
        begin(broker, ids, now_ms, claim_ms).await?;
        *begun = true;
    }
    // A hint: it counts where Redis's clock steps back and a broker starts after that.
    let _ = broker.store.note_id_time(now_ms.max(ids.last_ms())).await;
    Ok(Some(now_ms + claim_ms))
}

/// Ids go on behind those of earlier brokers, also where Redis's clock has stepped back since.
async fn begin(
    broker: &Broker,
    ids: &Snowflake,
    now_ms: u64,
    claim_ms: u64,
) -> Result<(), StoreError> {
    let mut noted = broker.store.noted_id_time().await;
    if noted.is_err() && broker.store.primaries().is_some() {
        // Of a Cluster, its primary may be about to be reached.
        broker.store.wait_up(CONNECTED_WITHIN).await;
        noted = broker.store.noted_id_time().await;
    }
    let noted_ms = match noted {
        Err(StoreError::Unavailable(why) | StoreError::Uncertain(why))
            if broker.store.primaries().is_some() =>
        {
            tracing::warn!(
                why,
                "the time of the last ids cannot be read; ids go by the clock of the Cluster"
            );
            return Ok(());
        }
        Err(StoreError::WrongType { key }) => {
            tracing::warn!(key, "the time of the last ids cannot be read");
            return Ok(());
        }
        noted => noted?,
    };
    if noted_ms <= now_ms + NO_STEP_MS {
        ids.not_before(noted_ms);
        return Ok(());
    }
    // Up to the next note others gave ids, too.
    let behind_ms = noted_ms + claim_ms;
    if behind_ms > now_ms + AHEAD_MAX_MS {
        tracing::warn!(
            noted_ms,
            now_ms,
            "the noted time of ids is too far ahead for ids to continue after it"
        );
        return Ok(());
    }
    tracing::warn!(
        ahead_ms = behind_ms - now_ms,
        "Redis's clock has stepped back; ids continue after those that were given before"
    );
    ids.not_before(behind_ms);
    Ok(())
}

/// 16 random hexadecimal digits: this broker among all that share a Redis.
pub(super) fn token() -> String {
    let mut bytes = [0_u8; 8];
    // Without randomness the process number and the time must do.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        bytes = (crate::store::clock::monotonic_us() ^ u64::from(std::process::id()) << 40)
            .to_be_bytes();
    }
    hex::encode(bytes)
}
