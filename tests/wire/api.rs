//! The API of HTTP: each route with its answer, as the document says it; who may do what; and who
//! comes in at all.

use crate::peer::Place;
use crate::support::broker::Broker;
use crate::support::http::{Answer, Api, exchange};
use crate::support::redis;
use crate::support::users::{File, PASSWORD, user};
use crate::support::wait::eventually;
use crate::users::{self, matrix, refusal, tables};
use delay_broker::command::TABLE;
use delay_broker::http::routes::{Form, ROUTES, Route};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn api(place: &Place) -> Api {
    Api::new(place.broker.http_address())
}

pub fn place() -> Place {
    Place::spawn(&[("redis.call_timeout_ms", "9000")])
}

/// Whether a value is as a schema of the document says: the part of JSON Schema that it uses.
fn fits(schema: &Value, value: &Value, document: &Value) -> Result<(), String> {
    let wrong = || Err(format!("{value} is not {schema}"));
    let object = schema.as_object().unwrap();
    for (word, rule) in object {
        let holds = match word.as_str() {
            "$ref" => {
                let name = rule.as_str().unwrap().rsplit('/').next().unwrap();
                fits(&document["components"]["schemas"][name], value, document)?;
                true
            }
            "type" => {
                let types = match rule {
                    Value::Array(types) => types.iter().map(|one| one.as_str().unwrap()).collect(),
                    one => vec![one.as_str().unwrap()],
                };
                types.iter().any(|one| match *one {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "integer" => value.is_i64(),
                    "number" => value.is_number(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    other => panic!("{other}"),
                })
            }
            "enum" => rule.as_array().unwrap().contains(value),
            "required" => {
                let mut names = rule.as_array().unwrap().iter();
                names.all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        fits(rule, value, document)?;
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = object.get("properties").and_then(Value::as_object);
                let known = |name: &String| known.is_some_and(|known| known.contains_key(name));
                let fields = value.as_object().into_iter().flatten();
                let mut others = fields.filter(|(name, _)| !known(name));
                match rule {
                    Value::Bool(open) => *open || others.next().is_none(),
                    rule => {
                        others.try_for_each(|(_, value)| fits(rule, value, document))?;
                        true
                    }
                }
            }
            "items" => {
                let mut items = value.as_array().into_iter().flatten();
                items.try_for_each(|one| fits(rule, one, document))?;
                true
            }
            "minItems" => {
                let items = value.as_array().map_or(0, Vec::len) as u64;
                items >= rule.as_u64().unwrap()
            }
            "oneOf" => {
                let rules = rule.as_array().unwrap().iter();
                rules.filter(|rule| fits(rule, value, document).is_ok()).count() == 1
            }
            "description" => true,
            other => panic!("{other}"),
        };
        if !holds {
            return wrong();
        }
    }
    Ok(())
}

/// A caller that holds each request and each answer to the document, and knows which routes it had.
struct Checked {
    api: Api,
    document: Value,
    had: BTreeSet<(String, String)>,
}

impl Checked {
    fn new(api: Api) -> Checked {
        let document = api.call("GET", "/openapi.json", &Value::Null).json();
        Checked { api, document, had: BTreeSet::new() }
    }

    /// `path`: that of the route, with what stands for its segments.
    fn call(&mut self, method: &str, path: &str, body: Value) -> Answer {
        let answer = self.api.call(method, path, &body);
        let bare = path.split('?').next().unwrap();
        let fits_path = |route: &&Route| {
            let (wanted, given) = (route.path.split('/'), bare.split('/'));
            route.method == method
                && wanted.clone().count() == given.clone().count()
                && wanted
                    .zip(given)
                    .all(|(wanted, given)| wanted.starts_with('{') || wanted == given)
        };
        let route = ROUTES.iter().find(fits_path).unwrap_or_else(|| panic!("{path}"));
        let operation = &self.document["paths"][route.path][method.to_lowercase()];
        let responses = &operation["responses"];
        let said = responses.get(answer.status.to_string());
        let (said, kind) = match said {
            Some(said) => {
                self.had.insert((method.to_owned(), route.path.to_owned()));
                (said, "application/json")
            }
            None => (&responses["default"], "application/problem+json"),
        };
        let about = format!("{method} {path}: {answer:?}");
        match said.get("content") {
            Some(content) => {
                assert_eq!(answer.header("content-type"), Some(kind), "{about}");
                let fit = fits(&content[kind]["schema"], &answer.json(), &self.document);
                assert_eq!(fit, Ok(()), "{about}");
            }
            None => assert!(answer.body.is_empty(), "{about}"),
        }
        if !body.is_null() && body != json!({}) && answer.status < 400 {
            let given = &operation["requestBody"]["content"]["application/json"]["schema"];
            assert_eq!(fits(given, &body, &self.document), Ok(()), "{about}");
        }
        for header in ["cache-control: no-store", "x-content-type-options: nosniff"] {
            assert!(answer.head.contains(header), "{about}");
        }
        assert!(!answer.head.contains("access-control"), "{about}");
        answer
    }

    /// The same, well done.
    fn done(&mut self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.call(method, path, body);
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        answer.json()
    }
}

/// A day in the life of a queue, with every route that there is.
#[test]
fn every_route_does_what_the_document_says() {
    let place = place();
    let mut api = Checked::new(api(&place));
    let none = || Value::Null;
    assert_eq!(api.document["openapi"], "3.1.0");

    // Offer, look, change, cancel.
    let at = 1_896_076_800_000_u64;
    let offer = json!({"at": "2030-01-31T08:00:00Z", "payload": "order 42", "name": "order:42"});
    let id = api.done("POST", "/queues/orders/messages", offer.clone())["id"].clone();
    let id = id.as_str().unwrap();
    assert!(id.starts_with("1896076800000-"), "{id}");
    let message = json!({
        "id": id, "name": "order:42", "due": at, "payload": {"text": "order 42"},
        "format": "modern",
    });
    for name in [id, "order:42", "order%3a42", "%6frder:42"] {
        assert_eq!(api.done("GET", &format!("/queues/orders/messages/{name}"), none()), message);
    }
    let mut only = offer;
    only["if"] = "nx".into();
    let refused = api.call("POST", "/queues/orders/messages", only.clone());
    assert_eq!(refused.problem(), "409 CONFLICT no");
    only["if"] = "xx".into();
    only["payload"] = json!({"base64": "AP8="});
    api.done("POST", "/queues/orders/messages", only);
    let page = api.done("GET", "/queues/orders/messages?decode=true", none());
    assert_eq!(page["items"][0]["payload"], json!({"base64": "AP8="}));
    let moved = json!({"delay": "1h"});
    let path = "/queues/orders/messages/order:42/reschedule";
    assert_ne!(api.done("POST", path, moved.clone())["id"], id);
    let batch = json!({"messages": [
        {"delay": 3_600_000, "payload": "a"}, {"delay": "2h", "payload": {"text": "b"}},
        {"at": at, "payload": ""},
    ]});
    let ids = api.done("POST", "/queues/orders/batch", batch)["ids"].clone();
    assert_eq!(ids.as_array().unwrap().len(), 3);
    let page = api.done("GET", "/queues/orders/messages?count=3&from=1000&to=%2B", none());
    let cursor = page["cursor"].as_str().unwrap().to_owned();
    assert_eq!(page["items"].as_array().unwrap().len(), 3);
    let path = format!("/queues/orders/messages?cursor={cursor}&from=1000&to=%2B");
    let rest = api.done("GET", &path, none());
    assert_eq!((&rest["cursor"], rest["items"].as_array().unwrap().len()), (&Value::Null, 1));
    let two = json!({"messages": [ids[0], ids[1], "nobody"]});
    assert_eq!(api.done("POST", "/queues/orders/cancel", two), json!({"cancelled": 2}));
    let removed = api.done("POST", "/queues/orders/remove", json!({"payload": "", "count": 0}));
    assert_eq!(removed, json!({"removed": 1}));
    let one = "/queues/orders/messages/order:42";
    assert_eq!(api.done("DELETE", one, none()), json!({"cancelled": 1}));
    for (method, path, body) in [
        ("DELETE", one.to_owned(), none()),
        ("GET", one.to_owned(), none()),
        ("POST", format!("{one}/fire"), none()),
        ("POST", format!("{one}/reschedule"), moved),
    ] {
        assert_eq!(api.call(method, &path, body).problem(), "404 NOTFOUND no", "{path}");
    }

    // Search, and all that match.
    let batch = json!({"messages": [
        {"at": at, "payload": "bill 1"}, {"at": at + 5, "payload": "bill 2"},
        {"at": at + 9, "payload": {"base64": "AGJpbGw="}},
    ]});
    api.done("POST", "/queues/bills/batch", batch);
    let found = api.done("GET", "/queues/bills/find?match=bill*", none());
    assert_eq!((&found["cursor"], &found["looked"]), (&none(), &json!(3)));
    let payloads: Vec<_> =
        found["items"].as_array().unwrap().iter().map(|m| &m["payload"]).collect();
    assert_eq!(payloads, [&json!({"text": "bill 1"}), &json!({"text": "bill 2"})]);
    let window = format!("/queues/bills/find?from={}&to={}&decode=true", at + 1, at + 9);
    assert_eq!(api.done("GET", &window, none())["items"].as_array().unwrap().len(), 2);
    let first = api.done("GET", "/queues/bills/find?count=1", none());
    let path = format!("/queues/bills/find?cursor={}", first["cursor"].as_str().unwrap());
    let rest = api.done("GET", &path, none());
    assert_eq!((&rest["looked"], rest["items"].as_array().unwrap().len()), (&json!(2), 2));
    let path = format!("/queues/bills/timeline?from={at}&to={}&step=5", at + 15);
    let step = |n: u64, pending: u64| json!({"from": at + 5 * n, "pending": pending});
    let steps = json!({"items": [step(0, 1), step(1, 2), step(2, 0)]});
    assert_eq!(api.done("GET", &path, none()), steps);
    let page = |name: &str, looked: u64, count: u64| {
        let page = json!({"cursor": null, "looked": looked, name: count});
        (name.to_owned(), page)
    };
    let bytes = json!({"base64": "AGI/bGw="});
    for (path, body, (_, wanted)) in [
        ("cancel", json!({"match": "bill*", "dry_run": true}), page("cancelled", 3, 2)),
        ("cancel", json!({"match": bytes, "from": at, "to": "+"}), page("cancelled", 3, 1)),
        ("fire", json!({"match": "*", "dry_run": true, "decode": false}), page("fired", 2, 2)),
        ("reschedule", json!({"match": "*2", "at": at + 7}), page("rescheduled", 2, 1)),
        // A pattern, and no message of the name MATCH.
        ("reschedule", json!({"match": "AT", "delay": "1h"}), page("rescheduled", 2, 0)),
        (
            "reschedule",
            json!({"match": "*", "delay": "1h", "dry_run": true}),
            page("rescheduled", 2, 2),
        ),
    ] {
        let path = format!("/queues/bills/matching/{path}");
        assert_eq!(api.done("POST", &path, body), wanted, "{path}");
    }
    assert_eq!(
        api.done("GET", &path, none())["items"],
        json!([step(0, 1), step(1, 1), step(2, 0)])
    );
    let one = json!({"match": "*", "count": 1});
    let first = api.done("POST", "/queues/bills/matching/cancel", one);
    assert_eq!(first["cancelled"], 1);
    let rest = json!({"match": "*", "cursor": first["cursor"]});
    assert_eq!(api.done("POST", "/queues/bills/matching/cancel", rest)["cancelled"], 1);
    for path in ["find?cursor=x", "find?count=0", "timeline?from=0&to=1h&step=1"] {
        let refused = api.call("GET", &format!("/queues/bills/{path}"), none());
        assert_eq!(refused.problem(), "400 ERR no", "{path}");
    }

    // Queues, pauses, settings.
    api.done("POST", "/queues/orders/messages", json!({"delay": "1h", "payload": "x"}));
    let info = api.done("GET", "/queues/orders", none());
    assert_eq!((&info["pending"], &info["known"]), (&json!(1), &json!(1)));
    let queues = api.done("GET", "/queues?match=ord*&count=5", none());
    assert_eq!(queues["items"][0]["queue"], "orders");
    api.done("POST", "/queues/orders/pause", json!({"for": "10m"}));
    assert_eq!(api.done("GET", "/queues/orders", none())["paused"], 1);
    api.done("POST", "/queues/orders/resume", none());
    api.done("POST", "/pause", none());
    assert_eq!(api.done("GET", "/queues/orders", none())["paused_all"], 1);
    api.done("POST", "/resume", json!({}));
    assert_eq!(api.done("GET", "/queues/orders", none())["paused"], 0);
    api.done("POST", "/queues/orders/settings", json!({"limit": 5, "backoff_min_ms": "30s"}));
    api.done("POST", "/queues/orders/settings", json!({"backoff_min_ms": null}));
    let settings = api.done("GET", "/queues/orders/settings", none());
    let limit = json!({"setting": "limit", "value": 5, "origin": "setup"});
    assert!(settings["items"].as_array().unwrap().contains(&limit), "{settings}");
    assert_eq!(api.done("POST", "/queues/orders/clear", none()), json!({"cleared": 1}));

    // Consumers.
    let queue = "/queues/jobs";
    api.done("POST", "/queues/jobs/settings", json!({"destination": "take"}));
    let job = json!({
        "delay": "1h", "payload": "job", "name": "j", "ttl": "2h", "priority": 9, "limit": 3,
        "headers": {"trace": "abc", "raw": {"base64": "/w=="}}, "as": "raw",
    });
    api.done("POST", "/queues/jobs/messages", job);
    let shown = api.done("GET", "/queues/jobs/messages/j", none());
    assert_eq!(shown["headers"], json!({"trace": "abc", "raw": {"base64": "/w=="}}));
    assert_eq!(api.done("POST", "/queues/jobs/fire", json!({"messages": ["j"]}))["fired"], 1);
    let take = |api: &mut Checked| {
        let take = || api.done("POST", "/queues/jobs/take", json!({"count": 5, "lease": "1m"}));
        eventually(take, |taken| !taken["items"].as_array().unwrap().is_empty())["items"][0].clone()
    };
    let taken = take(&mut api);
    assert_eq!((&taken["payload"], &taken["attempt"]), (&json!({"text": "job"}), &json!(1)));
    let leased = api.done("GET", "/queues/jobs/taken?count=5", none());
    assert_eq!(leased["items"][0]["id"], taken["id"]);
    let receipts = json!({"receipts": [taken["receipt"]]});
    assert_eq!(api.done("POST", "/queues/jobs/extend", receipts)["extended"], 1);
    let fail =
        json!({"receipts": [taken["receipt"]], "mode": "fail", "delay": "1h", "reason": "why"});
    assert_eq!(api.done("POST", "/queues/jobs/nack", fail)["nacked"], 1);
    let waiting = api.done("GET", "/queues/jobs/waiting", none());
    assert_eq!(waiting["items"][0]["reason"], "why");
    let waits = taken["message"].as_str().unwrap();
    assert_eq!(api.done("POST", &format!("{queue}/messages/{waits}/fire"), none())["fired"], 1);
    let again = take(&mut api);
    let fatal = json!({"receipts": [again["receipt"]], "mode": "fatal"});
    api.done("POST", "/queues/jobs/nack", fatal);
    let dead = api.done("GET", "/queues/jobs/dead?match=w*", none());
    assert_eq!(dead["items"][0]["payload"], json!({"text": "job"}));
    let all = json!({"ids": [taken["id"]]});
    assert_eq!(api.done("POST", "/queues/jobs/dead/requeue", all)["requeued"], 1);
    let last = take(&mut api);
    let receipts = json!({"receipts": [last["receipt"]]});
    assert_eq!(api.done("POST", "/queues/jobs/ack", receipts)["acked"], 1);
    assert_eq!(api.done("POST", "/queues/jobs/take", none()), json!({"items": []}));
    assert_eq!(api.done("POST", "/queues/jobs/dead/drop", json!({"match": "*"}))["dropped"], 0);

    // Schedules, and members that nobody can read.
    let cron = "/queues/orders/crons/nightly";
    let set = json!({"expression": "0 3 * * *", "payload": "clean up", "tz": "Europe/Berlin"});
    assert!(api.done("PUT", cron, set)["next"].is_i64());
    assert_eq!(api.done("POST", &format!("{cron}/pause"), none())["paused"], 1);
    let listed = api.done("GET", "/queues/orders/crons", none());
    assert_eq!(
        (&listed["items"][0]["name"], &listed["items"][0]["next"]),
        (&"nightly".into(), &none())
    );
    assert_eq!(api.done("POST", &format!("{cron}/resume"), none())["resumed"], 1);
    assert_eq!(api.done("DELETE", cron, none())["deleted"], 1);
    let spoil = |text: &str| {
        let mut backing = place.backing();
        let key = "redisson_delay_queue_timeout:{orders}";
        backing.call(&["ZADD", key, "1000", text]).unwrap();
        backing.call(&["LPUSH", "redisson_delay_queue:{orders}", text]).unwrap();
        place.broker.client().call(&["DQ.POLL", "orders"]).unwrap();
    };
    spoil("spoiled");
    let put_aside = api.done("GET", "/queues/orders/quarantine?count=5", none());
    assert_eq!(put_aside["items"][0]["member"], json!({"text": "spoiled"}));
    let members = json!({"members": ["spoiled"]});
    let restored = api.done("POST", "/queues/orders/quarantine/restore", members);
    assert_eq!(restored["restored"], 1);
    eventually(
        || api.done("POST", "/queues/orders/quarantine/drop", none())["dropped"].clone(),
        |dropped| *dropped == 1,
    );

    let routes = ROUTES.iter().map(|route| (route.method.to_string(), route.path.to_owned()));
    let missing: Vec<_> = routes.filter(|route| !api.had.contains(route)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Names of queues and messages are bytes.
#[test]
fn hostile_names() {
    let place = place();
    let mut api = Checked::new(api(&place));
    let names: [&[u8]; 9] = [
        b"<script>alert(1)</script>",
        b"a\0b",
        b"%2e%2e",
        b"..",
        b"a/b?c=d#e",
        b"\xff\xfe",
        "\u{202e}\u{1f389}".as_bytes(),
        b"openapi.json",
        &[b'x'; 300],
    ];
    for name in names {
        let path: String = name.iter().map(|byte| format!("%{byte:02x}")).collect();
        let message = format!("/queues/{path}/messages/{path}");
        let offer = json!({"delay": "1h", "payload": "p", "name": {"base64": base64(name)}});
        api.done("POST", &format!("/queues/{path}/messages"), offer);
        let shown = match std::str::from_utf8(name) {
            Ok(text) if !text.contains('\0') => json!(text),
            _ => json!({"base64": base64(name)}),
        };
        assert_eq!(api.done("GET", &message, Value::Null)["name"], shown);
        assert_eq!(api.done("GET", &format!("/queues/{path}"), Value::Null)["queue"], shown);
        let listed = api.done("GET", "/queues?count=100", Value::Null);
        let listed = listed["items"].as_array().unwrap().iter();
        assert!(listed.map(|row| &row["queue"]).any(|queue| *queue == shown), "{path}");
        let reply = place.broker.client().call(&[&b"DQ.SIZE"[..], name]).unwrap();
        assert_eq!(reply.number().unwrap(), 1, "{path}");
        api.done("DELETE", &message, Value::Null);
    }
    for path in ["/queues/all/pause", "/queues/%41LL/resume"] {
        let refused = api.call("POST", path, Value::Null);
        assert_eq!(refused.problem(), "400 ERR no", "{path}");
    }
    // Not paused.
    let info = api.done("GET", "/queues/x", Value::Null);
    assert_eq!(info["paused_all"], 0);
    let info = api.done("GET", "/queues/all", Value::Null);
    assert_eq!(info["queue"], "all");
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The words of a route that a request needs at least.
pub fn least(route: &Route, queue: &str) -> (String, Value) {
    let mut path =
        route.path.replace("{queue}", queue).replace("{message}", "m").replace("{cron}", "c");
    let mut body = json!({});
    for word in route.words.iter().filter(|word| word.required || word.form == Form::Due) {
        let value = match word.form {
            Form::Path => continue,
            _ if route.method == "GET" => {
                let value = if word.name == "from" { "0" } else { "1h" };
                path +=
                    &format!("{}{}={value}", if path.contains('?') { "&" } else { "?" }, word.name);
                continue;
            }
            Form::Each => json!(["m"]),
            Form::Messages => json!([{"delay": "1h", "payload": "p"}]),
            Form::Settings => {
                body["limit"] = 5.into();
                continue;
            }
            Form::Due => json!("1h"),
            _ => json!("p"),
        };
        body[word.name] = value;
    }
    (path, if route.method == "GET" { Value::Null } else { body })
}

/// Every route, whoever asks: nothing can be reached that is not given. A route that is added is in
/// it.
#[test]
fn the_matrix_of_rights() {
    let rows = matrix();
    let place = users::place(&File::new(&tables(&rows)), &[]);
    let api = api(&place);
    let mut refused = 0;
    for route in ROUTES {
        let spec = TABLE.iter().find(|spec| spec.name == route.command).unwrap();
        let word = route.words.iter().find_map(|word| match word.form {
            Form::Fixed("ALL") => Some("ALL"),
            _ => None,
        });
        let has = |wanted| route.words.iter().any(|word| word.form == wanted);
        let matching = has(Form::Fixed("MATCH"));
        let dry_runs = if matching { &[false, true][..] } else { &[false] };
        for (queue, dry_run) in
            ["a.x", "b.x"].iter().flat_map(|queue| dry_runs.iter().map(|dry| (*queue, *dry)))
        {
            let (path, mut body) = least(route, queue);
            if dry_run {
                body["dry_run"] = true.into();
            }
            let form = matching.then(|| {
                let forms = spec.forms.iter().map(|(form, _)| *form);
                forms.into_iter().find(|form| form.ends_with("DRYRUN") == dry_run).unwrap()
            });
            let method = route.method.as_str();
            let anonymous = api.call(method, &path, &body);
            assert_eq!(anonymous.problem(), "401 NOAUTH no", "{method} {path}");
            assert!(anonymous.header("www-authenticate").is_some());
            for row in &rows {
                let said = api.user(&row.name, PASSWORD).call(method, &path, &body);
                let about = format!("{} says {method} {path}: {said:?}", row.name);
                match refusal(spec, word, form, row, queue) {
                    Some(wanted) => {
                        assert_eq!(said.problem(), "403 NOPERM no", "{about}");
                        let user = format!("User {} has no {wanted}", row.name);
                        let detail = said.json()["detail"].as_str().unwrap().to_owned();
                        assert!(detail.starts_with(&user), "{about}");
                        refused += 1;
                    }
                    None => assert!(![401, 403].contains(&said.status), "{about}"),
                }
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
    // Nothing else is there for anybody.
    let all = api.user("u5-1-1", PASSWORD);
    for path in ["", "/", "/queue", "/queues/", "/queues/a.x/", "/../metrics", "/commands/PING"] {
        assert_eq!(all.call("GET", path, &Value::Null).problem(), "404 NOTFOUND no", "{path}");
    }
    let other = all.call("PATCH", "/queues/a.x/messages", &Value::Null);
    assert_eq!((other.status, other.header("allow")), (405, Some("get, post")));
}

/// Names in lists are those that the user may name, and metrics only for who may see all.
#[test]
fn lists_and_metrics_have_what_may_be_seen() {
    let tables = user("ann", "commands = ['+@read']\nqueues = ['a.*']\npayloads = true")
        + &user("all", "commands = ['+@read']\nqueues = ['*']")
        + &user("bob", "commands = ['+@write']\nqueues = ['*']")
        + "[server]\npassword = 'of-default'\n[http]\nmetrics_auth = true\n";
    let file = File::new(&tables);
    let place = users::place(&file, &[]);
    let api = api(&place);
    let default = api.user("", "of-default");
    for queue in ["a.1", "b.1"] {
        let offer = json!({"delay": "1h", "payload": "p"});
        let offered = default.call("POST", &format!("/queues/{queue}/messages"), &offer);
        assert_eq!(offered.status, 201, "{offered:?}");
    }
    let queues = |api: &Api| {
        let rows = api.call("GET", "/queues", &Value::Null).json();
        let rows = rows["items"].as_array().unwrap().clone();
        let mut names: Vec<_> =
            rows.iter().map(|row| row["queue"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(queues(&api.user("ann", PASSWORD)), ["a.1"]);
    assert_eq!(queues(&api.user("all", PASSWORD)), ["a.1", "b.1"]);
    assert_eq!(queues(&default), ["a.1", "b.1"]);

    let get = |api: &Api, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{}\r\n", api.headers);
        exchange(&api.address, request.as_bytes()).unwrap()
    };
    let bearer = default.headers.replace("Basic", "Bearer");
    let rows = [
        (api.clone(), 401),
        (api.user("ann", PASSWORD), 403),
        (api.user("bob", PASSWORD), 403),
        (api.user("all", "wrong"), 401),
        (api.user("nobody", PASSWORD), 401),
        (api.user("all", PASSWORD), 200),
        (default.clone(), 200),
        (api.with(bearer.trim()), 200),
    ];
    for (api, status) in rows {
        let answer = get(&api, "/metrics");
        assert_eq!(answer.status, status, "{}: {answer:?}", api.headers);
        assert_eq!(answer.text().contains("queue=\"b.1\""), status == 200);
        assert_eq!(get(&api, "/readyz").status, 200);
    }
    // A reload opens them.
    file.write(&tables.replace("metrics_auth = true", ""));
    place.broker.signal("HUP");
    eventually(|| get(&api, "/metrics").status, |status| *status == 200);
}

/// Without a password the API is for this machine only, and never for a page of another origin.
#[test]
fn who_comes_in() {
    let spawn = |http: &str, setting| {
        let url = redis::shared().url(redis::shared().fresh_database());
        Broker::with_args(&["--redis", &url, "--http", http], &[setting])
    };
    let hosts = ("http.hosts", "console.example");
    let closed = spawn("0.0.0.0:0", hosts);
    let open = spawn("127.0.0.1:0", hosts);
    let guarded = spawn("0.0.0.0:0", ("server.password", "secret"));
    let port = |broker: &Broker| Api::new(broker.http_address().replace("0.0.0.0", "127.0.0.1"));
    let (closed, open, guarded) = (port(&closed), port(&open), port(&guarded));
    #[rustfmt::skip]
    let rows: [(&str, u16, u16, u16); 15] = [
        ("Host: localhost", 403, 200, 401),
        ("Host: 127.0.0.1:7380", 403, 200, 401),
        ("Host: [::1]", 403, 200, 401),
        ("Host: console.example", 403, 200, 401),
        ("Host: evil.example", 403, 403, 401),
        ("Host: 10.1.2.3", 403, 403, 401),
        ("Host: a@b", 400, 400, 400),
        ("Host: localhost\r\nHost: localhost", 400, 400, 400),
        ("Host: localhost\r\nOrigin: http://localhost", 403, 200, 401),
        ("Host: localhost\r\nOrigin: http://evil.example", 403, 403, 403),
        ("Host: localhost\r\nX-Forwarded-For: 1.2.3.4", 403, 403, 401),
        ("Host: localhost\r\nVia: 1.1 proxy", 403, 403, 401),
        ("Host: localhost\r\nOrigin: null", 403, 403, 403),
        ("Host: localhost\r\nSec-Fetch-Site: cross-site", 403, 403, 403),
        ("Host: localhost\r\nSec-Fetch-Site: same-origin", 403, 200, 401),
    ];
    for (headers, of_closed, of_open, of_guarded) in rows {
        for (api, status) in [(&closed, of_closed), (&open, of_open), (&guarded, of_guarded)] {
            let answer = api.with(headers).call("GET", "/queues", &Value::Null);
            assert_eq!(answer.status, status, "{headers}: {answer:?}");
            let says_how = answer.text().contains("set server.password or [[users]]");
            assert!(!says_how || status == 403, "{answer:?}");
        }
    }
    let answer = closed.call("GET", "/queues", &Value::Null);
    assert!(answer.text().contains("set server.password or [[users]]"), "{answer:?}");
    assert_eq!(guarded.user("default", "secret").call("GET", "/queues", &Value::Null).status, 200);
    // Probes come without a Host, or with any.
    for api in [&closed, &open, &guarded] {
        for path in ["/healthz", "/readyz", "/metrics"] {
            for host in ["", "Host: evil.example\r\n"] {
                let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{host}\r\n");
                let answer = exchange(&api.address, request.as_bytes()).unwrap();
                assert_eq!(answer.status, 200, "{path} {host}");
            }
        }
        for path in ["/", "/nothing", "/api/v1/queues"] {
            let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n");
            let answer = exchange(&api.address, request.as_bytes()).unwrap();
            assert_eq!(answer.status, 400, "{path}");
        }
    }
}

/// A command by this door is counted, logged with its user, and seen by the other door.
#[test]
fn one_broker_behind_both_doors() {
    let table = user("ann", "commands = ['+@all']\nqueues = ['*']\npayloads = true");
    let place = users::place(&File::new(&table), &["--log", "info"]);
    let ann = api(&place).user("ann", PASSWORD);
    let mut client = place.broker.client();
    client.call(&["AUTH", "ann", PASSWORD]).unwrap();
    client.call(&["DQ.OFFER", "q", "1h", "p", "NAME", "n"]).unwrap();
    assert_eq!(ann.call("GET", "/queues/q/messages/n", &Value::Null).status, 200);
    assert_eq!(ann.call("POST", "/queues/q/clear", &Value::Null).json(), json!({"cleared": 1}));
    assert_eq!(client.call(&["DQ.SIZE", "q"]).unwrap().number().unwrap(), 0);
    place.broker.has_logged("DQ.CLEAR");
    let log = place.broker.log();
    let line = log.lines().find(|line| line.contains("DQ.CLEAR")).unwrap();
    assert!(line.contains("\"user\":\"ann\"") && line.contains("\"name\":\"http\""), "{line}");
    let request = "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n";
    let metrics = exchange(&ann.address, request.as_bytes()).unwrap().text();
    let mut counted = metrics.lines().filter(|line| {
        line.starts_with("delay_broker_commands_total") && line.contains("\"DQ.CLEAR\"")
    });
    assert!(counted.any(|line| line.ends_with(" 1")), "{metrics}");
    // Nobody stays on the list of clients.
    let list = client.call(&["CLIENT", "LIST"]).unwrap().text();
    assert_eq!(list.lines().count(), 1, "{list}");
}
