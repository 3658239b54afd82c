//! One Sentinel: a task that asks it for the master, once a second and whenever it says that there
//! is news.
//!
//! It has two connections, since one that subscribes takes no other commands. What it says is
//! judged in [`master`](super::master). A Sentinel that hangs, is wrong or is none holds up nobody:
//! each step has a bound, and replies are small.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use redis_protocol::resp3::types::BytesFrame;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::config::Place;
use crate::domain::queue::Cut;
use crate::resp::peer::encode;
use crate::store::backend::Login;
use crate::store::link::{Connect, Connected, Peer, cause, client_name, next, words};
use crate::store::master::{Master, Said};

/// How often it is asked without a reason.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// However much news there is, not more often.
const ASK_PAUSE: Duration = Duration::from_millis(20);
/// How long it may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Between attempts to connect.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(2);
/// A connection that ended sooner is no progress.
const LASTED: Duration = Duration::from_secs(5);
/// Of one reply: that about a master has less than 2 KiB.
const REPLY_BYTES_MAX: usize = 64 << 10;
/// Of a name of DNS.
const HOST_BYTES_MAX: usize = 255;
/// The master is another one; the Sentinel that leads the failover knows sooner.
const NEWS: [&str; 3] = ["SUBSCRIBE", "+switch-master", "+promoted-slave"];
/// Flags of a master that the Sentinels have given up, or are about to.
const GIVEN_UP: [&str; 3] = ["o_down", "failover_in_progress", "force_failover"];

/// Asks one of the master's Sentinels for ever: run as a task of its own.
pub(super) async fn watch(master: Rc<Master>, at: usize, login: Login, within: Duration) {
    let mut wait = WAIT_MIN;
    loop {
        let begun = Instant::now();
        let why = attend(&master, at, &login, within).await;
        master.heard(at, begun, Err(why));
        if begun.elapsed() >= LASTED {
            wait = WAIT_MIN;
        }
        sleep(wait).await;
        wait = (2 * wait).min(WAIT_MAX);
    }
}

/// Goes on until that fails: gives the reason.
async fn attend(master: &Rc<Master>, at: usize, login: &Login, within: Duration) -> String {
    let Some((name, place)) = master.sentinel(at) else { return String::new() };
    let connected = async {
        let asking = connect("sentinel", place, login, within).await?;
        Ok((asking, connect("sentinel-news", place, login, within).await?))
    };
    let (mut asking, mut news) = match connected.await {
        Ok(connected) => connected,
        // In words already.
        Err(why) => return why,
    };
    let asks = async {
        send(&mut news, &[&NEWS]).await?;
        if let BytesFrame::SimpleError { data, .. } = reply(&mut news).await? {
            return Err(format!("it refuses {}: {data}", NEWS.join(" ")));
        }
        loop {
            let (asks, asked) = (master.asks(), Instant::now());
            let said = ask(&mut asking, name, place).await?;
            master.heard(at, asked, Ok(said));
            sleep_until(asked + ASK_PAUSE).await;
            tokio::select! {
                () = sleep_until(asked + ASK_EVERY) => {}
                () = master.asked_beyond(asks) => {}
                heard = next(&mut news.stream, &mut news.reader) => {
                    heard?.ok_or_else(closed)?;
                }
            }
        }
    };
    let failed: Result<Infallible, String> = asks.await;
    match failed {
        Ok(never) => match never {},
        Err(why) => words(&why, Peer::Sentinel),
    }
}

async fn connect(
    link: &str,
    at: &Place,
    login: &Login,
    within: Duration,
) -> Result<Connected, String> {
    let (name, peer, reply_bytes_max) = (&client_name(link), Peer::Sentinel, REPLY_BYTES_MAX);
    Connect { at, login, name, peer, within, questions: &[], reply_bytes_max }.connect().await
}

fn closed() -> String {
    "the Sentinel closed the connection".to_owned()
}

async fn send(to: &mut Connected, commands: &[&[&str]]) -> Result<(), String> {
    let mut out = BytesMut::new();
    for command in commands {
        encode(&mut out, command.iter().map(|part| part.as_bytes()));
    }
    let written = async {
        to.stream.write_all(&out).await?;
        to.stream.flush().await
    };
    let written = timeout(ANSWER_WITHIN, written).await.map_err(|_| silent())?;
    written.map_err(|error| cause(&error))
}

async fn reply(from: &mut Connected) -> Result<BytesFrame, String> {
    let answered = timeout(ANSWER_WITHIN, next(&mut from.stream, &mut from.reader)).await;
    answered.map_err(|_| silent())??.ok_or_else(closed)
}

fn silent() -> String {
    format!("the Sentinel says nothing for {} s: it hangs", ANSWER_WITHIN.as_secs())
}

/// Both in one write, which a Sentinel answers in one go. `MASTER` gives the old address with the
/// new epoch for a while, and so goes first: an address is never older than its epoch.
async fn ask(sentinel: &mut Connected, name: &str, place: &Place) -> Result<Said, String> {
    let questions: [&[&str]; 2] =
        [&["SENTINEL", "MASTER", name], &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]];
    send(sentinel, &questions).await?;
    let about = reply(sentinel).await?;
    let address = reply(sentinel).await?;
    let tls = matches!(place, Place::Tcp { tls: true, .. });
    said(&about, &address, name, tls)
}

/// # Errors
/// What they say is no master.
fn said(about: &BytesFrame, address: &BytesFrame, name: &str, tls: bool) -> Result<Said, String> {
    for reply in [about, address] {
        if let BytesFrame::SimpleError { data, .. } = reply {
            return Err(refusal(data, name));
        }
    }
    let fields = texts(about);
    let field = |wanted: &str| {
        let mut pairs = fields.chunks_exact(2);
        pairs.find_map(|pair| match pair {
            [name, value] if name == wanted => Some(value.as_str()),
            _ => None,
        })
    };
    let number = |name: &str| {
        let number = field(name).and_then(|text| text.parse::<u64>().ok());
        number.ok_or_else(|| format!("its answer to SENTINEL MASTER has no number {name}"))
    };
    let address = texts(address);
    let [host, port] = &address[..] else {
        return Err(unknown(name));
    };
    let is_host = (1..=HOST_BYTES_MAX).contains(&host.len())
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte));
    let place = port.parse().ok().filter(|port| *port > 0 && is_host);
    let place = place.map(|port| Place::Tcp { host: host.clone(), port, tls });
    let place = place.ok_or_else(|| {
        let (host, port) = (Cut(host.as_bytes()), Cut(port.as_bytes()));
        format!("it names '{host}:{port}', which is no address")
    })?;
    // Of the old master, while the Sentinel replaces it.
    let is_about = field("ip") == Some(host.as_str()) && field("port") == Some(port.as_str());
    let flags: Vec<&str> =
        field("flags").filter(|_| is_about).unwrap_or_default().split(',').collect();
    Ok(Said {
        epoch: number("config-epoch")?,
        place,
        down: flags.contains(&"s_down"),
        given_up: GIVEN_UP.iter().any(|flag| flags.contains(flag)),
        down_after: Duration::from_millis(number("down-after-milliseconds")?.max(1)),
    })
}

fn unknown(name: &str) -> String {
    format!("it knows no master '{name}': look at the name behind the hosts in redis.url")
}

fn refusal(words: &str, name: &str) -> String {
    if words.contains("No such master") {
        return unknown(name);
    }
    if words.contains("unknown command") || words.contains("unknown subcommand") {
        return format!("this is no Sentinel, but perhaps a Redis ({words}): look at its port");
    }
    words.to_owned()
}

/// The strings of an array.
fn texts(frame: &BytesFrame) -> Vec<String> {
    let BytesFrame::Array { data, .. } = frame else { return Vec::new() };
    let text = |frame: &BytesFrame| match frame {
        BytesFrame::BlobString { data, .. } => String::from_utf8_lossy(data).into_owned(),
        _ => String::new(),
    };
    data.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> BytesFrame {
        BytesFrame::BlobString { data: text.to_owned().into(), attributes: None }
    }

    fn array(parts: &[&str]) -> BytesFrame {
        let data = parts.iter().map(|part| text(part)).collect();
        BytesFrame::Array { data, attributes: None }
    }

    fn error(text: &str) -> BytesFrame {
        BytesFrame::SimpleError { data: text.to_owned().into(), attributes: None }
    }

    fn about(flags: &str) -> BytesFrame {
        array(&[
            "name",
            "m",
            "ip",
            "h",
            "port",
            "1",
            "flags",
            flags,
            "down-after-milliseconds",
            "500",
            "config-epoch",
            "7",
        ])
    }

    /// Each row: flags, address; port, down, given up.
    #[test]
    fn answers() {
        for (flags, address, port, down, given_up) in [
            ("master", ["h", "1"], 1, false, false),
            ("master,disconnected", ["h", "1"], 1, false, false),
            ("master,s_down", ["h", "1"], 1, true, false),
            ("master,s_down,o_down", ["h", "1"], 1, true, true),
            ("master,failover_in_progress", ["h", "1"], 1, false, true),
            // The flags are those of the one that is replaced.
            ("master,s_down,o_down,failover_in_progress", ["h", "2"], 2, false, false),
        ] {
            let said = said(&about(flags), &array(&address), "m", false).unwrap();
            let place = Place::Tcp { host: "h".to_owned(), port, tls: false };
            let down_after = Duration::from_millis(500);
            assert_eq!(said, Said { epoch: 7, place, down, given_up, down_after }, "{flags}");
        }
    }

    /// Each row: answers, and a part of what is wrong with them.
    #[test]
    fn what_is_no_answer() {
        let (good, null) = (about("master"), BytesFrame::Null);
        let no_epoch = array(&["name", "m", "down-after-milliseconds", "500"]);
        for (about, address, part) in [
            (error("ERR No such master with that name"), null.clone(), "knows no master 'm'"),
            (good.clone(), null, "knows no master 'm'"),
            (error("ERR unknown command `SENTINEL`, with"), text(""), "this is no Sentinel"),
            (error("NOPERM no"), text(""), "NOPERM no"),
            (no_epoch, array(&["h", "1"]), "no number config-epoch"),
            (text("hello"), array(&["h", "1"]), "no number config-epoch"),
            (good.clone(), array(&["h", "0"]), "'h:0', which is no address"),
            (good.clone(), array(&["", "1"]), "':1', which is no address"),
            (good.clone(), array(&["h", "99999"]), "which is no address"),
            (good.clone(), array(&["h\n# TYPE x", "1"]), "which is no address"),
            (good, array(&["h", "1", "x"]), "knows no master"),
        ] {
            let why = said(&about, &address, "m", false).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
