//! libpq's TLS options, taken out of a connection string: tokio-postgres reads the rest, and refuses most TLS options.

use std::ops::Range;

use percent_encoding::percent_decode_str;

const TLS_OPTIONS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

/// A connection string in two parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The string without its TLS options.
    pub(crate) rest: String,
    /// The TLS options, decoded, in the order in which they were written.
    pub(crate) tls: Vec<(String, String)>,
}

/// Splits a URL or a list of `key=value`. Unreadable parts stay in the rest, for tokio-postgres to refuse.
pub(crate) fn split(text: &str) -> Parts {
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
    if is_url { split_url(text) } else { split_pairs(text) }
}

fn split_url(url: &str) -> Parts {
    // Parameters begin behind the credentials, because a password may contain a question mark.
    let credentials = url.find('@').map_or(0, |at| at + 1);
    let query = url.get(credentials..).and_then(|rest| rest.find('?')).map_or(url.len(), |at| credentials + at);
    let (base, query) = url.split_at(query);
    let mut tls = Vec::new();
    let mut others = Vec::new();
    for pair in query.trim_start_matches('?').split('&') {
        let decode = |text| Some(percent_decode_str(text).decode_utf8().ok()?.into_owned());
        match pair.split_once('=').and_then(|(key, value)| Some((decode(key)?, decode(value)?))) {
            Some((key, value)) if TLS_OPTIONS.contains(&key.as_str()) => tls.push((key, value)),
            _ => others.push(pair),
        }
    }
    if tls.is_empty() {
        return Parts { rest: url.to_owned(), tls };
    }
    let others = others.join("&");
    let rest = if others.is_empty() { base.to_owned() } else { format!("{base}?{others}") };
    Parts { rest, tls }
}

fn split_pairs(text: &str) -> Parts {
    let mut tls = Vec::new();
    let mut rest = String::new();
    let mut kept = 0; // text before this is in `rest` or was taken out
    let mut at = 0;
    while let Some((key, value, span)) = pair(text, at) {
        at = span.end;
        if TLS_OPTIONS.contains(&key) {
            rest.push_str(text.get(kept..span.start).unwrap_or_default());
            kept = span.end;
            tls.push((key.to_owned(), value));
        }
    }
    rest.push_str(text.get(kept..).unwrap_or_default());
    Parts { rest, tls }
}

/// Reads the next `key = value` from `at` on: key, unquoted value, and the pair's place. `None` at the end, and for
/// text that is no pair.
fn pair(text: &str, at: usize) -> Option<(&str, String, Range<usize>)> {
    let from = text.get(at..)?;
    let start = at + (from.len() - from.trim_start().len());
    let (key, value) = text.get(start..)?.split_once('=')?;
    let (value, used) = unquote(value.trim_start())?;
    let end = text.len() - (text.get(start..)?.split_once('=')?.1.trim_start().len() - used);
    let key = key.trim_end();
    (!key.contains(char::is_whitespace)).then_some((key, value, start..end))
}

/// Reads one value, `'quoted with \' and spaces'` or plain. Returns the value and how many bytes it took.
fn unquote(text: &str) -> Option<(String, usize)> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut letters = text.char_indices().skip(usize::from(quoted));
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' if quoted => return Some((value, at + 1)),
            _ if !quoted && letter.is_whitespace() => return Some((value, at)),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            _ => value.push(letter),
        }
    }
    if quoted { None } else { Some((value, text.len())) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, rest: &str, tls: &[(&str, &str)]) {
        let tls = tls.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(split(text), Parts { rest: rest.to_owned(), tls }, "{text}");
    }

    #[test]
    fn the_tls_options_of_a_url_are_taken_out() {
        check("postgres://u:p@h:1/d", "postgres://u:p@h:1/d", &[]);
        check("postgres://h/d?sslmode=require", "postgres://h/d", &[("sslmode", "require")]);
        check(
            "postgresql://u:p@h/d?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fetc%2Fa%20b.pem",
            "postgresql://u:p@h/d?connect_timeout=3",
            &[("sslmode", "verify-full"), ("sslrootcert", "/etc/a b.pem")],
        );
    }

    #[test]
    fn a_password_may_hold_what_looks_like_a_query() {
        check("postgres://u:a?sslmode=b@h/d?sslmode=prefer", "postgres://u:a?sslmode=b@h/d", &[("sslmode", "prefer")]);
    }

    #[test]
    fn the_tls_options_of_a_list_are_taken_out() {
        check("host=h sslmode=require user=u", "host=h  user=u", &[("sslmode", "require")]);
        check(
            r"sslrootcert = '/a b/it\'s.pem' host=h password='sslmode=x'",
            " host=h password='sslmode=x'",
            &[("sslrootcert", "/a b/it's.pem")],
        );
    }

    #[test]
    fn what_cannot_be_read_is_left_to_be_refused() {
        for text in ["", "nonsense", "host=h password='open", "a b=c sslmode=require", "postgres://h/d?sslmode"] {
            check(text, text, &[]);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_lose_other_options(text in r"(postgres://)?[a-zé=' \\%&?@/]{0,40}( sslmode=x)?") {
            let parts = split(&text);
            prop_assert!(!parts.tls.is_empty() || parts.rest == text);
        }
    }
}
