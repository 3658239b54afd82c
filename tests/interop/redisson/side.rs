//! One queue and the two sides that it is tried from: what one side wrote, the other looks at and
//! changes, by Redisson's methods or by the broker's commands.

use crate::scene::{Scene, ask, since};
use crate::stage::{field_of, sorted, take, take_due};
use crate::support::resp::{Client, Value};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Side {
    Redisson,
    Broker,
}

pub struct Queue {
    pub name: String,
    /// Who offers.
    writer: Side,
    /// Who does the rest.
    pub doer: Side,
    version: &'static str,
    pub redisson: Client,
    broker: Client,
    redis: Client,
}

impl Queue {
    pub fn new(scene: &Scene, redisson: Client, name: &str, sides: (Side, Side)) -> Queue {
        Queue {
            name: name.to_owned(),
            writer: sides.0,
            doer: sides.1,
            version: scene.version,
            redisson,
            broker: scene.broker(),
            redis: scene.client(),
        }
    }

    /// By the one who writes.
    pub fn offer(&mut self, payload: &str, delay_ms: u64) {
        let (name, delay) = (self.name.clone(), delay_ms.to_string());
        match self.writer {
            Side::Redisson => ask(&mut self.redisson, &["OFFER", &name, &delay, payload]),
            Side::Broker => ask(&mut self.broker, &["DQ.OFFER", &name, &delay, payload]),
        };
    }

    /// By the other one: the command of each, with the queue after its first word, and the rest.
    fn by(&mut self, redisson: &str, broker: &str, rest: &[&str]) -> Value {
        let name = self.name.clone();
        let (client, command) = match self.doer {
            Side::Redisson => (&mut self.redisson, redisson),
            Side::Broker => (&mut self.broker, broker),
        };
        let mut args: Vec<&str> = command.split(' ').collect();
        args.insert(1, &name);
        args.extend(rest);
        ask(client, &args)
    }

    /// Of Redisson alone.
    pub fn redisson(&mut self, command: &str, rest: &[&str]) -> Value {
        let name = self.name.clone();
        let args = [&[command, &name], rest].concat();
        ask(&mut self.redisson, &args)
    }

    pub fn size(&mut self) -> i64 {
        self.by("SIZE", "DQ.SIZE", &[]).int()
    }

    pub fn clear(&mut self) {
        self.by("CLEAR", "DQ.CLEAR", &[]);
    }

    pub fn contains(&mut self, payload: &str) -> bool {
        let reply = self.by("CONTAINS", "DQ.CONTAINS", &[payload]);
        reply.elements().first().unwrap_or(&reply).int() == 1
    }

    pub fn contains_all(&mut self, payloads: &[&str]) -> bool {
        let reply = self.by("CONTAINSALL", "DQ.CONTAINS", payloads);
        match self.doer {
            Side::Redisson => reply.int() == 1,
            Side::Broker => reply.elements().iter().all(|found| found.int() == 1),
        }
    }

    pub fn remove(&mut self, payload: &str) -> bool {
        self.by("REMOVE", "DQ.REMOVE", &[payload]).int() == 1
    }

    /// True if one of them was there.
    pub fn remove_all(&mut self, payloads: &[&str]) -> bool {
        if self.doer == Side::Redisson {
            return self.by("REMOVEALL", "", payloads).int() == 1;
        }
        let removed = payloads.iter().map(|payload| {
            let reply = self.by("", "DQ.REMOVE", &[payload, "COUNT", "0"]);
            reply.int()
        });
        removed.sum::<i64>() > 0
    }

    /// All that is pending: of Redisson in the order of offering, asked in three ways; of the
    /// broker, which shows it by due time, whatever the order.
    pub fn holds(&mut self, payloads: &[&str]) {
        self.holds_one_of(&[payloads]);
        if self.doer == Side::Redisson {
            assert_eq!(self.redisson("ITERATE", &[]).texts(), payloads);
            assert_eq!(self.redisson("SIZE", &[]).int(), payloads.len() as i64);
        }
    }

    /// The same, where it may be in any of these states.
    pub fn holds_one_of(&mut self, states: &[&[&str]]) {
        let as_shown = |all: &[&str]| {
            let all = all.iter().map(ToString::to_string).collect();
            match self.doer {
                Side::Redisson => all,
                Side::Broker => sorted(all),
            }
        };
        let states: Vec<Vec<String>> = states.iter().map(|all| as_shown(all)).collect();
        let found = match self.doer {
            Side::Redisson => self.redisson("READALL", &[]).texts(),
            Side::Broker => self.range(),
        };
        assert!(states.contains(&found), "{found:?}, not {states:?}");
    }

    fn range(&mut self) -> Vec<String> {
        let name = self.name.clone();
        let page = ask(&mut self.broker, &["DQ.RANGE", &name, "-", "+"]);
        let found = page.elements()[1].elements().iter();
        let found = found.map(|message| field_of(message, "payload").unwrap().text());
        sorted(found.collect())
    }

    /// Takes the oldest offered ones, due or not.
    pub fn poll(&mut self, count: usize) -> Vec<String> {
        // `poll(limit)` came with 3.11.6.
        if self.doer == Side::Broker || since(self.version, "3.11.6") {
            return self.by("POLLMANY", "DQ.POLL COUNT", &[&count.to_string()]).texts();
        }
        let one = |_| self.redisson("POLL", &[]);
        let all = (0..count).map(one).take_while(|one| *one != Value::Null);
        all.map(|one| one.text()).collect()
    }

    /// When the next ones are due, by the broker: payload and Unix ms.
    pub fn coming(&mut self) -> Vec<(String, u64)> {
        let name = self.name.clone();
        let reply = ask(&mut self.broker, &["DQ.PEEK", &name]);
        let field = |message: &Value, key| field_of(message, key).unwrap();
        let due = |message: &Value| field(message, "due").int() as u64;
        let messages = reply.elements().iter();
        messages.map(|message| (field(message, "payload").text(), due(message))).collect()
    }

    /// What is delivered next must be this; what was due before it and came first fails here.
    pub fn delivers(&mut self, payload: &str) {
        let name = self.name.clone();
        assert_eq!(String::from_utf8_lossy(&take(&mut self.redis, &name).0), payload);
    }

    /// The same, neither early nor late.
    pub fn delivers_at(&mut self, payload: &str, due_ms: u64) {
        let name = self.name.clone();
        take_due(&mut self.redis, &name, payload, due_ms);
    }

    /// What lies in a list.
    pub fn list(&mut self, name: &str) -> Vec<String> {
        ask(&mut self.redis, &["LRANGE", name, "0", "-1"]).texts()
    }

    pub fn push(&mut self, list: &str, payloads: &[&str]) {
        let args = [&["RPUSH", list], payloads].concat();
        ask(&mut self.redis, &args);
    }
}
