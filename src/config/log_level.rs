//! The log level: one for all, and others for single modules, in the words of `tracing`.
//!
//! Keeps: an accepted filter logs something unless it says `off`: a filter of modules alone goes on
//! top of the default.

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
const DEFAULT: &str = "info";
/// The modules are named there.
const MAP: &str = include_str!("../lib.rs");
const CRATE: &str = "delay_broker";

/// A filter of tracing-subscriber that says the same; its level stands first.
pub(super) fn parse(text: &str) -> Result<String, String> {
    let mut base = DEFAULT;
    let mut rest = String::new();
    let parts = text.split(',').map(str::trim);
    for part in parts.filter(|part| !part.is_empty()) {
        let (module, word) = match part.split_once('=') {
            Some((module, word)) => (Some(module.trim()), word.trim()),
            None if level(part).is_some() => (None, part),
            // All of that module.
            None => (Some(part), "trace"),
        };
        let level = level(word).ok_or_else(|| refusal(word))?;
        match module {
            Some(module) => {
                let target = target(module).ok_or_else(|| refusal(module))?;
                rest += &format!(",{target}={level}");
            }
            None => base = level,
        }
    }
    Ok(format!("{base}{rest}"))
}

fn level(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let word = if word == "warning" { "warn" } else { &word };
    LEVELS.into_iter().find(|level| *level == word)
}

/// `scheduler::host`, with or without the name of the crate.
fn target(module: &str) -> Option<String> {
    let inside = match module.strip_prefix(CRATE) {
        Some("") => return Some(CRATE.to_owned()),
        Some(inside) => inside.strip_prefix("::")?,
        None => module,
    };
    let first = inside.split("::").next()?;
    let plain = |letter: char| letter.is_ascii_lowercase() || matches!(letter, '_' | ':');
    let known = modules().any(|known| known == first) && inside.chars().all(plain);
    known.then(|| format!("{CRATE}::{inside}"))
}

fn modules() -> impl Iterator<Item = &'static str> {
    let lines = MAP.lines();
    lines.filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
}

fn refusal(word: &str) -> String {
    let modules: Vec<&str> = modules().collect();
    format!(
        "must be one of {}, perhaps with others for modules, such as \"info,scheduler=debug\"; \
         {word:?} is neither a level nor one of the modules {}",
        LEVELS.join(", "),
        modules.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: as given, and the filter that it is; none where it is refused.
    #[test]
    fn filters() {
        #[rustfmt::skip]
        let rows = [
            ("info", Some("info")),
            ("Warning", Some("warn")),
            (" ERROR ", Some("error")),
            ("off", Some("off")),
            ("", Some("info")),
            (" , ", Some("info")),
            ("scheduler=debug", Some("info,delay_broker::scheduler=debug")),
            ("delay_broker::store::redis=warning,error",
             Some("error,delay_broker::store::redis=warn")),
            ("delay_broker=debug", Some("info,delay_broker=debug")),
            ("http", Some("info,delay_broker::http=trace")),
            ("loud", None),
            ("warnings", None),
            ("info,loud", None),
            ("info,scheduler=loud", None),
            ("info,shceduler=debug", None),
            ("fred=debug", None),
            ("delay_brokers=debug", None),
            ("scheduler[{x}]=debug", None),
            ("a=b=c", None),
            ("3", None),
        ];
        for (text, filter) in rows {
            let parsed = parse(text);
            assert_eq!(parsed.as_deref().ok(), filter, "{text}");
            if let Ok(filter) = parsed {
                assert!(tracing_subscriber::EnvFilter::builder().parse(filter).is_ok());
            }
        }
        let refusal = parse("info,loud").unwrap_err();
        assert!(refusal.contains("error, warn, info") && refusal.contains("scheduler,"));
        assert!(refusal.contains("\"loud\" is neither a level"), "{refusal}");
    }
}
