//! The scripts of `lua/`, each with the parts it uses in front, and their hashes.
//!
//! A part (`lua/_*.lua`) holds local functions only. There is no include mechanism: the list below
//! is it.

use std::sync::LazyLock;

use sha1::{Digest, Sha1};

pub struct Script {
    /// As the file: also the label of its metric.
    pub name: &'static str,
    /// What stands in front of it: names of `lua/_*.lua`, in order.
    pub parts: &'static [&'static str],
    pub source: &'static str,
    sha: LazyLock<String>,
}

impl Script {
    /// The hash that EVALSHA takes, in hexadecimal.
    pub fn sha(&self) -> &str {
        &self.sha
    }
}

macro_rules! scripts {
    ($($constant:ident = $name:literal [$($part:literal),*];)*) => {
        $(
            pub static $constant: Script = {
                const SOURCE: &str = concat!(
                    $(include_str!(concat!("../../lua/_", $part, ".lua")),)*
                    include_str!(concat!("../../lua/", $name, ".lua"))
                );
                Script {
                    name: $name,
                    parts: &[$($part),*],
                    source: SOURCE,
                    sha: LazyLock::new(|| sha_of(SOURCE)),
                }
            };
        )*
        /// Every script, for loading them all.
        pub static ALL: &[&Script] = &[$(&$constant),*];
    };
}

/// What a user may do (`lua/probe.lua`), with the flag that lets Redis refuse each write. Not
/// among the others, since Redis before 7.0 does not read it.
pub static PROBE: Script = {
    const SOURCE: &str = concat!(
        "#!lua flags=no-writes\n",
        include_str!("../../lua/probe.lua")
    );
    Script {
        name: "probe",
        parts: &[],
        source: SOURCE,
        sha: LazyLock::new(|| sha_of(SOURCE)),
    }
};

fn sha_of(source: &str) -> String {
    let hash = Sha1::digest(source);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

scripts! {
    OFFER = "offer" ["guard", "member", "find", "publish"];
    TRANSFER = "transfer" ["guard", "member", "find", "strike", "names"];
    HEADS = "heads" [];
    FOUND = "found" [];
    REMOVE = "remove" ["guard", "member", "find", "strike", "names"];
    MATCH_LISTED = "match_listed" ["guard", "member", "match"];
    MATCH_PENDING = "match_pending" ["guard", "member", "find", "match"];
    CANCEL = "cancel" ["guard", "member", "find", "strike", "names"];
    RESCHEDULE = "reschedule" ["guard", "member", "find", "names", "publish"];
    FIRE = "fire" ["guard", "member", "find", "names", "publish"];
    GET = "get" ["guard", "member", "find"];
    RANGE = "range" ["guard", "member", "find", "page"];
    POLL = "poll" ["guard", "member", "names"];
    FIRST = "first" ["guard", "member", "find", "page"];
    TAKE = "take" ["guard", "member", "find", "names"];
    CLEAR = "clear" ["guard"];
    PAUSE = "pause" ["guard"];
    RESUME = "resume" ["guard"];
    QUARANTINE_LIST = "quarantine_list" ["guard"];
    QUARANTINE_RESTORE = "quarantine_restore" ["guard", "publish"];
    QUARANTINE_DROP = "quarantine_drop" ["guard"];
    INFO = "info" ["guard"];
    STATS = "stats" [];
    SETTLE = "settle" ["guard"];
    NODE = "node" [];
    PRUNE = "prune" ["guard"];
    CONFIGURE = "configure" ["guard", "member"];
    CONVERT_LISTED = "convert_listed" ["guard", "member", "find", "page", "convert"];
    CONVERT_PENDING = "convert_pending" ["guard", "member", "find", "page", "convert"];
}
