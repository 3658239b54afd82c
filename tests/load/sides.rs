//! Who delivers from a Redis: the broker, or Redisson; and rounds of both in turns.
//!
//! Keeps: each round has a new Redis, so that none starts with another's memory, and one that
//! delivers from it. What Redisson cannot do is a note, since only the broker is judged.

use crate::Outcome;
use crate::figures::Row;
use crate::producer::Producer;
use crate::redisson::Redisson;
use crate::servers::{self, NO_FILE};
use crate::support::broker::Broker;
use crate::support::redis::Redis;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Broker,
    /// The broker, with queues that have no order list.
    ListOff,
    Redisson,
}

pub struct Scene {
    /// First, so that it ends first, and no link of it breaks.
    deliverer: Deliverer,
    pub redis: Redis,
}

enum Deliverer {
    Broker(Broker),
    /// Held for as long as it is to deliver.
    Redisson {
        _running: Redisson,
    },
}

impl Scene {
    pub fn start(side: Side, queues: &[String]) -> Outcome<Self> {
        Scene::with(side, queues, NO_FILE)
    }

    /// `args` of Redis.
    pub fn with(side: Side, queues: &[String], args: &[&str]) -> Outcome<Self> {
        let redis = servers::redis(args);
        let deliverer = match side {
            Side::Broker => Deliverer::Broker(servers::broker(&redis, &[])),
            Side::ListOff => {
                let table = |queue| format!("[[queues]]\nname = {queue:?}\norder_list = false\n");
                let file: String = queues.iter().map(table).collect();
                let path = redis.dir().join("broker.toml");
                std::fs::write(&path, file)?;
                let args = ["--config", path.to_str().ok_or("no text")?];
                Deliverer::Broker(servers::broker_with(&redis, &args, &[]))
            }
            Side::Redisson => {
                let _running = Redisson::start(&redis, queues)?;
                Deliverer::Redisson { _running }
            }
        };
        Ok(Scene { deliverer, redis })
    }

    pub fn producer(&self) -> Outcome<Producer> {
        match &self.deliverer {
            Deliverer::Broker(broker) => Ok(Producer::Broker(broker.connect()?)),
            Deliverer::Redisson { .. } => Producer::script(self.redis.connect()?),
        }
    }
}

/// What the rounds of each side found.
pub struct Turns<T> {
    pub broker: Vec<T>,
    pub other: Vec<T>,
    notes: Vec<String>,
}

/// `rounds` of our side, and after each of the first `redisson` of them one of Redisson.
pub fn in_turns<T>(
    ours: Side,
    rounds: usize,
    redisson: usize,
    mut round: impl FnMut(Side) -> Outcome<T>,
) -> Outcome<Turns<T>> {
    let (mut broker, mut other, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..rounds {
        broker.push(round(ours)?);
        if number < redisson && notes.is_empty() {
            match round(Side::Redisson) {
                Ok(found) => other.push(found),
                Err(error) => notes.push(format!("Redisson was not measured: {error}")),
            }
        }
    }
    Ok(Turns { broker, other, notes })
}

impl<T> Turns<T> {
    /// Takes the broker's faults.
    pub fn row(&mut self, faults: impl Fn(&mut T) -> Vec<String>) -> Row {
        Row {
            faults: self.broker.iter_mut().flat_map(faults).collect(),
            notes: std::mem::take(&mut self.notes),
            ..Row::default()
        }
    }
}
