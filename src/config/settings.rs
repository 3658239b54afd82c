//! The list of all settings: a line each, from which the rest is made.
//!
//! A line has the key, the type of the field, the rule for its value, and `reloads` if SIGHUP takes
//! up a new value. The default, the unit and the reason of a setting stand in
//! `config/default.toml`, from which `docs/settings.md` is made; tests hold the two to this list.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use regex::bytes::Regex;

use crate::domain::envelope::{HEADERS_BYTES_MAX, HEADERS_MAX};

use super::kinds::{
    Kind, address, addresses, directory, file, flag, label, level, names, password, path, pattern,
    redis_url, user, whole, words,
};
use super::layers::Reader;
use super::queues::{Queue, queues};
use super::users::{User, users};
use super::{Place, RedisUrl, Secret, Tls, pem};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
/// Milliseconds of a day: the bound of waits, where more is a mistake in the unit.
const DAY_MS: u64 = 86_400_000;
/// A call and its settlement together stay far below the expiry of the keys of `lua/_call.lua`.
const SETTLED_MS: u64 = 120_000;

/// A setting without its value.
pub struct Setting {
    /// `section.key`
    pub key: &'static str,
    /// SIGHUP takes up a new value.
    pub reloads: bool,
    /// The rule for its value: "must be ...".
    pub rule: fn() -> String,
}

macro_rules! settings {
    (@reloads) => { false };
    (@reloads reloads) => { true };
    ($(
        $section:ident: $struct:ident {
            $($(#[$note:meta])* $key:ident: $type:ty = $kind:expr $(, $reloads:ident)?;)*
        }
    )*) => {
        $(
            #[derive(Debug, Clone)]
            pub struct $struct {
                $($(#[$note])* pub $key: $type,)*
            }

            impl $struct {
                fn read(keys: &mut Reader) -> Self {
                    Self {
                        $($key: keys.read(
                            concat!(stringify!($section), ".", stringify!($key)),
                            &$kind,
                        ),)*
                    }
                }

                fn reloaded(&self, other: &Self) -> Self {
                    let of = |reloads: bool| if reloads { other } else { self };
                    Self { $($key: of(settings!(@reloads $($reloads)?)).$key.clone(),)* }
                }
            }
        )*

        /// Every setting in a section, in the order of the list.
        pub const SETTINGS: &[Setting] = &[$($(Setting {
            key: concat!(stringify!($section), ".", stringify!($key)),
            reloads: settings!(@reloads $($reloads)?),
            rule: || {
                let kind: Kind<$type> = $kind;
                kind.rule
            },
        },)*)*];

        /// Everything that was set, checked.
        #[derive(Debug, Clone)]
        pub struct Config {
            $(pub $section: $struct,)*
            pub queues: Vec<Queue>,
            pub users: Vec<User>,
            /// TLS for clients, if `server.tls_listen` is set.
            pub tls: Option<Tls>,
            /// Every key with its value in effect; secrets hidden.
            pub settings: Vec<(String, toml::Value)>,
            /// Of the settings that can hold one, as they were given.
            pub(super) secrets: BTreeMap<String, Secret>,
        }

        impl Config {
            pub(super) fn read(keys: &mut Reader) -> Self {
                Self {
                    queues: keys.read("queues", &queues()),
                    users: keys.read("users", &users()),
                    $($section: $struct::read(keys),)*
                    tls: None,
                    settings: Vec::new(),
                    secrets: BTreeMap::new(),
                }
            }

            /// This one, with the sections of `other` as far as they reload.
            pub(super) fn sections_reloaded(&self, other: &Self) -> Self {
                Self {
                    $($section: self.$section.reloaded(&other.$section),)*
                    users: other.users.clone(),
                    ..self.clone()
                }
            }
        }
    };
}

settings! {
    server: Server {
        /// `None`: nowhere; then `tls_listen` is there.
        listen: Option<SocketAddr> = address();
        tls_listen: Option<SocketAddr> = address();
        tls_cert_file: Option<PathBuf> = path(), reloads;
        tls_key_file: Option<PathBuf> = path(), reloads;
        tls_client_ca_file: Option<PathBuf> = path(), reloads;
        password: Option<Secret> = password(), reloads;
        protected_mode: bool = flag();
        clients_max: usize = whole(1..=1_000_000), reloads;
        clients_per_address_max: usize = whole(1..=1_000_000), reloads;
        /// 0 = never.
        idle_timeout_s: u64 = whole(0..=DAY_MS), reloads;
        output_bytes_max: usize = whole(64 * KIB..=16 * GIB), reloads;
        stall_timeout_s: u64 = whole(1..=86_400), reloads;
        grace_s: u64 = whole(0..=3_600), reloads;
        /// In upper case.
        disabled_commands: Vec<String> = names(), reloads;
    }
    limits: Limits {
        payload_bytes_max: usize = whole(1..=512 * MIB), reloads;
        queue_name_bytes_max: usize = whole(1..=64 * KIB), reloads;
        message_name_bytes_max: usize = whole(1..=64 * KIB), reloads;
        headers_max: usize = whole(0..=HEADERS_MAX), reloads;
        headers_bytes_max: usize = whole(0..=HEADERS_BYTES_MAX), reloads;
        queue_pattern: Option<Regex> = pattern(), reloads;
        // Scores stay below 10^15 (the year 33658), where doubles are exact to spare.
        delay_max_ms: u64 = whole(1..=900_000_000_000_000), reloads;
        arguments_max: usize = whole(16..=1_000_000), reloads;
        request_bytes_max: usize = whole(64 * KIB..=4 * GIB), reloads;
        inline_bytes_max: usize = whole(KIB..=MIB), reloads;
        buffers_bytes_max: usize = whole(MIB..=64 * GIB);
        moffer_messages_max: usize = whole(1..=100_000), reloads;
        moffer_bytes_max: usize = whole(1..=GIB), reloads;
        take_count_max: usize = whole(1..=1_000), reloads;
        receipts_max: usize = whole(1..=10_000), reloads;
        block_ms_max: u64 = whole(1..=900_000_000_000_000), reloads;
        takers_max: usize = whole(1..=10_000_000), reloads;
        reply_bytes_max: usize = whole(64 * KIB..=GIB);
        queues_max: usize = whole(1..=10_000_000);
    }
    redis: Redis {
        /// `None`: a managed one.
        url: Option<RedisUrl> = redis_url();
        sentinel_user: Option<String> = user();
        sentinel_password: Option<Secret> = password();
        /// As nodes of a Cluster announce them, and as they are reached.
        addresses: Vec<(Place, Place)> = addresses();
        tls_ca_file: Option<PathBuf> = file("must be a PEM file of a CA", pem::certificates);
        tls_cert_file: Option<PathBuf> = file("must be a PEM file", pem::certificates);
        tls_key_file: Option<PathBuf> = file("must be a PEM file of a key", pem::private_key);
        audit: Audit = words(&Audit::WORDS);
        call_timeout_ms: u64 = whole(10..=SETTLED_MS);
        settle_timeout_ms: u64 = whole(10..=SETTLED_MS);
        connect_timeout_ms: u64 = whole(10..=DAY_MS);
        node_claim_ms: u64 = whole(1_000..=DAY_MS);
    }
    managed: Managed {
        data_dir: PathBuf = directory();
        /// 0 = a free one.
        port: u16 = whole(0..=65_535);
        appendfsync: AppendFsync = words(&AppendFsync::WORDS);
        /// `None`: redis-server or valkey-server, as PATH has them.
        program: Option<PathBuf> = path();
    }
    http: Http {
        /// `None`: nowhere.
        listen: Option<SocketAddr> = address();
        tls: bool = flag();
        /// In upper case.
        hosts: Vec<String> = names(), reloads;
        metrics_auth: bool = flag(), reloads;
        body_bytes_max: usize = whole(KIB..=64 * MIB), reloads;
    }
    ui: Ui {
        enabled: bool = flag(), reloads;
        read_only: bool = flag(), reloads;
        label: Option<String> = label(), reloads;
    }
    log: Log {
        /// A filter of tracing-subscriber, checked.
        level: String = level(), reloads;
        format: LogFormat = words(&LogFormat::WORDS);
    }
    offers: Offers {
        batch_messages_max: usize = whole(1..=10_000);
        batch_bytes_max: usize = whole(KIB..=64 * MIB);
        second_call_from: usize = whole(1..=10_000);
    }
    scheduler: Scheduler {
        transfers_in_flight_max: usize = whole(1..=1_000);
        // 7,000 is below the 8,000 values that Lua's unpack can return.
        transfer_messages_max: usize = whole(1..=7_000);
        transfer_ms_max: u64 = whole(1..=1_000);
        scan_interval_ms: u64 = whole(10..=DAY_MS);
        heartbeat_ms: u64 = whole(10..=60_000);
        retry_min_ms: u64 = whole(1..=60_000);
        retry_max_ms: u64 = whole(1..=DAY_MS);
    }
    metrics: Metrics {
        queues_max: usize = whole(0..=100_000);
    }
}

/// How the broker acts on a finding of the audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    Refuse,
    Warn,
    Off,
}

impl Audit {
    const WORDS: [(&str, Self); 3] =
        [("refuse", Self::Refuse), ("warn", Self::Warn), ("off", Self::Off)];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendFsync {
    Always,
    EverySec,
    No,
}

impl AppendFsync {
    const WORDS: [(&str, Self); 3] =
        [("always", Self::Always), ("everysec", Self::EverySec), ("no", Self::No)];

    /// As Redis writes it.
    pub fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, meaning)| *meaning == self);
        found.map_or("", |(word, _)| *word)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    Text,
    Json,
}

impl LogFormat {
    const WORDS: [(&str, Self); 3] =
        [("auto", Self::Auto), ("text", Self::Text), ("json", Self::Json)];
}
