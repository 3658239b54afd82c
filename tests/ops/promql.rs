//! The metric names and label matchers of a PromQL expression, as far as ours go: enough that no
//! name can be misspelt unseen. Knows no metric.

use regex::Regex;

/// One `name{label="value", ...}`.
#[derive(Debug, PartialEq)]
pub struct Selector {
    pub metric: String,
    pub matchers: Vec<Matcher>,
}

#[derive(Debug, PartialEq)]
pub struct Matcher {
    pub label: String,
    pub operator: String,
    pub value: String,
}

/// What an expression names: its selectors, and the labels that it groups by.
pub fn parse(expression: &str) -> (Vec<Selector>, Vec<String>) {
    let mut selectors = Vec::new();
    let mut labels = Vec::new();
    // Strings may hold anything: they give way to their number, which no name looks like.
    let string = Regex::new(r#""((?:[^"\\]|\\.)*)""#).unwrap();
    let strings: Vec<&str> =
        string.captures_iter(expression).map(|found| found.get(1).unwrap().as_str()).collect();
    let mut number = 0;
    let text = string.replace_all(expression, |_: &regex::Captures<'_>| {
        number += 1;
        format!("\"{}\"", number - 1)
    });
    let range = Regex::new(r"\[[^\]]*\]|\boffset\s+\w+").unwrap();
    let text = range.replace_all(&text, "");
    let grouping =
        Regex::new(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)").unwrap();
    for found in grouping.captures_iter(&text) {
        labels.extend(found[1].split(',').map(|label| label.trim().to_owned()));
    }
    let text = grouping.replace_all(&text, "");
    let selector = Regex::new(r"([a-zA-Z_:][\w:]*)\s*(\{([^}]*)\}|\()?").unwrap();
    let matcher = Regex::new(r#"^\s*(\w+)\s*(=~|!~|!=|=)\s*"(\d+)"\s*$"#).unwrap();
    for found in selector.captures_iter(&text) {
        let keyword = ["and", "or", "unless", "bool"].contains(&&found[1]);
        let function = found.get(2).is_some_and(|after| after.as_str() == "(");
        if keyword || function {
            continue;
        }
        let inside = found.get(3).map_or("", |inside| inside.as_str());
        let matchers = inside.split(',').filter(|part| !part.trim().is_empty());
        let read = |part: &str| {
            let parts = matcher.captures(part);
            let parts = parts.unwrap_or_else(|| panic!("no matcher: {part} in {expression}"));
            Matcher {
                label: parts[1].to_owned(),
                operator: parts[2].to_owned(),
                value: strings[parts[3].parse::<usize>().unwrap()].to_owned(),
            }
        };
        selectors
            .push(Selector { metric: found[1].to_owned(), matchers: matchers.map(read).collect() });
    }
    (selectors, labels)
}

#[test]
fn names_and_matchers() {
    let shown = |expression: &str| {
        let (selectors, labels) = parse(expression);
        let selectors: Vec<String> = selectors
            .iter()
            .map(|selector| {
                let matchers = selector.matchers.iter();
                let matchers: Vec<_> =
                    matchers.map(|m| format!("{}{}{}", m.label, m.operator, m.value)).collect();
                format!("{}[{}]", selector.metric, matchers.join(" "))
            })
            .collect();
        format!("{} by {}", selectors.join(" "), labels.join(" "))
    };
    for (expression, expected) in [
        ("up", "up[] by "),
        (
            "sum by (le, a) (rate(x_y{a=~\"b,c}\",d!=\"\"}[5m])) / 2 > 0.5",
            "x_y[a=~b,c} d!=] by le a",
        ),
        ("max(a) unless on (q) b{q!=\"other\"} > 0 and time() - c", "a[] b[q!=other] c[] by q"),
    ] {
        assert_eq!(shown(expression), expected, "{expression}");
    }
}
