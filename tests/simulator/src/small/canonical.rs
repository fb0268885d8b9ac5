//! States that are alike have one fingerprint: what is printed of them, but for numbers of which only the order means something.
//!
//! | in the text | what counts |
//! |---|---|
//! | log positions, transaction ids | their order among all of the state |
//! | numbers of events, messages and passes | their order among their kind |
//! | tickets | the distance from the first that is open |
//! | times to come | their order |
//! | times gone by | whether the pause between status updates, and `park_after`, have passed since |

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

/// Transaction ids of a small world begin here, so that they are known by their size.
pub(super) const FIRST_XID: u64 = 1_000_000;
/// So do log positions.
pub(super) const FIRST_LSN: u64 = 2_000_000;
/// And larger numbers are hashes.
const FIRST_HASH: i128 = 3_000_000;
/// Where times gone by are told apart, in nanoseconds.
const PAUSES: [i128; 2] = [100_000_000, 1_000_000_000];

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Xid,
    Lsn,
    Event,
    Message,
    Pass,
    Ticket,
    Past,
    Future,
}

/// The fingerprint of what is printed at this time (an `Instant`, printed as well).
pub(super) fn fingerprint(text: &str, now: &str) -> u64 {
    let now = instant(now).map_or(0, |(nanos, _)| nanos);
    let text = sorted(text);
    let parts = parts(&text, now);
    let mut values: BTreeMap<Kind, BTreeSet<i128>> = BTreeMap::new();
    for (_, number) in &parts {
        if let Some((kind, value)) = number {
            values.entry(*kind).or_default().insert(*value);
        }
    }
    let rank = |kind: Kind, value: i128| -> i128 {
        match kind {
            // The first is the one that `Progress` prints as `first`; earlier ones are all alike.
            Kind::Ticket => value.max(-1),
            Kind::Past => PAUSES.iter().filter(|pause| -value >= **pause).count() as i128,
            _ => values.get(&kind).map_or(0, |values| values.range(..value).count() as i128),
        }
    };
    let mut hasher = DefaultHasher::new();
    for (text, number) in parts {
        text.hash(&mut hasher);
        number.map(|(kind, value)| (kind, rank(kind, value))).hash(&mut hasher);
    }
    hasher.finish()
}

/// The same text with the entries of maps and sets in order: `{a: 1, b: 2}`, where a struct would be `Name { a: 1, b: 2 }`.
fn sorted(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    // Of each map that is open: what stands before it, and its entries so far.
    let mut maps: Vec<(String, Vec<String>)> = Vec::new();
    let mut are_maps = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '[', '(', '}', ']', ')', ',']) {
        let (before, from) = rest.split_at(at);
        let (mark, behind) = from.split_at(1);
        whole.push_str(before);
        rest = behind;
        match mark {
            "{" | "[" | "(" => {
                whole.push_str(mark);
                let is_map = mark == "{" && !behind.starts_with([' ', '}']);
                are_maps.push(is_map);
                if is_map {
                    maps.push((std::mem::take(&mut whole), Vec::new()));
                }
            }
            "," if are_maps.last() == Some(&true) => {
                rest = behind.trim_start_matches(' ');
                if let Some((_, entries)) = maps.last_mut() {
                    entries.push(std::mem::take(&mut whole));
                }
            }
            "," => whole.push_str(mark),
            _ => {
                if are_maps.pop() == Some(true)
                    && let Some((before, mut entries)) = maps.pop()
                {
                    entries.push(std::mem::replace(&mut whole, before));
                    entries.sort_unstable();
                    whole.push_str(&entries.join(", "));
                }
                whole.push_str(mark);
            }
        }
    }
    whole + rest
}

/// The text between the numbers that count something, each with the number behind it.
fn parts(text: &str, now: i128) -> Vec<(&str, Option<(Kind, i128)>)> {
    let first_ticket = text.split("first: ").nth(1).and_then(number).map_or(0, |(value, _)| value);
    let mut parts = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while let Some(letter) = text.as_bytes().get(at) {
        let counted = match letter {
            b'0'..=b'9' => number(&text[at..]).and_then(|(value, length)| {
                let kind = kind(&text[..at], value)?;
                Some((kind, if kind == Kind::Ticket { value - first_ticket } else { value }, length))
            }),
            b'I' if text[at..].starts_with("Instant {") => instant(&text[at..]).map(|(nanos, length)| {
                let value = nanos - now;
                (if value > 0 { Kind::Future } else { Kind::Past }, value, length)
            }),
            _ => None,
        };
        if let Some((kind, value, length)) = counted {
            parts.push((&text[begin..at], Some((kind, value))));
            at += length;
            begin = at;
        } else {
            // A word that is none of these is passed as a whole: ids have digits in them.
            at += word(&text[at..]).len().max(1);
        }
    }
    parts.push((&text[begin..], None));
    parts
}

/// What the number behind this text counts, if it is one of those that are counted.
fn kind(before: &str, value: i128) -> Option<Kind> {
    let ends = |names: &[&str]| names.iter().any(|name| before.ends_with(name));
    match value {
        FIRST_HASH.. => None,
        _ if value >= i128::from(FIRST_LSN) => Some(Kind::Lsn),
        _ if value >= i128::from(FIRST_XID) => Some(Kind::Xid),
        _ if ends(&[" order: ", " admitted: ", "Reverse(("]) => Some(Kind::Event),
        _ if ends(&[" number: ", " published: ", " confirmed: ", " after: "]) => Some(Kind::Message),
        _ if ends(&[" passes: ", " left_in: "]) => Some(Kind::Pass),
        _ if ends(&[" first: ", "Ticket("]) => Some(Kind::Ticket),
        _ => None,
    }
}

/// The number at the beginning of the text, and its length; not one that is the beginning of a longer word.
fn number(text: &str) -> Option<(i128, usize)> {
    let word = word(text);
    Some((word.parse().ok()?, word.len()))
}

fn word(text: &str) -> &str {
    let is_in_word = |letter: &u8| letter.is_ascii_alphanumeric() || *letter == b'-';
    &text[..text.bytes().take_while(|letter| is_in_word(letter)).count()]
}

/// The time that is printed at the beginning of the text, in nanoseconds, and its length.
fn instant(text: &str) -> Option<(i128, usize)> {
    let end = text.find('}')?;
    let mut numbers = text.get(..end)?.split([' ', ',']).filter_map(|word| word.parse::<i128>().ok());
    Some((numbers.next()? * 1_000_000_000 + numbers.next()?, end + 1))
}
