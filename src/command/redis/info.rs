//! `INFO [section ...]`: the broker as clients and people look at a Redis.
//!
//! Replies with a bulk string of `# Section` and `field:value` lines. The fields that clients read
//! stand where Redis has them; `loading` is 1 while the backing Redis cannot be reached, which
//! makes clients with a ready check wait. Sections that only this broker has follow:
//! `broker/overview.rs`.

use std::fmt::Write as _;
use std::rc::Rc;

use crate::broker::{Broker, Section, ServerInfo as Numbers};
use crate::resp::Reply;

use crate::command::args::{ArgError, Args};
use crate::command::{
    Caller, Categories, Category, Command, Group, REDIS_VERSION, Run, Spec, User,
};

pub const SPEC: Spec = Spec {
    name: "INFO",
    usage: "[section ...]",
    summary: "Shows the state of the broker",
    categories: Categories::of(&[Category::Read]),
    ..Spec::local(Group::Server, parse)
};

#[derive(Debug, PartialEq)]
pub struct ServerInfo {
    /// In lower case; none = all.
    sections: Vec<String>,
}

fn parse<'a>(args: &mut Args<'a, '_>) -> Result<Command<'a>, ArgError> {
    let asked = std::iter::from_fn(|| args.option());
    let mut sections: Vec<_> =
        asked.map(|raw| String::from_utf8_lossy(raw).to_ascii_lowercase()).collect();
    if sections.iter().any(|name| matches!(name.as_str(), "default" | "all" | "everything")) {
        sections.clear();
    }
    Ok(Command::ServerInfo(ServerInfo { sections }))
}

impl ServerInfo {
    pub fn run(self, caller: &Caller, broker: &Rc<Broker>) -> Run {
        let about_queues = |s: &String| matches!(s.as_str(), "messages" | "queues");
        let reads = self.sections.is_empty() || self.sections.iter().any(about_queues);
        match reads.then(|| broker.newer_readings()).flatten() {
            None => Run::Ready(self.shown(broker, caller.user.as_deref())),
            Some(newer) => {
                let (broker, user) = (Rc::clone(broker), caller.user.clone());
                Run::Later(Box::pin(async move {
                    newer.await;
                    self.shown(&broker, user.as_deref())
                }))
            }
        }
    }

    /// Queues that the user may name are named.
    fn shown(&self, broker: &Broker, user: Option<&User>) -> Reply {
        let connected = broker.clients.len();
        let limit = broker.clients_max.get();
        let mut sections = standard(&broker.server_info(), connected, limit);
        sections.extend(broker.overview(|queue| user.is_some_and(|user| user.may_name(queue))));
        self.text(&sections).into()
    }

    fn text(&self, sections: &[Section]) -> String {
        let asked = |title: &str| {
            self.sections.is_empty() || self.sections.iter().any(|s| s.eq_ignore_ascii_case(title))
        };
        let mut text = String::new();
        for (title, fields) in sections.iter().filter(|(title, _)| asked(title)) {
            let between = if text.is_empty() { "" } else { "\r\n" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{between}# {title}\r\n");
            for (name, value) in fields {
                let _ = write!(text, "{name}:{value}\r\n");
            }
        }
        text
    }
}

fn standard(numbers: &Numbers, connected: usize, limit: usize) -> Vec<Section> {
    let section = |title: &'static str, fields: &[(&str, &dyn ToString)]| {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_string()));
        (title, fields.collect())
    };
    // As Redis: the one with TLS only where there is no other.
    let port = match numbers.plain_port {
        0 => numbers.tls_port,
        plain => plain,
    };
    let days = numbers.uptime_s / 86_400;
    let memory = numbers.used_memory_bytes;
    let human = format!("{:.2}M", memory as f64 / 1_048_576.0);
    vec![
        section(
            "Server",
            &[
                ("redis_version", &REDIS_VERSION),
                ("delay_broker_version", &env!("CARGO_PKG_VERSION")),
                ("redis_mode", &"standalone"),
                ("os", &std::env::consts::OS),
                ("arch_bits", &usize::BITS),
                ("process_id", &std::process::id()),
                ("run_id", &numbers.run_id),
                ("tcp_port", &port),
                ("uptime_in_seconds", &numbers.uptime_s),
                ("uptime_in_days", &days),
            ],
        ),
        section(
            "Clients",
            &[
                ("connected_clients", &connected),
                ("maxclients", &limit),
                ("blocked_clients", &numbers.takers),
            ],
        ),
        section("Memory", &[("used_memory", &memory), ("used_memory_human", &human)]),
        section("Persistence", &[("loading", &u8::from(!numbers.ready))]),
        section(
            "Stats",
            &[
                ("total_connections_received", &numbers.connections_received),
                ("total_commands_processed", &numbers.commands_processed),
            ],
        ),
        section("Replication", &[("role", &"master"), ("connected_slaves", &0)]),
        section("Cluster", &[("cluster_enabled", &0)]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::check;

    #[test]
    fn parse() {
        let of = |sections: &[&str]| {
            let sections = sections.iter().map(|&name| name.to_owned()).collect();
            Ok(Command::ServerInfo(ServerInfo { sections }))
        };
        check(&[
            ("INFO", of(&[])),
            ("info Server CLIENTS", of(&["server", "clients"])),
            ("INFO everything", of(&[])),
        ]);
    }

    #[test]
    fn sections() {
        let numbers = Numbers { tls_port: 7379, ready: true, ..Numbers::default() };
        let mut all = standard(&numbers, 3, 10);
        all.push(("Queues", vec![("known".to_owned(), "7".to_owned())]));
        let text = |names: &[&str]| {
            ServerInfo { sections: names.iter().map(|&name| name.to_owned()).collect() }.text(&all)
        };
        let whole = text(&[]);
        assert!(whole.starts_with("# Server\r\nredis_version:7."));
        let fields = ["redis_mode:standalone", "role:master", "loading:0", "tcp_port:7379"];
        for field in fields {
            assert!(whole.contains(&format!("\r\n{field}\r\n")), "{field} in {whole}");
        }
        assert_eq!(
            text(&["clients"]),
            "# Clients\r\nconnected_clients:3\r\nmaxclients:10\r\nblocked_clients:0\r\n"
        );
        assert_eq!(text(&["queues"]), "# Queues\r\nknown:7\r\n");
        assert_eq!(text(&["nope"]), "");
        let waiting = standard(&Numbers::default(), 0, 0);
        let all = ServerInfo { sections: vec!["persistence".into()] }.text(&waiting);
        assert_eq!(all, "# Persistence\r\nloading:1\r\n");
    }
}
