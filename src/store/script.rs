//! The scripts of `lua/`, and their hashes.
//!
//! A part, `lua/_member.lua`, fills a table that is named as it is, `Member`; what else is local in
//! it nobody else sees. Redis has no includes, and a table that each call of a script builds anew
//! would cost it 0.1 us for each function: so [`assembled`] puts those functions and constants in
//! front of a script that it reaches, each as a local variable, and leaves out comments and
//! indentation. Parts that only statements with a call of `late()` reach are built by that call.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use sha1::{Digest, Sha1};

use crate::store::keys::Key;

pub struct Script {
    /// As the file: also the label of its metric.
    pub name: &'static str,
    /// Its KEYS; of a script of many queues those that it takes once.
    pub keys: &'static [Key],
    /// Of a script of many queues: those of each.
    pub each: &'static [Key],
    loaded: LazyLock<Loaded>,
}

struct Loaded {
    source: String,
    sha: String,
}

impl Script {
    /// The text that Redis loads.
    pub fn source(&self) -> &str {
        &self.loaded.source
    }

    /// The hash that EVALSHA takes, in hexadecimal.
    pub fn sha(&self) -> &str {
        &self.loaded.sha
    }
}

impl Loaded {
    fn new(source: String) -> Self {
        let hash = Sha1::digest(&source);
        let sha = hex::encode(hash);
        Self { source, sha }
    }
}

macro_rules! parts {
    ($($table:literal = $file:literal;)*) => {
        /// Table, file and text of each part.
        const PARTS: &[(&str, &str, &str)] =
            &[$(($table, $file, include_str!(concat!("../../lua/", $file, ".lua")))),*];
    };
}

macro_rules! scripts {
    ($($constant:ident = $name:literal ($($key:ident)*) $(each ($($each:ident)*))?;)*) => {
        $(
            pub static $constant: Script = Script {
                name: $name,
                keys: &[$(Key::$key),*],
                each: &[$($(Key::$each),*)?],
                loaded: LazyLock::new(|| {
                    Loaded::new(assembled(include_str!(concat!("../../lua/", $name, ".lua"))))
                }),
            };
        )*
        /// Every script, for loading them all.
        pub static ALL: &[&Script] = &[$(&$constant),*];
    };
}

/// Asks for rights (`lua/probe.lua`), with the flag that lets Redis refuse each write. Not
/// among the others, since Redis before 7.0 does not read it.
pub static PROBE: Script = Script {
    name: "probe",
    keys: &[],
    each: &[],
    loaded: LazyLock::new(|| {
        let source = assembled(include_str!("../../lua/probe.lua"));
        Loaded::new(format!("#!lua flags=no-writes\n{source}"))
    }),
};

parts! {
    "Call" = "_call";
    "Record" = "_record";
    "Begin" = "_begin";
    "Pause" = "_pause";
    "Member" = "_member";
    "Envelope" = "_envelope";
    "Held" = "_held";
    "Deliver" = "_deliver";
    "Find" = "_find";
    "Names" = "_names";
    "List" = "_list";
    "TakeOut" = "_take_out";
    "Unlisted" = "_unlisted";
    "Pass" = "_pass";
    "Leave" = "_leave";
    "Page" = "_page";
    "Match" = "_match";
    "Head" = "_head";
    "Publish" = "_publish";
    "Wake" = "_wake";
    "Convert" = "_convert";
    "Lease" = "_lease";
    "Rate" = "_rate";
    "Store" = "_store";
    "Cron" = "_cron";
    "Stream" = "_stream";
}

scripts! {
    // Of a group with a name also those of names.
    OFFER = "offer" (Call Guard) each (Destination Timeout List Record);
    TRANSFER = "transfer"
        (Destination Timeout List Record Names Ids Quarantine All First Held Guard);
    HEADS = "heads" () each (Timeout);
    FOUND = "found" () each (Timeout Record);
    REMOVE = "remove" (Call Timeout List Record Names Ids Guard);
    REMOVE_LISTED = "remove_listed" (Call Timeout List Record Names Ids Guard);
    REMOVE_PENDING = "remove_pending" (Call Timeout List Record Names Ids Guard);
    CONTAINS = "contains" (Timeout Record Guard);
    CANCEL = "cancel" (Call Timeout List Record Names Ids Guard);
    RESCHEDULE = "reschedule" (Call Timeout List Record Names Ids Guard);
    FIRE = "fire" (Call Timeout List Record Names Ids Guard);
    GET = "get" (Timeout Record Names Ids Guard);
    RANGE = "range" (Timeout Record Ids Guard);
    TIMELINE = "timeline" (Timeout Record Guard);
    POLL = "poll" (Call Timeout List Record Names Ids Quarantine Guard);
    FIRST = "first" (Timeout Record Guard);
    POLL_PENDING = "poll_pending" (Call Timeout Record Names Ids Guard);
    CLEAR = "clear" (Call Timeout List Record Names Ids Guard);
    PAUSE = "pause" (Call Timeout Record Guard);
    RESUME = "resume" (Call Timeout Record Guard);
    PAUSE_ALL = "pause_all" (Call All Guard);
    QUARANTINE_LIST = "quarantine_list" (Quarantine Record Guard);
    QUARANTINE_RESTORE = "quarantine_restore" (Call Timeout List Record Quarantine Guard);
    QUARANTINE_DROP = "quarantine_drop" (Call Record Quarantine Guard);
    SIZE = "size" (Timeout Record Guard);
    INFO = "info"
        (Destination Timeout List Record Names Quarantine All Ids Leased Retry Dead Crons
        First Guard);
    STATS = "stats" (All)
        each (Timeout Destination Record Quarantine Leased Retry Dead First);
    SETTLE = "settle" (Call Guard);
    NODE = "node" (Node);
    SETUP = "setup" (Call Destination Timeout Record Taken First Guard);
    PRUNE = "prune"
        (Timeout List Record Names Ids Registry Taken Crons Destination First Held Guard);
    CONFIGURE = "configure" (Record Timeout List Guard);
    CONVERT_LISTED = "convert_listed" (Call Timeout List Record Guard);
    CONVERT_PENDING = "convert_pending" (Call Timeout List Record Guard);
    TAKE = "take"
        (Call Destination Timeout Record All Leased Retry Dead Taken Tries First Held Guard);
    ACK = "ack" (Call Timeout Record Leased Retry Dead Taken Tries Held Guard);
    NACK = "nack" (Call Timeout Record Leased Retry Dead Taken Tries Held Guard);
    EXTEND = "extend" (Call Timeout Record Leased Retry Dead Taken Tries Guard);
    TAKEN = "taken" (Timeout Record Leased Retry Dead Taken Tries Guard);
    DEAD = "dead" (Call Timeout Record Leased Retry Dead Taken Tries Guard);
    RETRY = "retry" (Call Timeout Record Leased Retry Dead Taken Tries Held Guard);
    RETRY_GET = "retry_get" (Timeout Record Leased Retry Dead Taken Tries Guard);
    RELEASE = "release" (Call Destination Timeout Record Leased Retry Dead Taken Tries Held Guard);
    READY = "ready" () each (Destination Leased Retry Record First);
    PUSH = "push" (Call Destination Timeout List Record All Guard);
    CRON = "cron"
        (Call Destination Timeout List Record Names Ids Held Crons Cron Guard);
    CRON_SET = "cron_set" (Call Destination Timeout Record Crons Cron Guard);
    CRON_STOP = "cron_stop" (Call Timeout Record Crons Cron Guard);
    CRON_READ = "cron_read" (Timeout Record Crons Cron Guard);
    CRON_HEADS = "cron_heads" () each (Crons Record);
    STREAM_LOOK = "stream_look" (Destination Timeout Record Retry Guard);
    STREAM_KEEP = "stream_keep"
        (Destination Again Timeout Record Retry Dead Taken Tries Guard);
    STREAM_AGAIN = "stream_again"
        (Destination Again Timeout Record Retry Dead Taken Tries Guard);
    STREAM_NACK = "stream_nack"
        (Call Destination Again Timeout Record Retry Dead Taken Tries Guard);
    STREAM_TRIM = "stream_trim" (Destination Again Timeout Record Guard);
    STREAM_IDLE = "stream_idle" (Destination Again Timeout Record Guard);
    STREAM_HEADS = "stream_heads" () each (Record Retry);
}

/// The files of the parts, without their ending.
pub fn part_files() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|(_, file, _)| *file)
}

/// A statement at the left margin, with the lines that belong to it.
struct Statement {
    /// The names that it defines: `Member.read`, or those that are local in its part.
    defines: Vec<String>,
    /// The names in its text: words, and `Member.read` as one.
    names: BTreeSet<String>,
    /// Without comments and indentation, `Member_read` for `Member.read`.
    text: String,
}

static TABLES: LazyLock<Vec<Vec<Statement>>> =
    LazyLock::new(|| PARTS.iter().map(|(.., text)| statements(text)).collect());

/// The names, each with the place of its part, that some statements of a script reach.
fn reached<'a>(script: impl Iterator<Item = &'a Statement>) -> BTreeSet<(usize, &'a str)> {
    let mut wanted = BTreeSet::new();
    let mut left: Vec<(usize, &str)> =
        script.flat_map(|one| one.names.iter().map(|name| (usize::MAX, &name[..]))).collect();
    while let Some((from, name)) = left.pop() {
        // A table's is seen everywhere, what else is local in its own part alone.
        let table = name.split_once('.').map_or("", |(table, _)| table);
        let of = PARTS.iter().position(|(known, ..)| *known == table).unwrap_or(from);
        let Some(part) = TABLES.get(of) else { continue };
        if wanted.insert((of, name)) {
            let defining = part.iter().filter(|one| one.defines.iter().any(|its| its == name));
            left.extend(defining.flat_map(|one| one.names.iter().map(|name| (of, &name[..]))));
        }
    }
    wanted
}

/// A script, and in front of it what it reaches of the parts.
fn assembled(script: &str) -> String {
    let script = statements(script);
    let wanted = reached(script.iter());
    let at_once = reached(script.iter().filter(|one| !one.names.contains("late")));
    let (mut tables, mut bodies, mut late) = (Vec::new(), String::new(), String::new());
    for (place, part) in TABLES.iter().enumerate() {
        let defines = |one: &Statement, of: &BTreeSet<(usize, &str)>| {
            one.defines.iter().any(|name| of.contains(&(place, &name[..])))
        };
        let body: Vec<&Statement> = part.iter().filter(|one| defines(one, &wanted)).collect();
        tables.extend(body.iter().flat_map(|one| &one.defines).filter(|name| name.contains('.')));
        if !body.is_empty() {
            let is_late = !body.iter().any(|one| defines(one, &at_once));
            let block = if is_late { &mut late } else { &mut bodies };
            *block += "do\n";
            body.iter().for_each(|one| *block += &one.text);
            *block += "end\n";
        }
    }
    let mut source = String::new();
    for some in tables.chunks(8) {
        let names: Vec<String> = some.iter().map(|name| name.replace('.', "_")).collect();
        source += &format!("local {}\n", names.join(","));
    }
    source += &bodies;
    if script.iter().any(|one| one.names.contains("late")) {
        source += &format!("local late\nfunction late()\nlate = function() end\n{late}end\n");
    }
    script.iter().for_each(|one| source += &one.text);
    source
}

/// Lua as the house writes it: a statement begins at the left margin and its other lines do not,
/// but for those that close it.
fn statements(text: &str) -> Vec<Statement> {
    let mut all: Vec<Statement> = Vec::new();
    for line in text.lines() {
        let mut names = BTreeSet::new();
        let code = code_of(line, &mut names);
        if code.is_empty() {
            continue;
        }
        let closes = ["end", "}", ")", "else", "until"].iter().any(|word| code.starts_with(word));
        match all.last_mut() {
            Some(last) if line.starts_with(' ') || closes => {
                last.names.extend(names);
                last.text += &format!("{code}\n");
            }
            _ => {
                let defines = defined_by(line);
                all.push(Statement { defines, names, text: format!("{code}\n") });
            }
        }
    }
    all
}

/// The names that a statement defines by its first line: `function Member.read(`, `List.long = `,
/// `local function one(`, `local one, other = `.
fn defined_by(line: &str) -> Vec<String> {
    let is_name = |one: char| one.is_ascii_alphanumeric() || one == '_' || one == '.';
    let local = line.strip_prefix("local ");
    let rest = local.unwrap_or(line);
    if let Some(function) = rest.strip_prefix("function ") {
        return vec![function.chars().take_while(|one| is_name(*one)).collect()];
    }
    let (names, _) = rest.split_once('=').unwrap_or((rest, ""));
    let names = names.split(',').map(|name| name.trim().to_owned());
    names.filter(|name| name.chars().all(is_name)).collect()
}

/// The code of a line, and the names in it.
fn code_of(line: &str, names: &mut BTreeSet<String>) -> String {
    let mut code = String::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let (taken, behind) = match first {
            '-' if rest.starts_with("--") => break,
            '\'' | '"' => rest.split_at(string_size(rest, first)),
            _ if first.is_ascii_alphabetic() || first == '_' => {
                let is_name = |one: char| one.is_ascii_alphanumeric() || one == '_' || one == '.';
                let (name, behind) =
                    rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
                let of_part = name
                    .split_once('.')
                    .is_some_and(|(table, _)| PARTS.iter().any(|p| p.0 == table));
                names.insert(name.to_owned());
                code += &if of_part { name.replace('.', "_") } else { name.to_owned() };
                ("", behind)
            }
            // A number, so that its exponent is no name.
            _ if first.is_ascii_digit() => {
                let is_digit = |one: char| one.is_ascii_alphanumeric() || one == '.';
                rest.split_at(rest.find(|c| !is_digit(c)).unwrap_or(rest.len()))
            }
            _ => rest.split_at(first.len_utf8()),
        };
        code += taken;
        rest = behind;
    }
    code.truncate(code.trim_end().len());
    code
}

/// Bytes of the string that a text begins with, both quotes included.
fn string_size(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, one) in text.char_indices().skip(1) {
        if !escaped && one == quote {
            return at + one.len_utf8();
        }
        escaped = !escaped && one == '\\';
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_indentation_are_left_out() {
        for (line, code, names) in [
            ("-- all of it", "", &[][..]),
            ("  return a -- why", "return a", &["return", "a"]),
            ("x = 'a -- b' -- c", "x = 'a -- b'", &["x"]),
            (r"x = 'it\'s -- one' .. y", r"x = 'it\'s -- one' .. y", &["x", "y"]),
            (r"x = '\\' -- a backslash", r"x = '\\'", &["x"]),
            ("x = \"don't -- end\" -- end", "x = \"don't -- end\"", &["x"]),
            ("  if a - -1 then", "if a - -1 then", &["if", "a", "then"]),
            ("a = 1e15 -- ms", "a = 1e15", &["a"]),
            ("Member.read(m.id)", "Member_read(m.id)", &["Member.read", "m.id"]),
            ("'Member.read' .. 2", "'Member.read' .. 2", &[]),
            ("x = 'not closed", "x = 'not closed", &["x"]),
        ] {
            let mut found = BTreeSet::new();
            assert_eq!(code_of(line, &mut found), code, "{line}");
            assert_eq!(found, names.iter().map(|name| (*name).to_owned()).collect(), "{line}");
        }
    }

    #[test]
    fn statements_and_what_they_define() {
        let text = concat!(
            "-- A part.\nlocal most, least = 1, 2\nlocal t = {\n  a = 1,\n}\n\n-- Why.\n",
            "local function one(a)\n  return a\nend\nfunction Head.two()\nend\nHead.three = 3\n",
        );
        let found: Vec<(Vec<String>, String)> =
            statements(text).into_iter().map(|one| (one.defines, one.text)).collect();
        let wanted = [
            (&["most", "least"][..], "local most, least = 1, 2\n"),
            (&["t"], "local t = {\na = 1,\n}\n"),
            (&["one"], "local function one(a)\nreturn a\nend\n"),
            (&["Head.two"], "function Head_two()\nend\n"),
            (&["Head.three"], "Head_three = 3\n"),
        ];
        let wanted = wanted.map(|(defines, text)| {
            (defines.iter().map(|name| (*name).to_owned()).collect(), text.to_owned())
        });
        assert_eq!(found, wanted);
    }

    /// A script has the functions that it reaches, in one place each, and no others.
    #[test]
    fn parts_are_those_that_are_reached() {
        let settle = SETTLE.source();
        assert!(settle.starts_with("local Call_expiry_s,Call_is_foreign,Begin_now\ndo\n"));
        assert!(!settle.contains("Call_applied") && !settle.contains("--"), "{settle}");
        assert!(!OFFER.source().contains("halved"));
        assert_eq!(TRANSFER.source().matches("local function halved").count(), 1);
        // `search` of nobody else.
        assert!(GET.source().contains("function Find_rank") && !GET.source().contains("List_"));
    }

    #[test]
    fn parts_of_seldom_cases_are_built_late() {
        let (at_once, rest) = TRANSFER.source().split_once("function late()\n").unwrap();
        let late = rest.split_once("local destination").unwrap().0;
        for (name, is_late) in [("List_each", true), ("Leave_plan", true), ("Head_score", false)] {
            let defined = format!("function {name}(");
            assert_eq!((late.contains(&defined), at_once.contains(&defined)), (is_late, !is_late));
        }
        assert!(!GET.source().contains("late()"));
    }

    /// Redis would say so only where a script comes to it.
    #[test]
    fn what_is_named_of_a_part_is_defined() {
        let all: Vec<Statement> = PARTS.iter().flat_map(|(.., text)| statements(text)).collect();
        let defined: BTreeSet<&String> = all.iter().flat_map(|one| &one.defines).collect();
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/lua")).unwrap();
        for path in files.map(|file| file.unwrap().path()) {
            let text = std::fs::read_to_string(&path).unwrap();
            for name in statements(&text).iter().flat_map(|one| &one.names) {
                let table = name.split_once('.').map_or("", |(table, _)| table);
                if PARTS.iter().any(|(known, ..)| *known == table) {
                    assert!(defined.contains(name), "{}: {name}", path.display());
                }
            }
        }
    }
}
