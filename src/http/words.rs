//! The words of a command, made from the path and the parameters of a request by the row of its
//! route. Pure.

use hyper::Method;
use serde_json::{Map, Value};

use crate::command::{Spec, TABLE};
use crate::domain::text::{Shown, percent_decoded};
use crate::resp::Words;

use super::json;
use super::routes::{BASE, Form, Kind, ROUTES, Route, Word};

/// A text that says what is wrong, for people.
type Wrong = String;

/// Reads a segment of a path.
type Decode = fn(&str) -> Option<Vec<u8>>;

/// The route of a request, and what stands in place of its segments in braces; or the methods that
/// there are for this path, none if the path is none of the API.
pub fn find(method: &Method, path: &str) -> Result<(&'static Route, Vec<Vec<u8>>), Vec<String>> {
    find_in(ROUTES, method, path.strip_prefix(BASE).unwrap_or_default(), percent_decoded)
}

/// The same in another table. `decoded`: the bytes of a segment.
pub fn find_in(
    routes: impl IntoIterator<Item = &'static Route>,
    method: &Method,
    path: &str,
    decoded: Decode,
) -> Result<(&'static Route, Vec<Vec<u8>>), Vec<String>> {
    let mut others = Vec::new();
    for route in routes {
        if let Some(segments) = fits(route.path, path, decoded) {
            if route.method == *method {
                return Ok((route, segments));
            }
            others.push(route.method.to_string());
        }
    }
    Err(others)
}

/// The bytes of each segment in braces; none if the path is another one.
pub fn fits(wanted: &str, path: &str, decoded: Decode) -> Option<Vec<Vec<u8>>> {
    let (mut wanted, mut path) = (wanted.split('/'), path.split('/'));
    let mut segments = Vec::new();
    loop {
        match (wanted.next(), path.next()) {
            (None, None) => return Some(segments),
            (Some(wanted), Some(given)) if wanted.starts_with('{') => {
                let bytes = decoded(given).filter(|bytes| !bytes.is_empty())?;
                segments.push(bytes);
            }
            (Some(wanted), Some(given)) if wanted == given => {}
            _ => return None,
        }
    }
}

/// The parameters of a query.
pub fn query(text: &str) -> Result<Map<String, Value>, Wrong> {
    let mut parameters = Map::new();
    for part in text.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let decoded = |text: &str| {
            let bytes = percent_decoded(&text.replace('+', " "));
            bytes.and_then(|bytes| String::from_utf8(bytes).ok())
        };
        let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
            return Err(format!("{} in the query is not text", Shown(part.as_bytes())));
        };
        if parameters.contains_key(&name) {
            return Err(format!("{} is given twice", Shown(name.as_bytes())));
        }
        parameters.insert(name, Value::String(value));
    }
    Ok(parameters)
}

/// The command of a request.
///
/// # Errors
/// The parameter that does not fit, and why.
pub fn build(
    route: &Route,
    segments: Vec<Vec<u8>>,
    mut given: Map<String, Value>,
) -> Result<Words, Wrong> {
    let mut words = Words::default();
    words.push(route.command.as_bytes());
    let mut segments = segments.into_iter();
    for word in route.words {
        match word.form {
            Form::Path => words.push(&segments.next().unwrap_or_default()),
            Form::Fixed(text) => words.push(text.as_bytes()),
            Form::Due => due(&mut given, &mut words)?,
            Form::Settings => settings(&mut given, &mut words)?,
            _ => match given.remove(word.name) {
                Some(value) => parameter(route, word, value, &mut words)?,
                None if word.required => return Err(format!("{} is missing", word.name)),
                None => {
                    if let Form::Value(Some(default)) = word.form {
                        words.push(default.as_bytes());
                    }
                }
            },
        }
    }
    let Some(unknown) = given.keys().next() else {
        return all_queues(route, &words).map_or(Ok(words), Err);
    };
    let names: Vec<&str> = route.parameters().collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(format!("{} is no parameter here; there are {known}", Shown(unknown.as_bytes())))
}

pub fn spec(route: &Route) -> Option<&'static Spec> {
    TABLE.iter().copied().find(|spec| spec.name == route.command)
}

/// A queue that is called as the word for all queues must not stand for them.
fn all_queues(route: &Route, words: &Words) -> Option<Wrong> {
    let named = route.words.first().is_some_and(|word| word.form == Form::Path);
    let first = words.request().get(1).filter(|_| named)?;
    let (_, is_word) = spec(route)?.needs(Some(first));
    is_word.then(|| {
        let command = route.command.to_ascii_lowercase();
        format!(
            "{} stands for all queues in '{command}', which has a path of its own",
            Shown(first)
        )
    })
}

/// The words that the command has for something else than a name.
fn options(route: &Route) -> Vec<&'static [u8]> {
    let usage = spec(route).map_or("", |spec| spec.usage);
    let words = usage.split(|letter: char| !letter.is_ascii_uppercase());
    words.filter(|word| word.len() > 1).map(str::as_bytes).collect()
}

fn parameter(route: &Route, word: &Word, value: Value, words: &mut Words) -> Result<(), Wrong> {
    let name = word.name;
    let must = |rule: &str| Err(format!("{name} must be {rule}"));
    match word.form {
        Form::Value(_) => words.push(&scalar(name, word.kind, &value)?),
        Form::Opt(option) => {
            words.push(option.as_bytes());
            words.push(&scalar(name, word.kind, &value)?);
        }
        Form::Flag(option) => match &value {
            Value::Bool(true) => words.push(option.as_bytes()),
            Value::Bool(false) => {}
            Value::String(text) if matches!(text.as_str(), "" | "true" | "1") => {
                words.push(option.as_bytes());
            }
            Value::String(text) if matches!(text.as_str(), "false" | "0") => {}
            _ => return must("true or false"),
        },
        Form::Choice(choices) => {
            let given = value.as_str().unwrap_or_default();
            match choices.iter().find(|choice| choice.eq_ignore_ascii_case(given)) {
                Some(choice) => words.push(choice.as_bytes()),
                None => return must(&format!("one of {}", choices.join(", ").to_lowercase())),
            }
        }
        Form::Each => {
            let Some(values) = value.as_array().filter(|values| !values.is_empty()) else {
                return must("an array that is not empty");
            };
            let options = options(route);
            for value in values {
                let given = scalar(name, word.kind, value)?;
                // Among others MATCH would choose all that match the next one.
                let alone = values.len() == 1 && word.kind == Kind::Blob;
                if !alone && options.iter().any(|option| option.eq_ignore_ascii_case(&given)) {
                    let given = Shown(&given);
                    return must(&format!("names only, and {given} is a word of the command"));
                }
                words.push(&given);
            }
        }
        Form::Headers => {
            let Some(headers) = value.as_object() else {
                return must("an object of names and values");
            };
            for (header, value) in headers {
                words.push(b"HEADER");
                words.push(header.as_bytes());
                words.push(&scalar(name, Kind::Blob, value)?);
            }
        }
        Form::Messages => {
            let Value::Array(messages) = value else {
                return must("an array of objects");
            };
            for (place, message) in (1..).zip(messages) {
                offered(message, words).map_err(|wrong| format!("message {place}: {wrong}"))?;
            }
        }
        Form::Path | Form::Fixed(_) | Form::Due | Form::Settings => {}
    }
    Ok(())
}

/// One message of several.
fn offered(message: Value, words: &mut Words) -> Result<(), Wrong> {
    let Value::Object(mut given) = message else {
        return Err("it must be an object".to_owned());
    };
    due(&mut given, words)?;
    let payload = given.remove("payload").ok_or("payload is missing")?;
    words.push(&scalar("payload", Kind::Blob, &payload)?);
    match given.keys().next() {
        None => Ok(()),
        Some(unknown) => {
            let unknown = Shown(unknown.as_bytes());
            Err(format!("{unknown} is no parameter here; there are delay, at, payload"))
        }
    }
}

fn due(given: &mut Map<String, Value>, words: &mut Words) -> Result<(), Wrong> {
    match (given.remove("delay"), given.remove("at")) {
        (Some(delay), None) => words.push(&scalar("delay", Kind::Duration, &delay)?),
        (None, Some(at)) => {
            words.push(b"AT");
            words.push(&scalar("at", Kind::Time, &at)?);
        }
        _ => return Err("one of delay and at is needed".to_owned()),
    }
    Ok(())
}

fn settings(given: &mut Map<String, Value>, words: &mut Words) -> Result<(), Wrong> {
    if given.is_empty() {
        return Err("there must be a setting at least".to_owned());
    }
    for (name, value) in std::mem::take(given) {
        words.push(name.as_bytes());
        match value {
            Value::Null => words.push(b"DEFAULT"),
            value => words.push(&scalar(&name, Kind::Text, &value)?),
        }
    }
    Ok(())
}

/// One word. A number is the same as its text, but a payload is no number.
fn scalar(name: &str, kind: Kind, value: &Value) -> Result<Vec<u8>, Wrong> {
    let rule = match (kind, value) {
        (Kind::Blob, value) => match json::bytes(value) {
            Some(bytes) => return Ok(bytes),
            None => "text, {\"text\": text} or {\"base64\": text}",
        },
        // A word there would be an option.
        (Kind::Duration, Value::String(text))
            if !text.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            "milliseconds, or a number with a unit, as 1h30m"
        }
        (_, Value::String(text)) => return Ok(text.as_bytes().to_vec()),
        (_, Value::Number(number)) => return Ok(number.to_string().into_bytes()),
        (Kind::Text, _) => "text",
        _ => "a number or text",
    };
    let name = Shown(name.as_bytes()).to_string();
    Err(format!("{} must be {rule}", name.trim_matches('\'')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The words of a request, as text.
    fn words(method: &str, path: &str, given: Value) -> Result<String, String> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let found = find(&method, &format!("{BASE}{path}"));
        let (route, segments) = found.map_err(|others| others.join(", "))?;
        let Value::Object(given) = given else { panic!("{given}") };
        let words = build(route, segments, given)?;
        let words: Vec<String> =
            words.request().iter().map(|word| word.escape_ascii().to_string()).collect();
        Ok(words.join(" "))
    }

    #[test]
    #[rustfmt::skip]
    fn commands() {
        let rows = [
            ("GET", "/queues", json!({}), "DQ.QUEUES"),
            ("GET", "/queues", json!({"match": "a*", "count": "5"}), "DQ.QUEUES MATCH a* COUNT 5"),
            ("GET", "/queues/a", json!({}), "DQ.INFO a"),
            ("GET", "/queues/a%2Fb%00%FF%25", json!({}), r"DQ.INFO a/b\x00\xff%"),
            ("GET", "/queues/%2e%2e", json!({}), "DQ.INFO .."),
            ("GET", "/queues/a/messages", json!({"to": "5", "decode": ""}),
                "DQ.RANGE a - 5 DECODE"),
            ("GET", "/queues/a/messages", json!({"decode": "false"}), "DQ.RANGE a - +"),
            ("GET", "/queues/a/messages/n", json!({"decode": "1"}), "DQ.GET a n DECODE"),
            ("POST", "/queues/a/messages", json!({"delay": 5, "payload": "p"}), "DQ.OFFER a 5 p"),
            ("POST", "/queues/a/messages", json!({
                "at": "2030-01-31T08:00:00Z", "payload": {"base64": "AA=="}, "name": "n",
                "if": "nx", "headers": {"x": "y", "z": {"text": "w"}}, "ttl": "1h"}),
                r"DQ.OFFER a AT 2030-01-31T08:00:00Z \x00 NAME n NX HEADER x y HEADER z w TTL 1h"),
            ("POST", "/queues/a/messages", json!({"delay": "1h", "payload": "NAME", "as": "raw"}),
                "DQ.OFFER a 1h NAME AS raw"),
            ("POST", "/queues/a/batch",
                json!({"messages": [{"delay": 1, "payload": "p"}, {"at": 2, "payload": "q"}],
                "as": "json"}),
                "DQ.MOFFER a AS json 1 p AT 2 q"),
            ("POST", "/queues/a/messages", json!({"delay": 1, "payload": "p",
                "sync": "replicas 2"}),
                "DQ.OFFER a 1 p SYNC replicas 2"),
            ("POST", "/queues/a/batch", json!({"messages": []}), "DQ.MOFFER a"),
            ("DELETE", "/queues/a/messages/n", json!({}), "DQ.CANCEL a n"),
            ("POST", "/queues/a/messages/n/fire", json!({}), "DQ.FIRE a n"),
            ("POST", "/queues/a/messages/n/reschedule", json!({"delay": "2h"}),
                "DQ.RESCHEDULE a n 2h"),
            ("POST", "/queues/a/cancel", json!({"messages": ["n", {"base64": "AA=="}]}),
                r"DQ.CANCEL a n \x00"),
            ("POST", "/queues/a/cancel", json!({"messages": ["MATCH"]}), "DQ.CANCEL a MATCH"),
            ("GET", "/queues/a/find", json!({}), "DQ.FIND a FROM - TO +"),
            ("GET", "/queues/a/find", json!({"match": "*4?", "to": "5", "cursor": "c",
                "decode": "true", "count": "3"}),
                "DQ.FIND a MATCH *4? FROM - TO 5 COUNT 3 CURSOR c DECODE"),
            ("POST", "/queues/a/matching/cancel", json!({"match": {"base64": "AA=="}}),
                r"DQ.CANCEL a MATCH \x00 FROM - TO +"),
            ("POST", "/queues/a/matching/fire", json!({"match": "*", "dry_run": true,
                "decode": false, "cursor": "c", "count": 5, "from": 7}),
                "DQ.FIRE a MATCH * FROM 7 TO + COUNT 5 CURSOR c DRYRUN"),
            // Not a message that is called MATCH.
            ("POST", "/queues/a/matching/reschedule", json!({"match": "AT", "delay": 5}),
                "DQ.RESCHEDULE a MATCH AT 5 FROM - TO +"),
            ("POST", "/queues/a/matching/reschedule", json!({"match": "DRYRUN", "at": 5,
                "to": "DRYRUN"}),
                "DQ.RESCHEDULE a MATCH DRYRUN AT 5 FROM - TO DRYRUN"),
            ("GET", "/queues/a/timeline", json!({"from": "0", "to": "1h", "step": "5m"}),
                "DQ.TIMELINE a 0 1h 5m"),
            ("POST", "/queues/a/pause", json!({}), "DQ.PAUSE a"),
            ("POST", "/queues/a/pause", json!({"for": "10m"}), "DQ.PAUSE a 10m"),
            ("POST", "/pause", json!({"for": 5}), "DQ.PAUSE ALL 5"),
            ("POST", "/queues/all/clear", json!({}), "DQ.CLEAR all"),
            ("POST", "/queues/a/nack", json!({"receipts": ["r:1"], "mode": "fatal",
                "reason": "why"}),
                "DQ.NACK a r:1 FATAL REASON why"),
            ("POST", "/queues/a/settings", json!({"limit": 5, "burst": null,
                "destination": "take"}),
                "DQ.SETUP a burst DEFAULT destination take limit 5"),
            ("PUT", "/queues/a/crons/n", json!({"expression": "0 3 * * *", "payload": "p",
                "tz": "UTC"}),
                "DQ.CRON a SET n 0 3 * * * p TZ UTC"),
        ];
        for (method, path, given, wanted) in rows {
            assert_eq!(words(method, path, given).as_deref(), Ok(wanted), "{method} {path}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn refused() {
        let rows = [
            ("GET", "/queues/", json!({}), ""),
            ("GET", "/queues//messages", json!({}), ""),
            ("GET", "/queues/a/", json!({}), ""),
            ("GET", "/queues/a%zz", json!({}), ""),
            ("GET", "/queues/a/messages/", json!({}), ""),
            ("GET", "", json!({}), ""),
            ("PATCH", "/queues/a/messages", json!({}), "GET, POST"),
            ("POST", "/queues/a", json!({}), "GET"),
            ("POST", "/queues/a/messages", json!({"payload": "p"}),
                "one of delay and at is needed"),
            ("POST", "/queues/a/messages", json!({"delay": 5, "at": 5, "payload": "p"}),
                "one of delay and at"),
            ("POST", "/queues/a/messages", json!({"delay": "AT", "payload": "p"}),
                "delay must be milliseconds"),
            ("POST", "/queues/a/messages", json!({"delay": 5}), "payload is missing"),
            ("POST", "/queues/a/messages", json!({"delay": 5, "payload": 5}),
                "payload must be text, {"),
            ("POST", "/queues/a/messages", json!({"delay": 5, "payload": {"base64": "?"}}),
                "payload must be text"),
            ("POST", "/queues/a/messages", json!({"delay": [], "payload": "p"}),
                "delay must be a number or text"),
            ("POST", "/queues/a/messages", json!({"delay": 5, "payload": "p", "nmae": "n"}),
                "'nmae' is no parameter here; there are delay, at, payload, as, name"),
            ("POST", "/queues/a/messages", json!({"delay": 5, "payload": "p", "if": "never"}),
                "if must be one of nx, xx"),
            ("POST", "/queues/a/messages", json!({"delay": 5, "payload": "p", "headers": ["x"]}),
                "headers must be an object"),
            ("POST", "/queues/a/clear", json!({"yes": true}),
                "'yes' is no parameter here; there are none"),
            ("POST", "/queues/a/cancel", json!({"messages": []}),
                "messages must be an array that is not empty"),
            ("POST", "/queues/a/dead/drop", json!({"ids": []}),
                "ids must be an array that is not empty"),
            ("POST", "/queues/a/batch", json!({"messages": [{"delay": 5,
                "payload": "p"}, {"delay": 5}]}),
                "message 2: payload is missing"),
            ("POST", "/queues/a/batch", json!({"messages": [{"delay": 5, "payload": "p",
                "name": "n"}]}),
                "message 1: 'name' is no parameter here"),
            ("POST", "/queues/a/cancel", json!({"messages": ["match", "*"]}),
                "messages must be names only, and 'match' is a word of the command"),
            ("POST", "/queues/a/fire", json!({"messages": ["n", {"base64": "TUFUQ0g="}]}),
                "messages must be names only, and 'MATCH'"),
            ("POST", "/queues/a/dead/drop", json!({"ids": ["MATCH"]}), "ids must be names only"),
            ("POST", "/queues/a/nack", json!({"receipts": ["FATAL"]}),
                "receipts must be names only"),
            ("POST", "/queues/a/settings", json!({}), "there must be a setting at least"),
            ("POST", "/queues/ALL/pause", json!({}), "'ALL' stands for all queues in 'dq.pause'"),
            ("POST", "/queues/%61ll/resume", json!({}),
                "'all' stands for all queues in 'dq.resume'"),
            ("POST", "/queues/a/matching/cancel", json!({"dry_run": true}), "match is missing"),
            ("POST", "/queues/a/matching/cancel", json!({"match": "*", "dry_run": 1}),
                "dry_run must be true or false"),
            ("POST", "/queues/a/matching/cancel", json!({"match": "*", "messages": ["n"]}),
                "'messages' is no parameter here"),
            ("POST", "/queues/a/matching/reschedule", json!({"match": "*"}),
                "one of delay and at is needed"),
            ("GET", "/queues/a/timeline", json!({"from": "0", "to": "1h"}), "step is missing"),
            ("GET", "/queues/a/messages/n", json!({"decode": "maybe"}),
                "decode must be true or false"),
        ];
        for (method, path, given, wanted) in rows {
            let said = words(method, path, given).expect_err(path);
            let fits = said.starts_with(wanted) && said.is_empty() == wanted.is_empty();
            assert!(fits, "{path}: {said}");
        }
    }

    #[test]
    fn queries() {
        let of = |text: &str| query(text).map(Value::Object);
        assert_eq!(of(""), Ok(json!({})));
        assert_eq!(of("a=1&&b+c=d%26+e&f"), Ok(json!({"a": "1", "b c": "d& e", "f": ""})));
        for wrong in ["a=%", "a=%ff", "%ff", "a=1&a=2", "a=1&%61=2"] {
            assert!(query(wrong).is_err(), "{wrong}");
        }
    }

    /// Each route is a command of the table that any door may run, has the segments that its words
    /// name, and its parameters have names of their own.
    #[test]
    fn routes_fit_the_commands() {
        for route in ROUTES {
            let spec = spec(route).unwrap_or_else(|| panic!("{}", route.command));
            assert_eq!(route.method == Method::GET, !changes(route), "{spec:?} {}", route.path);
            let braces = route
                .path
                .split('/')
                .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
            let named = route.words.iter().filter(|word| word.form == Form::Path);
            assert!(braces.eq(named.map(|word| word.name)), "{}", route.path);
            let mut names: Vec<&str> = route.parameters().collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{}", route.path);
        }
    }

    /// Whether it changes anything: all commands but questions, and the questions of others.
    fn changes(route: &Route) -> bool {
        let asks = ["LIST", "LEASED", "WAITING"];
        let asks = |word: &Word| matches!(word.form, Form::Fixed(word) if asks.contains(&word));
        let reads = spec(route).unwrap().flags.has(crate::command::Flag::ReadOnly);
        let shows = route.command == "DQ.SETUP" && route.words.len() == 1;
        !reads && !shows && !route.words.iter().any(asks)
    }
}
