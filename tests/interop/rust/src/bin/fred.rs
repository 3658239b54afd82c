//! The broker from fred, with no option but the protocol: fred BROKER_PORT REDIS_PORT 2|3
//!
//! Two connections: `broker` takes messages in, `backing` is where they come out, as a plain list.
//! Knows no other client; fails with the line that was not so. Its queue is its own.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use fred::prelude::*;
use fred::types::config::Config;
use fred::types::{ClusterHash, CustomCommand, RespVersion};

const BINARY: &[u8] = b"\0nul\r\ncrlf\xff\0";

#[tokio::main(flavor = "current_thread")]
async fn main() -> FredResult<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [broker_port, redis_port, protocol] = args.as_slice() else {
        panic!("usage: fred BROKER_PORT REDIS_PORT 2|3");
    };
    let resp3 = protocol == "3";
    let broker = connect(broker_port, resp3).await?;
    let backing = connect(redis_port, resp3).await?;
    let q = format!("interop:fred:{protocol}");
    let q = q.as_str();

    // Every form of an offer answers the id of the message: <due>-<hex>.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let tomorrow = (now.unwrap() + Duration::from_secs(86_400)).as_millis() as i64;
    let at = ["AT".to_owned(), tomorrow.to_string()].map(Value::from);
    let first: String = dq(&broker, "DQ.OFFER", [q, "1h", "in an hour"]).await?;
    let _: String = dq(&broker, "DQ.OFFER", [q, "5400000", "in 90 minutes"]).await?;
    let [at, time] = at;
    let at: String = dq(&broker, "DQ.OFFER", [q.into(), at, time, BINARY.into()]).await?;
    assert!(at.starts_with(&format!("{tomorrow}-")), "{at}");
    let named = [q, "3h", "order 42", "NAME", "order:42"];
    let old: String = dq(&broker, "DQ.OFFER", named).await?;
    let absent: Value = dq(&broker, "DQ.OFFER", named.into_iter().chain(["NX"])).await?;
    assert_eq!(absent, Value::Null);
    let new: String = dq(&broker, "DQ.OFFER", named.into_iter().chain(["XX"])).await?;
    assert_ne!(new, old);
    let pairs: [Value; 7] = [
        q.into(),
        "4h".into(),
        "one".into(),
        "5h".into(),
        "".into(),
        "6h".into(),
        BINARY.into(),
    ];
    let ids: Vec<String> = dq(&broker, "DQ.MOFFER", pairs).await?;
    assert_eq!(ids.len(), 3);
    assert_eq!(dq::<i64>(&broker, "DQ.SIZE", [q]).await?, 7);

    // What comes next, by due time: maps in RESP3, names and values in turn in RESP2.
    let peeked: Vec<Value> = dq(&broker, "DQ.PEEK", [q, "COUNT", "3"]).await?;
    assert!(peeked.iter().all(|message| message.is_map() == resp3));
    let peeked: Vec<HashMap<String, Value>> = peeked
        .into_iter()
        .map(Value::convert)
        .collect::<Result<_, _>>()?;
    let payloads: Vec<_> = peeked
        .iter()
        .map(|message| message["payload"].as_string())
        .collect();
    let expected = ["in an hour", "in 90 minutes", "order 42"];
    assert_eq!(payloads, expected.map(|payload| Some(payload.to_owned())));
    assert_eq!(peeked[0]["id"].as_str().as_deref(), Some(first.as_str()));
    assert_eq!(peeked[0]["name"], Value::Null);
    assert_eq!(
        peeked[0]["due"].as_i64(),
        first.split('-').next().and_then(|due| due.parse().ok())
    );
    assert_eq!(peeked[2]["id"].as_str().as_deref(), Some(new.as_str()));
    assert_eq!(peeked[2]["name"].as_str().as_deref(), Some("order:42"));
    let got: HashMap<String, Value> = dq(&broker, "DQ.GET", [q, &at]).await?;
    assert_eq!(got["payload"].as_bytes(), Some(BINARY));
    let none: Vec<Value> = dq(&broker, "DQ.PEEK", ["interop:none"]).await?;
    assert_eq!(none, []);

    // By id or by name; what is gone already counts 0.
    let gone = [q, "order:42"]
        .into_iter()
        .chain(ids.iter().map(String::as_str));
    assert_eq!(dq::<i64>(&broker, "DQ.CANCEL", gone.clone()).await?, 4);
    assert_eq!(
        dq::<i64>(&broker, "DQ.CANCEL", gone.chain([first.as_str()])).await?,
        1
    );
    assert_eq!(dq::<i64>(&broker, "DQ.SIZE", [q]).await?, 2);

    // The first word of an error is its code.
    for (code, name, args) in [
        ("BADDELAY", "DQ.OFFER", vec![q, "soon", "x"]),
        ("BADQUEUE", "DQ.OFFER", vec!["", "1h", "x"]),
        ("ERR wrong number of arguments", "DQ.OFFER", vec![q]),
        ("ERR unknown command", "DQ.NONE", vec![q]),
    ] {
        let error = dq::<Value>(&broker, name, args).await.unwrap_err();
        assert!(error.details().starts_with(code), "{error}");
    }

    // A thousand in one write; the replies come in order.
    let many = format!("{q}:many");
    let pipeline = broker.pipeline();
    for i in 0..1000 {
        let (due, payload) = ((tomorrow + i).to_string(), format!("message {i}"));
        let _: Value = dq(&pipeline, "DQ.OFFER", [&many, "AT", &due, &payload]).await?;
    }
    let ids: Vec<String> = pipeline.all().await?;
    assert_eq!(ids.len(), 1000);
    for (due, id) in (tomorrow..).zip(ids) {
        assert!(id.starts_with(&format!("{due}-")), "{id} is not due {due}");
    }
    assert_eq!(dq::<i64>(&broker, "DQ.SIZE", [many]).await?, 1000);

    // Due messages are in the list of the queue's name, byte for byte.
    let due: [Value; 3] = [q.into(), "20ms".into(), BINARY.into()];
    let _: String = dq(&broker, "DQ.OFFER", due).await?;
    let (list, payload): (String, Value) = backing.blpop(q, 10.0).await?;
    assert_eq!((list.as_str(), payload.as_bytes()), (q, Some(BINARY)));

    broker.quit().await?;
    backing.quit().await
}

/// Protocol 2 is what fred opens with when told nothing.
async fn connect(port: &str, resp3: bool) -> FredResult<Client> {
    let mut config = Config::from_url(&format!("redis://127.0.0.1:{port}"))?;
    if resp3 {
        config.version = RespVersion::RESP3;
    }
    let client = Builder::from_config(config).build()?;
    client.init().await?;
    Ok(client)
}

async fn dq<R: FromValue>(
    client: &impl ClientLike,
    name: &'static str,
    args: impl IntoIterator<Item = impl Into<Value>>,
) -> FredResult<R> {
    // The queue comes first in every command, and is its key.
    let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
    client
        .custom(
            command,
            args.into_iter().map(Into::into).collect::<Vec<Value>>(),
        )
        .await
}
