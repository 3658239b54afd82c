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
        match (one(rest, byte), star) {
            ((true, used), _) => (p, t) = (p + used, t + 1),
            (_, Some((after, from))) => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            (_, None) => return false,
        }
    }
}

/// A pattern that is made ready for many texts: one of n bytes costs each byte of a text n/64
/// steps, whatever the two are.
///
/// All places of the pattern where a match may stand are followed at a time, a bit for each: bit i
/// is set while the elements before the i-th match what was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    text: Vec<u8>,
    /// Of each word of places the elements that match a byte.
    matching: Vec<[u64; 256]>,
    /// Places that hold whatever comes, since a star stands there.
    stars: Vec<u64>,
    /// The place behind all elements.
    end: usize,
}

impl Pattern {
    pub fn new(pattern: &[u8]) -> Self {
        let words = pattern.len() / 64 + 1;
        let (mut matching, mut stars) = (vec![[0; 256]; words], vec![0; words]);
        let (mut rest, mut end) = (pattern, 0);
        while let Some(&first) = rest.first() {
            if first == b'*' {
                set(&mut stars, end);
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            for byte in 0..=u8::MAX {
                let word = matching.get_mut(end / 64).and_then(|of| of.get_mut(usize::from(byte)));
                if let ((true, _), Some(word)) = (one(rest, byte), word) {
                    *word |= 1 << (end % 64);
                }
            }
            let (_, used) = one(rest, first);
            rest = rest.get(used..).unwrap_or_default();
            end += 1;
        }
        Self { text: pattern.to_vec(), matching, stars, end }
    }

    /// Whether all of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut places = vec![0_u64; self.stars.len()];
        set(&mut places, 0);
        for byte in text {
            let (mut carried, mut any) = (0, 0);
            let words = places.iter_mut().zip(&self.matching).zip(&self.stars);
            for ((places, matching), stars) in words {
                let matched = *places & matching.get(usize::from(*byte)).copied().unwrap_or(0);
                *places = (matched << 1) | carried | (*places & stars);
                carried = matched >> 63;
                any |= *places;
            }
            if any == 0 {
                return false;
            }
            if has(&places, self.end) && has(&self.stars, self.end) {
                return true;
            }
        }
        has(&places, self.end)
    }

    /// The steps that each byte of a text takes.
    pub fn words(&self) -> usize {
        self.stars.len()
    }
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pattern").field(&self.text).finish()
    }
}

fn set(words: &mut [u64], bit: usize) {
    if let Some(word) = words.get_mut(bit / 64) {
        *word |= 1 << (bit % 64);
    }
}

fn has(words: &[u64], bit: usize) -> bool {
    words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
}

/// Whether it matches one of the patterns.
pub fn any_matches(patterns: &[impl AsRef<[u8]>], text: &[u8]) -> bool {
    patterns.iter().any(|pattern| matches(pattern.as_ref(), text))
}

/// Whether the first element of a pattern matches this one byte, and how long it is in any case.
fn one(pattern: &[u8], byte: u8) -> (bool, usize) {
    match *pattern {
        [] => (false, 0),
        [b'?', ..] => (true, 1),
        [b'[', ref class @ ..] => {
            let (within, used) = in_class(class, byte);
            (within, 1 + used)
        }
        [b'\\', escaped, ..] => (escaped == byte, 2),
        [literal, ..] => (literal == byte, 1),
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
    use super::{Pattern, matches};

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
            let got = Pattern::new(pattern.as_bytes()).matches(text.as_bytes());
            assert_eq!(got, *wanted, "ready: {pattern:?} {text:?}");
        }
    }

    /// The two agree on all short patterns and texts of a few bytes, and where a pattern fills
    /// words of 64 places exactly.
    #[test]
    fn ready_ones_match_alike() {
        let words = |alphabet: &[u8], most: u32| -> Vec<Vec<u8>> {
            let lengths = (0..=most)
                .flat_map(|length| (0..alphabet.len().pow(length)).map(move |n| (n, length)));
            let word = |(n, length): (usize, u32)| {
                (0..length)
                    .map(|at| alphabet[n / alphabet.len().pow(at) % alphabet.len()])
                    .collect()
            };
            lengths.map(word).collect()
        };
        let texts = words(b"ab-]", 4);
        for pattern in words(b"a*?[]^-\\", 4) {
            let ready = Pattern::new(&pattern);
            for text in &texts {
                assert_eq!(ready.matches(text), matches(&pattern, text), "{pattern:?} {text:?}");
            }
        }
        for length in [62, 63, 64, 65, 127, 128, 129] {
            for pattern in [vec![b'a'; length], [&b"*"[..], &vec![b'a'; length], b"*"].concat()] {
                let ready = Pattern::new(&pattern);
                for text in [length - 1, length, length + 1].map(|size| vec![b'a'; size]) {
                    assert_eq!(ready.matches(&text), matches(&pattern, &text), "{length} {text:?}");
                }
            }
        }
    }

    /// A class that matches nothing, so that none of its bytes says how long it is: it is one
    /// element all the same, and what stands in it is none.
    #[test]
    fn a_class_that_matches_nothing() {
        let nested = "[^".repeat(510) + "\x00-\u{7f}\u{80}";
        assert_eq!(super::one(nested.as_bytes(), b'[').1, nested.len());
        assert_eq!(Pattern::new(nested.as_bytes()).end, 1);
    }

    /// What takes exponential time in matchers that recurse at each star.
    #[test]
    fn many_stars_end() {
        let (pattern, text) = ("a*".repeat(200) + "b", "a".repeat(4_000));
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
