//! The usage line of a command, parsed into the `arguments` of COMMAND DOCS.
//!
//! A command's usage is written once: people, redis-cli's hints and the tests see the same.
//! The grammar is that of Redis's documentation: `word` is a value, `WORD` is typed as it is, `WORD
//! word` an option with its value, `[x]` optional, `<x|y>` one of, and `x [x ...]` or
//! `[x ...]` repeats. Knows only usage lines of ours.

use crate::resp::Reply;

#[derive(Clone, Debug, PartialEq)]
struct Argument {
    name: String,
    form: Form,
    token: Option<String>,
    optional: bool,
    multiple: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Value,
    Token,
    Block(Vec<Argument>),
    OneOf(Vec<Argument>),
}

/// The `arguments` of COMMAND DOCS.
pub fn arguments(usage: &str) -> Reply {
    Reply::Array(parse(usage).iter().map(reply).collect())
}

fn reply(argument: &Argument) -> Reply {
    let mut fields: Vec<(Reply, Reply)> = Vec::new();
    let mut field = |key: &'static str, value: Reply| fields.push((key.into(), value));
    field("name", argument.name.clone().into());
    let (kind, children) = match &argument.form {
        Form::Value if argument.name == "queue" => ("key", None),
        Form::Value if argument.name == "n" => ("integer", None),
        Form::Value if argument.name == "pattern" => ("pattern", None),
        Form::Value => ("string", None),
        Form::Token => ("pure-token", None),
        Form::Block(children) => ("block", Some(children)),
        Form::OneOf(children) => ("oneof", Some(children)),
    };
    field("type", kind.into());
    if children.is_none() {
        field("display_text", argument.name.clone().into());
    }
    if kind == "key" {
        field("key_spec_index", Reply::Integer(0));
    }
    if let Some(token) = &argument.token {
        field("token", token.clone().into());
    }
    let flags = [("optional", argument.optional), ("multiple", argument.multiple)];
    let flags: Vec<_> = flags
        .into_iter()
        .filter(|(_, set)| *set)
        // Simple strings: redis-cli insists.
        .map(|(flag, _)| Reply::Simple(flag.into()))
        .collect();
    if !flags.is_empty() {
        field("flags", Reply::Array(flags));
    }
    if let Some(children) = children {
        field("arguments", Reply::Array(children.iter().map(reply).collect()));
    }
    Reply::Map(fields)
}

fn parse(usage: &str) -> Vec<Argument> {
    let spaced = ["<", ">", "[", "]", "|"]
        .iter()
        .fold(usage.to_owned(), |text, mark| text.replace(mark, &format!(" {mark} ")));
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    sequence(&mut tokens.as_slice()).0
}

/// Up to a closing mark or `|`; whether it ended with `...`.
fn sequence(tokens: &mut &[&str]) -> (Vec<Argument>, bool) {
    let mut arguments: Vec<Argument> = Vec::new();
    while let Some(&token) = tokens.first()
        && !["]", ">", "|"].contains(&token)
    {
        tokens.split_off_first();
        match token {
            "..." => return (arguments, true),
            "<" => arguments.push(group(tokens).0),
            "[" => optional(&mut arguments, tokens),
            word => arguments.push(named(word, tokens)),
        }
    }
    (arguments, false)
}

/// The alternatives up to the closing mark, as one argument.
fn group(tokens: &mut &[&str]) -> (Argument, bool) {
    let mut alternatives = Vec::new();
    let mut repeats = false;
    loop {
        let (arguments, repeated) = sequence(tokens);
        repeats |= repeated;
        alternatives.push(one(arguments, Form::Block));
        if tokens.split_off_first() != Some(&"|") {
            break;
        }
    }
    (one(alternatives, Form::OneOf), repeats)
}

/// The arguments in brackets: optional, or `x [x ...]`, which repeats the arguments before it.
fn optional(before: &mut Vec<Argument>, tokens: &mut &[&str]) {
    let (inner, repeats) = group(tokens);
    let length = match &inner.form {
        Form::Block(arguments) => arguments.len(),
        Form::Value | Form::Token | Form::OneOf(_) => 1,
    };
    let start = before.len().saturating_sub(length);
    let same = repeats && one(before.iter().skip(start).cloned().collect(), Form::Block) == inner;
    if same {
        before.truncate(start);
    }
    before.push(Argument { optional: !same, multiple: repeats, ..inner });
}

/// Several arguments as one that is named after the first of them.
fn one(mut arguments: Vec<Argument>, form: fn(Vec<Argument>) -> Form) -> Argument {
    match arguments.pop() {
        Some(only) if arguments.is_empty() => only,
        last => {
            arguments.extend(last);
            let name = arguments.first().map(|first| first.name.clone()).unwrap_or_default();
            plain(name, form(arguments))
        }
    }
}

/// A word: a value; or a token, with the values that follow it.
fn named(word: &str, tokens: &mut &[&str]) -> Argument {
    let is_value = |word: &str| word.starts_with(|c: char| c.is_ascii_lowercase());
    if is_value(word) {
        return plain(word.to_owned(), Form::Value);
    }
    let values = tokens.iter().take_while(|word| is_value(word));
    let values: Vec<_> = values.map(|value| plain((*value).to_owned(), Form::Value)).collect();
    *tokens = tokens.get(values.len()..).unwrap_or_default();
    let argument = match values.is_empty() {
        true => plain(word.to_ascii_lowercase(), Form::Token),
        false => one(values, Form::Block),
    };
    Argument { token: Some(word.to_owned()), ..argument }
}

fn plain(name: String, form: Form) -> Argument {
    Argument { name, form, token: None, optional: false, multiple: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::TABLE;

    /// An argument as redis-cli would show it.
    fn shown(argument: &Argument) -> String {
        let join = |arguments: &[Argument], between| {
            arguments.iter().map(shown).collect::<Vec<_>>().join(between)
        };
        let inner = match &argument.form {
            Form::Value => argument.name.clone(),
            Form::Token => String::new(),
            Form::Block(children) => join(children, " "),
            Form::OneOf(children) if argument.optional => join(children, "|"),
            Form::OneOf(children) => format!("<{}>", join(children, "|")),
        };
        let token = argument.token.clone().unwrap_or_default();
        let text = format!("{token} {inner}").trim().to_owned();
        match (argument.optional, argument.multiple) {
            (false, false) => text,
            (true, false) => format!("[{text}]"),
            (false, true) => format!("{text} [{text} ...]"),
            (true, true) => format!("[{text} ...]"),
        }
    }

    /// Every usage says the same after being read: so the grammar covers all of them.
    #[test]
    fn all_usages_survive() {
        for spec in TABLE {
            let read: Vec<_> = parse(spec.usage).iter().map(shown).collect();
            assert_eq!(read.join(" "), spec.usage, "{spec:?}");
        }
    }

    #[test]
    fn structure() {
        let value = |name: &str| plain(name.to_owned(), Form::Value);
        let token = |word: &str| Argument {
            token: Some(word.to_owned()),
            ..plain(word.to_ascii_lowercase(), Form::Token)
        };
        let at = Argument { token: Some("AT".into()), ..value("time") };
        let due = plain("delay".into(), Form::OneOf(vec![value("delay"), at]));
        let mode = plain("nx".into(), Form::OneOf(vec![token("NX"), token("XX")]));
        let name = Argument { token: Some("NAME".into()), ..value("name") };
        let named = Form::Block(vec![name, Argument { optional: true, ..mode }]);
        let rows = [
            ("queue", vec![value("queue")]),
            (
                "[NAME name [NX|XX]]",
                vec![Argument { optional: true, ..plain("name".into(), named) }],
            ),
            ("message [message ...]", vec![Argument { multiple: true, ..value("message") }]),
            (
                "<delay|AT time> payload [<delay|AT time> payload ...]",
                vec![Argument {
                    multiple: true,
                    ..plain("delay".into(), Form::Block(vec![due, value("payload")]))
                }],
            ),
        ];
        for (usage, wanted) in rows {
            assert_eq!(parse(usage), wanted, "{usage}");
        }
    }
}
