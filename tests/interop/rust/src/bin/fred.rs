//! The broker from fred. Environment and steps: tests/interop/README.md.

use std::collections::HashMap;
use std::env::var;
use std::process::Command;
use std::time::{Duration, SystemTime};

use fred::prelude::*;
use fred::types::config::{Config, TlsConnector};
use fred::types::{ClusterHash, CustomCommand, RespVersion};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};

const BINARY: &[u8] = b"\0nul\r\ncrlf\xff\0";

fn env(name: &str) -> String {
    var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn passed(step: &str) {
    println!("{step}");
}

fn config() -> FredResult<Config> {
    let (password, port, ca) = (env("PASSWORD"), env("BROKER_PORT"), env("CA"));
    let mut config = Config::from_url(&format!("redis://localhost:{port}"))?;
    // Protocol 2 is what fred opens with when told nothing.
    if env("PROTOCOL") == "3" {
        config.version = RespVersion::RESP3;
    }
    if !password.is_empty() {
        config.password = Some(password);
    }
    if !ca.is_empty() {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(ca).unwrap())
            .unwrap();
        let tls = ClientConfig::builder().with_root_certificates(roots);
        config.tls = Some(TlsConnector::from(tls.with_no_client_auth()).into());
    }
    Ok(config)
}

/// The queue comes first in every command, and is its key.
fn command(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::FirstKey, false)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> FredResult<()> {
    let q = env("QUEUE");
    let queue = q.as_str();
    let large: Vec<u8> = (0..4 << 20).map(|i| i as u8).collect();

    // `broker` takes messages in; `backing` is the Redis where they come out, as a plain list.
    let mut builder = Builder::from_config(config()?);
    // Without a policy it does not connect again.
    builder.set_policy(ReconnectPolicy::default());
    let broker = builder.build()?;
    let backing = Config::from_url(&format!("redis://localhost:{}", env("REDIS_PORT")))?;
    let backing = Builder::from_config(backing).build()?;
    broker.init().await?;
    backing.init().await?;
    assert_eq!(broker.ping::<String>(None).await?, "PONG");
    passed("connect");

    let id: String = broker
        .custom(command("DQ.OFFER"), vec![queue, "30m", "hello"])
        .await?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let tomorrow = (now.unwrap() + Duration::from_secs(86_400)).as_millis() as i64;
    let due = tomorrow.to_string();
    let at: String = dq(&broker, "DQ.OFFER", &[queue, "AT", &due], BINARY).await?;
    assert!(at.starts_with(&format!("{due}-")), "{at}");
    let order = vec![queue, "1h", "order 42", "NAME", "order:42"];
    let named: String = broker.custom(command("DQ.OFFER"), order.clone()).await?;
    let again: Value = dq(&broker, "DQ.OFFER", &order, b"NX").await?;
    assert_eq!(again, Value::Null);
    passed("offer");

    let pairs = [queue, "2h", "one", "3h", "", "4h"];
    let ids: Vec<String> = dq(&broker, "DQ.MOFFER", &pairs, BINARY).await?;
    assert_eq!(ids.len(), 3);
    assert_eq!(size(&broker, queue).await?, 6);
    passed("moffer");

    let cancelled: i64 = broker
        .custom(command("DQ.CANCEL"), vec![queue, &id])
        .await?;
    assert_eq!(cancelled, 1);
    let rest: Vec<&str> = [queue, &id]
        .into_iter()
        .chain(ids.iter().map(|id| &**id))
        .collect();
    let cancelled: i64 = broker.custom(command("DQ.CANCEL"), rest).await?;
    assert_eq!(cancelled, 3);
    passed("cancel");

    let sooner = vec![queue, "order:42", "45m"];
    let moved: String = broker.custom(command("DQ.RESCHEDULE"), sooner).await?;
    assert_ne!(moved, named);
    let gone: Value = broker
        .custom(command("DQ.RESCHEDULE"), vec![queue, &named, "45m"])
        .await?;
    assert_eq!(gone, Value::Null);
    passed("reschedule");

    // By due time: maps in RESP3, names and values in turn in RESP2; a HashMap reads both.
    let peeked: Vec<Value> = broker
        .custom(command("DQ.PEEK"), vec![queue, "COUNT", "5"])
        .await?;
    let resp3 = env("PROTOCOL") == "3";
    assert!(peeked.iter().all(|message| message.is_map() == resp3));
    let peeked: Vec<HashMap<String, Value>> = peeked
        .into_iter()
        .map(Value::convert)
        .collect::<Result<_, _>>()?;
    assert_eq!(peeked.len(), 2);
    let bytes = |i: usize, field: &str| peeked[i][field].as_bytes();
    assert_eq!(bytes(0, "id"), Some(moved.as_bytes()));
    assert_eq!(bytes(0, "name"), Some(&b"order:42"[..]));
    assert_eq!(bytes(0, "payload"), Some(&b"order 42"[..]));
    assert_eq!(bytes(1, "id"), Some(at.as_bytes()));
    assert_eq!(peeked[1]["name"], Value::Null);
    assert_eq!(peeked[1]["due"], Value::Integer(tomorrow));
    assert_eq!(bytes(1, "payload"), Some(BINARY));
    let none: Vec<Value> = broker
        .custom(command("DQ.PEEK"), vec![format!("{queue}:none")])
        .await?;
    assert_eq!(none, []);
    passed("peek");

    // The first word of an error is its code.
    for (code, name, args) in [
        ("BADDELAY ", "DQ.OFFER", vec![queue, "soon", "x"]),
        ("BADQUEUE ", "DQ.OFFER", vec!["", "1h", "x"]),
        ("ERR wrong number of arguments", "DQ.OFFER", vec![queue]),
        ("ERR unknown command", "DQ.NONE", vec![queue]),
    ] {
        let error = broker
            .custom::<Value, _>(command(name), args)
            .await
            .unwrap_err();
        assert!(error.details().starts_with(code), "{error}");
    }
    passed("errors");

    // A thousand in one write; the replies come in order.
    let pipeline = broker.pipeline();
    for i in 0..1000 {
        let many = [
            format!("{queue}:many"),
            "AT".into(),
            (tomorrow + i).to_string(),
        ];
        let many: Vec<String> = many.into_iter().chain([format!("message {i}")]).collect();
        let _: Value = pipeline.custom(command("DQ.OFFER"), many).await?;
    }
    let ids: Vec<String> = pipeline.all().await?;
    assert_eq!(ids.len(), 1000);
    for (due, id) in (tomorrow..).zip(ids) {
        assert!(id.starts_with(&format!("{due}-")), "{id} is not due {due}");
    }
    passed("pipeline");

    let _: String = dq(&broker, "DQ.OFFER", &[queue, "20ms"], BINARY).await?;
    let (name, payload): (String, Value) = backing.blpop(queue, 10.0).await?;
    assert_eq!((name.as_str(), payload.as_bytes()), (queue, Some(BINARY)));
    passed("binary");

    let id: String = dq(&broker, "DQ.OFFER", &[queue, "1h"], &large).await?;
    let got: HashMap<String, Value> = broker.custom(command("DQ.GET"), vec![queue, &id]).await?;
    assert!(got["payload"].as_bytes() == Some(&large));
    let fired: i64 = broker.custom(command("DQ.FIRE"), vec![queue, &id]).await?;
    assert_eq!(fired, 1);
    let (_, payload): (String, Value) = backing.blpop(queue, 10.0).await?;
    assert!(payload.as_bytes() == Some(&large));
    passed("large");

    // A message is handed out until it is acknowledged. Takes that wait have a connection of their
    // own, since all others would wait behind them.
    let taker = builder.build()?;
    taker.init().await?;
    let due_now = [queue, "0", "one", "0", "", "0"];
    let _: Vec<String> = dq(&broker, "DQ.MOFFER", &due_now, BINARY).await?;
    let mut messages = Vec::new();
    while messages.len() < 3 {
        let waiting = vec![queue, "COUNT", "3", "BLOCK", "5s"];
        let taken: Vec<Value> = taker.custom(command("DQ.TAKE"), waiting).await?;
        let taken = taken.into_iter().map(Value::convert);
        messages.extend(taken.collect::<FredResult<Vec<HashMap<String, Value>>>>()?);
    }
    for (message, payload) in messages.iter().zip([b"one", &b""[..], BINARY]) {
        assert_eq!(message["payload"].as_bytes(), Some(payload));
        assert_eq!(message["attempt"], Value::Integer(1));
    }
    let receipt = |i: usize| messages[i]["receipt"].as_string().unwrap();
    let (one, two, three) = (receipt(0), receipt(1), receipt(2));
    let acked: i64 = broker.custom(command("DQ.ACK"), vec![queue, &one]).await?;
    assert_eq!(acked, 1);
    let acked: i64 = broker.custom(command("DQ.ACK"), vec![queue, &one]).await?;
    assert_eq!(acked, 0);
    let both = vec![queue, &two, &three, "LEASE", "2m"];
    let extended: i64 = broker.custom(command("DQ.EXTEND"), both).await?;
    assert_eq!(extended, 2);
    let failed = vec![queue, &two, "DELAY", "0", "REASON", "not yet"];
    let given: i64 = broker.custom(command("DQ.NACK"), failed).await?;
    assert_eq!(given, 1);
    let waiting = vec![queue, "BLOCK", "5s"];
    let again: Vec<Value> = taker.custom(command("DQ.TAKE"), waiting).await?;
    let again: HashMap<String, Value> = again[0].clone().convert()?;
    assert_eq!(again["id"], messages[1]["id"]);
    assert_eq!(again["attempt"], Value::Integer(2));
    assert_eq!(again["payload"].as_bytes(), Some(&b""[..]));
    let again = again["receipt"].as_string().unwrap();
    let rest = vec![queue, &again, &three];
    let acked: i64 = broker.custom(command("DQ.ACK"), rest).await?;
    assert_eq!(acked, 2);
    let nothing: Value = taker.custom(command("DQ.TAKE"), vec![queue]).await?;
    assert_eq!(nothing, Value::Null);
    taker.quit().await?;
    passed("consume");

    let pool = Builder::from_config(config()?).build_pool(50)?;
    pool.init().await?;
    let pooled = format!("{queue}:pool");
    let offers: Vec<_> = (0..1000)
        .map(|_| {
            let (client, args) = (
                pool.next().clone(),
                vec![pooled.clone(), "1h".into(), "x".into()],
            );
            tokio::spawn(async move {
                client
                    .custom::<String, String>(command("DQ.OFFER"), args)
                    .await
            })
        })
        .collect();
    for offer in offers {
        offer.await.unwrap()?;
    }
    assert_eq!(size(&broker, &pooled).await?, 1000);
    pool.quit().await?;
    passed("pool");

    // What is sent while there is no connection waits for the next one.
    assert!(Command::new(env("RESTART")).status().unwrap().success());
    assert_eq!(size(&broker, queue).await?, 2);
    passed("restart");

    broker.quit().await?;
    backing.quit().await?;
    passed("quit");
    Ok(())
}

async fn dq<R: FromValue>(
    broker: &Client,
    name: &'static str,
    args: &[&str],
    last: &[u8],
) -> FredResult<R> {
    let mut args: Vec<Value> = args.iter().map(|arg| Value::from(*arg)).collect();
    args.push(Value::from(last));
    broker.custom(command(name), args).await
}

async fn size(broker: &Client, queue: &str) -> FredResult<i64> {
    broker.custom(command("DQ.SIZE"), vec![queue]).await
}
