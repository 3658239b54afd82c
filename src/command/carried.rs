//! What an offer says of its messages beside the payload: `HEADER name value`, which may be
//! repeated, `TTL d`, `PRIO n` and `LIMIT n`. Which destinations have them says `lua/offer.lua`.

use bytes::Bytes;

use crate::domain::envelope::Envelope;
use crate::domain::queue::Shown;
use crate::domain::setting::{LIMIT, Value};

use super::args::{ArgError, Args, bad_delay, is};

/// The highest priority; the lowest is 0, that of messages without one.
const PRIORITY_MAX: u64 = 9;

/// Reads the value of an option of these, and says if it is one. Each but HEADER may be given once.
pub fn option(
    envelope: &mut Envelope,
    option: &[u8],
    args: &mut Args<'_, '_>,
) -> Result<bool, ArgError> {
    if is(option, "HEADER") {
        header(envelope, args)?;
    } else if is(option, "TTL") && envelope.ttl_ms.is_none() {
        let (raw, ttl_ms) = args.raw_ms("TTL", args.rules.delay_max_ms)?;
        if ttl_ms == 0 {
            return Err(bad_delay("TTL", raw, "must be at least 1 ms"));
        }
        envelope.ttl_ms = Some(ttl_ms);
    } else if is(option, "PRIO") && envelope.priority.is_none() {
        let raw = args.value_of("PRIO")?;
        let priority = match raw {
            [digit @ b'0'..=b'9'] => u64::from(digit - b'0'),
            _ => {
                let text = format_args!(
                    "PRIO {} must be a whole number from 0 to {PRIORITY_MAX}",
                    Shown(raw)
                );
                return Err(ArgError::plain(text));
            }
        };
        envelope.priority = Some(priority);
    } else if is(option, "LIMIT") && envelope.limit.is_none() {
        let raw = args.value_of("LIMIT")?;
        let refused = |rule| ArgError::plain(format_args!("LIMIT {} {rule}", Shown(raw)));
        let Value::Number(limit) = LIMIT.parse(raw).map_err(refused)? else {
            return Err(args.unexpected(option));
        };
        envelope.limit = Some(limit);
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// The same where these options come before all else: takes the next one, if it is one of them.
pub fn next(envelope: &mut Envelope, args: &mut Args<'_, '_>) -> Result<bool, ArgError> {
    let words = ["HEADER", "TTL", "PRIO", "LIMIT"];
    match words.into_iter().find(|word| args.takes(word)) {
        None => Ok(false),
        Some(word) if option(envelope, word.as_bytes(), args)? => Ok(true),
        Some(word) => Err(args.unexpected(word.as_bytes())),
    }
}

fn header(envelope: &mut Envelope, args: &mut Args<'_, '_>) -> Result<(), ArgError> {
    let name = args.value_of("HEADER")?;
    let refused = |rule: &str| ArgError::plain(format_args!("header {} {rule}", Shown(name)));
    let value = args.option().ok_or_else(|| refused("has no value"))?;
    if name.is_empty() {
        return Err(refused("must not be empty"));
    }
    if envelope.headers.iter().any(|(known, _)| known == name) {
        return Err(refused("is given twice"));
    }
    let (most, bytes_max) = (args.rules.headers_max, args.rules.headers_bytes_max);
    if envelope.headers.len() == most {
        let text = format_args!("more headers than {most} (limits.headers_max) in one message");
        return Err(ArgError::new("TOOMANY", text));
    }
    envelope.headers.push((Bytes::copy_from_slice(name), Bytes::copy_from_slice(value)));
    let bytes: usize = envelope.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > bytes_max {
        let text = format_args!(
            "the headers up to {} have {bytes} bytes, more than {bytes_max} \
             (limits.headers_bytes_max)",
            Shown(name)
        );
        return Err(ArgError::new("TOOBIG", text));
    }
    Ok(())
}
