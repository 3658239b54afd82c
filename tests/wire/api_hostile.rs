//! Bad input for the API, and callers that mean harm: refused and bounded, and `/readyz` answers
//! meanwhile.

use crate::peer::Place;
use crate::support::broker::Broker;
use crate::support::http::{Answer, Api, exchange};
use crate::support::redis::Redis;
use crate::support::resp::Client;
use crate::support::users::{File, PASSWORD, user};
use crate::support::wait::eventually;
use crate::users;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn api(place: &Place) -> Api {
    Api::new(place.broker.http_address())
}

fn ready(broker: &Broker) -> u16 {
    let request = b"GET /readyz HTTP/1.1\r\nConnection: close\r\n\r\n";
    exchange(&broker.http_address(), request).unwrap().status
}

/// Probes that come while something else goes on: each is answered.
fn is_ready(broker: &Broker) {
    assert_eq!(ready(broker), 200);
}

fn raw(api: &Api, head: &str, body: &[u8]) -> Answer {
    let head = format!("{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    let length = format!("Content-Length: {}\r\n{}\r\n", body.len(), api.headers);
    let request = [head.as_bytes(), length.as_bytes(), body].concat();
    exchange(&api.address, &request).unwrap()
}

#[test]
fn bad_requests() {
    let place = Place::spawn(&[]);
    let json = api(&place).with("Content-Type: application/json");
    let deep = "[".repeat(100_000);
    let nested = format!("{{\"payload\":{}1", "{\"text\":".repeat(10_000));
    let offer = "POST /api/v1/queues/q/messages";
    let rows: [(&str, &[u8], &str); 18] = [
        (offer, b"", "400 ERR no"),
        (offer, b"{", "400 ERR no"),
        (offer, b"[]", "400 ERR no"),
        (offer, b"null", "400 ERR no"),
        (offer, b"{\"delay\":5,\"payload\":\"\xff\"}", "400 ERR no"),
        (offer, deep.as_bytes(), "400 ERR no"),
        (offer, nested.as_bytes(), "400 ERR no"),
        (offer, b"{\"delay\":\"soon\",\"payload\":\"p\"}", "400 ERR no"),
        (offer, b"{\"delay\":\"5x\",\"payload\":\"p\"}", "400 BADDELAY no"),
        (offer, b"{\"delay\":-5,\"payload\":\"p\"}", "400 BADDELAY no"),
        (offer, b"{\"delay\":1.5,\"payload\":\"p\"}", "400 BADDELAY no"),
        (offer, b"{\"at\":1893484800,\"payload\":\"p\"}", "400 BADTIME no"),
        (offer, b"{\"delay\":5,\"payload\":\"p\",\"ttl\":\"1h\"}", "400 ERR no"),
        (
            "POST /api/v1/queues/redisson_delay_queue/messages",
            b"{\"delay\":5,\"payload\":\"p\"}",
            "400 BADQUEUE no",
        ),
        ("POST /api/v1/queues/q/clear?yes", b"", "400 ERR no"),
        ("GET /api/v1/queues", b"{}", "400 ERR no"),
        ("GET /api/v1/queues?count=0", b"", "400 ERR no"),
        ("GET /api/v1/queues?count=1&count=2", b"", "400 ERR no"),
    ];
    for (head, body, wanted) in rows {
        let answer = raw(&json, head, body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]);
        assert_eq!(answer.problem(), wanted, "{head} {shown}: {}", answer.text());
    }
    let body = b"{\"delay\":5,\"payload\":\"p\"}";
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
        let api = api(&place).with(&format!("Content-Type: {kind}"));
        assert_eq!(raw(&api, offer, body).problem(), "415 ERR no", "{kind}");
        assert_eq!(raw(&api, "POST /api/v1/queues/q/clear", b"").status, 415, "{kind}");
    }
    assert_eq!(raw(&api(&place), offer, body).problem(), "415 ERR no");
    let utf8 = api(&place).with("Content-Type: Application/JSON; charset=utf-8");
    assert_eq!(raw(&utf8, offer, body).status, 201);
    for credentials in ["Basic", "Basic !!!", "Digest x", "Bearer eA=="] {
        let api = api(&place).with(&format!("Authorization: {credentials}"));
        let answer = api.call("GET", "/queues", &Value::Null);
        assert_eq!(answer.problem(), "401 WRONGPASS no", "{credentials}");
    }
    // It breaks off.
    let broken = "POST /api/v1/queues/q/clear HTTP/1.1\r\nHost: localhost\r\n\
                  Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    let answer = exchange(&json.address, broken.as_bytes()).unwrap();
    assert_eq!(answer.problem(), "408 ERR no");
    let packed = api(&place).with("Accept-Encoding: gzip, br, zstd");
    let answer = packed.call("GET", "/openapi.json", &Value::Null);
    assert_eq!((answer.status, answer.header("content-encoding")), (200, None));
    // Many words.
    let many: Vec<u32> = (0..3_000).collect();
    let many: Vec<String> = many.iter().map(u32::to_string).collect();
    let answer = api(&place).call("POST", "/queues/q/cancel", &json!({"messages": many}));
    assert_eq!(answer.problem(), "422 TOOMANY no", "{}", answer.text());
    assert_eq!(api(&place).call("GET", "/queues/q", &Value::Null).status, 200);
}

/// Large bodies: up to the limit they are taken, beyond it refused, and the memory stays bounded.
#[test]
fn large_bodies_and_answers() {
    let place = Place::spawn(&[("http.body_bytes_max", "2000000")]);
    let api = api(&place);
    let offer = |bytes: usize, letter: &str| {
        let body = json!({"delay": "1h", "payload": letter.repeat(bytes), "name": letter});
        api.call("POST", "/queues/q/messages", &body)
    };
    assert_eq!(offer(1_900_000, "a").status, 201);
    for bytes in [2_000_000, 10_000_000] {
        assert_eq!(offer(bytes, "b").problem(), "413 TOOBIG no");
    }
    let length = "Content-Length: 99999999999\r\n";
    let head = "POST /api/v1/queues/q/messages HTTP/1.1\r\nHost: localhost\r\n\
                Content-Type: application/json\r\n";
    let announced = exchange(&api.address, format!("{head}{length}\r\n{{").as_bytes());
    assert_eq!(announced.unwrap().problem(), "413 TOOBIG no");
    // In chunks, without a length.
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(80);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\n");
    assert_eq!(exchange(&api.address, chunked.as_bytes()).unwrap().problem(), "413 TOOBIG no");
    let answer = api.call("GET", "/queues/q/messages/a", &Value::Null);
    assert_eq!(answer.json()["payload"]["text"].as_str().unwrap().len(), 1_900_000);
    // A message that came by the other door, of bytes that are no text.
    let mut client = place.broker.client();
    let payload = vec![0xff; 16 << 20];
    client.call(&[&b"DQ.OFFER"[..], b"q", b"1h", &payload, b"NAME", b"huge"]).unwrap();
    let base64_of = payload.len().div_ceil(3) * 4;
    let get = || {
        let answer = api.call("GET", "/queues/q/messages/huge", &Value::Null);
        assert_eq!(answer.status, 200, "{}", answer.head);
        let payload = answer.json()["payload"]["base64"].clone();
        assert_eq!(payload.as_str().unwrap().len(), base64_of);
    };
    get();
    // Ten at once, and ten that are never read.
    let request = "GET /api/v1/queues/q/messages/huge HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let unread: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut stream = TcpStream::connect(&api.address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    for _ in 0..5 {
        is_ready(&place.broker);
        client.call(&["DQ.SIZE", "q"]).unwrap();
    }
    drop(unread);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                eventually(
                    || api.call("GET", "/queues/q/messages/huge", &Value::Null).status,
                    |status| *status == 200,
                )
            });
        }
    });
    let peak = place.broker.peak_bytes();
    assert!(peak < 300 << 20, "{peak}");
}

/// Bodies that do not come, from callers who have not said who they are: nobody else waits.
#[test]
fn slow_bodies_and_crowds_keep_nobody_out() {
    let file = File::new(&user("ann", "commands = ['+@all']\nqueues = ['*']"));
    let place = users::place(&file, &[]);
    let api = api(&place).user("ann", PASSWORD);
    let head = "POST /api/v1/queues/q/clear HTTP/1.1\r\nHost: x\r\n\
                Content-Type: application/json\r\n";
    let slow = format!("{head}Content-Length: 1000\r\n\r\n{{");
    let mut held: Vec<TcpStream> = Vec::new();
    for round in 0..1_000 {
        let mut stream = TcpStream::connect(&api.address).unwrap();
        // A third each: a slow body, a slow head, nothing. It may be closed for another by now.
        let sent = [slow.as_str(), "GET /api/v1/que", ""][round % 3];
        stream.write_all(sent.as_bytes()).ok();
        held.push(stream);
        if round % 50 == 0 {
            is_ready(&place.broker);
            let answer = api.call("GET", "/queues/q", &Value::Null);
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
    // Without a password no large body is even read.
    let large = format!("{head}Content-Length: 1000000\r\n\r\n{}", "x".repeat(1_000_000));
    assert_eq!(exchange(&api.address, large.as_bytes()).unwrap().problem(), "401 NOAUTH no");
    // Those that were not closed for others get no more than their time.
    drop(held);
    let log = place.broker.log();
    assert!(log.lines().count() < 200, "{log}");
}

/// Guesses wait as they do at the other door, and keep nobody out.
#[test]
fn guesses_wait() {
    let file = File::new(&user("ann", "commands = ['+@all']\nqueues = ['*']\npayloads = true"));
    let place = users::place(&file, &[]);
    let api = api(&place);
    let (right, wrong) = (api.user("ann", PASSWORD), api.user("ann", "guess-4711"));
    // Few requests for messages are answered at one time.
    let get = |api: &Api| api.call("GET", "/queues/q/messages", &Value::Null);
    assert_eq!(get(&right).status, 200);
    for _ in 0..5 {
        assert_eq!(get(&wrong).problem(), "401 WRONGPASS no");
    }
    // Many at once: most wait, all are answered, and the right password is not held up.
    std::thread::scope(|scope| {
        let guesses: Vec<_> = (0..40).map(|_| scope.spawn(|| get(&wrong).problem())).collect();
        for _ in 0..20 {
            assert_eq!(get(&right).status, 200);
            is_ready(&place.broker);
        }
        for guess in guesses {
            assert_eq!(guess.join().unwrap(), "401 WRONGPASS no");
        }
    });
    // At the other door they count too: the next one waits there.
    let mut client = place.broker.client();
    let said = client.call(&["AUTH", "ann", "guess-4711"]).unwrap().text();
    assert!(said.starts_with("WRONGPASS"), "{said}");
    let log = place.broker.log();
    assert!(log.contains("\"user\":\"ann\"") && !log.contains("guess-4711"), "{log}");
}

/// Pipelined requests are answered one after the other, and a connection ends behind the last.
#[test]
fn many_requests_of_one_connection() {
    let place = Place::spawn(&[]);
    let body = "{\"delay\":\"1h\",\"payload\":\"p\"}";
    let request = format!(
        "POST /api/v1/queues/q/messages HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(place.broker.http_address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.repeat(150).as_bytes()).unwrap();
    let mut answers = Vec::new();
    // The rest was not read.
    stream.read_to_end(&mut answers).ok();
    let answers = String::from_utf8_lossy(&answers).into_owned();
    let made = answers.matches("HTTP/1.1 201 Created").count();
    let stored = place.broker.client().call(&["DQ.SIZE", "q"]).unwrap().number().unwrap();
    assert_eq!((made <= 100, stored), (true, 100));
}

/// Redis is away: the codes of commands, and whether it was applied.
#[test]
fn without_redis() {
    let redis = Redis::spawn(&[]);
    let settings = [("redis.call_timeout_ms", "300"), ("redis.settle_timeout_ms", "300")];
    let broker = Broker::spawn(&redis.url(0), &settings);
    let api = Api::new(broker.http_address());
    let offer = json!({"delay": "1h", "payload": "p"});
    assert_eq!(api.call("POST", "/queues/q/messages", &offer).status, 201);
    drop(redis);
    let down = || api.call("POST", "/queues/q/messages", &offer);
    let answer = eventually(down, |answer| answer.problem() == "503 UNAVAILABLE no");
    assert_eq!(answer.header("retry-after"), Some("1"));
    let answer = api.call("GET", "/queues/q", &Value::Null);
    assert_eq!(answer.problem(), "503 UNAVAILABLE no");
}

/// A broker whose Redis answers no write until it is told to; and what tells it.
fn held_up() -> (Redis, Broker, Client) {
    let redis = Redis::spawn(&[]);
    let broker = Broker::spawn(&redis.url(0), &[("redis.call_timeout_ms", "60000")]);
    let api = Api::new(broker.http_address());
    let offer = json!({"delay": "1h", "payload": "p"});
    assert_eq!(api.call("POST", "/queues/q/messages", &offer).status, 201);
    let mut backing = redis.client(0);
    backing.call(&["RPUSH", "q", "a"]).unwrap();
    backing.call(&["CLIENT", "PAUSE", "60000", "WRITE"]).unwrap();
    (redis, broker, backing)
}

/// A request that is under way when this returns: what comes later is answered.
fn begin(broker: &Broker, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(broker.http_address()).unwrap();
    let length = body.len();
    let request = format!(
        "POST /api/v1/queues/q{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    is_ready(broker);
    stream
}

/// What was begun before a stop is answered.
#[test]
fn a_stop_answers_what_was_begun() {
    let (redis, mut broker, mut backing) = held_up();
    let mut begun = begin(&broker, "/messages", "{\"delay\":\"1h\",\"payload\":\"p\"}");
    broker.signal("TERM");
    let api = Api::new(broker.http_address());
    eventually(|| ready(&broker), |status| *status == 503);
    let late = api.call("POST", "/queues/q/pause", &json!({"for": "1h"}));
    assert_eq!(late.problem(), "503 UNAVAILABLE no");
    backing.call(&["CLIENT", "UNPAUSE"]).unwrap();
    let mut answer = String::new();
    begun.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created"), "{answer}");
    broker.wait(Duration::from_secs(30));
    let key = "redisson_delay_queue_timeout:{q}";
    assert_eq!(redis.client(0).call(&["ZCARD", key]).unwrap().number().unwrap(), 2);
}

/// A caller that leaves before it has its messages does not keep them.
#[test]
fn messages_of_a_caller_that_left_go_back() {
    let (_redis, broker, mut backing) = held_up();
    drop(begin(&broker, "/take", ""));
    is_ready(&broker);
    backing.call(&["CLIENT", "UNPAUSE"]).unwrap();
    let api = Api::new(broker.http_address());
    let take = || api.call("POST", "/queues/q/take", &Value::Null).json()["items"].clone();
    let taken = eventually(take, |items| items[0].is_object());
    assert_eq!(taken[0]["payload"], json!({"text": "a"}));
    assert_eq!(taken[0]["attempt"], 1);
}

/// Who stays outside is logged, many of them in sum.
#[test]
fn refusals_are_summed_up() {
    let place = Place::spawn(&[]);
    let stranger = api(&place).with("Host: evil.example");
    for _ in 0..200 {
        assert_eq!(stranger.call("GET", "/queues", &Value::Null).problem(), "403 NOPERM no");
    }
    place.broker.has_logged("more lines of this kind were left out");
    let log = place.broker.log();
    assert!(log.contains("the API are closed") && log.contains("127.0.0.1:"), "{log}");
    assert!(log.lines().count() < 150, "{log}");
}
