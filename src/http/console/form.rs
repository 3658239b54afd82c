//! Forms as browsers send them. Pure.

use serde_json::{Map, Value, json};

use crate::domain::text::{Shown, percent_decoded};

/// Fields of one form.
const FIELDS_MAX: usize = 2_000;

/// What a field is called that holds several values, one for each time that it is given.
const LISTS: [&str; 3] = ["messages", "ids", "members"];

/// The parameters of a form, as a body of JSON would have them. Fields without a value are not
/// there, but for a payload, which may be empty. A field `x_base64` holds bytes for `x`.
///
/// # Errors
/// What is wrong with it, for people.
pub fn read(body: &[u8]) -> Result<Map<String, Value>, String> {
    let mut given: Map<String, Value> = Map::new();
    let text = std::str::from_utf8(body).map_err(|_| "the form is not text".to_owned())?;
    let parts = text.split('&').filter(|part| !part.is_empty());
    for (place, part) in parts.enumerate() {
        if place >= FIELDS_MAX {
            return Err(format!("the form has more than {FIELDS_MAX} fields"));
        }
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let decoded = |text: &str| percent_decoded(&text.replace('+', " "));
        let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
            return Err(format!("{} of the form is not encoded", Shown(part.as_bytes())));
        };
        let name = String::from_utf8(name).map_err(|_| "a field has no name".to_owned())?;
        let value = String::from_utf8(value)
            .map_err(|_| format!("{} is not text", Shown(name.as_bytes())))?;
        if value.is_empty() && name != "payload" {
            continue;
        }
        let (name, value) = match name.strip_suffix("_base64") {
            Some(name) => (name.to_owned(), json!({"base64": value})),
            None if name == "payload" => (name, Value::String(value.replace("\r\n", "\n"))),
            None => (name, Value::String(value)),
        };
        if LISTS.contains(&name.as_str()) {
            let list = given.entry(name).or_insert_with(|| json!([]));
            list.as_array_mut().into_iter().for_each(|list| list.push(value.clone()));
        } else if given.insert(name.clone(), value).is_some() {
            return Err(format!("{} is given twice", Shown(name.as_bytes())));
        }
    }
    Ok(given)
}

/// A field that stands for itself, taken out.
pub fn take(given: &mut Map<String, Value>, name: &str) -> Option<String> {
    match given.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let of = |text: &str| read(text.as_bytes()).map(Value::Object);
        assert_eq!(of(""), Ok(json!({})));
        assert_eq!(of("a=1&b=+%26&c=&d"), Ok(json!({"a": "1", "b": " &"})));
        assert_eq!(of("payload="), Ok(json!({"payload": ""})));
        assert_eq!(of("payload=a%0D%0Ab"), Ok(json!({"payload": "a\nb"})));
        assert_eq!(of("messages=a&messages=b"), Ok(json!({"messages": ["a", "b"]})));
        let wanted = json!({"members": [{"base64": "/w=="}], "name": {"base64": "AA=="}});
        assert_eq!(of("members_base64=%2Fw%3D%3D&name_base64=AA%3D%3D"), Ok(wanted));
        for wrong in ["a=%", "a=%ff", "%ff=a", "a=1&a=2", "a=1&a_base64=2"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(read(b"a=\xff").is_err());
        let many = "messages=a&".repeat(FIELDS_MAX);
        assert!(of(&many).is_ok() && of(&format!("{many}messages=a")).is_err());
    }
}
