//! Rules: the values that a setting takes, in words and as a check.

use std::{ops::RangeInclusive, time::Duration};

use outbox_service::redact::{holds_login, is_url};
use tracing_subscriber::EnvFilter;

use super::units::{TIME_UNITS, parse_size, parse_time, show_size, show_time};

/// Longest file name in bytes (Linux: PATH_MAX).
const LONGEST_PATH: usize = 4096;

/// The values that a setting takes.
#[derive(Debug)]
pub(crate) enum Rule {
    /// Whole numbers.
    Count(RangeInclusive<u64>),
    /// Whole numbers, or `off`.
    CountOrOff(RangeInclusive<u64>),
    /// Bytes.
    Size(RangeInclusive<u64>),
    /// Bytes, or `off`.
    SizeOrOff(RangeInclusive<u64>),
    /// Lengths of time.
    Time(RangeInclusive<Duration>),
    /// Lengths of time, or `off`.
    TimeOrOff(RangeInclusive<Duration>),
    /// `true` or `false`.
    Switch,
    /// One word of a list.
    Choice(&'static [&'static str]),
    /// PostgreSQL's own rule for names of replication slots.
    SlotName,
    /// A name that PostgreSQL would cut off after 63 bytes.
    Identifier,
    /// Printable text.
    Text {
        /// Most bytes; 255 is AMQP's limit for a short string.
        max_bytes: usize,
    },
    /// A server's address with credentials: never shown.
    Url {
        /// Its form, as an example.
        form: &'static str,
        /// Returns the part that may be shown, or why the value is wrong; both without its secrets.
        check: fn(&str) -> Result<String, String>,
    },
    /// A secret such as a key: never shown.
    Secret {
        /// Its form, as an example.
        form: &'static str,
        /// The same as for a server's address.
        check: fn(&str) -> Result<String, String>,
    },
    /// Name of a file, or `off`.
    File,
    /// Names of hosts, with commas between.
    HostNames,
    /// Part of a URL.
    UrlPath,
    /// Directives of `tracing-subscriber`'s `EnvFilter`.
    Filter,
    /// An address of this machine to listen on, or `off`.
    Listen,
}

impl Rule {
    /// Whether the value must not be shown.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self, Self::Url { .. } | Self::Secret { .. })
    }

    /// Returns the allowed values, in words that follow "expected".
    pub(crate) fn allowed(&self) -> String {
        match self {
            Self::Count(range) => format!("a whole number from {} to {}", range.start(), range.end()),
            Self::CountOrOff(range) => format!("off, or a whole number from {} to {}", range.start(), range.end()),
            Self::Size(range) => {
                format!("a size from {} to {} (B, KiB, MiB or GiB)", show_size(*range.start()), show_size(*range.end()))
            }
            Self::SizeOrOff(range) => {
                let (least, most) = (show_size(*range.start()), show_size(*range.end()));
                format!("off, or a size from {least} to {most} (B, KiB, MiB or GiB)")
            }
            Self::Time(range) => {
                format!("a time from {} to {} ({TIME_UNITS})", show_time(*range.start()), show_time(*range.end()))
            }
            Self::TimeOrOff(range) => {
                let (least, most) = (show_time(*range.start()), show_time(*range.end()));
                format!("off, or a time from {least} to {most} ({TIME_UNITS})")
            }
            Self::Switch => "true or false".to_owned(),
            Self::Choice(words) => match words {
                [first @ .., last] => format!("{} or {last}", first.join(", ")),
                [] => String::new(),
            },
            Self::SlotName => "1 to 63 of the characters a-z, 0-9 and _".to_owned(),
            Self::Identifier => "1 to 63 bytes, no control characters".to_owned(),
            Self::Text { max_bytes } => format!("1 to {max_bytes} bytes, no control characters"),
            Self::Url { form, .. } => format!("a URL such as {form}"),
            Self::Secret { form, .. } => (*form).to_owned(),
            Self::File => format!("the name of a file, of up to {LONGEST_PATH} bytes"),
            Self::HostNames => {
                "names such as outbox.example, with commas between, without scheme, port or wildcard".to_owned()
            }
            Self::UrlPath => "/ or a path such as /ops/outbox, of letters, digits, -, _, . and /, but not /metrics, /healthz or /readyz".to_owned(),
            Self::Filter => {
                "off, error, warn, info, debug or trace, or target=level pairs, with commas only".to_owned()
            }
            Self::Listen => "off, a port (of the loopback address), or address:port".to_owned(),
        }
    }

    /// Returns the placeholder of the value in the help text.
    pub(crate) fn placeholder(&self) -> String {
        match self {
            Self::Count(_) | Self::CountOrOff(_) => "N".to_owned(),
            Self::Size(_) | Self::SizeOrOff(_) => "SIZE".to_owned(),
            Self::Time(_) | Self::TimeOrOff(_) => "TIME".to_owned(),
            Self::Switch => "true|false".to_owned(),
            Self::Choice(words) => words.join("|"),
            Self::SlotName | Self::Identifier | Self::Text { .. } => "NAME".to_owned(),
            Self::Url { .. } => "URL".to_owned(),
            Self::Secret { .. } => "TEXT".to_owned(),
            Self::File => "FILE".to_owned(),
            Self::HostNames => "NAMES".to_owned(),
            Self::UrlPath => "PATH".to_owned(),
            Self::Filter => "FILTER".to_owned(),
            Self::Listen => "PORT".to_owned(),
        }
    }

    /// Returns the number that `text` means, of a count or a size; `None` if the rule does not allow it.
    pub(super) fn number(&self, text: &str) -> Option<u64> {
        let (number, range) = match self {
            Self::Count(range) | Self::CountOrOff(range) => (parse_count(text)?, range),
            Self::Size(range) | Self::SizeOrOff(range) => (parse_size(text)?, range),
            _ => return None,
        };
        range.contains(&number).then_some(number)
    }

    /// Returns the time that `text` means; `None` if the rule does not allow it.
    pub(super) fn time(&self, text: &str) -> Option<Duration> {
        let (Self::Time(range) | Self::TimeOrOff(range)) = self else { return None };
        parse_time(text).filter(|time| range.contains(time))
    }

    /// Whether `text` is allowed by a rule that takes text as it is.
    pub(super) fn takes(&self, text: &str) -> bool {
        // A login would be shown if it were accepted: in the log, in pg_stat_activity, to the broker.
        if holds_login(text) {
            return false;
        }
        match self {
            Self::SlotName => {
                (1..=63).contains(&text.len())
                    && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            }
            Self::Identifier => is_printable(text, 63),
            Self::Text { max_bytes } => is_printable(text, *max_bytes),
            Self::File => is_printable(text, LONGEST_PATH) && !is_url(text),
            Self::HostNames => text.len() <= 4096 && text.split(',').all(|name| is_host_name(name.trim())),
            Self::UrlPath => is_path(text),
            Self::Filter => is_filter(text),
            _ => false,
        }
    }
}

/// Parses digits only: `from_str` alone would accept a plus sign.
fn parse_count(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn is_printable(text: &str, max_bytes: usize) -> bool {
    (1..=max_bytes).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// Whether the name has the form in which browsers send it: labels of ASCII with dots between.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Paths that `http_listen` serves beside the dashboard.
const TAKEN_PATHS: [&str; 3] = ["metrics", "healthz", "readyz"];

/// Whether the path has only plain parts between single slashes, which no router or proxy interprets.
fn is_path(text: &str) -> bool {
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let parts = text.strip_prefix('/').map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    text == "/"
        || text.len() <= 255
            && parts.is_some_and(|parts| !TAKEN_PATHS.contains(&parts) && parts.split('/').all(is_plain))
}

/// Whether a lone word is a level, and no directive contains a space. `EnvFilter` takes any other lone word for a
/// target, so `inof` would silence the relay; a space would become part of a target's name.
fn is_filter(text: &str) -> bool {
    const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
    let is_directive = |part: &str| {
        part.contains(['=', '[', ']', '{', '}']) || LEVELS.iter().any(|level| part.eq_ignore_ascii_case(level))
    };
    !text.contains(char::is_whitespace) && text.split(',').all(is_directive) && EnvFilter::builder().parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_digits_within_its_range() {
        let rule = Rule::Count(1..=1000);
        assert_eq!(rule.number("1"), Some(1));
        assert_eq!(rule.number("1000"), Some(1000));
        for bad in ["", "0", "1001", "-1", "+1", "1.5", "1_000", " 1", "ten", "99999999999999999999999"] {
            assert_eq!(rule.number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_slot_is_named_as_postgresql_allows() {
        for good in ["outbox", "outbox_2", &"a".repeat(63)] {
            assert!(Rule::SlotName.takes(good), "{good:?}");
        }
        for bad in ["", "Outbox", "out-box", "ö", &"a".repeat(64)] {
            assert!(!Rule::SlotName.takes(bad), "{bad:?}");
        }
    }

    #[test]
    fn host_names_are_what_a_browser_sends_with_commas_between() {
        for good in ["localhost", "outbox.example, Other-1.example", "a_b", "xn--bcher-kva.example", "10.0.0.7"] {
            assert!(Rule::HostNames.takes(good), "{good:?}");
        }
        for bad in ["", "*", "*.example", "a b", "a,", ",", "a,,b", "a.", "a:80", "http://a", "[::1]", "bücher.example"]
        {
            assert!(!Rule::HostNames.takes(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_path_is_plain_parts_between_slashes() {
        for good in ["/", "/outbox", "/ops/outbox/", "/a-b/c_d/e.f", "/metrics/outbox", "/api"] {
            assert!(Rule::UrlPath.takes(good), "{good:?}");
        }
        for bad in ["", "outbox", "//", "/a//b", "/..", "/{x}", "/a b", "/%2e", "/ö", &"/a".repeat(200)] {
            assert!(!Rule::UrlPath.takes(bad), "{bad:?}");
        }
        for bad in ["/metrics", "/metrics/", "/healthz", "/readyz"] {
            assert!(!Rule::UrlPath.takes(bad), "{bad:?}");
        }
    }

    #[test]
    fn text_is_limited_in_bytes_and_printable() {
        let rule = Rule::Text { max_bytes: 255 };
        assert!(rule.takes(&"ö".repeat(127)));
        for bad in ["", "a\nb", "a\0", "\u{1b}[31m", &"ö".repeat(128)] {
            assert!(!rule.takes(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_misspelled_level_is_refused_instead_of_silencing_the_relay() {
        for good in ["info", "WARN", "off", "info,relay=debug", "relay=trace", "info,relay[{id}]=debug"] {
            assert!(Rule::Filter.takes(good), "{good:?}");
        }
        for bad in ["", "inof", "info,", "relay=loud", "info relay=debug", "info, relay=debug", "relay"] {
            assert!(!Rule::Filter.takes(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_list_of_words_reads_as_a_sentence() {
        assert_eq!(Rule::Choice(&["strict", "pipelined", "none"]).allowed(), "strict, pipelined or none");
    }
}
