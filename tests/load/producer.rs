//! Who offers: through the broker, or with Redisson's own script, as its client calls it.
//!
//! Keeps: after an offer a message's due time is the score that was stored, so lateness is judged
//! by what was promised and not by what was asked.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::Outcome;
use crate::messages::{Message, Random, now_us};
use crate::support::resp::Client;

/// What RDelayedQueue.offerAsync evaluates since Redisson 3.21.1.
pub const SCRIPT: &str = "\
local value = struct.pack('Bc0Lc0', string.len(ARGV[2]), ARGV[2], string.len(ARGV[3]), ARGV[3]);\
redis.call('zadd', KEYS[2], ARGV[1], value);\
redis.call('rpush', KEYS[3], value);\
local v = redis.call('zrange', KEYS[2], 0, 0); \
if v[1] == value then \
redis.call('publish', KEYS[4], ARGV[1]); \
end;";

/// Commands of one write: enough to keep the broker busy, far less than its limits.
const PIPELINE: usize = 500;
/// Messages of one DQ.MOFFER, and such commands of one write.
const MANY: usize = 500;
const MANY_PIPELINE: usize = 8;

/// What a message's `due_ms` is before it is offered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Unix ms.
    At,
    /// A delay.
    After,
}

/// The first attempt in which all messages were offered before the first were due. Each gets its
/// `patience`; one that needs more gives None.
pub fn before_due<T>(
    patience: [u64; 3],
    attempt: impl FnMut(u64) -> Outcome<Option<T>>,
) -> Outcome<T> {
    let found = patience.into_iter().map(attempt).find_map(Outcome::transpose);
    found.ok_or("the first were due before all were offered")?
}

pub enum Producer {
    Broker(Client),
    Script {
        redis: Client,
        sha: Vec<u8>,
        /// Of ids: Redisson's are random.
        random: Random,
    },
}

impl Producer {
    pub fn script(mut redis: Client) -> Outcome<Self> {
        let sha = redis.ask(&[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()])?;
        let (sha, random) = (sha.into_bytes()?, Random::new());
        Ok(Producer::Script { redis, sha, random })
    }

    /// One command for each message.
    pub fn offer(&mut self, messages: &mut [Message], due: Due) -> Outcome<()> {
        for some in messages.chunks_mut(PIPELINE) {
            self.send(some, due)?;
            self.replies(some)?;
        }
        Ok(())
    }

    /// So many each time, at this pace, whether or not the replies to those before have come.
    pub fn offer_paced(
        &mut self,
        messages: &mut [Message],
        due: Due,
        each: usize,
        pace: Duration,
    ) -> Outcome<()> {
        let mut second = self.second()?;
        let (sent, replies_due) = mpsc::channel::<&mut [Message]>();
        thread::scope(|scope| {
            let replies = scope.spawn(move || -> Outcome<()> {
                for some in replies_due {
                    second.replies(some)?;
                }
                Ok(())
            });
            let start_us = now_us();
            for (number, some) in messages.chunks_mut(each).enumerate() {
                let at_us = start_us + number as u64 * pace.as_micros() as u64;
                thread::sleep(Duration::from_micros(at_us.saturating_sub(now_us())));
                self.send(some, due)?;
                // It ends early only with an error, which counts.
                if sent.send(some).is_err() {
                    break;
                }
            }
            drop(sent);
            replies.join().map_err(|_| "reading the replies failed")?
        })
    }

    /// Of the same connection: one sends, the other reads.
    fn second(&self) -> Outcome<Self> {
        Ok(match self {
            Producer::Broker(broker) => Producer::Broker(broker.second()?),
            Producer::Script { redis, sha, .. } => {
                Producer::Script { redis: redis.second()?, sha: sha.clone(), random: Random::new() }
            }
        })
    }

    fn send(&mut self, messages: &mut [Message], due: Due) -> Outcome<()> {
        match self {
            Producer::Broker(broker) => offer(broker, messages, due),
            Producer::Script { redis, sha, random } => call(redis, sha, random, messages, due),
        }
    }

    fn replies(&mut self, messages: &mut [Message]) -> Outcome<()> {
        for message in messages {
            match self {
                Producer::Broker(broker) => message.promised(broker.answer()?.into_bytes()?)?,
                Producer::Script { redis, .. } => drop(redis.answer()?),
            }
        }
        Ok(())
    }

    /// Messages of one queue, due at a time, as fast as it goes.
    pub fn load(&mut self, messages: &mut [Message]) -> Outcome<()> {
        match self {
            Producer::Broker(broker) => load(broker, messages),
            Producer::Script { .. } => self.offer(messages, Due::At),
        }
    }
}

fn offer(broker: &mut Client, messages: &[Message], due: Due) -> Outcome<()> {
    for message in messages {
        let when = message.due_ms.to_string();
        let (queue, payload) = (&message.queue, &message.payload);
        match due {
            Due::At => broker.push(&[b"DQ.OFFER", queue, b"AT", when.as_bytes(), payload]),
            Due::After => broker.push(&[b"DQ.OFFER", queue, when.as_bytes(), payload]),
        }
    }
    Ok(broker.flush()?)
}

fn load(broker: &mut Client, messages: &mut [Message]) -> Outcome<()> {
    for some in messages.chunks_mut(MANY * MANY_PIPELINE) {
        for together in some.chunks(MANY) {
            let times: Vec<String> = together.iter().map(|one| one.due_ms.to_string()).collect();
            let queue = together.first().map_or(&[][..], |one| &one.queue);
            let mut args: Vec<&[u8]> = vec![b"DQ.MOFFER", queue];
            for (message, time) in together.iter().zip(&times) {
                args.extend([b"AT", time.as_bytes(), &message.payload]);
            }
            broker.push(&args);
        }
        broker.flush()?;
        for together in some.chunks_mut(MANY) {
            for (message, id) in together.iter_mut().zip(broker.answer()?.into_array()?) {
                message.promised(id.into_bytes()?)?;
            }
        }
    }
    Ok(())
}

fn call(
    redis: &mut Client,
    sha: &[u8],
    random: &mut Random,
    messages: &mut [Message],
    due: Due,
) -> Outcome<()> {
    for message in messages {
        if due == Due::After {
            message.due_ms += now_us() / 1000;
        }
        let queue = String::from_utf8_lossy(&message.queue);
        let keys = keys(&queue);
        let [_, timeout, list, channel] = keys.each_ref().map(String::as_bytes);
        let (score, id) = (message.due_ms.to_string(), random.any().to_be_bytes());
        redis.push(&[
            b"EVALSHA",
            sha,
            b"4",
            &message.queue,
            timeout,
            list,
            channel,
            score.as_bytes(),
            &id,
            &message.payload,
        ]);
    }
    Ok(redis.flush()?)
}

/// Those of a queue, in the order of the script: destination, timeout set, order list, channel.
pub fn keys(queue: &str) -> [String; 4] {
    [
        queue.to_owned(),
        format!("redisson_delay_queue_timeout:{{{queue}}}"),
        format!("redisson_delay_queue:{{{queue}}}"),
        format!("redisson_delay_queue_channel:{{{queue}}}"),
    ]
}
