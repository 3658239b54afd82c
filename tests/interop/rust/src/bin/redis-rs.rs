//! The broker from redis-rs. Environment and steps: tests/interop/README.md.

use std::collections::HashMap;
use std::env::var;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, thread};

use redis::{Client, Cmd, Commands, Connection, ErrorKind, IntoConnectionInfo, ProtocolVersion};
use redis::{RedisConnectionInfo, RedisResult, ServerErrorKind, TlsCertificates, Value, cmd};

const BINARY: &[u8] = b"\0nul\r\ncrlf\xff\0";

fn env(name: &str) -> String {
    var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn passed(step: &str) {
    println!("{step}");
}

fn client() -> RedisResult<Client> {
    let (password, port, ca) = (env("PASSWORD"), env("BROKER_PORT"), env("CA"));
    let mut settings = RedisConnectionInfo::default();
    // Protocol 2 is what redis-rs opens with when told nothing.
    if env("PROTOCOL") == "3" {
        settings = settings.set_protocol(ProtocolVersion::RESP3);
    }
    if !password.is_empty() {
        settings = settings.set_password(password);
    }
    let tls = if ca.is_empty() { "" } else { "s" };
    let address = format!("redis{tls}://localhost:{port}").into_connection_info()?;
    let info = address.set_redis_settings(settings);
    if ca.is_empty() {
        return Client::open(info);
    }
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: Some(fs::read(ca)?),
    };
    Client::build_with_tls(info, certificates)
}

fn main() -> RedisResult<()> {
    // rustls leaves the choice of its cryptography to the program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let q = env("QUEUE");
    let queue = q.as_str();
    let large: Vec<u8> = (0..4 << 20).map(|i| i as u8).collect();

    // `broker` takes messages in; `backing` is the Redis where they come out, as a plain list.
    let client = client()?;
    let mut broker = client.get_connection()?;
    let mut backing =
        Client::open(format!("redis://localhost:{}", env("REDIS_PORT")))?.get_connection()?;
    assert_eq!(broker.ping(), Ok("PONG".to_owned()));
    passed("connect");

    let offer = |delay: &str| cmd("DQ.OFFER").arg(queue).arg(delay).to_owned();
    let id: String = cmd("DQ.OFFER")
        .arg(queue)
        .arg("30m")
        .arg("hello")
        .query(&mut broker)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let tomorrow = (now.unwrap() + Duration::from_secs(86_400)).as_millis() as u64;
    let at: String = offer("AT").arg(tomorrow).arg(BINARY).query(&mut broker)?;
    assert!(at.starts_with(&format!("{tomorrow}-")), "{at}");
    let mut order = offer("1h");
    order.arg("order 42").arg("NAME").arg("order:42");
    let named: String = order.query(&mut broker)?;
    assert_eq!(order.arg("NX").query(&mut broker), Ok(None::<String>));
    passed("offer");

    let mut moffer = cmd("DQ.MOFFER");
    moffer
        .arg(queue)
        .arg(&["2h", "one", "3h", "", "4h"])
        .arg(BINARY);
    let ids: Vec<String> = moffer.query(&mut broker)?;
    assert_eq!(ids.len(), 3);
    assert_eq!(size(queue, &mut broker), Ok(6));
    passed("moffer");

    let cancelled: i64 = cmd("DQ.CANCEL").arg(queue).arg(&id).query(&mut broker)?;
    assert_eq!(cancelled, 1);
    let mut cancel = cmd("DQ.CANCEL");
    assert_eq!(
        cancel.arg(queue).arg(&id).arg(&ids).query(&mut broker),
        Ok(3)
    );
    passed("cancel");

    let mut reschedule = cmd("DQ.RESCHEDULE");
    reschedule.arg(queue);
    let moved: String = reschedule
        .clone()
        .arg("order:42")
        .arg("45m")
        .query(&mut broker)?;
    assert_ne!(moved, named);
    let gone = reschedule.arg(&named).arg("45m").query(&mut broker);
    assert_eq!(gone, Ok(None::<String>));
    passed("reschedule");

    // A message is a map in RESP3, names and values in turn in RESP2; a HashMap reads both.
    let peeked = cmd("DQ.PEEK").arg(queue).arg("COUNT").arg(5).to_owned();
    let raw: Vec<Value> = peeked.query(&mut broker)?;
    let resp3 = env("PROTOCOL") == "3";
    assert!(
        raw.iter()
            .all(|message| matches!(message, Value::Map(_)) == resp3)
    );
    let peeked: Vec<HashMap<String, Value>> = peeked.query(&mut broker)?;
    let bytes = |i: usize, field: &str| {
        redis::from_redis_value_ref::<Option<Vec<u8>>>(&peeked[i][field]).unwrap()
    };
    assert_eq!(peeked.len(), 2);
    assert_eq!(bytes(0, "id").as_deref(), Some(moved.as_bytes()));
    assert_eq!(bytes(0, "name").as_deref(), Some(&b"order:42"[..]));
    assert_eq!(bytes(0, "payload").as_deref(), Some(&b"order 42"[..]));
    assert_eq!(bytes(1, "id").as_deref(), Some(at.as_bytes()));
    assert_eq!(bytes(1, "name"), None);
    assert_eq!(bytes(1, "payload").as_deref(), Some(BINARY));
    assert_eq!(peeked[1]["due"], Value::Int(tomorrow as i64));
    let none = format!("{queue}:none");
    assert_eq!(
        cmd("DQ.PEEK").arg(none).query(&mut broker),
        Ok(Value::Array(vec![]))
    );
    passed("peek");

    // The first word of an error is its code; redis-rs has a kind in place of "ERR".
    let refused = |command: &Cmd, broker: &mut Connection| command.exec(broker).unwrap_err();
    let error = refused(offer("soon").arg("x"), &mut broker);
    assert_eq!(error.code(), Some("BADDELAY"));
    let error = refused(cmd("DQ.OFFER").arg("").arg("1h").arg("x"), &mut broker);
    assert_eq!(error.code(), Some("BADQUEUE"));
    for command in [cmd("DQ.OFFER").arg(queue), cmd("DQ.NONE").arg(queue)] {
        let plain = ErrorKind::Server(ServerErrorKind::ResponseError);
        assert_eq!(refused(command, &mut broker).kind(), plain);
    }
    passed("errors");

    // A thousand in one write; the replies come in order.
    let mut pipeline = redis::pipe();
    for i in 0..1000 {
        let offer = pipeline
            .cmd("DQ.OFFER")
            .arg(format!("{queue}:many"))
            .arg("AT");
        offer.arg(tomorrow + i).arg(format!("message {i}"));
    }
    let ids: Vec<String> = pipeline.query(&mut broker)?;
    assert_eq!(ids.len(), 1000);
    for (due, id) in (tomorrow..).zip(ids) {
        assert!(id.starts_with(&format!("{due}-")), "{id} is not due {due}");
    }
    passed("pipeline");

    let _: String = offer("20ms").arg(BINARY).query(&mut broker)?;
    let (name, payload): (String, Vec<u8>) = backing.blpop(queue, 10.0)?;
    assert_eq!((name.as_str(), payload.as_slice()), (queue, BINARY));
    passed("binary");

    let id: String = offer("1h").arg(&large).query(&mut broker)?;
    let got: HashMap<String, Value> = cmd("DQ.GET").arg(queue).arg(&id).query(&mut broker)?;
    assert!(got["payload"] == Value::BulkString(large.clone()));
    assert_eq!(cmd("DQ.FIRE").arg(queue).arg(&id).query(&mut broker), Ok(1));
    let (_, payload): (String, Vec<u8>) = backing.blpop(queue, 10.0)?;
    assert!(payload == large);
    passed("large");

    // A message is handed out until it is acknowledged.
    let due_now = ["0", "one", "0", "", "0"];
    let mut moffer = cmd("DQ.MOFFER");
    moffer.arg(queue).arg(&due_now).arg(BINARY);
    moffer.exec(&mut broker)?;
    let mut messages = Vec::new();
    while messages.len() < 3 {
        let taken: Vec<HashMap<String, Value>> = cmd("DQ.TAKE")
            .arg(queue)
            .arg(&["COUNT", "3", "BLOCK", "5s"])
            .query(&mut broker)?;
        messages.extend(taken);
    }
    let bytes = |message: &HashMap<String, Value>, field: &str| {
        redis::from_redis_value_ref::<Vec<u8>>(&message[field]).unwrap()
    };
    for (message, payload) in messages.iter().zip([b"one", &b""[..], BINARY]) {
        assert_eq!(bytes(message, "payload"), payload);
        assert_eq!(message["attempt"], Value::Int(1));
    }
    let [one, two, three] = [0, 1, 2].map(|i| bytes(&messages[i], "receipt"));
    let acked: i64 = cmd("DQ.ACK").arg(queue).arg(&one).query(&mut broker)?;
    assert_eq!(acked, 1);
    assert_eq!(cmd("DQ.ACK").arg(queue).arg(&one).query(&mut broker), Ok(0));
    let mut extend = cmd("DQ.EXTEND");
    extend.arg(queue).arg(&two).arg(&three).arg("LEASE").arg("2m");
    assert_eq!(extend.query(&mut broker), Ok(2));
    let mut nack = cmd("DQ.NACK");
    nack.arg(queue).arg(&two).arg("DELAY").arg(0);
    nack.arg("REASON").arg("not yet");
    assert_eq!(nack.query(&mut broker), Ok(1));
    let mut take = cmd("DQ.TAKE");
    take.arg(queue).arg("BLOCK").arg("5s");
    let again: Vec<HashMap<String, Value>> = take.query(&mut broker)?;
    assert_eq!(again[0]["id"], messages[1]["id"]);
    assert_eq!(again[0]["attempt"], Value::Int(2));
    assert_eq!(bytes(&again[0], "payload"), b"");
    let mut ack = cmd("DQ.ACK");
    ack.arg(queue).arg(bytes(&again[0], "receipt")).arg(&three);
    assert_eq!(ack.query(&mut broker), Ok(2));
    let nothing: Option<Vec<Value>> = cmd("DQ.TAKE").arg(queue).query(&mut broker)?;
    assert_eq!(nothing, None);
    passed("consume");

    let pool = r2d2::Pool::builder()
        .max_size(50)
        .build(client.clone())
        .unwrap();
    let pooled = format!("{queue}:pool");
    thread::scope(|threads| {
        for _ in 0..50 {
            threads.spawn(|| {
                for _ in 0..20 {
                    let mut one = pool.get().unwrap();
                    let stored = cmd("DQ.OFFER")
                        .arg(&pooled)
                        .arg("1h")
                        .arg("x")
                        .exec(&mut one);
                    stored.unwrap();
                }
            });
        }
    });
    assert_eq!(size(&pooled, &mut broker), Ok(1000));
    drop(pool);
    passed("pool");

    // A broken connection says so, and a new one is up to us.
    assert!(Command::new(env("RESTART")).status()?.success());
    let end = Instant::now() + Duration::from_secs(10);
    let pending = loop {
        match size(queue, &mut broker) {
            Err(error) if error.is_unrecoverable_error() && Instant::now() < end => {
                broker = client.get_connection()?;
            }
            answer => break answer,
        }
    };
    assert_eq!(pending, Ok(2));
    passed("restart");

    assert_eq!(cmd("QUIT").query(&mut broker), Ok(Value::Okay));
    passed("quit");
    Ok(())
}

fn size(queue: &str, broker: &mut Connection) -> RedisResult<i64> {
    cmd("DQ.SIZE").arg(queue).query(broker)
}
