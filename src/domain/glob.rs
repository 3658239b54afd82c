//! Redis's glob patterns: `*`, `?`, `[a-z]`, `[^a]`, and `\` before any of them.
//!
//! Linear memory and no recursion: a star falls back to the latest star only, so a pattern that a
//! client chose costs at most pattern times text.

/// Whether all of `text` matches `pattern`; bytes, no character sets.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the latest star fits nowhere yet.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let rest = pattern.get(p..).unwrap_or_default();
        let Some(&byte) = text.get(t) else {
            return rest.iter().all(|&b| b == b'*');
        };
        if rest.first() == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        match one(rest, byte) {
            Some(used) => (p, t) = (p + used, t + 1),
            None => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    (p, t) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
}

/// Whether it matches one of the patterns.
pub fn any_matches(patterns: &[impl AsRef<[u8]>], text: &[u8]) -> bool {
    patterns.iter().any(|pattern| matches(pattern.as_ref(), text))
}

/// How much of the pattern matches this one byte, if its front does.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ref class @ ..] => {
            let (within, used) = in_class(class, byte);
            within.then_some(1 + used)
        }
        [b'\\', escaped, ..] => (escaped == byte).then_some(2),
        [literal, ..] => (literal == byte).then_some(1),
    }
}

/// A class without `]` ends with the pattern, and `]` behind `-` ends a range, as in Redis.
fn in_class(class: &[u8], byte: u8) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut used = usize::from(negated);
    let mut found = false;
    loop {
        match *class.get(used..).unwrap_or_default() {
            [] => break,
            [b']', ..] => {
                used += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                used += 2;
            }
            [low, b'-', high, ..] => {
                found |= (low.min(high)..=low.max(high)).contains(&byte);
                used += 3;
            }
            [literal, ..] => {
                found |= literal == byte;
                used += 1;
            }
        }
    }
    (found != negated, used)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn as_redis_does() {
        let rows: &[(&str, &str, bool)] = &[
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("mail:*", "mail:1", true),
            ("mail:*", "mai", false),
            ("*:1", "mail:1:1", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            ("[a-]", "]", true),
            ("[a-]", "-", false),
            ("[]]", "]", false),
            ("[\\]]", "]", true),
            ("[a", "a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
        ];
        for (pattern, text, wanted) in rows {
            let got = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(got, *wanted, "{pattern:?} {text:?}");
        }
    }

    /// What takes exponential time in matchers that recurse at each star.
    #[test]
    fn many_stars_end() {
        let (pattern, text) = ("a*".repeat(200) + "b", "a".repeat(4_000));
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
