//! The handle that commands get: what they may do, in terms of queues and messages. No RESP, no
//! socket.
//!
//! It owns the parts (store, offers, scheduler) and the order in which they start and stop. Each
//! method is one call of the store, its count for the metrics, and the hint to the scheduler where
//! a head was made earlier.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use crate::batch::Ticket;
use crate::batch::{self, Offers, Stored};
use crate::clients::Clients;
use crate::clock::Clock;
use crate::config::{Config, MemberFormat};
use crate::metrics::{Metrics, QueueSnapshot, WakeCause};
use crate::queue::{Due, Message, MessageId, MessageRef, NameMode, QueueName};
use crate::scheduler::discovery::Discovery;
use crate::scheduler::host::{self, Host, moment};
use crate::scheduler::queue_loop::Backoff;
use crate::scheduler::wakeup::Wakeup;
use crate::snowflake::{NODES, Snowflake};
use crate::store::keys::QueueKeys;
use crate::store::messages::Position;
use crate::store::redis::{Backend, LinkContext, Subscription};
use crate::store::{self, Store, StoreError};

/// A node number is claimed for so long, and refreshed long before.
const NODE_EXPIRY: Duration = Duration::from_secs(60);
const NODE_REFRESH: Duration = Duration::from_secs(15);
/// Histograms hold a sample of each observation until this is done.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);
/// Payload bytes that one transfer moves, about: a copy of a few milliseconds.
const TRANSFER_BYTES_MAX: u64 = 4 << 20;
/// Queues that one call reads the numbers of.
const STATS_MAX: usize = 500;

pub struct Broker {
    pub config: Rc<Config>,
    pub metrics: Metrics,
    pub clients: Clients,
    pub started: Instant,
    /// The port that clients connect to, once it is known.
    pub tcp_port: Cell<u16>,
    /// Commands that were run since the start.
    pub commands: Cell<u64>,
    token: String,
    store: Rc<Store>,
    offers: Rc<Offers>,
    host: Rc<Host>,
    subscription: Rc<Subscription>,
    /// Cancelled when a part failed that the broker cannot do without.
    pub failed: CancellationToken,
    tasks: RefCell<Vec<JoinHandle<()>>>,
}

/// A row of DQ.QUEUES.
#[derive(Clone, Debug, Default)]
pub struct QueueRow {
    pub name: Bytes,
    pub pending: u64,
    /// -1: the destination holds another type.
    pub ready: i64,
    pub next_due: Option<String>,
}

/// What DQ.INFO shows: Redis's state now, and this broker's counts since its start.
#[derive(Clone, Debug, Default)]
pub struct QueueInfo {
    pub pending: u64,
    /// -1: the destination holds another type.
    pub ready: i64,
    pub next_due: Option<String>,
    /// How long the head has been due, if it is.
    pub oldest_overdue_ms: u64,
    pub listed: u64,
    pub quarantined: u64,
    pub named: u64,
    /// Unix ms, -1 = until resumed.
    pub paused_until: Option<i64>,
    pub format: String,
    pub ttl_ms: Option<u64>,
    /// Unix ms of the broker's start.
    pub since: u64,
    /// The metrics' label that the counts are of: the queue's name, or `other`.
    pub label: String,
    pub counts: QueueSnapshot,
}

/// What INFO shows of the broker.
#[derive(Clone, Debug, Default)]
pub struct ServerInfo {
    pub run_id: String,
    pub tcp_port: u16,
    pub uptime_s: u64,
    /// The backing Redis can be reached.
    pub ready: bool,
    pub used_memory_bytes: u64,
    pub commands_processed: u64,
    pub connections_received: u64,
    /// Sections of our own: title, then name and value of each field.
    pub sections: Vec<(&'static str, Vec<(String, String)>)>,
}

/// What batches tell of what they stored.
struct Hints(Rc<Host>);

impl Stored for Hints {
    fn stored(&self, keys: &QueueKeys, messages: u64, head: Option<u64>) {
        self.0.offered(keys, messages, head);
    }
}

impl Broker {
    /// Starts everything; does not wait for Redis.
    ///
    /// # Errors
    /// A Redis URL that cannot be read.
    pub fn start(config: Config, backend: Backend) -> Result<Rc<Self>, String> {
        let config = Rc::new(config);
        let metrics = Metrics::new(config.metrics.queues_max);
        let clock = Rc::new(Clock::default());
        let stepped = Rc::new(Notify::new());
        let failed = CancellationToken::new();
        let token = token();
        let context = LinkContext {
            backend,
            connect_timeout: Duration::from_millis(config.redis.connect_timeout_ms),
            call_timeout: Duration::from_millis(config.redis.call_timeout_ms),
            clock,
            metrics: metrics.clone(),
            stepped: stepped.clone(),
        };
        let limits = store::Limits {
            call_timeout: context.call_timeout,
            settle_timeout: Duration::from_millis(config.redis.settle_timeout_ms),
            reply_bytes_max: config.limits.reply_bytes_max,
        };
        let store = Store::start(&context, limits, &token)?;
        let subscription = Rc::new(Subscription::start(&context)?);
        let formats: HashMap<Bytes, &'static str> = config
            .queues
            .iter()
            .map(|queue| (Bytes::from(queue.name.clone()), word(queue.format)))
            .collect();
        let configured = formats.keys().cloned().collect();
        let limits = host_limits(&config);
        let host = Host::new(store.clone(), metrics.clone(), limits, configured);
        let ids = Rc::new(Snowflake::default());
        let offers = Rc::new(Offers::new(
            store.clone(),
            ids.clone(),
            batch::Limits {
                messages_max: config.offers.batch_messages_max,
                bytes_max: config.offers.batch_bytes_max,
                second_call_from: config.offers.second_call_from,
            },
            formats.clone(),
            metrics.clone(),
            Rc::new(Hints(host.clone())),
        ));
        let discovery = Discovery::new(host.clone(), store.clone(), formats.into_keys());
        let wakeup = Rc::new(Wakeup {
            host: host.clone(),
            discovery: discovery.clone(),
            store: store.clone(),
            subscription: subscription.clone(),
            channel: format!("delay_broker_heartbeat:{token}"),
            heartbeat: Duration::from_millis(config.scheduler.heartbeat_ms),
            heard_at: Cell::new(tokio::time::Instant::now()),
        });
        let scan = Duration::from_millis(config.scheduler.scan_interval_ms);
        let broker = Rc::new(Self {
            config,
            metrics: metrics.clone(),
            clients: Clients::default(),
            started: Instant::now(),
            tcp_port: Cell::new(0),
            commands: Cell::new(0),
            token: token.clone(),
            store,
            offers,
            host: host.clone(),
            subscription,
            failed: failed.clone(),
            tasks: RefCell::default(),
        });
        let tasks = [
            tokio::task::spawn_local(hold_node(broker.clone(), ids, token)),
            tokio::task::spawn_local(configure(broker.clone())),
            tokio::task::spawn_local(wakeup.clone().listen()),
            tokio::task::spawn_local(wakeup.beat()),
            tokio::task::spawn_local(discovery.clone().listen()),
            tokio::task::spawn_local(discovery.clone().search()),
            tokio::task::spawn_local(discovery.clone().watch_heads(scan)),
            tokio::task::spawn_local(discovery.keep_registry()),
            tokio::task::spawn_local(async move {
                let mut interval = tokio::time::interval(METRICS_UPKEEP);
                loop {
                    interval.tick().await;
                    metrics.upkeep();
                }
            }),
            tokio::task::spawn_local(async move {
                // Without its timer nothing is delivered on time: the process ends.
                if let Err(error) = host.run(stepped).await {
                    tracing::error!(%error, "the timer of the scheduler failed");
                    failed.cancel();
                }
            }),
        ];
        broker.tasks.borrow_mut().extend(tasks);
        Ok(broker)
    }

    /// Whether commands can be served: Redis is reachable and a node number is claimed.
    ///
    /// # Errors
    /// What is missing.
    pub fn ready(&self) -> Result<(), String> {
        if !self.store.is_up() {
            return Err("Redis cannot be reached".into());
        }
        self.offers.closed().map_or(Ok(()), Err)
    }

    /// Waits until it is ready, at most so long.
    pub async fn wait_ready(&self, at_most: Duration) -> Result<(), String> {
        let deadline = Instant::now() + at_most;
        self.store.wait_up(at_most).await;
        self.offers
            .opened(deadline.saturating_duration_since(Instant::now()))
            .await;
        self.ready()
    }

    /// Stops in order, senders before receivers. Connections have finished before.
    pub async fn stop(&self) {
        self.offers.drained().await;
        self.host.stop().await;
        for task in self.tasks.take() {
            task.abort();
        }
        self.subscription.quit().await;
        self.store.quit().await;
    }

    /// Offers that have no outcome yet, for what is said at the end of the grace time.
    pub fn waiting(&self) -> usize {
        self.offers.waiting()
    }

    // Offers.

    pub fn offer(&self, queue: &[u8], due: Due, payload: &[u8]) -> Ticket {
        self.offers.push(queue, due, payload)
    }

    pub fn offer_named(
        &self,
        queue: &[u8],
        due: Due,
        payload: &[u8],
        name: &[u8],
        mode: NameMode,
    ) -> Ticket {
        self.offers.push_named(queue, due, payload, name, mode)
    }

    pub fn moffer(&self, queue: &[u8], messages: &[(Due, &[u8])]) -> Ticket {
        self.offers.push_all(queue, messages.iter().copied())
    }

    /// The open batch: connections push into it and flush it once after each read.
    pub fn offers(&self) -> &Rc<Offers> {
        &self.offers
    }

    // Pending messages.

    pub async fn remove(
        &self,
        queue: &QueueName,
        payload: Bytes,
        count: u64,
    ) -> Result<u64, StoreError> {
        let removed = self.store.remove(queue, &payload, count).await?;
        self.metrics.queue(queue.as_bytes()).removed(removed);
        Ok(removed)
    }

    pub async fn cancel(
        &self,
        queue: &QueueName,
        messages: Vec<MessageRef>,
    ) -> Result<u64, StoreError> {
        let cancelled = self.store.cancel(queue, &messages).await?;
        self.metrics.queue(queue.as_bytes()).cancelled(cancelled);
        Ok(cancelled)
    }

    pub async fn reschedule(
        &self,
        queue: &QueueName,
        which: MessageRef,
        due: Due,
    ) -> Result<Option<MessageId>, StoreError> {
        let Some((id, head)) = self.store.reschedule(queue, &which, due).await? else {
            return Ok(None);
        };
        if head && let Some(due) = moment(&id.score) {
            self.host
                .hint(&QueueKeys::new(queue.as_bytes()), due, WakeCause::Offer);
        }
        Ok(Some(id))
    }

    pub async fn fire(
        &self,
        queue: &QueueName,
        messages: Vec<MessageRef>,
    ) -> Result<u64, StoreError> {
        let fired = self.store.fire(queue, &messages).await?;
        if fired.count > 0 {
            self.host
                .hint(&QueueKeys::new(queue.as_bytes()), 0, WakeCause::Offer);
        }
        Ok(fired.count)
    }

    pub async fn get(
        &self,
        queue: &QueueName,
        which: MessageRef,
    ) -> Result<Option<Message>, StoreError> {
        self.store.get(queue, &which).await
    }

    pub async fn size(&self, queue: &QueueName) -> Result<u64, StoreError> {
        Ok(self.store.info(queue).await?.pending)
    }

    pub async fn peek(&self, queue: &QueueName, count: usize) -> Result<Vec<Message>, StoreError> {
        Ok(self
            .store
            .range(queue, ("-inf", "+inf"), count as u64, None)
            .await?
            .0)
    }

    /// A page from one score to another, and the cursor of the next: `0` if there is none.
    pub async fn range(
        &self,
        queue: &QueueName,
        from: String,
        to: String,
        count: usize,
        cursor: Option<Bytes>,
    ) -> Result<(Bytes, Vec<Message>), StoreError> {
        let after = match cursor {
            None => None,
            Some(cursor) => {
                let position = MessageId::parse(&cursor).ok_or(StoreError::BadCursor)?;
                Some(Position {
                    score: position.score,
                    prefix: Bytes::from(position.id),
                })
            }
        };
        let (messages, next) = self
            .store
            .range(queue, (&from, &to), count as u64, after)
            .await?;
        let cursor = next.map(|next| {
            MessageId {
                score: next.score,
                id: next.prefix.to_vec(),
            }
            .to_string()
        });
        Ok((
            cursor.map_or(Bytes::from_static(b"0"), Bytes::from),
            messages,
        ))
    }

    pub async fn contains(
        &self,
        queue: &QueueName,
        payloads: Vec<Bytes>,
    ) -> Result<Vec<bool>, StoreError> {
        self.store.contains(queue, &payloads).await
    }

    pub async fn poll(&self, queue: &QueueName, count: usize) -> Result<Vec<Bytes>, StoreError> {
        let payloads = self.store.poll(queue, count as u64).await?;
        self.metrics
            .queue(queue.as_bytes())
            .removed(payloads.len() as u64);
        Ok(payloads)
    }

    pub async fn clear(&self, queue: &QueueName) -> Result<u64, StoreError> {
        let dropped = self.store.clear(queue).await?;
        self.metrics.queue(queue.as_bytes()).removed(dropped);
        Ok(dropped)
    }

    pub async fn pause(
        &self,
        queue: &QueueName,
        duration_ms: Option<u64>,
    ) -> Result<(), StoreError> {
        self.store.pause(queue, duration_ms).await
    }

    pub async fn resume(&self, queue: &QueueName) -> Result<(), StoreError> {
        self.store.resume(queue).await?;
        self.host
            .look(&QueueKeys::new(queue.as_bytes()), WakeCause::Offer);
        Ok(())
    }

    // Quarantine.

    pub async fn quarantine_list(
        &self,
        queue: &QueueName,
        count: usize,
    ) -> Result<Vec<(String, Bytes)>, StoreError> {
        self.store.quarantine_list(queue, count as u64).await
    }

    pub async fn quarantine_restore(
        &self,
        queue: &QueueName,
        members: Vec<Bytes>,
    ) -> Result<u64, StoreError> {
        let restored = self.store.quarantine_restore(queue, members).await?;
        if restored.head {
            self.host
                .look(&QueueKeys::new(queue.as_bytes()), WakeCause::Offer);
        }
        Ok(restored.count)
    }

    pub async fn quarantine_drop(
        &self,
        queue: &QueueName,
        members: Vec<Bytes>,
    ) -> Result<u64, StoreError> {
        self.store.quarantine_drop(queue, members).await
    }

    // About queues.

    /// A page of the queues that this broker knows, in the order of their keys; `0` is the first
    /// and last cursor.
    pub async fn queues(
        &self,
        pattern: Option<Bytes>,
        cursor: Bytes,
        count: usize,
    ) -> Result<(Bytes, Vec<QueueRow>), StoreError> {
        let mut after = if cursor == "0" {
            Bytes::new()
        } else {
            unhex(&cursor)?
        };
        let mut names = Vec::new();
        let mut next = Bytes::from_static(b"0");
        // Bounded by one step through the queues that are known.
        loop {
            let page = self.host.page(&after, STATS_MAX);
            let Some((last, _)) = page.last() else { break };
            after = last.clone();
            let wanted = page.into_iter().filter(|(_, name)| {
                pattern
                    .as_ref()
                    .is_none_or(|pattern| crate::glob::matches(pattern, name))
            });
            names.extend(wanted);
            if names.len() > count {
                names.truncate(count);
                next = names.last().map_or(next, |(suffix, _)| hex(suffix));
                break;
            }
        }
        let names: Vec<Bytes> = names.into_iter().map(|(_, name)| name).collect();
        let mut rows = Vec::with_capacity(names.len());
        for some in names.chunks(STATS_MAX) {
            for (name, stats) in some.iter().zip(self.store.stats(some).await?) {
                rows.push(QueueRow {
                    name: name.clone(),
                    pending: u64::try_from(stats.pending).unwrap_or(0),
                    ready: stats.ready,
                    next_due: (!stats.next_due.is_empty()).then_some(stats.next_due),
                });
            }
        }
        Ok((next, rows))
    }

    pub async fn info(&self, queue: &QueueName) -> Result<QueueInfo, StoreError> {
        let state = self.store.info(queue).await?;
        let metrics = self.metrics.queue(queue.as_bytes());
        let now_ms = state.now_us / 1_000;
        let head = moment(&state.next_due).filter(|due| *due <= now_ms);
        Ok(QueueInfo {
            pending: state.pending,
            ready: state.ready,
            oldest_overdue_ms: head.map_or(0, |due| now_ms - due),
            next_due: (!state.next_due.is_empty()).then_some(state.next_due),
            listed: state.listed,
            quarantined: state.quarantined,
            named: state.named,
            paused_until: state.paused_until,
            format: state.format,
            ttl_ms: state.ttl_ms,
            since: now_ms.saturating_sub(self.started.elapsed().as_millis() as u64),
            label: metrics.label().to_owned(),
            counts: metrics.snapshot(),
        })
    }

    /// About this broker, from what it knows.
    pub fn server_info(&self) -> ServerInfo {
        let up = |up: bool| if up { "up" } else { "down" }.to_owned();
        let broker = vec![
            (
                "delay_broker_version".to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            ),
            ("queues_known".to_owned(), self.host.len().to_string()),
            (
                "offers_waiting".to_owned(),
                self.offers.waiting().to_string(),
            ),
            ("redis_link".to_owned(), up(self.store.is_up())),
        ];
        ServerInfo {
            run_id: self.token.clone(),
            tcp_port: self.tcp_port.get(),
            uptime_s: self.started.elapsed().as_secs(),
            ready: self.ready().is_ok(),
            used_memory_bytes: resident_bytes(),
            commands_processed: self.commands.get(),
            connections_received: self.clients.seen(),
            sections: vec![("Broker", broker)],
        }
    }

    /// Redis's clock: seconds and microseconds.
    pub async fn time(&self) -> Result<(u64, u64), StoreError> {
        let now_us = self.store.time().await?;
        Ok((now_us / 1_000_000, now_us % 1_000_000))
    }

    /// How many queues are served.
    pub fn queues_known(&self) -> usize {
        self.host.len()
    }

    /// The metrics as text, with pending and ready of the first queues read now.
    pub async fn scrape(&self) -> String {
        let page = self.host.page(&Bytes::new(), STATS_MAX);
        let names: Vec<Bytes> = page.into_iter().map(|(_, name)| name).collect();
        if let Ok(stats) = self.store.stats(&names).await {
            // Queues that share a label are summed.
            let mut sums = BTreeMap::new();
            for (name, stats) in names.iter().zip(stats) {
                let metrics = self.metrics.queue(name);
                let sum = sums
                    .entry(metrics.label().to_owned())
                    .or_insert((metrics, 0, 0));
                sum.1 += stats.pending.max(0);
                sum.2 += stats.ready.max(0);
            }
            for (metrics, pending, ready) in sums.into_values() {
                metrics.set_pending(pending as f64);
                metrics.set_ready(ready as f64);
            }
        }
        self.metrics.render()
    }
}

fn host_limits(config: &Config) -> host::Limits {
    host::Limits {
        transfers_in_flight_max: config.scheduler.transfers_in_flight_max,
        transfer_messages_max: config.scheduler.transfer_messages_max as u64,
        transfer_bytes_max: TRANSFER_BYTES_MAX,
        transfer_us_max: config.scheduler.transfer_ms_max * 1_000,
        backoff: Backoff {
            min_ms: config.scheduler.retry_min_ms,
            max_ms: config.scheduler.retry_max_ms,
        },
        queues_max: config.limits.queues_max,
    }
}

/// Claims a node number and holds on to it, for ever; without one nothing is stored.
async fn hold_node(broker: Rc<Broker>, ids: Rc<Snowflake>, token: String) {
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
                // Held as long as the claim lasts, with room for a call on its way.
                if held.is_some_and(|held| held.elapsed() + NODE_REFRESH > NODE_EXPIRY) {
                    held = None;
                    let why = format!("the claim of a node number could not be refreshed: {error}");
                    broker.offers.set_closed(Some(why));
                }
                Duration::from_millis(50)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Records the configured queues once Redis is there.
async fn configure(broker: Rc<Broker>) {
    for queue in &broker.config.queues {
        let name = Bytes::from(queue.name.clone());
        loop {
            match broker.store.configure(&name, word(queue.format)).await {
                Ok(()) => break,
                Err(StoreError::BadQueue { owner }) => {
                    tracing::error!(
                        queue = queue.name,
                        owner = %owner.escape_ascii(),
                        "two queues claim one set of keys; this one is not delivered"
                    );
                    break;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

/// Memory of this process, as the kernel counts it.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// A format as the scripts name it.
fn word(format: MemberFormat) -> &'static str {
    match format {
        MemberFormat::Modern => "modern",
        MemberFormat::Legacy => "legacy",
    }
}

/// 16 random hexadecimal digits: this broker among all that share a Redis.
fn token() -> String {
    let mut bytes = [0_u8; 8];
    // Without randomness the process number and the time must do.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        bytes = (crate::clock::monotonic_us() ^ u64::from(std::process::id()) << 40).to_be_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex(bytes: &[u8]) -> Bytes {
    Bytes::from(
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>(),
    )
}

fn unhex(text: &[u8]) -> Result<Bytes, StoreError> {
    let text = std::str::from_utf8(text).map_err(|_| StoreError::BadCursor)?;
    if text.len() % 2 != 0 || text.is_empty() {
        return Err(StoreError::BadCursor);
    }
    (0..text.len())
        .step_by(2)
        .map(|at| {
            text.get(at..at + 2)
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        })
        .collect::<Option<Vec<u8>>>()
        .map(Bytes::from)
        .ok_or(StoreError::BadCursor)
}
