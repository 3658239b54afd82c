//! A Redis Cluster of this test process: primaries that share the slots, each with replicas.
//!
//! Real servers, as those of `redis.rs`, that die with the test process. Knows nothing of the
//! broker but its URL.

use super::process::{Stopped, signal};
use super::redis::Redis;
use super::resp::{Client, Value};
use super::wait::within;
use std::time::Duration;

pub const SLOTS: u16 = 16_384;
/// Nodes measure time, and elect after a machine has stood still only when they agree again.
pub const PATIENCE: Duration = Duration::from_secs(90);

const ARGS: [&str; 12] = [
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "500",
    "--cluster-require-full-coverage",
    "no",
    "--cluster-replica-validity-factor",
    "0",
    "--repl-diskless-sync-delay",
    "0",
    "--cluster-allow-replica-migration",
    "no",
];

pub struct Cluster {
    /// Primaries first, then the replicas of each.
    pub nodes: Vec<Redis>,
    primaries: usize,
}

fn cluster(client: &mut Client, words: &str) -> Value {
    let args: Vec<&str> = ["CLUSTER"].into_iter().chain(words.split(' ')).collect();
    client.call(&args).unwrap()
}

impl Cluster {
    /// So many primaries, which have as many slots each, and replicas of each of them.
    pub fn start(primaries: usize, replicas: usize) -> Cluster {
        Cluster::with(primaries, replicas, &[])
    }

    pub fn with(primaries: usize, replicas: usize, args: &[&str]) -> Cluster {
        let args = [&ARGS[..], args].concat();
        let nodes = (0..primaries * (1 + replicas)).map(|_| Redis::spawn(&args)).collect();
        let cluster_of = Cluster { nodes, primaries };
        let ids = cluster_of.ids();
        for (number, node) in cluster_of.nodes.iter().enumerate() {
            let mut client = node.client(0);
            cluster(&mut client, &format!("SET-CONFIG-EPOCH {}", number + 1));
            if number < primaries {
                let slots: Vec<String> =
                    cluster_of.slots_of(number).map(|slot| slot.to_string()).collect();
                cluster(&mut client, &format!("ADDSLOTS {}", slots.join(" ")));
            }
            let first = cluster_of.nodes[0].port();
            cluster(&mut client, &format!("MEET 127.0.0.1 {first}"));
        }
        cluster_of.agree(primaries * (1 + replicas));
        for (number, node) in cluster_of.nodes.iter().enumerate().skip(primaries) {
            let id = &ids[number % primaries];
            let ask = || cluster(&mut node.client(0), &format!("REPLICATE {id}")).text();
            within(PATIENCE, ask, |reply| reply == "OK");
        }
        for node in &cluster_of.nodes[primaries..] {
            let ask = || node.client(0).call(&["INFO", "replication"]).unwrap().text();
            within(PATIENCE, ask, |info| info.contains("master_link_status:up"));
        }
        cluster_of.settled();
        cluster_of
    }

    pub fn ids(&self) -> Vec<String> {
        self.nodes.iter().map(|node| cluster(&mut node.client(0), "MYID").text()).collect()
    }

    /// The slots that a primary has at the start.
    pub fn slots_of(&self, primary: usize) -> std::ops::Range<u16> {
        let bound = |number: usize| (number * usize::from(SLOTS) / self.primaries) as u16;
        bound(primary)..bound(primary + 1)
    }

    /// Waits until all know all.
    fn agree(&self, nodes: usize) {
        for node in &self.nodes {
            let ask = || cluster(&mut node.client(0), "INFO").text();
            let known = format!("cluster_known_nodes:{nodes}\r");
            within(PATIENCE, ask, |info| {
                info.contains(&known) && info.contains("cluster_state:ok")
            });
        }
    }

    /// Waits until each node that answers sees each primary with its slots and its replicas.
    pub fn settled(&self) {
        let replicas = self.nodes.len() - self.primaries;
        for node in &self.nodes {
            let ask = || cluster(&mut node.client(0), "NODES").text();
            within(PATIENCE, ask, |text| {
                let of = |flag: &str| text.lines().filter(|line| line.contains(flag)).count();
                of("slave ") == replicas && of("fail") == 0 && of("handshake") == 0
            });
        }
    }

    /// The URL of a broker; all primaries are named.
    pub fn url(&self) -> String {
        let nodes = &self.nodes[..self.primaries];
        let addresses: Vec<String> = nodes.iter().map(Redis::address).collect();
        format!("redis-cluster://{}", addresses.join(","))
    }

    pub fn slot(&self, key: &str) -> u16 {
        let asked = |node: &Redis| {
            let mut client = Client::connect(node.address()).ok()?;
            client.call(&["CLUSTER", "KEYSLOT", key]).ok()
        };
        self.nodes.iter().find_map(asked).unwrap().int() as u16
    }

    /// A queue in the slots that a primary has at the start.
    pub fn queue_at(&self, primary: usize, name: &str) -> String {
        let slots = self.slots_of(primary);
        let named = (0..).map(|number| format!("{name}{number}"));
        named.into_iter().find(|queue| slots.contains(&self.slot(queue))).unwrap()
    }

    /// The node that serves a slot by its own word.
    pub fn owner(&self, slot: u16) -> Option<usize> {
        self.nodes.iter().position(|node| {
            let Ok(mut client) = Client::connect(node.address()) else { return false };
            client.read_within(Duration::from_secs(1)).unwrap();
            let Ok(text) = client.call(&["CLUSTER", "NODES"]) else { return false };
            let text = text.text();
            let Some(line) = text.lines().find(|line| line.contains("myself,master")) else {
                return false;
            };
            line.split(' ').skip(8).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                matches!((first.parse::<u16>(), last.parse::<u16>()), (Ok(first), Ok(last))
                    if (first..=last).contains(&slot))
            })
        })
    }

    /// A command to the node that serves its key.
    pub fn call(&self, key: &str, args: &[&str]) -> Value {
        let slot = self.slot(key);
        let mut reply = None;
        let ask = || {
            let Some(owner) = self.owner(slot) else { return "no owner".to_owned() };
            let Ok(mut client) = Client::connect(self.nodes[owner].address()) else {
                return "no connection".to_owned();
            };
            let Ok(answer) = client.call(args) else { return "no answer".to_owned() };
            let text = match &answer {
                Value::Error(text) => text.clone(),
                _ => String::new(),
            };
            reply = Some(answer);
            text
        };
        within(PATIENCE, ask, |text| text.is_empty());
        reply.unwrap()
    }

    /// Moves a slot with its keys, as redis-cli does it. `while_open`: before the move is told.
    pub fn move_slot(&self, slot: u16, to: usize, while_open: impl FnOnce()) {
        let from = self.owner(slot).unwrap();
        if from == to {
            return;
        }
        let ids = self.ids();
        let [mut source, mut target] = [from, to].map(|node| self.nodes[node].client(0));
        cluster(&mut target, &format!("SETSLOT {slot} IMPORTING {}", ids[from]));
        cluster(&mut source, &format!("SETSLOT {slot} MIGRATING {}", ids[to]));
        let port = self.nodes[to].port().to_string();
        let mut while_open = Some(while_open);
        loop {
            let keys = cluster(&mut source, &format!("GETKEYSINSLOT {slot} 10")).texts();
            if let Some(while_open) = while_open.take() {
                while_open();
            }
            if keys.is_empty() {
                break;
            }
            let mut args = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "REPLACE", "KEYS"];
            args.extend(keys.iter().map(String::as_str));
            let moved = source.call(&args).unwrap().text();
            assert!(moved == "OK" || moved == "NOKEY", "{moved}");
        }
        for client in [&mut target, &mut source] {
            assert_eq!(cluster(client, &format!("SETSLOT {slot} NODE {}", ids[to])).text(), "OK");
        }
    }

    /// Kills a node as a crash does.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    pub fn stop(&self, node: usize) -> Stopped {
        Stopped::new(self.nodes[node].pid())
    }

    pub fn signal(&self, node: usize, name: &str) {
        signal(self.nodes[node].pid(), name);
    }
}
