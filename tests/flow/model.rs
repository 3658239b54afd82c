//! Random operations, step by step against the broker and against a model of a few lines.
//!
//! The seed is printed when a step fails; a seed that failed once becomes a row of `SEEDS`. Each is
//! run with an order list and without, where nothing but that list differs.
//! Times are far in the future or now, so that the clock decides nothing in between.

use crate::stage::{
    Stage, bytes_of, call, delivered, due_of, field_of, list, say, sorted, time_us,
};
use crate::support::random::Random;
use crate::support::resp::{Client, Value};
use std::time::{SystemTime, UNIX_EPOCH};

const STEPS: u64 = 400;
const SEEDS: [u64; 2] = [1, 20_260_101];

/// What the broker has to know, in offer order.
#[derive(Default)]
struct Model {
    pending: Vec<Message>,
    delivered: Vec<String>,
    /// Ids that were given once; most of them are stale.
    ids: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Message {
    id: String,
    name: Option<String>,
    payload: String,
}

impl Model {
    /// By id or by name.
    fn find(&self, which: &str) -> Option<usize> {
        self.pending.iter().position(|m| m.id == which || m.name.as_deref() == Some(which))
    }

    fn take(&mut self, which: &str) -> Option<Message> {
        self.find(which).map(|at| self.pending.remove(at))
    }

    fn offer(&mut self, id: &str, name: Option<&str>, payload: &str, now: bool) {
        if let Some(name) = name {
            self.take(name);
        }
        self.ids.push(id.to_owned());
        if now {
            return self.delivered.push(payload.to_owned());
        }
        let (id, name) = (id.to_owned(), name.map(str::to_owned));
        self.pending.push(Message { id, name, payload: payload.to_owned() });
    }

    /// The same member with another time: it keeps its place, name and id bytes.
    fn reschedule(&mut self, at: usize, id: &str) {
        self.ids.push(id.to_owned());
        self.pending[at].id = id.to_owned();
    }

    /// By due time, and equal ones by id: the broker's ids grow.
    fn by_due(&self) -> Vec<Message> {
        let mut all = self.pending.clone();
        all.sort_by_key(|m| (due_of(&m.id), bytes_of(&m.id)));
        all
    }
}

/// One random step; says what it did.
fn step(client: &mut Client, model: &mut Model, random: &mut Random, base: u64) -> String {
    let payload = ["a", "b", "c", "", "a longer payload"][random.below(5) as usize];
    let at = (base + random.below(6)).to_string();
    let name = format!("name-{}", random.below(4));
    // A message that is pending, one that is gone, or a name.
    let which = match random.below(3) {
        0 => name.clone(),
        1 if !model.pending.is_empty() => {
            model.pending[random.below(model.pending.len() as u64) as usize].id.clone()
        }
        _ if !model.ids.is_empty() => {
            model.ids[random.below(model.ids.len() as u64) as usize].clone()
        }
        _ => name.clone(),
    };
    let kind = random.below(100);
    let mut args: Vec<&str> = match kind {
        0..=24 => vec!["DQ.OFFER", "q", "AT", &at, payload],
        25..=29 => vec!["DQ.OFFER", "q", "0", payload],
        30..=49 => vec!["DQ.OFFER", "q", "AT", &at, payload, "NAME", &name],
        50..=59 => vec!["DQ.CANCEL", "q", &which],
        60..=66 => vec!["DQ.REMOVE", "q", payload],
        67..=68 => vec!["DQ.REMOVE", "q", payload, "COUNT", "0"],
        69..=82 => vec!["DQ.RESCHEDULE", "q", &which, "AT", &at],
        83..=87 => vec!["DQ.FIRE", "q", &which],
        88..=91 => vec!["DQ.POLL", "q", "COUNT", "2"],
        92 => vec!["DQ.CLEAR", "q"],
        93..=94 => vec!["DQ.CONTAINS", "q", payload, "never offered"],
        95 => {
            let format = ["MODERN", "LEGACY"][random.below(2) as usize];
            vec!["DQ.CONVERT", "q", format]
        }
        _ => vec!["DQ.GET", "q", &which],
    };
    let mode = if kind / 30 == 1 { random.below(3) } else { 0 };
    match (kind, mode) {
        (30..=49, 1) => args.push("NX"),
        (30..=49, 2) => args.push("XX"),
        _ => {}
    }
    let reply = call(client, &args);
    let what = format!("{args:?} -> {reply:?}");
    match kind {
        0..=24 => model.offer(&reply.text(), None, payload, false),
        25..=29 => model.offer(&reply.text(), None, payload, true),
        30..=49 => {
            let there = model.find(&name).is_some();
            let forbidden = (mode == 1 && there) || (mode == 2 && !there);
            assert_eq!(reply == Value::Null, forbidden, "{what}");
            if !forbidden {
                model.offer(&reply.text(), Some(&name), payload, false);
            }
        }
        50..=59 => assert_eq!(reply.int(), i64::from(model.take(&which).is_some()), "{what}"),
        60..=68 => {
            let most = if kind < 67 { 1 } else { usize::MAX };
            let mut removed = 0;
            model.pending.retain(|m| {
                let goes = m.payload == payload && removed < most;
                removed += usize::from(goes);
                !goes
            });
            assert_eq!(reply.int(), removed as i64, "{what}");
        }
        69..=82 => match model.find(&which) {
            Some(place) => {
                let id = reply.text();
                assert_eq!(due_of(&id).to_string(), at, "{what}");
                assert_eq!(bytes_of(&id), bytes_of(&model.pending[place].id), "{what}");
                model.reschedule(place, &id);
            }
            None => assert_eq!(reply, Value::Null, "{what}"),
        },
        83..=87 => {
            let fired = model.take(&which);
            assert_eq!(reply.int(), i64::from(fired.is_some()), "{what}");
            model.delivered.extend(fired.map(|m| m.payload));
        }
        88..=91 => {
            let taken = model.pending.len().min(2);
            let wanted: Vec<String> = model.pending.drain(..taken).map(|m| m.payload).collect();
            assert_eq!(reply.texts(), wanted, "{what}");
        }
        92 => {
            assert_eq!(reply.int(), model.pending.len() as i64, "{what}");
            model.pending.clear();
        }
        // In whatever format, all else is the same.
        95 => assert_eq!(reply.elements()[3].int(), 0, "{what}"),
        93..=94 => {
            let there = model.pending.iter().any(|m| m.payload == payload);
            assert_eq!(reply.texts(), [i32::from(there).to_string(), "0".into()], "{what}");
        }
        _ => {
            let wanted = model.find(&which).map(|place| model.pending[place].clone());
            assert_eq!((reply != Value::Null).then(|| shown(&reply)), wanted, "{what}");
        }
    }
    what
}

/// A message as DQ.GET shows it.
fn shown(row: &Value) -> Message {
    let field = |name: &str| field_of(row, name).unwrap();
    let id = field("id").text();
    assert_eq!(field("due").text(), due_of(&id).to_string());
    let name = Some(field("name")).filter(|name| *name != Value::Null);
    Message { id, name: name.map(|name| name.text()), payload: field("payload").text() }
}

/// Everything that can be seen of the queue is as the model says.
fn compare(stage: &mut Stage, client: &mut Client, model: &Model, keeps_list: bool) {
    let came = delivered(&mut stage.redis, "q", model.delivered.len());
    assert_eq!(sorted(came), sorted(model.delivered.clone()));
    assert_eq!(say(client, "DQ.SIZE q").int(), model.pending.len() as i64);
    let rows = say(client, "DQ.PEEK q COUNT 1000");
    let pending: Vec<Message> = rows.elements().iter().map(shown).collect();
    assert_eq!(pending, model.by_due());
    let redis = &mut stage.redis;
    let members = call(redis, &["LRANGE", "redisson_delay_queue:{q}", "0", "-1"]);
    let listed: Vec<String> = members
        .elements()
        .iter()
        .map(|member| {
            // Ids begin with the time, far below 8 for some years.
            let header = if member.bytes()[0] == 8 { 17 } else { 16 };
            String::from_utf8(member.bytes()[header..].to_vec()).unwrap()
        })
        .collect();
    let listed_ones = model.pending.iter().filter(|_| keeps_list);
    let wanted: Vec<String> = listed_ones.map(|m| m.payload.clone()).collect();
    assert_eq!(listed, wanted, "offer order");
    let mut names = say(redis, "HKEYS delay_broker_names:{q}").texts();
    names.sort();
    let wanted: Vec<String> = model.pending.iter().filter_map(|m| m.name.clone()).collect();
    assert_eq!(names, sorted(wanted), "names");
    assert_eq!(say(redis, "HLEN delay_broker_ids:{q}").int(), names.len() as i64);
}

#[test]
fn random_operations_are_as_the_model_says() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut stage = Stage::new(&[]);
    let seeds = SEEDS.into_iter().chain([now]);
    for (seed, keeps_list) in seeds.flat_map(|seed| [(seed, true), (seed, false)]) {
        let word = if keeps_list { "on" } else { "off" };
        say(&mut stage.redis, &format!("HSET delay_broker_queue:{{q}} order_list {word}"));
        let mut client = stage.broker.client();
        let mut model = Model::default();
        let mut random = Random::new(seed);
        let base = time_us(&mut stage.redis) / 1_000 + 3_600_000;
        let mut steps = Vec::new();
        for number in 0..STEPS {
            let run = std::panic::AssertUnwindSafe(|| {
                steps.push(step(&mut client, &mut model, &mut random, base));
                compare(&mut stage, &mut client, &model, keeps_list);
            });
            if let Err(failure) = std::panic::catch_unwind(run) {
                let last = steps.len().saturating_sub(8);
                eprintln!(
                    "seed {seed}, order list {word}, step {number}; the last ones:\n{}",
                    steps[last..].join("\n")
                );
                std::panic::resume_unwind(failure);
            }
        }
        assert_eq!(say(&mut client, "DQ.CLEAR q").int(), model.pending.len() as i64);
        assert_eq!(list(&mut stage.redis, "redisson_delay_queue:{q}"), [""; 0]);
        say(&mut stage.redis, "DEL q");
    }
}
