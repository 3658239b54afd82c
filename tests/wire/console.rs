//! The console, without a browser: each page and each form over HTTP; hostile names; forms that
//! other pages send; sessions; and who may do what.

use crate::api::{least, place};
use crate::peer::Place;
use crate::support::broker::Broker;
use crate::support::http::{Answer, exchange};
use crate::support::redis;
use crate::support::resp::Value as Value3;
use crate::support::users::{File, PASSWORD, user};
use crate::support::wait::eventually;
use crate::users::{self, matrix, refusal, tables};
use delay_broker::command::TABLE;
use delay_broker::http::console::{actions, live::STREAMS_MAX, pages::PAGES};
use delay_broker::http::routes::Form;
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeSet, VecDeque};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A browser, as far as these tests need one.
#[derive(Clone)]
struct Browser {
    address: String,
    cookie: String,
}

const OWN: &str = "Sec-Fetch-Site: same-origin\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

impl Browser {
    fn new(broker: &Broker) -> Browser {
        let address = broker.http_address().replace("0.0.0.0", "127.0.0.1");
        Browser { address, cookie: String::new() }
    }

    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let host = if headers.contains("Host: ") { "" } else { "Host: localhost\r\n" };
        let cookie = match self.cookie.as_str() {
            "" => String::new(),
            cookie => format!("Cookie: other=1; {cookie}\r\n"),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{cookie}{headers}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = exchange(&self.address, request.as_bytes());
        answer.unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", "")
    }

    fn post(&self, path: &str, form: &str) -> Answer {
        self.send("POST", path, &format!("{OWN}{FORM}"), form)
    }

    /// A page that is there.
    fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    /// A form that does something: where the browser goes next.
    fn done(&self, path: &str, form: &str) -> String {
        let answer = self.post(path, form);
        assert_eq!(answer.status, 303, "{path} {form}: {}", answer.text());
        header(&answer, "location")
    }

    /// Logs in, and keeps the cookie.
    fn log_in(&mut self, name: &str, password: &str) -> Answer {
        let form = format!("user={}&password={}", encoded(name), encoded(password));
        let answer = self.post("/ui/login", &form);
        let cookie = answer.header("set-cookie").map(|cookie| cookie.split(';').next().unwrap());
        if answer.status == 303 {
            self.cookie = cookie.unwrap().to_owned();
        }
        answer
    }

    fn logged_in(&self, name: &str) -> Browser {
        let mut browser = self.clone();
        let answer = browser.log_in(name, PASSWORD);
        assert_eq!(answer.status, 303, "{name}: {}", answer.text());
        browser
    }
}

fn header(answer: &Answer, name: &str) -> String {
    answer.header(name).unwrap_or_else(|| panic!("{name}: {answer:?}")).to_owned()
}

fn encoded(text: impl AsRef<[u8]>) -> String {
    text.as_ref().iter().map(|byte| format!("%{byte:02X}")).collect()
}

/// The name of a queue in a path, as the console writes it.
fn segment(name: &[u8]) -> String {
    match name {
        b".." => "hex:2e2e".to_owned(),
        name => encoded(name),
    }
}

/// Text as it stands in a page.
fn plain(html: &str) -> String {
    let html = html.replace("&#60;", "<").replace("&#62;", ">").replace("&#34;", "\"");
    html.replace("&#39;", "'").replace("&#38;", "&")
}

/// The addresses that a page refers to.
fn links(page: &str) -> Vec<String> {
    let link = Regex::new(r#"(?:href|src)="(/[^"]*)""#).unwrap();
    link.captures_iter(page).map(|found| plain(&found[1])).collect()
}

/// Some of everything in the queue `orders`.
fn fill(place: &Place) {
    let mut client = place.broker.client();
    let lines = [
        "DQ.OFFER orders 1h {\"order\":42} NAME order:42",
        "DQ.OFFER orders 2h plain",
        "DQ.CRON orders SET nightly @daily clean",
        "DQ.SETUP jobs destination take limit 1",
        "DQ.OFFER jobs 0 job",
        "DQ.OFFER jobs 0 other",
        "DQ.OFFER paused 1h p",
        "DQ.PAUSE paused 10m",
    ];
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let reply = client.call(&words).unwrap();
        assert!(!matches!(reply, Value3::Error(_)), "{line}: {reply:?}");
    }
    eventually(
        || format!("{:?}", client.call(&["DQ.TAKE", "jobs"]).unwrap()),
        |taken| taken != "null",
    );
    let key = "redisson_delay_queue_timeout:{legacy}";
    place.backing().call(&["ZADD", key, "1000", "spoiled"]).unwrap();
    place.backing().call(&["LPUSH", "redisson_delay_queue:{legacy}", "spoiled"]).unwrap();
    client.call(&["DQ.POLL", "legacy"]).unwrap();
}

/// Every page, and every page that one leads to: there, with all headers, and nothing in it that
/// the policy would stop.
#[test]
fn every_page_and_all_that_they_lead_to() {
    let place = place();
    fill(&place);
    let browser = Browser::new(&place.broker);
    let mut todo: VecDeque<String> = PAGES
        .iter()
        .filter(|page| !page.path.contains("{job}"))
        .map(|page| {
            let path = page.path.replace("{queue}", "orders").replace("{message}", "order%3A42");
            format!("/ui{path}")
        })
        .collect();
    todo.extend(
        ["/ui/login", "/ui/queues?sort=pending&match=ord", "/ui/queues/none"].map(str::to_owned),
    );
    let mut seen = BTreeSet::new();
    while let Some(path) = todo.pop_front() {
        // A bar of each picture stands for all.
        let bars = seen.iter().filter(|seen: &&String| seen.contains("from=")).count();
        if path.contains("from=") && bars > 5 || !seen.insert(path.clone()) {
            continue;
        }
        let answer = browser.get(&path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(header(&answer, "x-content-type-options"), "nosniff", "{path}");
        let text = answer.text();
        if path.starts_with("/ui/assets/") {
            assert!(header(&answer, "cache-control").contains("immutable"), "{path}");
            continue;
        }
        assert_eq!(header(&answer, "content-type"), "text/html; charset=utf-8");
        assert_eq!(header(&answer, "cache-control"), "no-store");
        assert_eq!(header(&answer, "referrer-policy"), "same-origin");
        assert_eq!(header(&answer, "cross-origin-opener-policy"), "same-origin");
        let policy = header(&answer, "content-security-policy");
        for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(rule) && !policy.contains("unsafe"), "{policy}");
        }
        for wrong in [" style=", "<style", "<script>", " onclick=", "http://", "https://"] {
            assert!(!text.contains(wrong), "{path} has {wrong}");
        }
        assert_eq!(text.matches("<h1").count(), 1, "{path}");
        assert!(text.contains("<main") && text.contains("<html lang=\"en\">"), "{path}");
        todo.extend(links(&text));
    }
    assert!(seen.len() > 50, "{}", seen.len());
    let orders = plain(&browser.page("/ui/queues/orders"));
    for part in ["{\"order\":42}", "order:42", "DQ.CLEAR orders"] {
        assert!(orders.contains(part), "{part}: {orders}");
    }
    assert!(browser.page("/ui/queues/legacy").contains("1 in quarantine"));
    assert!(browser.page("/ui/queues/legacy/quarantine").contains("spoiled"));
    assert!(browser.page("/ui/queues/jobs/taken").contains("<time"));
    assert!(browser.page("/ui/").contains("messages fall due within an hour"));
    let server = eventually(|| browser.page("/ui/server"), |page| page.contains("persistence"));
    assert!(server.contains("set appendonly yes"), "{server}");
    let message = plain(&browser.page("/ui/queues/orders/messages/order:42"));
    for part in ["\"order\": 42", "DQ.FIRE orders 1", "7b 22 6f", "Offered"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    for (path, status) in [
        ("/ui/nothing", 404),
        ("/ui/queues/", 404),
        ("/ui/queues/%zz", 404),
        ("/ui/queues/orders/messages/nobody", 404),
        ("/ui/assets/app.css", 404),
        ("/ui/queues?cursor=x", 400),
        ("/ui/queues?match=%ff", 400),
        ("/ui/queues/orders?from=soon", 400),
        ("/ui/../metrics", 404),
        ("/uix", 404),
    ] {
        assert_eq!(browser.get(path).status, status, "{path}");
    }
    let bare = browser.get("/ui");
    assert_eq!((bare.status, bare.header("location")), (303, Some("/ui/")));
    // Somebody at a browser comes here from the root; a program reads what there is.
    let root = browser.send("GET", "/", "Accept: text/html,*/*\r\n", "");
    assert_eq!((root.status, root.header("location")), (303, Some("/ui/")));
    assert!(browser.page("/").starts_with("delay-broker\n"));
}

/// What people do with buttons.
#[test]
fn forms_do_what_they_say() {
    let place = place();
    let browser = Browser::new(&place.broker);
    let mut client = place.broker.client();
    let mut size = || client.call(&["DQ.SIZE", "q"]).unwrap().number().unwrap();
    let back = "back=%2Fui%2Fqueues%2Fq%3Fspan%3Dday";
    let next = browser
        .done("/ui/queues/q/messages", &format!("delay=1h&payload=two%0D%0Alines&name=n&{back}"));
    assert_eq!(next, "/ui/queues/q?span=day&done=offered&n=0");
    assert!(browser.page(&next).contains("Stored a message."));
    assert!(browser.page("/ui/queues/q/messages/n").contains("two\nlines"));
    // An unknown parameter, or one that another page would send elsewhere.
    for (back, wanted) in [("%2F%2Fevil", "/ui/?done"), ("%2Fui%2Fqueues", "/ui/queues?done")] {
        let next = browser.done("/ui/queues/q/fire", &format!("messages=none&back={back}"));
        assert!(next.starts_with(wanted), "{next}");
    }
    let next = browser.done("/ui/queues/q/messages/n/reschedule", "at_utc=2030-01-31T08%3A00");
    assert_eq!(next, "/ui/?done=rescheduled&n=0");
    assert!(browser.page("/ui/queues/q/messages/n").contains("2030-01-31T08:00:00.000Z"));
    for payload in ["a", "b", "c"] {
        browser
            .done("/ui/queues/q/messages", &format!("delay=1h&payload={payload}&name={payload}"));
    }
    let next = browser.done("/ui/queues/q/cancel", "messages=a&messages=b");
    assert_eq!(next, "/ui/?done=cancelled&n=2");
    assert!(browser.page(&next).contains("Cancelled 2 messages."));
    assert_eq!(size(), 2);
    let next = browser.done("/ui/queues/q/fire", "messages=c");
    assert_eq!(next, "/ui/?done=fired&n=1");
    browser.done("/ui/queues/q/pause", "for=10m");
    assert!(browser.page("/ui/queues/q").contains("paused, goes on in 9 min"));
    browser.done("/ui/queues/q/resume", "");
    browser.done("/ui/pause", "for=10m");
    assert!(browser.page("/ui/").contains("All queues are paused"));
    browser.done("/ui/resume", "");
    assert!(!browser.page("/ui/").contains("All queues are paused"));
    browser.done("/ui/queues/q/settings", "setting=limit&value=5");
    assert!(browser.page("/ui/queues/q/settings").contains(">setup<"));
    browser.done("/ui/queues/q/settings", "setting=limit");
    assert!(!browser.page("/ui/queues/q/settings").contains(">setup<"));
    browser
        .done("/ui/queues/q/crons", "cron=c%2F1&expression=%40daily&payload=p&tz=Europe%2FBerlin");
    browser.done("/ui/queues/q/crons/c%2F1/pause", "");
    assert!(browser.page("/ui/queues/q/crons").contains("paused"));
    browser.done("/ui/queues/q/crons/c%2F1/resume", "");
    assert_eq!(browser.done("/ui/queues/q/crons/c%2F1/delete", ""), "/ui/?done=deleted&n=1");
    // The name has to be typed.
    eventually(&mut size, |size| *size == 1);
    for typed in ["", "confirm=Q", "confirm=q2"] {
        let refused = browser.post("/ui/queues/q/clear", typed);
        assert_eq!(refused.status, 400, "{typed}");
        assert!(refused.text().contains("nothing was dropped"));
    }
    assert_eq!(size(), 1);
    assert_eq!(browser.done("/ui/queues/q/clear", "confirm=q"), "/ui/?done=cleared&n=1");
    assert_eq!(size(), 0);
    // Members that nobody can read, as bytes.
    let mut backing = place.backing();
    backing.call(&[&b"ZADD"[..], b"redisson_delay_queue_timeout:{q}", b"1000", b"\xff\0"]).unwrap();
    backing.call(&[&b"LPUSH"[..], b"redisson_delay_queue:{q}", b"\xff\0"]).unwrap();
    place.broker.client().call(&["DQ.POLL", "q"]).unwrap();
    let page = browser.page("/ui/queues/q/quarantine");
    assert!(page.contains("ff 00") && page.contains("value=\"/wA=\""), "{page}");
    let next = browser.done("/ui/queues/q/quarantine/drop", "members_base64=%2FwA%3D");
    assert_eq!(next, "/ui/?done=dropped&n=1");
}

/// What matches is counted first, and changed only then; whoever may not is told at once.
#[test]
fn a_dry_run_comes_first() {
    let some = "commands = ['+@read', '+@write']\nqueues = ['*']\npayloads = true";
    let all = "commands = ['+@all']\nqueues = ['*']\npayloads = true";
    let file = File::new(&(user("ann", some) + &user("all", all)));
    let place = users::place(&file, &[]);
    let browser = Browser::new(&place.broker);
    let (ann, all) = (browser.logged_in("ann"), browser.logged_in("all"));
    let mut client = place.broker.client();
    client.call(&["AUTH", "all", PASSWORD]).unwrap();
    for batch in 0..30 {
        let mut words = vec!["DQ.MOFFER".to_owned(), "q".to_owned()];
        for n in 0..100 {
            let kind = if n % 2 == 0 { "even" } else { "odd" };
            words.extend(["1h".to_owned(), format!("<{kind}> {batch} {n}")]);
        }
        client.call(&words).unwrap();
    }
    let mut size = || client.call(&["DQ.SIZE", "q"]).unwrap().number().unwrap();
    let page = plain(&all.page("/ui/queues/q/find?match=even"));
    assert!(page.contains("<even> 0 0") && !page.contains("odd"), "{page}");
    assert!(page.contains("DQ.CANCEL q MATCH *even*") && page.contains("Go on"), "{page}");
    let none = all.page("/ui/queues/q/find?match=nothing+of+this");
    assert!(none.contains("No pending message matches."), "{none}");
    // Without stars each letter stands for itself.
    let plain_text = all.page("/ui/queues/q/find?match=ev%3Fn");
    assert!(plain_text.contains("No pending message matches."), "{plain_text}");
    assert!(all.page("/ui/queues?match=%5Bq%5D").contains("No queue fits."));
    let seconds = all.page("/ui/queues/q/find?match=even&from=2020-01-01T00%3A00%3A05");
    assert!(seconds.contains("0 0"), "{seconds}");
    let past = all.page("/ui/queues/q/find?match=even&to=2020-01-01T00%3A00");
    assert!(past.contains("No pending message matches."), "{past}");
    // A dry run, as the user who lacks the rest may do.
    let dry = |who: &Browser, form: &str| {
        let path = who.done("/ui/queues/q/bulk", form);
        let ended = eventually(|| who.page(&path), |page| !page.contains("http-equiv"));
        (path, plain(&ended))
    };
    let (anns, counted) = dry(&ann, "change=cancel&match=even");
    assert!(counted.contains("1,500 messages would be cancelled."), "{counted}");
    assert!(counted.contains("DQ.CANCEL q MATCH *even* DECODE DRYRUN"), "{counted}");
    assert_eq!(ann.post(&format!("{anns}/run"), "").status, 403);
    // Nobody else's, and not before it has come to its end.
    assert_eq!(all.get(&anns).status, 404);
    assert_eq!(all.post(&format!("{anns}/run"), "").status, 404);
    assert_eq!(all.post("/ui/jobs/none/stop", "").status, 404);
    assert_eq!(size(), 3_000);
    let (path, _) = dry(&all, "change=cancel&match=even");
    let run = all.done(&format!("{path}/run"), "");
    let ended = eventually(|| all.page(&run), |page| !page.contains("http-equiv"));
    assert!(ended.contains("1,500 messages are cancelled."), "{ended}");
    assert_eq!(size(), 1_500);
    // It is the same run, however often it is sent.
    assert_eq!(all.done(&format!("{path}/run"), ""), run);
    // What was done in earnest is not done again.
    assert_eq!(all.post(&format!("{run}/run"), "").status, 400);
    let (path, counted) = dry(&all, "change=reschedule&match=odd+3&delay=2h");
    assert!(counted.contains("would get another due time"), "{counted}");
    let run = all.done(&format!("{path}/run"), "");
    let ended = eventually(|| all.page(&run), |page| !page.contains("http-equiv"));
    assert!(ended.contains("have another due time"), "{ended}");
    let (_, counted) = dry(&all, "change=fire&match=nothing");
    assert!(counted.starts_with("<!doctype") && !counted.contains("/run"), "{counted}");
    for (form, status) in [
        ("change=cancel", 400),
        ("match=a", 400),
        ("change=clear&match=a", 400),
        ("change=reschedule&match=a", 400),
        ("change=reschedule&match=a&delay=AT", 400),
        ("change=cancel&match=a&from=soon", 400),
        (&format!("change=cancel&match={}", "x".repeat(1_025)), 400),
    ] {
        assert_eq!(all.post("/ui/queues/q/bulk", form).status, status, "{form}");
    }
    assert_eq!(browser.post("/ui/queues/q/bulk", "change=cancel&match=a").status, 401);
}

/// An open stream of events.
struct Stream {
    socket: TcpStream,
    seen: String,
}

impl Stream {
    fn open(browser: &Browser, page: &str) -> Stream {
        let mut socket = TcpStream::connect(&browser.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let cookie = &browser.cookie;
        let page = encoded(page);
        let request = format!(
            "GET /ui/live?page={page} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).unwrap();
        Stream { socket, seen: String::new() }
    }

    /// What came, up to this.
    fn until(&mut self, wanted: &str) -> String {
        let mut bytes = [0; 4096];
        while !self.seen.contains(wanted) {
            let read = self.socket.read(&mut bytes).unwrap();
            assert!(read > 0, "{wanted} did not come: {}", self.seen);
            self.seen += &String::from_utf8_lossy(&bytes[..read]);
        }
        std::mem::take(&mut self.seen)
    }
}

/// A page in a browser is told what has changed, with the rights of its session, and as long as
/// that lasts.
#[test]
fn streams() {
    let everything = "commands = ['+@all']\nqueues = ['*']\npayloads = true";
    let mut tables = user("ann", "commands = ['+@all']\nqueues = ['a.*']\npayloads = true");
    for name in ["all", "u1", "u2", "u3", "u4"] {
        tables += &user(name, everything);
    }
    let file = File::new(&tables);
    let place = users::place(&file, &[]);
    let browser = Browser::new(&place.broker);
    let (ann, all) = (browser.logged_in("ann"), browser.logged_in("all"));
    let mut stream = Stream::open(&all, "/ui/queues");
    let head = stream.until("event: tick");
    let head = head.to_lowercase();
    for part in ["200 ok", "content-type: text/event-stream", "cache-control: no-store"] {
        assert!(head.contains(part), "{head}");
    }
    let mut anns = Stream::open(&ann, "/ui/queues");
    for queue in ["b.1", "a.1"] {
        all.done(&format!("/ui/queues/{queue}/messages"), "delay=1h&payload=p");
    }
    let came = stream.until("a.1</a>");
    assert!(came.contains("b.1</a>") && came.contains("event: part"), "{came}");
    // A part that has not changed does not come again.
    stream.until("event: tick");
    assert!(!stream.until("event: tick").contains("event: part"));
    assert!(!anns.until("a.1</a>").contains("b.1"));
    // More of them than there is room for; probes and scrapes have theirs.
    let mut streams = Vec::new();
    let live = |browser: &Browser, page: &str| {
        let answer = browser.get(&format!("/ui/live?page={}", encoded(page)));
        (answer.status, answer.text())
    };
    for name in ["u1", "u2", "u3", "u4"] {
        let sessions = [browser.logged_in(name), browser.logged_in(name)];
        // A parameter that the page does not know makes it no other page.
        let each = sessions.iter().flat_map(|session| (0..4).map(move |n| (session, n)));
        for (session, n) in each.take(STREAMS_MAX - 2 - streams.len()) {
            let mut opened = Stream::open(session, &format!("/ui/?x={n}"));
            opened.until("200 OK");
            streams.push(opened);
        }
        if name == "u1" {
            let refused = live(&sessions[0], "/ui/");
            assert!(refused.0 == 503 && refused.1.contains("of this session"), "{refused:?}");
            let refused = live(&browser.logged_in(name), "/ui/queues");
            assert!(refused.0 == 503 && refused.1.contains("of this user"), "{refused:?}");
        }
    }
    streams.iter_mut().for_each(|stream| _ = stream.until("event: tick"));
    let refused = live(&all, "/ui/");
    assert!(refused.0 == 503 && refused.1.contains("of all users"), "{refused:?}");
    // Pages that are made once only are no streams.
    let once = ["/ui/queues/a.1/find?match=p", "/ui/queues/a.1/messages/1", "/ui/queues/a.1/taken"];
    for page in ["/metrics", "/ui/live", "", "/ui", "/ui/server"].into_iter().chain(once) {
        assert_eq!(live(&all, page).0, 400, "{page}");
    }
    for path in ["/readyz", "/metrics", "/healthz"] {
        assert_eq!(browser.get(path).status, 200, "{path}");
    }
    drop(streams);
    let again = || {
        let mut again = Stream::open(&all, "/ui/");
        let answer = again.until("\r\n\r\n");
        answer.contains("200 OK")
    };
    eventually(again, |opened| *opened);
    // It ends with the session, and nobody else opens one.
    ann.post("/ui/logout", "");
    anns.until("event: over");
    assert_eq!(ann.get("/ui/live?page=%2Fui%2F").status, 303);
    file.write(&tables.replace("'*'", "'a.*', 'b.*'"));
    place.broker.signal("HUP");
    stream.until("event: over");
}

/// A page that takes its time to be made is made less often, and the browser is told.
#[test]
fn streams_of_slow_pages() {
    let redis = redis::Redis::spawn(&[]);
    let broker = Broker::with_args(&["--redis", &redis.url(0)], &[]);
    let browser = Browser::new(&broker);
    let mut stream = Stream::open(&browser, "/ui/");
    stream.until("event: tick");
    redis.client(0).call(&["CLIENT", "PAUSE", "60000", "ALL"]).unwrap();
    stream.until("event: next");
}

/// Nobody sends a form again since its answer did not come, and a page that cannot be shown says
/// only that.
#[test]
fn without_an_answer_of_redis() {
    let redis = redis::Redis::spawn(&[]);
    let settings = [("redis.call_timeout_ms", "500")];
    let broker = Broker::with_args(&["--redis", &redis.url(0)], &settings);
    let browser = Browser::new(&broker);
    eventually(|| browser.get("/ui/").status, |status| *status == 200);
    redis.client(0).call(&["CLIENT", "PAUSE", "60000", "WRITE"]).unwrap();
    let next = browser.done("/ui/queues/q/messages", "delay=1h&payload=p&back=%2Fui%2Fqueues%2Fq");
    assert_eq!(next, "/ui/queues/q?done=uncertain&n=0");
    drop(redis);
    let page = eventually(|| browser.get(&next), |answer| answer.status == 503);
    assert_eq!(header(&page, "refresh"), "5");
    let page = page.text();
    for part in ["Not shown", "href=\"/ui/server\"", "It may have been done all the same"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("Nothing was changed"), "{page}");
    assert!(browser.page("/ui/server").contains("<h1>"));
}

/// Names and payloads are bytes of strangers.
#[test]
fn hostile_names_and_payloads() {
    let place = place();
    let browser = Browser::new(&place.broker);
    let names: [&[u8]; 10] = [
        b"<script>alert(1)</script>",
        b"\"><img src=x onerror=alert(1)>",
        b"a\0b",
        b"%2e%2e",
        b"..",
        b"a/b?c=d#e",
        b"\xff\xfe",
        "\u{202e}\u{1f389} \u{e4}".as_bytes(),
        b"hex:2e",
        &[b'x'; 300],
    ];
    let mut client = place.broker.client();
    for name in names {
        client.call(&[&b"DQ.SETUP"[..], name, b"destination", b"take"]).unwrap();
        let offer =
            [&b"DQ.OFFER"[..], name, b"1h", name, b"NAME", name, b"HEADER", b"<blink>", name];
        let id = client.call(&offer).unwrap().text();
        let path = format!("/ui/queues/{}", segment(name));
        for page in PAGES.iter().filter(|page| page.path.contains("{queue}")) {
            let rest = page.path.replace("/queues/{queue}", "").replace("{message}", &id);
            let text = browser.page(&format!("{path}{rest}"));
            for wrong in ["<script>alert", "<img src=x", "\u{202e}", "<blink>", "\0"] {
                assert!(!text.contains(wrong), "{path}{rest}: {wrong}");
            }
        }
        // The list leads there.
        let lists = [browser.page("/ui/"), browser.page("/ui/queues?sort=name")];
        let there = |page: &String| {
            let mut links = links(page).into_iter();
            links.any(|link| link.eq_ignore_ascii_case(&path) || browser_path(&link, name))
        };
        assert!(lists.iter().all(there), "{}", name.escape_ascii());
        // By its name, too, where that is text.
        if let Ok(text) = std::str::from_utf8(name) {
            let found = browser.get(&format!("{path}?key={}", encoded(text)));
            assert_eq!(found.status, 303, "{text}");
            browser.page(&header(&found, "location"));
        }
        // As people read it, they type it.
        let page = plain(&browser.page(&path));
        let shown = page.split("you mean it: <code>").nth(1).unwrap().split("</code>").next();
        browser.done(&format!("{path}/messages"), "delay=1h&payload=p");
        browser.done(&format!("{path}/fire"), "messages=none");
        let form = format!("confirm={}", encoded(shown.unwrap()));
        let next = browser.done(&format!("{path}/clear"), &form);
        assert_eq!(next, "/ui/?done=cleared&n=2", "{}", name.escape_ascii());
    }
    // A word of the page's address is none of the page.
    let page = browser.page("/ui/?done=%3Cscript%3E&n=%3Cscript%3E");
    assert!(!page.contains("role=\"status\""));
}

/// Whether a link of a page leads to the queue.
fn browser_path(link: &str, name: &[u8]) -> bool {
    let Some(rest) = link.strip_prefix("/ui/queues/") else { return false };
    delay_broker::http::console::pages::decoded(rest).as_deref() == Some(name)
}

/// A form of another page changes nothing, however it comes.
#[test]
fn forms_of_other_pages() {
    let place = place();
    let browser = Browser::new(&place.broker);
    let offer = "/ui/queues/q/messages";
    let form = "delay=1h&payload=p";
    let plain = "Content-Type: text/plain\r\n";
    let json = "Content-Type: application/json\r\n";
    let many = "Content-Type: multipart/form-data; boundary=x\r\n";
    let rows = [
        (FORM.to_owned(), 403),
        (format!("{FORM}Sec-Fetch-Site: cross-site\r\n"), 403),
        (format!("{FORM}Sec-Fetch-Site: same-site\r\n"), 403),
        (format!("{FORM}Sec-Fetch-Site: none\r\n"), 403),
        (format!("{FORM}Origin: http://evil.example\r\n"), 403),
        (format!("{FORM}Origin: null\r\n"), 403),
        (format!("{FORM}Origin: http://localhost:1\r\n"), 403),
        (format!("{FORM}{OWN}Origin: http://evil.example\r\n"), 403),
        (format!("{FORM}{OWN}Host: evil.example\r\n"), 403),
        (format!("{FORM}{OWN}X-Forwarded-For: 1.2.3.4\r\n"), 403),
        (format!("{FORM}{OWN}Host: a\r\nHost: localhost\r\n"), 400),
        (OWN.to_owned(), 415),
        (format!("{OWN}{plain}"), 415),
        (format!("{OWN}{json}"), 415),
        (format!("{OWN}{many}"), 415),
        (format!("{FORM}Origin: http://localhost\r\n"), 303),
        (format!("{FORM}{OWN}"), 303),
        (format!("{OWN}Content-Type: APPLICATION/x-www-form-urlencoded; charset=utf-8\r\n"), 303),
    ];
    for (headers, status) in &rows {
        let answer = browser.send("POST", offer, headers, form);
        assert_eq!(answer.status, *status, "{headers}: {}", answer.text());
    }
    let allowed = rows.iter().filter(|(_, status)| *status == 303).count() as u64;
    let stored = place.broker.client().call(&["DQ.SIZE", "q"]).unwrap().number().unwrap();
    assert_eq!(stored, allowed);
    // Nothing is done by looking, and other methods are none.
    for (method, status) in [("GET", 404), ("PUT", 405), ("DELETE", 405)] {
        assert_eq!(browser.send(method, offer, &format!("{OWN}{FORM}"), "").status, status);
    }
    assert_eq!(browser.get("/ui/queues/q/clear").status, 404);
    // A link of another page shows, if it is followed; a page of another name shows nothing.
    let cross = "Sec-Fetch-Site: cross-site\r\n";
    let follow = format!("{cross}Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n");
    let frame = format!("{cross}Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n");
    for (headers, status) in [(cross, 403), (&follow, 200), (&frame, 403)] {
        assert_eq!(browser.send("GET", "/ui/", headers, "").status, status, "{headers}");
    }
    let evil = format!("{follow}Host: evil.example\r\n");
    assert_eq!(browser.send("GET", "/ui/", &evil, "").status, 403);
    assert_eq!(browser.send("POST", offer, &format!("{follow}{FORM}"), form).status, 403);
}

/// Forms that no page sends.
#[test]
fn bad_forms() {
    let place = place();
    let browser = Browser::new(&place.broker);
    let large = format!("delay=1h&payload={}", "x".repeat(2 << 20));
    let many = "messages=a&".repeat(3_000);
    let rows: [(&str, &str, u16); 17] = [
        ("/ui/queues/q/messages", "", 400),
        ("/ui/queues/q/messages", "delay=1h", 400),
        ("/ui/queues/q/messages", "delay=soon&payload=p", 400),
        ("/ui/queues/q/messages", "delay=1h&payload=p&evil=1", 400),
        ("/ui/queues/q/messages", "delay=1h&payload=%zz", 400),
        ("/ui/queues/q/messages", "delay=1h&payload=%ff", 400),
        ("/ui/queues/q/messages", "delay=1h&payload=a&payload=b", 400),
        ("/ui/queues/q/messages", &large, 413),
        ("/ui/queues/q/cancel", "", 400),
        ("/ui/queues/q/cancel", &many, 400),
        ("/ui/queues/q/cancel", "messages=MATCH&messages=*", 400),
        ("/ui/queues/q/dead/drop", "", 400),
        ("/ui/queues/q/quarantine/drop", "", 400),
        ("/ui/queues/all/pause", "", 400),
        ("/ui/queues/q/take", "", 405),
        ("/ui/queues/q/messages/none/reschedule", "delay=1h", 400),
        ("/ui/nothing", "", 405),
    ];
    for (path, form, status) in rows {
        let answer = browser.post(path, form);
        let start: String = form.chars().take(80).collect();
        assert_eq!(answer.status, status, "{path} {start}: {}", answer.text());
        assert!(answer.text().contains("Not done"), "{path}");
    }
    assert_eq!(place.broker.client().call(&["DQ.SIZE", "q"]).unwrap().number().unwrap(), 0);
    let info = browser.page("/ui/");
    assert!(!info.contains("All queues are paused"));
}

/// Sessions: where they begin and how they end.
#[test]
fn sessions() {
    let tables = user("ann", "commands = ['+@all']\nqueues = ['*']\npayloads = true")
        + &user("bob", "commands = ['+@read']\nqueues = ['*']");
    let file = File::new(&tables);
    let place = users::place(&file, &[]);
    let browser = Browser::new(&place.broker);
    // Whoever has said nothing is asked first, and comes back to where he was going.
    let answer = browser.get("/ui/queues?match=a%26b");
    assert_eq!(answer.status, 303);
    let login = header(&answer, "location");
    assert_eq!(login.to_lowercase(), "/ui/login?next=%2fui%2fqueues%3fmatch%3da%2526b");
    assert!(plain(&browser.page(&login)).contains("/ui/queues?match=a%26b"));
    assert_eq!(browser.post("/ui/queues/q/messages", "delay=1h&payload=p").status, 401);
    assert_eq!(browser.get("/ui/nothing").status, 303);
    let mut ann = browser.clone();
    for (name, password) in [("ann", "wrong"), ("nobody", PASSWORD), ("", ""), ("ann", "")] {
        let answer = ann.log_in(name, password);
        assert_eq!((answer.status, answer.header("set-cookie")), (401, None), "{name} {password}");
        assert!(answer.text().contains("are not those of a user"), "{name}");
    }
    let form = format!("user=ann&password={PASSWORD}&next=");
    for (next, wanted) in [
        ("", "/ui/"),
        ("%2Fui%2Fqueues%3Fmatch%3Da", "/ui/queues?match=a"),
        ("http%3A%2F%2Fevil", "/ui/"),
        ("%2F%2Fevil", "/ui/"),
        ("%2Fui%2F%0D%0ASet-Cookie%3Aa", "/ui/"),
    ] {
        let answer = browser.post("/ui/login", &format!("{form}{next}"));
        assert_eq!((answer.status, answer.header("location")), (303, Some(wanted)), "{next}");
    }
    let cookie = header(&ann.log_in("ann", PASSWORD), "set-cookie");
    for part in ["delay_broker=", "; path=/ui", "; httponly", "; samesite=strict", "max-age=43200"]
    {
        assert!(cookie.contains(part) && !cookie.contains("secure"), "{cookie}");
    }
    assert_eq!(ann.cookie.split('=').nth(1).unwrap().len(), 64);
    // A port is part of the name, as browsers tell none apart; a proxy may say that it has TLS.
    let passed = "Host: a:7380\r\nX-Forwarded-Proto: https\r\n";
    let passed = browser.send("POST", "/ui/login", &format!("{OWN}{FORM}{passed}"), &form);
    let cookie = header(&passed, "set-cookie");
    assert!(cookie.starts_with("delay_broker_7380=") && cookie.ends_with("; secure"), "{cookie}");

    assert!(ann.page("/ui/").contains("Log out"));
    // A password that is wrong ends nothing; a cookie of somebody else hides nothing.
    assert_eq!(ann.clone().log_in("ann", "wrong").status, 401);
    let cookie = format!("delay_broker=other; {}", ann.cookie);
    assert!(Browser { cookie, ..ann.clone() }.page("/ui/").contains("Log out"));
    let first = ann.clone();
    assert_eq!(ann.log_in("ann", PASSWORD).status, 303);
    assert_ne!(first.cookie, ann.cookie);
    // The one before has ended with it, and this one ends by logging out.
    assert_eq!(first.get("/ui/").status, 303);
    let out = ann.post("/ui/logout", "");
    assert_eq!((out.status, out.header("location")), (303, Some("/ui/login")));
    assert!(header(&out, "set-cookie").contains("max-age=0"));
    assert_eq!(ann.get("/ui/").status, 303);
    for cookie in ["delay_broker=", "delay_broker=00", &format!("delay_broker={}", "0".repeat(64))]
    {
        let other = Browser { cookie: cookie.to_owned(), ..browser.clone() };
        assert_eq!(other.get("/ui/").status, 303, "{cookie}");
    }
    // A password is no way in beside the cookie.
    let basic = "Authorization: Basic YW5uOnJpZ2h0\r\n";
    assert_eq!(browser.send("GET", "/ui/", basic, "").status, 303);
    // Other rights end it, other users' do not.
    let (ann, bob) = (browser.logged_in("ann"), browser.logged_in("bob"));
    file.write(&tables.replace("'+@read'", "'+@read', '+@write'"));
    place.broker.signal("HUP");
    eventually(|| bob.get("/ui/").status, |status| *status == 303);
    assert_eq!(ann.get("/ui/").status, 200);
}

/// Whoever sends a login without an end makes room for others, not they for him.
#[test]
fn slow_logins_keep_nobody_out() {
    let place = place();
    let address = Browser::new(&place.broker).address;
    let slow = || {
        let mut socket = TcpStream::connect(&address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let request = format!(
            "POST /ui/login HTTP/1.1\r\nHost: localhost\r\n{OWN}{FORM}Expect: 100-continue\r\n\
             Content-Length: 100\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).unwrap();
        // Now it waits for the body.
        let mut go_on = [0; 25];
        socket.read_exact(&mut go_on).unwrap();
        assert!(go_on.starts_with(b"HTTP/1.1 100 "), "{}", go_on.escape_ascii());
        socket
    };
    // As many as there are connections at one time; one that has asked nothing yet; and more.
    let first: Vec<TcpStream> = (0..64).map(|_| slow()).collect();
    let mut probe = TcpStream::connect(&address).unwrap();
    let more: Vec<TcpStream> = (0..32).map(|_| slow()).collect();
    let mut answer = String::new();
    probe.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    probe.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    probe.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop((first, more));
}

/// Every page and every form, whoever asks. One that is added is in it.
#[test]
fn the_matrix_of_rights() {
    let rows = matrix();
    let place = users::place(&File::new(&tables(&rows)), &[]);
    let anonymous = Browser::new(&place.broker);
    let everything = anonymous.logged_in("u5-1-1");
    for queue in ["a.x", "b.x"] {
        everything.done(&format!("/ui/queues/{queue}/messages"), "delay=1h&payload=secret&name=m");
    }
    let mut refused = 0;
    for row in &rows {
        let browser = anonymous.logged_in(&row.name);
        for queue in ["a.x", "b.x"] {
            for page in PAGES {
                let path = page.path.replace("{queue}", queue).replace("{message}", "m");
                let said = browser.get(&format!("/ui{path}"));
                let about = format!("{} looks at {path}: {}", row.name, said.text());
                let refused_by = page.needs.first().and_then(|needs| refusal_of(needs, row, queue));
                match refused_by {
                    Some(_) => {
                        assert_eq!(said.status, 403, "{about}");
                        // Its stream would be over at once.
                        assert!(!said.text().contains("data-live"), "{about}");
                        refused += 1;
                    }
                    None => assert!([200, 404].contains(&said.status), "{about}"),
                }
                // No name of a queue that is kept from somebody, and no payload.
                let sees = refusal_of("DQ.RANGE", row, "a.x").is_none();
                assert!(sees || !said.text().contains(">secret<"), "{about}");
                if refusal_of("DQ.INFO", row, "b.x").is_some() && queue == "a.x" {
                    assert!(!said.text().contains("b.x"), "{about}");
                }
            }
            for route in actions::all() {
                let (path, body) = least(route, queue);
                let mut form = as_form(&body);
                for word in route.words.iter().filter(|word| word.form == Form::Each) {
                    form += &format!("{}=m&", word.name);
                }
                let confirm = if route.command == "DQ.CLEAR" { "confirm=a.x" } else { &form };
                let confirm = confirm.replace("a.x", queue);
                let said = browser.post(&format!("/ui{path}"), &confirm);
                let about = format!("{} sends {path} {confirm}: {}", row.name, said.text());
                let spec = TABLE.iter().find(|spec| spec.name == route.command).unwrap();
                let all = route.words.iter().any(|word| word.form == Form::Fixed("ALL"));
                match refusal(spec, all.then_some("ALL"), None, row, queue) {
                    Some(wanted) => {
                        assert_eq!(said.status, 403, "{about}");
                        assert!(said.text().contains(wanted), "{about}");
                        refused += 1;
                    }
                    None => assert!(![401, 403].contains(&said.status), "{about}"),
                }
                if row.name == rows[0].name {
                    assert_eq!(anonymous.post(&format!("/ui{path}"), &form).status, 401, "{path}");
                }
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
    for page in PAGES {
        let path = page.path.replace("{queue}", "a.x").replace("{message}", "m");
        assert_eq!(anonymous.get(&format!("/ui{path}")).status, 303, "{path}");
    }
}

fn refusal_of(command: &str, row: &users::Row, queue: &str) -> Option<&'static str> {
    let spec = TABLE.iter().find(|spec| spec.name == command).unwrap();
    refusal(spec, None, None, row, queue)
}

/// The fields of a body of the API.
fn as_form(body: &Value) -> String {
    let mut form = String::new();
    let mut add = |name: &str, value: &Value| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        form += &format!("{name}={}&", encoded(value));
    };
    for (name, value) in body.as_object().into_iter().flatten() {
        match value {
            Value::Array(values) => values.iter().for_each(|value| add(name, value)),
            value => add(name, value),
        }
    }
    form
}

/// Buttons that one may not press are not there; without the right to payloads none is shown.
#[test]
fn pages_show_what_one_may_do() {
    let tables = user("ann", "commands = ['+@read']\nqueues = ['a.*']")
        + &user("some", "commands = ['+@read', '-DQ.TIMELINE']\nqueues = ['*']")
        + &user("all", "commands = ['+@all']\nqueues = ['*']\npayloads = true");
    let tables = tables + "[server]\npassword = 'of-default'\n";
    let file = File::new(&tables);
    let place = users::place(&file, &[]);
    let browser = Browser::new(&place.broker);
    let (ann, all) = (browser.logged_in("ann"), browser.logged_in("all"));
    for queue in ["a.1", "b.1"] {
        all.done(&format!("/ui/queues/{queue}/messages"), "delay=1h&payload=secret");
    }
    let page = ann.page("/ui/queues/a.1");
    assert!(page.contains("You may not see payloads") && !page.contains("secret"), "{page}");
    assert!(!page.contains("method=\"post\" action=\"/ui/queues"), "{page}");
    let list = ann.page("/ui/queues");
    assert!(list.contains("a.1") && !list.contains("b.1") && !list.contains("Settings"), "{list}");
    assert_eq!(ann.get("/ui/queues/b.1").status, 403);
    assert!(all.page("/ui/queues/a.1").contains("secret"));
    let some = browser.logged_in("some").page("/ui/");
    assert!(some.contains("Overdue") && !some.contains("Due within"), "{some}");
    assert!(all.page("/ui/").contains("Due within a minute"));
    let settings = all.page("/ui/settings");
    assert!(settings.contains("(hidden)") && !settings.contains("of-default"), "{settings}");
    // A console for looking has no button for anybody, and takes no form.
    let label = "[ui]\nread_only = true\nlabel = '<production>'\n";
    file.write(&format!("{tables}{label}"));
    place.broker.signal("HUP");
    let page = eventually(|| all.page("/ui/queues/a.1"), |page| page.contains("read only"));
    assert!(page.contains("&#60;production&#62;"), "{page}");
    assert!(!page.contains("action=\"/ui/queues"), "{page}");
    let refused = all.post("/ui/queues/a.1/clear", "confirm=a.1");
    assert!(refused.status == 403 && refused.text().contains("ui.read_only"));
    assert_eq!(place.broker.client().call(&["AUTH", "all", PASSWORD]).unwrap().text(), "OK");
    file.write(&format!("{tables}[ui]\nenabled = false\n"));
    place.broker.signal("HUP");
    let gone = eventually(|| all.get("/ui/"), |answer| answer.status == 404);
    assert!(gone.text().contains("ui.enabled"));
}

/// Without a password the console is for this machine only.
#[test]
fn who_comes_in() {
    let spawn = |http: &str, setting| {
        let url = redis::shared().url(redis::shared().fresh_database());
        Broker::with_args(&["--redis", &url, "--http", http], &[setting])
    };
    let hosts = ("http.hosts", "console.example");
    let brokers = [
        spawn("0.0.0.0:0", hosts),
        spawn("127.0.0.1:0", hosts),
        spawn("0.0.0.0:0", ("server.password", "secret")),
    ];
    let rows = [
        ("Host: localhost\r\n", [403, 200, 303]),
        ("Host: console.example\r\n", [403, 200, 303]),
        ("Host: evil.example\r\n", [403, 403, 303]),
        ("Host: localhost\r\nX-Forwarded-For: 1.2.3.4\r\n", [403, 403, 303]),
    ];
    for (headers, statuses) in rows {
        for (broker, status) in brokers.iter().zip(statuses) {
            let answer = Browser::new(broker).send("GET", "/ui/", headers, "");
            assert_eq!(answer.status, status, "{headers}: {}", answer.text());
        }
    }
    let refused = Browser::new(&brokers[0]).get("/ui/").text();
    assert!(plain(&refused).contains("set server.password or [[users]]"), "{refused}");
    let mut browser = Browser::new(&brokers[2]);
    assert_eq!(browser.log_in("", "secret").status, 303);
    assert!(browser.page("/ui/").contains("default"));
}
