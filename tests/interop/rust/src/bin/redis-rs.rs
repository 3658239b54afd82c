//! The broker from redis-rs, with no option but the protocol:
//! redis-rs BROKER_PORT REDIS_PORT 2|3
//!
//! Two connections: `broker` takes messages in, `backing` is where they come out, as a plain list.
//! Knows no other client; fails with the line that was not so. Its queue is its own.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use redis::{Client, Cmd, Commands, Connection, ErrorKind, RedisResult, Value, cmd};

const BINARY: &[u8] = b"\0nul\r\ncrlf\xff\0";

fn main() -> RedisResult<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [broker_port, redis_port, protocol] = args.as_slice() else {
        panic!("usage: redis-rs BROKER_PORT REDIS_PORT 2|3");
    };
    let resp3 = protocol == "3";
    // Protocol 2 is what redis-rs opens with when told nothing.
    let option = if resp3 { "?protocol=resp3" } else { "" };
    let connect = |port| Client::open(format!("redis://127.0.0.1:{port}/{option}"));
    let mut broker = connect(broker_port)?.get_connection()?;
    let mut backing = connect(redis_port)?.get_connection()?;
    let q = format!("interop:redis-rs:{protocol}");

    // Every form of an offer answers the id of the message: <due>-<hex>.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let tomorrow = (now.unwrap() + Duration::from_secs(86_400)).as_millis();
    let offer = || dq("DQ.OFFER", &q);
    let first: String = offer().arg("1h").arg("in an hour").query(&mut broker)?;
    let _: String = offer()
        .arg(5_400_000)
        .arg("in 90 minutes")
        .query(&mut broker)?;
    let at: String = offer()
        .arg("AT")
        .arg(tomorrow as u64)
        .arg(BINARY)
        .query(&mut broker)?;
    assert!(at.starts_with(&format!("{tomorrow}-")), "{at}");
    let mut named = offer();
    named.arg("3h").arg("order 42").arg("NAME").arg("order:42");
    let old: String = named.query(&mut broker)?;
    let absent: Option<String> = named.clone().arg("NX").query(&mut broker)?;
    assert_eq!(absent, None);
    let new: String = named.arg("XX").query(&mut broker)?;
    assert_ne!(new, old);
    let mut moffer = dq("DQ.MOFFER", &q);
    moffer
        .arg("4h")
        .arg("one")
        .arg("5h")
        .arg("")
        .arg("6h")
        .arg(BINARY);
    let ids: Vec<String> = moffer.query(&mut broker)?;
    assert_eq!(ids.len(), 3);
    assert_eq!(dq("DQ.SIZE", &q).query(&mut broker), Ok(7));

    // What comes next, by due time: maps in RESP3, names and values in turn in RESP2.
    let peeked: Vec<Value> = dq("DQ.PEEK", &q).arg("COUNT").arg(3).query(&mut broker)?;
    assert!(
        peeked
            .iter()
            .all(|message| matches!(message, Value::Map(_)) == resp3)
    );
    let peeked = peeked
        .into_iter()
        .map(redis::from_redis_value)
        .collect::<Result<Vec<_>, _>>()?;
    let payload = |message: &HashMap<String, Value>| text(&message["payload"]);
    let payloads: Vec<_> = peeked.iter().map(payload).collect();
    assert_eq!(payloads, ["in an hour", "in 90 minutes", "order 42"]);
    assert_eq!(text(&peeked[0]["id"]), first);
    assert_eq!(peeked[0]["name"], Value::Nil);
    let due = first.split('-').next().unwrap().parse().unwrap();
    assert_eq!(peeked[0]["due"], Value::Int(due));
    assert_eq!(text(&peeked[2]["id"]), new);
    assert_eq!(text(&peeked[2]["name"]), "order:42");
    let got: HashMap<String, Value> = dq("DQ.GET", &q).arg(&at).query(&mut broker)?;
    assert_eq!(got["payload"], Value::BulkString(BINARY.to_vec()));
    assert_eq!(
        dq("DQ.PEEK", "interop:none").query(&mut broker),
        Ok(Value::Array(vec![]))
    );

    // By id or by name; what is gone already counts 0.
    let mut cancel = dq("DQ.CANCEL", &q);
    cancel.arg("order:42").arg(&ids);
    assert_eq!(cancel.query(&mut broker), Ok(4));
    assert_eq!(cancel.arg(&first).query(&mut broker), Ok(1));
    assert_eq!(dq("DQ.SIZE", &q).query(&mut broker), Ok(2));

    // The first word of an error is its code.
    fails_with("BADDELAY", offer().arg("soon").arg("x"), &mut broker);
    fails_with(
        "BADQUEUE",
        dq("DQ.OFFER", "").arg("1h").arg("x"),
        &mut broker,
    );
    for refused in [&offer(), &dq("DQ.NONE", &q)] {
        let error = refused.exec(&mut broker).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Server(redis::ServerErrorKind::ResponseError)
        );
    }

    // A thousand in one write; the replies come in order.
    let many = format!("{q}:many");
    let mut pipeline = redis::pipe();
    for i in 0..1000 {
        let offer = pipeline.cmd("DQ.OFFER").arg(&many).arg("AT");
        offer.arg(tomorrow as u64 + i).arg(format!("message {i}"));
    }
    let ids: Vec<String> = pipeline.query(&mut broker)?;
    assert_eq!(ids.len(), 1000);
    for (due, id) in (tomorrow..).zip(ids) {
        assert!(id.starts_with(&format!("{due}-")), "{id} is not due {due}");
    }
    assert_eq!(dq("DQ.SIZE", &many).query(&mut broker), Ok(1000));

    // Due messages are in the list of the queue's name, byte for byte.
    let _: String = offer().arg("20ms").arg(BINARY).query(&mut broker)?;
    let taken: (String, Vec<u8>) = backing.blpop(&q, 10.0)?;
    assert_eq!(taken, (q, BINARY.to_vec()));

    assert_eq!(cmd("QUIT").query(&mut broker), Ok(Value::Okay));
    Ok(())
}

fn dq(name: &str, queue: &str) -> Cmd {
    cmd(name).arg(queue).to_owned()
}

fn text(value: &Value) -> String {
    redis::from_redis_value_ref(value).unwrap()
}

fn fails_with(code: &str, refused: &Cmd, broker: &mut Connection) {
    assert_eq!(refused.exec(broker).unwrap_err().code(), Some(code));
}
