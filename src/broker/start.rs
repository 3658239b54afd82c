//! The parts of a broker, and the tasks that run as long as it does.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::domain::snowflake::Snowflake;
use crate::metrics::Metrics;
use crate::peers::memory::Memory;
use crate::peers::passwords::Passwords;
use crate::scheduler::crons::Crons;
use crate::scheduler::discovery::Discovery;
use crate::scheduler::host::Host;
use crate::scheduler::keeper::Keeper;
use crate::scheduler::pace::TransferSize;
use crate::scheduler::queue_loop::Backoff;
use crate::scheduler::safety_scan::SafetyScan;
use crate::scheduler::takers::Takers;
use crate::scheduler::wakeup::Wakeups;
use crate::scheduler::{registry, schedule};
use crate::store::backend::Backend;
use crate::store::clock::Clock;
use crate::store::keys::QueueKeys;
use crate::store::link::LinkContext;
use crate::store::master::Master;
use crate::store::offer::Configured;
use crate::store::offers::{self, Offers, Stored};
use crate::store::{self, Store, StoreError};

use super::configure::{configure, words};
use super::node::{hold_node, token};
use super::{Broker, activity, audited, pause_all};

/// Histograms hold a sample of each observation until this is done.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);
/// Payload bytes that one transfer moves, about: a copy of a few milliseconds.
const TRANSFER_BYTES_MAX: u64 = 4 << 20;

/// Tells the scheduler of the messages that batches stored.
struct Hints(Rc<Host>);

impl Stored for Hints {
    fn keep_place(&self, keys: &QueueKeys) -> Result<(), StoreError> {
        self.0.change(|schedule, _| schedule.reserve(keys))
    }

    fn give_place_back(&self, keys: &QueueKeys) {
        self.0.change(|schedule, now| schedule.release(keys, now));
    }

    fn stored(&self, keys: &QueueKeys, messages: u64, head: Option<u64>) {
        self.0.change(|schedule, now| schedule.offered(keys, messages, head, now));
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
        let (token, ids) = (token(), Rc::new(Snowflake::default()));
        let (stepped, failed) = (Rc::new(Notify::new()), CancellationToken::new());
        let (user, redis_place) = (backend.user().map(str::to_owned), backend.place().to_owned());

        let context = link_context(&config, backend, &metrics, &stepped);
        let store = Store::start(&context, store_limits(&config), &token);
        let names = config.queues.iter().map(|queue| Bytes::from(queue.name.clone()));
        let takers = Takers::new(store.clone(), metrics.clone(), config.limits.takers_max);
        let limits = schedule_limits(&config);
        let host = Host::new(store.clone(), takers.clone(), metrics.clone(), limits, names);
        let offers = offers(&config, &store, &ids, &metrics, &host);
        let crons = Crons::new(host.clone(), store.clone(), offers.clone(), metrics.clone());
        let keeper = Keeper::new(host.clone(), store.clone(), metrics.clone());
        let discovery = Discovery::new(host.clone(), store.clone(), crons.clone());
        let safety_scan = Rc::new(SafetyScan {
            host: host.clone(),
            store: store.clone(),
            metrics: metrics.clone(),
        });
        let wakeups = Wakeups {
            host: host.clone(),
            discovery: discovery.clone(),
            store: store.clone(),
            token: token.clone(),
            heartbeat: Duration::from_millis(config.scheduler.heartbeat_ms),
            metrics: metrics.clone(),
        };
        let broker = Rc::new(Self {
            config: RefCell::new(config.clone()),
            metrics: metrics.clone(),
            clients: Default::default(),
            memory: memory(&config),
            turns: Default::default(),
            searches: Default::default(),
            started: Instant::now(),
            ports: Cell::default(),
            clients_max: Cell::default(),
            commands: Cell::default(),
            audited: audited::Audited::new(config.redis.audit),
            activity: Default::default(),
            guesses: Default::default(),
            passwords: Passwords::new()?,
            read_at: Cell::default(),
            reading: Cell::default(),
            redis_place,
            master: context.master.clone(),
            token,
            store: store.clone(),
            offers,
            host: host.clone(),
            crons: crons.clone(),
            keeper: keeper.clone(),
            paused_all: Default::default(),
            stopping: Cell::default(),
            failed: failed.clone(),
            tasks: RefCell::default(),
        });
        let scan = Duration::from_millis(config.scheduler.scan_interval_ms);
        let tasks: [LocalBoxFuture<'static, ()>; 21] = [
            hold_node(broker.clone(), ids).boxed_local(),
            configure(broker.clone()).boxed_local(),
            pause_all::watch(broker.clone()).boxed_local(),
            activity::sum_up(broker.clone()).boxed_local(),
            audited::audit(broker.clone(), user).boxed_local(),
            wakeups.clone().listen().boxed_local(),
            wakeups.clone().retry().boxed_local(),
            wakeups.follow().boxed_local(),
            discovery.clone().listen().boxed_local(),
            discovery.clone().search().boxed_local(),
            discovery.read_registry().boxed_local(),
            safety_scan.clone().read_marked().boxed_local(),
            safety_scan.read_all(scan).boxed_local(),
            registry::keep(host.clone(), store).boxed_local(),
            takers.look_at_all().boxed_local(),
            crons.clone().learn().boxed_local(),
            crons.run().boxed_local(),
            keeper.clone().learn().boxed_local(),
            keeper.run().boxed_local(),
            fold_histograms(metrics).boxed_local(),
            run_schedule(host, stepped, failed).boxed_local(),
        ];
        broker.tasks.borrow_mut().extend(tasks.map(tokio::task::spawn_local));
        Ok(broker)
    }
}

fn link_context(
    config: &Config,
    backend: Backend,
    metrics: &Metrics,
    stepped: &Rc<Notify>,
) -> LinkContext {
    let connect_timeout = Duration::from_millis(config.redis.connect_timeout_ms);
    LinkContext {
        master: Master::start(&backend, metrics, connect_timeout),
        backend,
        connect_timeout,
        call_timeout: Duration::from_millis(config.redis.call_timeout_ms),
        clock: Rc::new(Clock::default()),
        metrics: metrics.clone(),
        stepped: stepped.clone(),
        told: Rc::default(),
        answered: Rc::default(),
        clock_of_all: None,
        number: 0,
        down: Rc::default(),
    }
}

fn store_limits(config: &Config) -> store::Limits {
    store::Limits {
        call_timeout: Duration::from_millis(config.redis.call_timeout_ms),
        settle_timeout: Duration::from_millis(config.redis.settle_timeout_ms),
        reply_bytes_max: config.limits.reply_bytes_max,
    }
}

fn offers(
    config: &Config,
    store: &Rc<Store>,
    ids: &Rc<Snowflake>,
    metrics: &Metrics,
    host: &Rc<Host>,
) -> Rc<Offers> {
    let limits = offers::Limits {
        messages_max: config.offers.batch_messages_max,
        bytes_max: config.offers.batch_bytes_max,
        second_call_from: config.offers.second_call_from,
        claim_timeout: Duration::from_millis(config.redis.call_timeout_ms),
    };
    // Offers are told that there is no order list once that is recorded.
    let configured = |queue| Configured { order_list: "", ..words(queue) };
    let queues = config.queues.iter();
    let configured = queues.map(|queue| (Bytes::from(queue.name.clone()), configured(queue)));
    let hints = Rc::new(Hints(host.clone()));
    let (store, ids) = (store.clone(), ids.clone());
    Rc::new(Offers::new(store, ids, limits, configured.collect(), metrics.clone(), hints))
}

fn memory(config: &Config) -> Rc<Memory> {
    let limits = &config.limits;
    let reply_max = limits.reply_bytes_max.max(limits.payload_bytes_max);
    Memory::new(limits.buffers_bytes_max, reply_max)
}

fn schedule_limits(config: &Config) -> schedule::Limits {
    schedule::Limits {
        transfers_in_flight_max: config.scheduler.transfers_in_flight_max,
        transfer: TransferSize {
            messages_max: config.scheduler.transfer_messages_max as u64,
            bytes_max: TRANSFER_BYTES_MAX,
            took_us_max: config.scheduler.transfer_ms_max * 1_000,
        },
        backoff: Backoff {
            min_ms: config.scheduler.retry_min_ms,
            max_ms: config.scheduler.retry_max_ms,
        },
        queues_max: config.limits.queues_max,
    }
}

/// For ever: run as a task of its own.
async fn fold_histograms(metrics: Metrics) {
    let mut interval = tokio::time::interval(METRICS_UPKEEP);
    loop {
        interval.tick().await;
        metrics.upkeep();
    }
}

/// Without its timer nothing is delivered on time: `failed` ends the process then.
async fn run_schedule(host: Rc<Host>, stepped: Rc<Notify>, failed: CancellationToken) {
    if let Err(error) = host.run(stepped).await {
        tracing::error!(%error, "the timer of the scheduler failed");
        failed.cancel();
    }
}
