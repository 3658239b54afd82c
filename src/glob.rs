//! Patterns as Redis's KEYS takes them: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a character that stands for itself.

/// Whether all of `text` fits `pattern`. Linear but for the last `*`, so no pattern can hold up the broker.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last `*` does not fit: one byte further.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p + 1, t));
            p += 1;
            continue;
        }
        let fits = match (text.get(t), pattern.get(p)) {
            (None, None) => return true,
            (Some(&byte), Some(_)) => one(pattern.get(p..).unwrap_or_default(), byte),
            _ => None,
        };
        match (fits, retry) {
            (Some(used), _) => (p, t) = (p + used, t + 1),
            (None, Some((after, from))) if from < text.len() => {
                retry = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// How many bytes of the pattern one byte of the text used up, if it fits.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', set @ ..] => {
            let (negated, set, start) = match set {
                [b'^', rest @ ..] => (true, rest, 2),
                _ => (false, set, 1),
            };
            let end = set
                .iter()
                .skip(1)
                .position(|&c| c == b']')
                .map_or(set.len(), |at| at + 1);
            let mut members = set.get(..end)?;
            let mut found = false;
            while let Some(&low) = members.first() {
                let (high, used) = match members {
                    [_, b'-', high, ..] => (*high, 3),
                    _ => (low, 1),
                };
                found |= (low.min(high)..=low.max(high)).contains(&byte);
                members = members.get(used..)?;
            }
            (found != negated).then_some(start + end + 1)
        }
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn table() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("*b*b", "abab", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("q:[0-9]", "q:7", true),
            ("q:[0-9]", "q:x", false),
            ("[^a]b", "cb", true),
            ("[^a]b", "ab", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[ab", "a", true),
            ("a*", "b", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} on {text}"
            );
        }
        assert!(!matches(
            "*a".repeat(200).as_bytes(),
            "b".repeat(100_000).as_bytes()
        ));
    }
}
