//! The document of the API, in OpenAPI 3.1: made from the table of routes.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::problem::{CODES, CONFLICT, NOT_FOUND};
use super::routes::{Answer, BASE, Form, Kind, ROUTES, Route, SCHEMAS, Shape, Word};

/// Its own path.
pub const fn path() -> &'static str {
    "/api/v1/openapi.json"
}

pub static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());

fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        entry[route.method.as_str().to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Delay Broker",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": BASE}],
        "security": [{}, {"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {
                    "type": "http", "scheme": "bearer",
                    "description": "The same as of basic: user:password in base64.",
                },
            },
            "schemas": schemas(),
        },
    })
}

fn operation(route: &Route) -> Value {
    let (mut parameters, mut properties, mut required) = (Vec::new(), Map::new(), Vec::new());
    let mut open = false;
    let parameter = |word: &Word, place: &str, schema: Value| {
        json!({
            "name": word.name, "in": place, "required": word.required,
            "description": word.help, "schema": schema,
        })
    };
    for word in route.words {
        match word.form {
            Form::Fixed(_) => {}
            Form::Path => parameters.push(parameter(word, "path", json!({"type": "string"}))),
            _ if route.method == "GET" => parameters.push(parameter(word, "query", schema(word))),
            Form::Settings => open = true,
            Form::Due => due(&mut properties),
            _ => {
                if word.required {
                    required.push(word.name);
                }
                let mut schema = schema(word);
                schema["description"] = word.help.into();
                properties.insert(word.name.to_owned(), schema);
            }
        }
    }
    let has_due = route.words.iter().any(|word| word.form == Form::Due);
    let name: String = route.path.chars().filter(|c| !"{}".contains(*c)).collect();
    let mut operation = json!({
        "operationId": route.method.as_str().to_lowercase() + &name.replace('/', "_"),
        "summary": route.summary,
        "description": format!("The command {}.", route.command),
        "parameters": parameters,
        "responses": responses(route.answer),
    });
    if !properties.is_empty() || open {
        let mut object = json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": open,
        });
        if has_due {
            object["oneOf"] = one_due();
        }
        operation["requestBody"] = json!({
            "required": open || !required.is_empty() || has_due,
            "content": {"application/json": {"schema": object}},
        });
    }
    operation
}

fn due(properties: &mut Map<String, Value>) {
    properties.insert("delay".to_owned(), of_kind(Kind::Duration));
    properties.insert("at".to_owned(), of_kind(Kind::Time));
}

fn one_due() -> Value {
    json!([{"required": ["delay"]}, {"required": ["at"]}])
}

fn of_kind(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Count => json!({"type": ["integer", "string"]}),
        Kind::Duration => json!({
            "type": ["integer", "string"], "description": "Milliseconds, or text as 1h30m.",
        }),
        Kind::Time => json!({
            "type": ["integer", "string"], "description": "Unix milliseconds, or RFC 3339.",
        }),
        Kind::Blob => json!({"$ref": "#/components/schemas/BytesGiven"}),
    }
}

fn schema(word: &Word) -> Value {
    match word.form {
        Form::Flag(_) => json!({"type": "boolean"}),
        Form::Choice(choices) => {
            let choices: Vec<String> = choices.iter().map(|choice| choice.to_lowercase()).collect();
            json!({"enum": choices})
        }
        Form::Each => json!({"type": "array", "minItems": 1, "items": of_kind(word.kind)}),
        Form::Headers => json!({"type": "object", "additionalProperties": of_kind(Kind::Blob)}),
        Form::Messages => {
            let mut properties = Map::new();
            due(&mut properties);
            properties.insert("payload".to_owned(), of_kind(Kind::Blob));
            json!({"type": "array", "minItems": 1, "items": {
                "type": "object", "properties": properties, "required": ["payload"],
                "additionalProperties": false,
                "oneOf": one_due(),
            }})
        }
        _ => of_kind(word.kind),
    }
}

fn responses(answer: Answer) -> Value {
    let named = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let object = |fields: Value| {
        let required: Vec<&String> = fields.as_object().into_iter().flat_map(Map::keys).collect();
        json!({"type": "object", "required": required, "properties": fields})
    };
    let (cursor, integer) = (json!({"type": ["string", "null"]}), json!({"type": "integer"}));
    let (status, schema) = match answer {
        Answer::Done => ("204", None),
        Answer::Created => ("201", Some(object(json!({"id": {"type": "string"}})))),
        Answer::AllCreated => {
            let ids = json!({"type": "array", "items": {"type": "string"}});
            ("201", Some(object(json!({"ids": ids}))))
        }
        Answer::Id => ("200", Some(object(json!({"id": {"type": "string"}})))),
        Answer::Number(field) | Answer::One(field) => {
            ("200", Some(object(json!({field: {"type": ["integer", "null"]}}))))
        }
        Answer::Object(name) => ("200", Some(named(name))),
        Answer::List(name) | Answer::Steps(name) => {
            ("200", Some(object(json!({"items": {"type": "array", "items": named(name)}}))))
        }
        Answer::Page(name) => {
            let items = json!({"type": "array", "items": named(name)});
            ("200", Some(object(json!({"items": items, "cursor": cursor}))))
        }
        Answer::Search(name) => {
            let items = json!({"type": "array", "items": named(name)});
            ("200", Some(object(json!({"items": items, "cursor": cursor, "looked": integer}))))
        }
        Answer::Matched(field) => {
            ("200", Some(object(json!({field: integer, "cursor": cursor, "looked": integer}))))
        }
    };
    let mut done = json!({"description": "Done."});
    if let Some(schema) = schema {
        done["content"] = json!({"application/json": {"schema": schema}});
    }
    json!({
        status: done,
        "default": {
            "description": "Not done, or perhaps: `applied` says it.",
            "content": {"application/problem+json": {"schema": named("Problem")}},
        },
    })
}

fn schemas() -> Value {
    let base64 = json!({
        "type": "object", "properties": {"base64": {"type": "string"}}, "required": ["base64"],
        "additionalProperties": false,
    });
    let text = json!({
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"],
        "additionalProperties": false,
    });
    let codes: Vec<&str> =
        CODES.iter().map(|(code, ..)| *code).chain([NOT_FOUND, CONFLICT]).collect();
    let mut schemas = json!({
        "Bytes": {"oneOf": [{"type": "string"}, base64]},
        "Payload": {"oneOf": [text, base64]},
        "BytesGiven": {"oneOf": [{"type": "string"}, text, base64]},
        "Problem": {
            "type": "object",
            "required": ["type", "title", "status", "code", "detail", "applied"],
            "properties": {
                "type": {"type": "string"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "code": {"enum": codes},
                "detail": {"type": "string"},
                "applied": {"enum": ["no", "maybe"]},
            },
        },
    });
    for (name, fields) in SCHEMAS {
        let sometimes = [Shape::Sometimes, Shape::Word, Shape::Object];
        let always = fields.iter().filter(|(_, shape)| !sometimes.contains(shape));
        let required: Vec<&str> = always.map(|(field, _)| *field).collect();
        let fields = fields.iter().map(|(field, shape)| ((*field).to_owned(), of_shape(*shape)));
        let properties: Map<String, Value> = fields.collect();
        schemas[*name] = json!({"type": "object", "required": required, "properties": properties});
    }
    schemas
}

fn of_shape(shape: Shape) -> Value {
    let or_null = |name: &str| {
        let named = json!({"$ref": format!("#/components/schemas/{name}")});
        json!({"oneOf": [named, {"type": "null"}]})
    };
    match shape {
        Shape::Integer | Shape::Sometimes => json!({"type": "integer"}),
        Shape::MaybeInteger => json!({"type": ["integer", "null"]}),
        Shape::Due => json!({"type": ["integer", "number", "string", "null"]}),
        Shape::Bytes => json!({"$ref": "#/components/schemas/Bytes"}),
        Shape::MaybeBytes | Shape::Word => or_null("Bytes"),
        Shape::Payload => or_null("Payload"),
        Shape::Any => json!({}),
        Shape::Object => json!({
            "type": "object",
            "additionalProperties": {"$ref": "#/components/schemas/Bytes"},
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each route is in it once, under an id of its own, and what it refers to is there.
    #[test]
    fn every_route_is_in_it() {
        let document = document();
        let mut ids = Vec::new();
        for (_, entry) in document["paths"].as_object().unwrap() {
            ids.extend(
                entry.as_object().unwrap().values().map(|one| one["operationId"].to_string()),
            );
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), ROUTES.len());
        for route in ROUTES {
            let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            assert_eq!(operation["summary"], route.summary, "{}", route.path);
        }
        let text = document.to_string();
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
