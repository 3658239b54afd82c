//! The routes of the API: one table, from which come the words of a command, the answer, and the
//! document of OpenAPI.
//!
//! A route is a command. Its words are made from the path, from the query (GET) or from an object
//! of JSON (all others), in the order of the row; the broker's thread reads them as it reads those
//! of a connection. A new command is one row.

use hyper::Method;

use Form::{Choice, Each, Fixed, Flag, Headers, Messages, Opt, Path, Settings, Value};
use Kind::{Blob, Count, Duration, Text, Time};

/// Behind the address; `{queue}` and the like stand for bytes, percent-encoded.
pub const BASE: &str = "/api/v1";

pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub command: &'static str,
    pub words: &'static [Word],
    pub answer: Answer,
    pub summary: &'static str,
}

impl Route {
    /// The names of its parameters, beside those of the path and settings of queues.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        let names = |word: &Word| match word.form {
            Form::Path | Form::Fixed(_) | Form::Settings => [None, None],
            Form::Due => [Some("delay"), Some("at")],
            _ => [Some(word.name), None],
        };
        self.words.iter().flat_map(names).flatten()
    }
}

/// Some words of a command, and the parameter that they are made from.
pub struct Word {
    pub name: &'static str,
    pub form: Form,
    pub kind: Kind,
    pub required: bool,
    pub help: &'static str,
}

/// How a parameter becomes words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A segment of the path.
    Path,
    /// No parameter: always this word.
    Fixed(&'static str),
    /// One word; this one, where there is no parameter.
    Value(Option<&'static str>),
    /// An option and its value.
    Opt(&'static str),
    /// An option, where the parameter is true.
    Flag(&'static str),
    /// The value in upper case, which is one of these.
    Choice(&'static [&'static str]),
    /// `delay`, or `at` with AT in front.
    Due,
    /// A word for each element.
    Each,
    /// HEADER, name and value, for each field.
    Headers,
    /// Due time and payload, for each element.
    Messages,
    /// Name and value, for each further field.
    Settings,
}

/// The values that a parameter may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A whole number, also as text.
    Count,
    /// Milliseconds, or text as `1h30m`.
    Duration,
    /// Unix milliseconds, or text as RFC 3339.
    Time,
    /// Bytes.
    Blob,
}

/// How the reply of the command becomes the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// 204.
    Done,
    /// 201 with the id of a new message; nil is 409.
    Created,
    /// 201 with the ids of new messages.
    AllCreated,
    /// The id that a message has now; nil is 404.
    Id,
    /// An integer, in a field of this name.
    Number(&'static str),
    /// The same; 0 is 404.
    One(&'static str),
    /// The map itself; nil is 404.
    Object(&'static str),
    /// Maps, in `items`; nil is none.
    List(&'static str),
    /// Maps and a cursor, in `items` and `cursor`, which is null at the end.
    Page(&'static str),
    /// The same, and in `looked` how many messages the search looked at.
    Search(&'static str),
    /// The same, with the number that was found in a field of this name.
    Matched(&'static str),
    /// A map of starts and numbers, as objects in `items`.
    Steps(&'static str),
}

const fn word(name: &'static str, form: Form, kind: Kind, help: &'static str) -> Word {
    Word { name, form, kind, required: false, help }
}

const fn needed(word: Word) -> Word {
    Word { required: true, ..word }
}

const fn fixed(text: &'static str) -> Word {
    word("", Fixed(text), Text, "")
}

const QUEUE: Word = needed(word("queue", Path, Blob, "The queue's name, percent-encoded."));
const MESSAGE: Word = needed(word("message", Path, Blob, "Id or name of the message."));
const CRON: Word = needed(word("cron", Path, Blob, "Name of the schedule."));
const COUNT: Word = word("count", Opt("COUNT"), Count, "How many at most.");
const CURSOR: Word = word("cursor", Opt("CURSOR"), Text, "The cursor of the page before.");
const MATCH: Word = word("match", Opt("MATCH"), Text, "A pattern of Redis.");
const DECODE: Word = word("decode", Flag("DECODE"), Text, "Shows payloads as text where they are.");
const DUE: Word = word("delay", Form::Due, Duration, "The delay; or `at`, the time.");
const PAYLOAD: Word = needed(word("payload", Value(None), Blob, "The payload."));
const AS: Word = word("as", Opt("AS"), Text, "The encoding: raw, string, long, json, kryo5.");
const HEADERS: Word = word("headers", Headers, Text, "Headers: an object of names and values.");
const TTL: Word = word("ttl", Opt("TTL"), Duration, "How long it is worth something.");
const PRIORITY: Word = word("priority", Opt("PRIO"), Count, "0 to 9.");
const LIMIT: Word = word("limit", Opt("LIMIT"), Count, "Attempts that count.");
const SYNC: Word = word("sync", Opt("SYNC"), Text, "fsync, none, or as `replicas 2`.");
const LEASE: Word = word("lease", Opt("LEASE"), Duration, "For how long.");
const DELAY: Word = word("delay", Opt("DELAY"), Duration, "The wait before.");
const RECEIPTS: Word = needed(word("receipts", Each, Text, "Receipts, as `take` gave them."));
const ALL_MESSAGES: Word = needed(word("messages", Each, Blob, "Ids or names of messages."));
const IDS: Word = word("ids", Each, Text, "These; else the first 1,000.");
const DRY_RUN: Word = word("dry_run", Flag("DRYRUN"), Text, "Changes nothing, and counts.");
const MATCHING: Word = needed(word("match", Value(None), Blob, "A pattern of payloads."));
// Always there: without them MATCH, AT and a time would be a message of that name.
const FROM: Word = word("from", Value(Some("-")), Time, "Due at this time or later.");
const TO: Word = word("to", Value(Some("+")), Time, "Due at this time or earlier.");
const MEMBERS: Word = word("members", Each, Blob, "These; else the first 1,000.");

macro_rules! routes {
    ($table:ident: $(
        $method:ident $path:literal $command:literal [$($word:expr),*] $answer:expr, $help:literal;
    )*) => {
        pub static $table: &[Route] = &[$(Route {
            method: Method::$method,
            path: $path,
            command: $command,
            words: &[$($word),*],
            answer: $answer,
            summary: $help,
        }),*];
    };
}

routes! {
    ROUTES:
    GET "/queues" "DQ.QUEUES" [MATCH, CURSOR, COUNT] Answer::Page("Queue"),
        "Pages through the queues.";
    GET "/queues/{queue}" "DQ.INFO" [QUEUE] Answer::Object("QueueInfo"),
        "Shows the state of a queue.";
    GET "/queues/{queue}/messages" "DQ.RANGE" [
        QUEUE, FROM, TO, COUNT, CURSOR, DECODE
    ] Answer::Page("Message"),
        "Pages through pending messages by due time.";
    POST "/queues/{queue}/messages" "DQ.OFFER" [
        QUEUE, DUE, PAYLOAD, AS,
        word("name", Opt("NAME"), Blob, "The name, by which it can be found and replaced."),
        word("if", Choice(&["NX", "XX"]), Text, "nx: only if none has the name; xx: if one has."),
        HEADERS, TTL, PRIORITY, LIMIT, SYNC
    ] Answer::Created,
        "Stores a message.";
    POST "/queues/{queue}/batch" "DQ.MOFFER" [
        QUEUE, AS, HEADERS, TTL, PRIORITY, LIMIT, SYNC,
        needed(word("messages", Messages, Blob, "Objects of `delay` or `at`, and `payload`."))
    ] Answer::AllCreated,
        "Stores several messages, all or none.";
    GET "/queues/{queue}/messages/{message}" "DQ.GET" [QUEUE, MESSAGE, DECODE]
        Answer::Object("Message"),
        "Shows a pending message.";
    DELETE "/queues/{queue}/messages/{message}" "DQ.CANCEL" [QUEUE, MESSAGE]
        Answer::One("cancelled"),
        "Cancels a pending message.";
    POST "/queues/{queue}/messages/{message}/fire" "DQ.FIRE" [QUEUE, MESSAGE]
        Answer::One("fired"),
        "Makes a pending message due now.";
    POST "/queues/{queue}/messages/{message}/reschedule" "DQ.RESCHEDULE" [QUEUE, MESSAGE, DUE]
        Answer::Id,
        "Gives a pending message another due time.";
    POST "/queues/{queue}/cancel" "DQ.CANCEL" [QUEUE, ALL_MESSAGES] Answer::Number("cancelled"),
        "Cancels pending messages.";
    POST "/queues/{queue}/fire" "DQ.FIRE" [QUEUE, ALL_MESSAGES] Answer::Number("fired"),
        "Makes pending messages due now.";
    GET "/queues/{queue}/find" "DQ.FIND" [
        QUEUE, MATCH, fixed("FROM"), FROM, fixed("TO"), TO, COUNT, CURSOR, DECODE
    ] Answer::Search("Message"),
        "Searches the pending messages by payload.";
    POST "/queues/{queue}/matching/cancel" "DQ.CANCEL" [
        QUEUE, fixed("MATCH"), MATCHING, fixed("FROM"), FROM, fixed("TO"), TO, COUNT, CURSOR,
        DECODE, DRY_RUN
    ] Answer::Matched("cancelled"),
        "Cancels the pending messages whose payloads match, page by page.";
    POST "/queues/{queue}/matching/fire" "DQ.FIRE" [
        QUEUE, fixed("MATCH"), MATCHING, fixed("FROM"), FROM, fixed("TO"), TO, COUNT, CURSOR,
        DECODE, DRY_RUN
    ] Answer::Matched("fired"),
        "Makes the pending messages whose payloads match due now, page by page.";
    POST "/queues/{queue}/matching/reschedule" "DQ.RESCHEDULE" [
        QUEUE, fixed("MATCH"), MATCHING, DUE, fixed("FROM"), FROM, fixed("TO"), TO, COUNT, CURSOR,
        DECODE, DRY_RUN
    ] Answer::Matched("rescheduled"),
        "Gives the pending messages whose payloads match another due time, page by page.";
    GET "/queues/{queue}/timeline" "DQ.TIMELINE" [
        QUEUE,
        needed(word("from", Value(None), Time, "The start: a time, or a delay from now.")),
        needed(word("to", Value(None), Time, "The end, not included: the same.")),
        needed(word("step", Value(None), Duration, "How long each step lasts."))
    ] Answer::Steps("Step"),
        "Counts the pending messages by due time, step by step.";
    POST "/queues/{queue}/remove" "DQ.REMOVE" [QUEUE, PAYLOAD, COUNT, AS] Answer::Number("removed"),
        "Takes pending messages out by their payload.";
    POST "/queues/{queue}/clear" "DQ.CLEAR" [QUEUE] Answer::Number("cleared"),
        "Drops all pending messages.";
    POST "/queues/{queue}/pause" "DQ.PAUSE" [
        QUEUE, word("for", Value(None), Duration, "For how long; else until it is resumed.")
    ] Answer::Done,
        "Stops delivery of a queue.";
    POST "/queues/{queue}/resume" "DQ.RESUME" [QUEUE] Answer::Done,
        "Ends the pause of a queue.";
    POST "/pause" "DQ.PAUSE" [
        fixed("ALL"), word("for", Value(None), Duration, "For how long; else until it is resumed.")
    ] Answer::Done,
        "Stops delivery of all queues.";
    POST "/resume" "DQ.RESUME" [fixed("ALL")] Answer::Done,
        "Ends the pause of all queues.";
    POST "/queues/{queue}/take" "DQ.TAKE" [QUEUE, COUNT, LEASE, DECODE] Answer::List("Taken"),
        "Takes delivered messages for a time.";
    POST "/queues/{queue}/ack" "DQ.ACK" [QUEUE, RECEIPTS] Answer::Number("acked"),
        "Settles messages that were taken.";
    POST "/queues/{queue}/nack" "DQ.NACK" [
        QUEUE, RECEIPTS,
        word(
            "mode", Choice(&["FAIL", "SILENT", "FATAL"]), Text,
            "fail counts the attempt, silent does not; fatal: it is dead."
        ),
        DELAY,
        word("reason", Opt("REASON"), Blob, "Kept with the message.")
    ] Answer::Number("nacked"),
        "Gives messages back that were taken.";
    POST "/queues/{queue}/extend" "DQ.EXTEND" [QUEUE, RECEIPTS, LEASE] Answer::Number("extended"),
        "Leases messages for longer.";
    GET "/queues/{queue}/taken" "DQ.TAKEN" [QUEUE, fixed("LEASED"), COUNT, CURSOR]
        Answer::Page("Leased"),
        "Pages through messages that are leased.";
    GET "/queues/{queue}/waiting" "DQ.TAKEN" [QUEUE, fixed("WAITING"), COUNT, CURSOR]
        Answer::Page("Waiting"),
        "Pages through messages that wait for a retry.";
    GET "/queues/{queue}/dead" "DQ.DEAD" [QUEUE, fixed("LIST"), COUNT, CURSOR, MATCH]
        Answer::Page("Dead"),
        "Pages through dead messages.";
    POST "/queues/{queue}/dead/requeue" "DQ.DEAD" [QUEUE, fixed("REQUEUE"), IDS, MATCH, DELAY]
        Answer::Number("requeued"),
        "Brings dead messages back.";
    POST "/queues/{queue}/dead/drop" "DQ.DEAD" [QUEUE, fixed("DROP"), IDS, MATCH]
        Answer::Number("dropped"),
        "Deletes dead messages.";
    GET "/queues/{queue}/quarantine" "DQ.QUARANTINE" [QUEUE, fixed("LIST"), COUNT]
        Answer::List("Quarantined"),
        "Shows members that could not be read.";
    POST "/queues/{queue}/quarantine/restore" "DQ.QUARANTINE" [QUEUE, fixed("RESTORE"), MEMBERS]
        Answer::Number("restored"),
        "Makes such members pending again.";
    POST "/queues/{queue}/quarantine/drop" "DQ.QUARANTINE" [QUEUE, fixed("DROP"), MEMBERS]
        Answer::Number("dropped"),
        "Deletes such members.";
    GET "/queues/{queue}/settings" "DQ.SETUP" [QUEUE] Answer::List("Setting"),
        "Shows the settings of a queue.";
    POST "/queues/{queue}/settings" "DQ.SETUP" [
        QUEUE, needed(word("settings", Settings, Text, "Names and values; null unsets one."))
    ] Answer::Done,
        "Changes settings of a queue.";
    GET "/queues/{queue}/crons" "DQ.CRON" [QUEUE, fixed("LIST"), COUNT, CURSOR]
        Answer::Page("Cron"),
        "Pages through the schedules of a queue.";
    PUT "/queues/{queue}/crons/{cron}" "DQ.CRON" [
        QUEUE, fixed("SET"), CRON,
        needed(word("expression", Value(None), Text, "Fields of cron, @daily, or every 15m.")),
        PAYLOAD,
        word("tz", Opt("TZ"), Text, "The time zone, as Europe/Berlin."),
        word("overlap", Opt("OVERLAP"), Text, "skip or allow."),
        word("catchup", Opt("CATCHUP"), Count, "Missed occurrences that are offered."),
        AS
    ] Answer::Number("next"),
        "Sets a schedule; the answer is its next occurrence, null while it is paused.";
    DELETE "/queues/{queue}/crons/{cron}" "DQ.CRON" [QUEUE, fixed("DEL"), CRON]
        Answer::One("deleted"),
        "Forgets a schedule.";
    POST "/queues/{queue}/crons/{cron}/pause" "DQ.CRON" [QUEUE, fixed("PAUSE"), CRON]
        Answer::Number("paused"),
        "Stops a schedule.";
    POST "/queues/{queue}/crons/{cron}/resume" "DQ.CRON" [QUEUE, fixed("RESUME"), CRON]
        Answer::Number("resumed"),
        "Lets a schedule go on from now.";
}

// Forms of the console that the API has under another method.
routes! {
    FORMS:
    POST "/queues/{queue}/crons" "DQ.CRON" [
        QUEUE, fixed("SET"),
        needed(word("cron", Value(None), Text, "Name of the schedule.")),
        needed(word("expression", Value(None), Text, "Fields of cron, @daily, or every 15m.")),
        PAYLOAD,
        word("tz", Opt("TZ"), Text, "The time zone, as Europe/Berlin.")
    ] Answer::Done,
        "Sets a schedule.";
    POST "/queues/{queue}/crons/{cron}/delete" "DQ.CRON" [QUEUE, fixed("DEL"), CRON]
        Answer::One("deleted"),
        "Forgets a schedule.";
}

/// The fields of the maps of replies. That of DQ.INFO has more.
pub const SCHEMAS: &[(&str, &[(&str, Shape)])] = {
    use Shape::{Bytes, Due, Integer, MaybeBytes, MaybeInteger, Object, Payload, Sometimes, Word};
    &[
        (
            "Queue",
            &[
                ("queue", Bytes),
                ("pending", Integer),
                ("ready", Integer),
                ("next_due", Due),
                ("overdue_ms", Integer),
                ("paused", Integer),
                ("quarantined", Integer),
            ],
        ),
        ("QueueInfo", &[("queue", Bytes), ("known", Integer), ("pending", Integer)]),
        (
            "Message",
            &[
                ("id", MaybeBytes),
                ("name", MaybeBytes),
                ("due", Due),
                ("payload", Payload),
                ("format", MaybeBytes),
                ("headers", Object),
                ("ttl", Sometimes),
                ("priority", Sometimes),
                ("limit", Sometimes),
                ("encoding", Word),
                ("attempt", Sometimes),
                ("reason", Word),
            ],
        ),
        (
            "Taken",
            &[
                ("receipt", Bytes),
                ("id", Bytes),
                ("attempt", Integer),
                ("until", Integer),
                ("payload", Payload),
                ("message", Bytes),
                ("headers", Object),
                ("name", Word),
                ("expires", Sometimes),
                ("encoding", Word),
            ],
        ),
        (
            "Leased",
            &[("id", Bytes), ("attempt", Integer), ("until", Integer), ("reason", MaybeBytes)],
        ),
        (
            "Waiting",
            &[("id", Bytes), ("attempt", Integer), ("from", Integer), ("reason", MaybeBytes)],
        ),
        (
            "Dead",
            &[
                ("id", Bytes),
                ("died", Integer),
                ("attempts", Integer),
                ("reason", MaybeBytes),
                ("payload", Payload),
                ("headers", Object),
            ],
        ),
        ("Quarantined", &[("due", Due), ("member", Payload)]),
        ("Step", &[("from", Integer), ("pending", Integer)]),
        ("Setting", &[("setting", Bytes), ("value", Shape::Any), ("origin", Bytes)]),
        (
            "Cron",
            &[
                ("name", Bytes),
                ("expression", MaybeBytes),
                ("tz", MaybeBytes),
                ("overlap", Bytes),
                ("catchup", Integer),
                ("paused", Integer),
                ("next", MaybeInteger),
                ("bytes", Integer),
            ],
        ),
    ]
};

/// The values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Integer,
    MaybeInteger,
    /// A time; one that others wrote may be no whole number, or `inf`. Null where there is none.
    Due,
    Bytes,
    MaybeBytes,
    /// `{"text": ...}`, `{"base64": ...}` or null.
    Payload,
    Any,
    /// An integer; not always there.
    Sometimes,
    /// Bytes or null; not always there.
    Word,
    /// Names and values; not always there.
    Object,
}
