//! The handle that commands get: what they may do, in terms of queues and messages. No RESP, no
//! socket.
//!
//! It owns the parts (store, offers, scheduler) and the order in which they start and stop. What
//! commands do stands in `broker/pending.rs` and `broker/about.rs`; offers go to [`Offers`].

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
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
use crate::config::{Config, MemberFormat, Queue};
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::queue::{Due, NameMode};
use crate::scheduler::discovery::Discovery;
use crate::scheduler::host::{self, Host};
use crate::scheduler::queue_loop::Backoff;
use crate::scheduler::wakeup::{self, Wakeup};
use crate::snowflake::Snowflake;
use crate::store::delivery::Recorded;
use crate::store::keys::QueueKeys;
use crate::store::offers::Configured;
use crate::store::redis::{Backend, LinkContext, Subscription};
use crate::store::{self, Store, StoreError};
use crate::turns::Turns;

mod about;
mod audited;
mod node;
mod pending;

pub use about::{QueueInfo, QueueRow, ServerInfo};
use audited::Audited;
use node::{hold_node, token};

/// Histograms hold a sample of each observation until this is done.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);
/// Payload bytes that one transfer moves, about: a copy of a few milliseconds.
const TRANSFER_BYTES_MAX: u64 = 4 << 20;
pub struct Broker {
    /// As in effect: SIGHUP changes some of it.
    config: RefCell<Rc<Config>>,
    pub metrics: Metrics,
    pub clients: Clients,
    /// What the buffers of all connections hold.
    pub memory: Rc<Memory>,
    pub turns: Turns,
    pub started: Instant,
    /// The ports that clients connect to, once they are known: without and with TLS, 0 = none.
    pub ports: Cell<(u16, u16)>,
    /// Commands that were run since the start.
    pub commands: Cell<u64>,
    pub audited: Audited,
    token: String,
    store: Rc<Store>,
    offers: Rc<Offers>,
    host: Rc<Host>,
    subscription: Rc<Subscription>,
    /// The subscription to wake-ups is heard.
    listens: Rc<Cell<bool>>,
    /// No more work is to be sent here.
    pub stopping: Cell<bool>,
    /// Cancelled when a part failed that the broker cannot do without.
    pub failed: CancellationToken,
    tasks: RefCell<Vec<JoinHandle<()>>>,
}

/// For what is said at the end of the grace time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    pub commands: usize,
    pub offers: usize,
    pub transfers: usize,
}

/// What batches tell of what they stored.
struct Hints(Rc<Host>);

impl Stored for Hints {
    fn accepts(&self, keys: &QueueKeys) -> Result<(), StoreError> {
        self.0.accepts(keys)
    }

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
        let user = backend.user().map(str::to_owned);
        let context = LinkContext {
            backend,
            connect_timeout: Duration::from_millis(config.redis.connect_timeout_ms),
            call_timeout: Duration::from_millis(config.redis.call_timeout_ms),
            clock,
            metrics: metrics.clone(),
            stepped: stepped.clone(),
            told: Rc::default(),
        };
        let limits = store::Limits {
            call_timeout: context.call_timeout,
            settle_timeout: Duration::from_millis(config.redis.settle_timeout_ms),
            reply_bytes_max: config.limits.reply_bytes_max,
        };
        let store = Store::start(&context, limits, &token)?;
        let subscription = Rc::new(Subscription::start(&context)?);
        let queues = config.queues.iter();
        let names: Vec<Bytes> = queues.clone().map(|q| q.name.clone().into()).collect();
        // Offers are told that there is no order list once that is recorded.
        let configured = queues.map(|queue| Configured {
            order_list: "",
            ..words(queue)
        });
        let configured = names.iter().cloned().zip(configured).collect();
        let limits = host_limits(&config);
        let known = names.iter().cloned().collect();
        let host = Host::new(store.clone(), metrics.clone(), limits, known);
        let ids = Rc::new(Snowflake::default());
        let offers = Rc::new(Offers::new(
            store.clone(),
            ids.clone(),
            batch::Limits {
                messages_max: config.offers.batch_messages_max,
                bytes_max: config.offers.batch_bytes_max,
                second_call_from: config.offers.second_call_from,
            },
            configured,
            metrics.clone(),
            Rc::new(Hints(host.clone())),
        ));
        let discovery = Discovery::new(host.clone(), store.clone(), names.into_iter());
        let live = Rc::new(Cell::new(false));
        metrics.link_up(wakeup::LINK, false);
        let wakeup = Rc::new(Wakeup {
            host: host.clone(),
            discovery: discovery.clone(),
            store: store.clone(),
            subscription: subscription.clone(),
            channel: format!("delay_broker_heartbeat:{token}"),
            heartbeat: Duration::from_millis(config.scheduler.heartbeat_ms),
            heard_at: Cell::new(tokio::time::Instant::now()),
            metrics: metrics.clone(),
            live: live.clone(),
            subscribed_before: Cell::new(false),
        });
        let scan = Duration::from_millis(config.scheduler.scan_interval_ms);
        let mode = config.redis.audit;
        let limits = &config.limits;
        let reply_max = limits.reply_bytes_max.max(limits.payload_bytes_max);
        let memory = Memory::new(limits.buffers_bytes_max, reply_max);
        let broker = Rc::new(Self {
            config: RefCell::new(config),
            metrics: metrics.clone(),
            clients: Clients::default(),
            memory,
            turns: Turns::default(),
            started: Instant::now(),
            ports: Cell::default(),
            commands: Cell::new(0),
            audited: Audited::new(mode),
            token: token.clone(),
            store,
            offers,
            host: host.clone(),
            subscription,
            listens: live,
            stopping: Cell::new(false),
            failed: failed.clone(),
            tasks: RefCell::default(),
        });
        let tasks = [
            tokio::task::spawn_local(hold_node(broker.clone(), ids, token)),
            tokio::task::spawn_local(configure(broker.clone())),
            tokio::task::spawn_local(audited::audit(broker.clone(), user)),
            tokio::task::spawn_local(wakeup.clone().listen()),
            tokio::task::spawn_local(wakeup.clone().retry()),
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

    pub fn config(&self) -> Rc<Config> {
        self.config.borrow().clone()
    }

    /// What CONFIG GET and INFO show from now on; who uses a setting is told by `server`.
    pub fn set_config(&self, config: Rc<Config>) {
        self.config.replace(config);
    }

    /// Whether commands can be served: Redis is reachable, a node number is claimed, and the audit
    /// found nothing that refuses. The scheduler runs as long as the process does.
    ///
    /// # Errors
    /// What is missing.
    pub fn ready(&self) -> Result<(), String> {
        if self.stopping.get() {
            return Err("the broker is stopping".into());
        }
        if !self.store.is_up() {
            return Err(format!("Redis cannot be reached{}", self.store.why_down()));
        }
        if let Some(why) = self.offers.closed() {
            return Err(why);
        }
        let refusal = self.audited.refusal();
        refusal.map_or(Ok(()), |why| {
            Err(format!("the audit refuses this Redis: {why}"))
        })
    }

    /// How well it is ready. A subscription that is not heard is no reason to send work elsewhere:
    /// own offers are timed all the same, and the scan finds those of others.
    pub fn readiness(&self) -> Result<&'static str, String> {
        self.ready().map(|()| match self.listens.get() {
            true => "ready",
            false => "ready, but wake-ups are not heard: what others offer is found by the scan",
        })
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

    /// What is not finished: commands that are not answered yet, offers among them that wait for
    /// their batch, and transfers under way.
    pub fn unfinished(&self) -> Unfinished {
        let clients = self.clients.list();
        Unfinished {
            commands: clients.iter().map(|client| client.owed.get()).sum(),
            offers: self.offers.waiting(),
            transfers: self.host.transfers(),
        }
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

    pub fn moffer(&self, queue: &[u8], messages: &[(Due, Cow<'_, [u8]>)]) -> Ticket {
        let messages = messages.iter();
        self.offers
            .push_all(queue, messages.map(|(due, payload)| (*due, &payload[..])))
    }

    /// The open batch: connections push into it and flush it once after each read.
    pub fn offers(&self) -> &Rc<Offers> {
        &self.offers
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

/// Records the configured queues once Redis is there.
async fn configure(broker: Rc<Broker>) {
    for queue in &broker.config().queues {
        let name = Bytes::from(queue.name.clone());
        loop {
            match broker.store.configure(&name, words(queue)).await {
                Ok(recorded) => {
                    tell(&queue.name, recorded);
                    if let Recorded::All { .. } = recorded {
                        broker.offers.configure(name, words(queue));
                    }
                    break;
                }
                Err(StoreError::BadQueue { owner }) => {
                    tracing::error!(
                        queue = queue.name,
                        owner = %owner.escape_ascii(),
                        "two queues claim one set of keys; this one is not delivered"
                    );
                    break;
                }
                Err(error @ StoreError::WrongType { .. }) => {
                    tracing::error!(queue = queue.name, %error, "its settings are not recorded");
                    break;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

/// What the configuration says of a queue, as the scripts name it.
fn words(queue: &Queue) -> Configured {
    Configured {
        format: match queue.format {
            MemberFormat::Modern => "modern",
            MemberFormat::Legacy => "legacy",
        },
        order_list: if queue.order_list { "on" } else { "off" },
    }
}

/// What is not as configured.
fn tell(queue: &str, recorded: Recorded) {
    match recorded {
        Recorded::All { dropped: 0 } => {}
        Recorded::All { dropped } => tracing::info!(
            queue,
            dropped,
            "order_list = false: the order list is dropped; what is pending stays so"
        ),
        Recorded::Pending => tracing::warn!(
            queue,
            "order_list = true is not in effect: messages are pending that were offered without an \
             order list; let the queue become empty, or DQ.CLEAR it, and restart the broker"
        ),
        Recorded::Listeners => tracing::warn!(
            queue,
            "order_list = false is not in effect: clients of Redisson listen on the channel of \
             this queue; stop them and restart the broker, or take the setting away"
        ),
        Recorded::Others => tracing::warn!(
            queue,
            "order_list = false is not in effect: the order list holds members that Redisson \
             wrote; once they are delivered and no client of Redisson uses this queue any more, \
             restart the broker; or take the setting away"
        ),
    }
}
