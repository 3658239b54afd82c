//! Every query of `config/grafana` and `config/prometheus` names metrics, labels and values that a
//! broker shows after some traffic.

use crate::promql::{self, Matcher};
use crate::stage::{Stage, delivered, eventually, get, offer, say};
use delay_broker::audit;
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Labels that Prometheus adds to what it scrapes, and the one of its own metric `up`.
const ADDED: [&str; 2] = ["instance", "job"];

/// The series of each metric as its labels; `_bucket`, `_sum` and `_count` as they stand.
type Shown = BTreeMap<String, Vec<BTreeMap<String, String>>>;

fn config(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(config(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn dashboard() -> Value {
    serde_json::from_str(&read("grafana/delay-broker.json")).unwrap()
}

/// What stands under `key` as text, anywhere.
fn texts(value: &Value, key: &str) -> Vec<String> {
    match value {
        Value::Array(all) => all.iter().flat_map(|one| texts(one, key)).collect(),
        Value::Object(fields) => {
            let below = fields.values().flat_map(|one| texts(one, key));
            let here = fields.get(key).and_then(Value::as_str);
            below.chain(here.map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    }
}

/// The values of a key of a YAML file of ours: on its line, or folded below it.
fn yaml(text: &str, key: &str) -> Vec<String> {
    let mut lines = text.lines().peekable();
    let mut found = Vec::new();
    let indent = |line: &str| line.len() - line.trim_start().len();
    while let Some(line) = lines.next() {
        let own = line.trim_start().trim_start_matches("- ");
        let Some(value) = own.strip_prefix(key).and_then(|rest| rest.strip_prefix(':')) else {
            continue;
        };
        if value.trim() != ">-" {
            found.push(value.trim().trim_matches('"').to_owned());
            continue;
        }
        let mut folded = Vec::new();
        while let Some(more) = lines.next_if(|more| indent(more) > indent(line)) {
            folded.push(more.trim());
        }
        found.push(folded.join(" "));
    }
    found
}

/// A broker that has seen a little of everything.
fn shown() -> Shown {
    let mut stage = Stage::new(&[("metrics.queues_max", "2")]);
    let mut client = stage.broker.client();
    offer(&mut client, &["q", "1h", "later"]);
    offer(&mut client, &["q", "1", "soon"]);
    say(&mut client, "DQ.SETUP stream destination stream groups readers");
    eventually("gauges of a group", || {
        let (_, text) = get(&stage.broker, "/metrics");
        text.contains("\ndelay_broker_stream_group_lag{").then_some(())
    });
    offer(&mut client, &["another", "1h", "of those that share"]);
    delivered(&mut stage.redis, "q", 1);
    say(&mut client, "DQ.CANCEL q nobody");
    let (status, text) = get(&stage.broker, "/metrics");
    assert_eq!(status, 200, "{text}");
    let mut shown = Shown::new();
    let label = Regex::new(r#"(\w+)="((?:[^"\\]|\\.)*)""#).unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = label.captures_iter(labels);
        let labels = labels.map(|found| (found[1].to_owned(), found[2].to_owned()));
        shown.entry(name.to_owned()).or_default().push(labels.collect());
    }
    shown
}

fn matches(matcher: &Matcher, labels: &BTreeMap<String, String>) -> bool {
    let Some(value) = labels.get(&matcher.label) else {
        return ADDED.contains(&matcher.label.as_str());
    };
    // A variable of the dashboard stands for values that it finds itself.
    if matcher.value.starts_with('$') {
        return true;
    }
    let pattern = Regex::new(&format!("^(?:{})$", matcher.value)).unwrap();
    match matcher.operator.as_str() {
        "=" => matcher.value == *value,
        "!=" => matcher.value != *value,
        "=~" => pattern.is_match(value),
        _ => !pattern.is_match(value),
    }
}

/// What is wrong with a query.
fn mistakes(query: &str, shown: &Shown) -> Vec<String> {
    let mut mistakes = Vec::new();
    let (selectors, groups) = promql::parse(query);
    let mut labels: BTreeSet<&str> = ADDED.into();
    for selector in &selectors {
        if selector.metric == "up" {
            continue;
        }
        let Some(series) = shown.get(&selector.metric) else {
            mistakes.push(format!("no metric {} in: {query}", selector.metric));
            continue;
        };
        labels.extend(series.iter().flat_map(|labels| labels.keys().map(String::as_str)));
        let all = |labels: &&BTreeMap<String, String>| {
            selector.matchers.iter().all(|matcher| matches(matcher, labels))
        };
        // Errors of these kinds do not happen here: that they are absent is no mistake.
        let of_errors = selector.matchers.iter().any(|matcher| matcher.operator == "!=");
        if !of_errors && series.iter().find(all).is_none() {
            mistakes.push(format!("no series like {selector:?} in: {query}"));
        }
        for matcher in &selector.matchers {
            if !labels.contains(matcher.label.as_str()) {
                mistakes.push(format!("no label {} in: {query}", matcher.label));
            }
        }
    }
    if selectors.is_empty() {
        mistakes.push(format!("nothing is asked in: {query}"));
    }
    for group in groups.iter().filter(|group| !labels.contains(group.as_str())) {
        mistakes.push(format!("no label {group} in: {query}"));
    }
    mistakes
}

#[test]
fn queries_name_what_there_is() {
    let shown = shown();
    let mut queries = texts(&dashboard(), "expr");
    // Those of the variables: label_values(selector, label).
    let values = Regex::new(r"^label_values\((.*), (\w+)\)$").unwrap();
    for definition in texts(&dashboard(), "definition") {
        let parts = values.captures(&definition).unwrap();
        queries.push(format!("sum by ({}) ({})", &parts[2], &parts[1]));
    }
    assert!(queries.len() > 40, "{} in the dashboard", queries.len());
    let alerts = yaml(&read("prometheus/alerts.yml"), "expr");
    assert!(alerts.len() > 10, "{} alerts", alerts.len());
    queries.extend(alerts);
    let mistakes: Vec<String> = queries.iter().flat_map(|query| mistakes(query, &shown)).collect();
    assert!(mistakes.is_empty(), "\n{}\n", mistakes.join("\n"));
    for wrong in [
        "sum(rate(delay_broker_messages_ofered_total[5m]))",
        "delay_broker_queue_pending{que=\"q\"}",
        "delay_broker_redis_link_up{link=\"subscriptions\"}",
        "sum by (queu) (delay_broker_queue_pending)",
        "rate(delay_broker_lateness_seconds[5m])",
    ] {
        assert!(!self::mistakes(wrong, &shown).is_empty(), "{wrong}");
    }
}

/// What a dashboard needs to be loaded: every panel has a place of its own and says what it shows.
#[test]
fn panels() {
    let dashboard = dashboard();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{title}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{title} lies on another panel");
            }
        }
        if panel["type"] != "row" {
            assert!(panel["description"].as_str().unwrap().ends_with('.'), "{title}");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}

/// Each says what to do, and docs/operate/runbook.md says it at more length.
#[test]
fn alerts_say_what_to_do() {
    let text = read("prometheus/alerts.yml");
    let names = yaml(&text, "alert");
    for key in ["expr", "severity", "summary", "description", "runbook_url"] {
        let values = yaml(&text, key);
        assert_eq!(values.len(), names.len(), "{key}");
        assert!(values.iter().all(|value| !value.is_empty()), "{key}");
    }
    let runbook = fs::read_to_string(config("../docs/operate/runbook.md")).unwrap();
    // A section of its own, which begins with how bad it is and after how long it fires.
    let section = Regex::new(r"(?m)^### (DelayBroker\w+)\n\n\*\*(\w+)\*\*, ([\w ]+):").unwrap();
    let mut said: Vec<String> = section
        .captures_iter(&runbook)
        .map(|found| format!("{} {} {}", &found[1], &found[2], &found[3]))
        .collect();
    let alerts = text.split("- alert: ").skip(1);
    let mut alerts: Vec<String> = alerts
        .map(|alert| {
            let name = alert.lines().next().unwrap();
            let severity = yaml(alert, "severity").pop().unwrap();
            let duration = yaml(alert, "for").pop().map(|duration| format!("after {duration}"));
            format!("{name} {severity} {}", duration.as_deref().unwrap_or("at once"))
        })
        .collect();
    said.sort();
    alerts.sort();
    assert_eq!(said, alerts, "the alerts of the runbook and of the file");
    let has = |anchor: &str| {
        let heading = |line: &str| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            line.starts_with("##") && title.replace(": ", "-") == anchor
        };
        assert!(runbook.lines().any(heading), "the runbook has no #{anchor}");
    };
    for (url, name) in yaml(&text, "runbook_url").iter().zip(names) {
        let base = "{{ $externalLabels.delay_broker_docs }}docs/operate/runbook.md#";
        match url.strip_prefix(base).unwrap() {
            "audit-{{ $labels.finding }}" => {
                audit::WORDS.iter().for_each(|word| has(&format!("audit-{word}")));
            }
            anchor => {
                assert_eq!(anchor, name.to_lowercase(), "{url}");
                has(anchor);
            }
        }
    }
}

/// Prometheus's own opinion, where it is installed (in CI it must be): syntax, and when each alert
/// fires.
#[test]
fn promtool_agrees() {
    let check = |args: &[&str], file: &Path| {
        let Ok(output) = Command::new("promtool").args(args).arg(file).output() else {
            assert!(std::env::var_os("CI").is_none(), "there is no promtool here");
            eprintln!("not checked: there is no promtool here (Debian: package prometheus)");
            return;
        };
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", file.display());
    };
    check(&["check", "rules"], &config("prometheus/alerts.yml"));
    check(&["check", "config"], &config("prometheus/prometheus.yml"));
    check(&["test", "rules"], &config("../tests/ops/alerts.yml"));
}
