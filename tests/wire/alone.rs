//! Commands that come without a connection, as through a door of HTTP: the same table, the same
//! gate, the same replies; run inside the test, on a real Redis.

use crate::support::redis;
use crate::support::wait::WITHIN;
use bytes::{Bytes, BytesMut};
use delay_broker::broker::Broker;
use delay_broker::command::{Caller, Door, Rules, Run, User, answer, run_alone};
use delay_broker::config::Config;
use delay_broker::peers::registry::Clients;
use delay_broker::resp::{Protocol, Reply, RequestLimits, RequestReader};
use delay_broker::store::backend::Backend;
use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Instant;
use tokio::runtime::{Builder, LocalOptions};

/// What a caller gets for a line.
async fn reply(line: &str, caller: &Caller, rules: &Rules, broker: &Rc<Broker>) -> Reply {
    let (mut reader, mut line) = (
        RequestReader::new(RequestLimits::UNAUTHENTICATED),
        BytesMut::from(format!("{line}\n").as_str()),
    );
    assert_eq!(reader.next(&mut line), Ok(Some(())));
    match run_alone(reader.request(&line), caller, rules, broker).1 {
        Run::Ready(reply) | Run::Close(reply) => reply,
        Run::Later(reply) | Run::Settled(_, reply) => reply.await,
        Run::Parked(handed, _) => handed.await.0,
        Run::Offered(ticket, form) => {
            broker.offers().flush();
            ticket.done().await;
            let mut out = BytesMut::new();
            assert_eq!(answer(&ticket, form, caller.protocol, &mut out), Some(None));
            Reply::Bulk(out.freeze())
        }
        Run::Executed(_) | Run::Verified(_) => panic!("it needs a connection"),
    }
}

async fn commands() {
    let redis = redis::shared();
    let database = redis.fresh_database();
    let config = Config::with(&[("redis.url", &redis.url(database))]).unwrap();
    let url = config.redis.url.clone().unwrap();
    let backend = Backend::given(&url, &config.redis).unwrap();
    let rules = Rules::new(&config);
    let broker = Broker::start(config, backend).unwrap();
    broker.wait_ready(WITHIN).await.unwrap();
    let clients = Clients::default();
    let registered = clients.register(([127, 0, 0, 1], 80).into(), String::new(), Instant::now());
    let caller = |user: Option<User>| Caller {
        user: user.map(Rc::new),
        door: Door::Http,
        protocol: Protocol::Resp2,
        client: registered.client(),
        tied: OnceCell::new(),
    };
    let (all, nobody) = (caller(Some(User::unlimited("default"))), caller(None));
    let orders = Some([Bytes::from_static(b"orders.*")].into());
    let limited = caller(Some(User { queues: orders, ..User::unlimited("ann") }));

    let id = reply("DQ.OFFER orders.a 1h p NAME n", &limited, &rules, &broker).await;
    assert!(matches!(&id, Reply::Bulk(id) if id.starts_with(b"$30\r\n")), "{id:?}");
    let rows = [
        (&all, "DQ.SIZE orders.a", Reply::Integer(1)),
        (&limited, "DQ.CANCEL orders.a n", Reply::Integer(1)),
        (&all, "DQ.SIZE orders.a", Reply::Integer(0)),
        (
            &limited,
            "DQ.OFFER other 1h p",
            Reply::Error(
                "NOPERM User ann has no permissions to access the queue 'other'".to_owned(),
            ),
        ),
        (&nobody, "DQ.SIZE orders.a", Reply::Error("NOAUTH Authentication required.".to_owned())),
        (
            &all,
            "MULTI",
            Reply::Error(
                "ERR the command 'multi' needs a connection of the Redis protocol".to_owned(),
            ),
        ),
    ];
    for (caller, line, wanted) in rows {
        assert_eq!(reply(line, caller, &rules, &broker).await, wanted, "{line}");
    }
    broker.stop().await;
}

#[test]
fn without_a_connection() {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(LocalOptions::default()).unwrap();
    runtime.block_on(async { tokio::time::timeout(WITHIN, commands()).await.unwrap() });
}
