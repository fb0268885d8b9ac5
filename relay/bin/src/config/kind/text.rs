//! Texts that are taken as they are, each with a check.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use outbox_service::{
    redact::{file_name, is_url},
    sink::kafka::TopicTemplate,
};
use tracing_subscriber::EnvFilter;

use super::{Kind, expected};

/// Generates kinds of text: type of the value, placeholder, allowed values in words, and how a text is read.
macro_rules! text {
    ($(#[doc = $doc:literal]
       $name:ident $(<$max:ident>)?: $value:ty, $placeholder:literal, $allowed:expr, $parse:expr $(, $shown:expr)?;)+) => {
        $(
            #[doc = $doc]
            pub(crate) struct $name$(<const $max: usize>)?;

            impl$(<const $max: usize>)? Kind for $name$(<$max>)? {
                type Value = $value;

                fn parse(text: &str) -> Result<$value, String> {
                    $parse(text).ok_or_else(expected::<Self>)
                }

                fn allowed() -> String {
                    format!($allowed)
                }

                fn placeholder() -> &'static str {
                    $placeholder
                }

                $(fn shown(text: &str) -> String {
                    $shown(text)
                })?
            }
        )+
    };
}

text! {
    /// Printable text; 255 bytes are AMQP's limit for a short string.
    Text<MAX>: String, "NAME", "1 to {MAX} bytes, no control characters", |text| kept(text, is_printable(text, MAX));
    /// PostgreSQL's own rule for names of replication slots.
    SlotName: String, "NAME", "1 to 63 of the characters a-z, 0-9 and _", |text| kept(text, is_slot_name(text));
    /// A template of Kafka's topics.
    Topic: TopicTemplate, "TOPIC", "letters, digits, ., _ and - (not . or .. alone), with {{topic}}, {{aggregate_type}} and {{type}}", |text: &str| text.parse().ok();
    /// Name of a file of at most 4096 bytes (Linux: PATH_MAX).
    File: PathBuf, "FILE", "the name of a file, of up to 4096 bytes",
        |text| (is_printable(text, 4096) && !is_url(text)).then(|| text.into()),
        |text: &str| file_name(text.as_ref()).escape_debug().to_string();
    /// Names of hosts, with commas between.
    HostNames: String, "NAMES", "names such as outbox.example, with commas between, without scheme, port or wildcard",
        |text: &str| kept(text, text.len() <= 4096 && text.split(',').all(|name| is_host_name(name.trim())));
    /// Part of a URL.
    UrlPath: String, "PATH",
        "/ or a path such as /ops/outbox, of letters, digits, -, _, . and /, but not /metrics, /healthz or /readyz",
        |text| kept(text, is_path(text));
    /// Directives of `tracing-subscriber`'s `EnvFilter`.
    Filter: String, "FILTER", "off, error, warn, info, debug or trace, or target=level pairs, with commas only",
        |text| kept(text, is_filter(text));
    /// An address of this machine to listen on.
    ListenAt: SocketAddr, "PORT", "a port (of the loopback address), or address:port", |text: &str| {
        let port = text.parse::<u16>().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        port.ok().or_else(|| text.parse().ok())
    };
}

/// A name that PostgreSQL would cut off after 63 bytes.
pub(crate) type Identifier = Text<63>;

fn kept(text: &str, is_allowed: bool) -> Option<String> {
    is_allowed.then(|| text.to_owned())
}

fn is_printable(text: &str, max_bytes: usize) -> bool {
    (1..=max_bytes).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn is_slot_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
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

    fn check<K: Kind>(good: &[&str], bad: &[&str]) {
        for (texts, is_good) in [(good, true), (bad, false)] {
            for text in texts {
                assert_eq!(K::parse(text).is_ok(), is_good, "{text:?}");
            }
        }
    }

    #[test]
    fn a_slot_is_named_as_postgresql_allows() {
        check::<SlotName>(&["outbox", "outbox_2", &"a".repeat(63)], &["", "Outbox", "out-box", "ö", &"a".repeat(64)]);
    }

    #[test]
    fn host_names_are_what_a_browser_sends_with_commas_between() {
        check::<HostNames>(
            &["localhost", "outbox.example, Other-1.example", "a_b", "xn--bcher-kva.example", "10.0.0.7"],
            &["", "*", "*.example", "a b", "a,", ",", "a,,b", "a.", "a:80", "http://a", "[::1]", "bücher.example"],
        );
    }

    #[test]
    fn a_path_is_plain_parts_between_slashes() {
        check::<UrlPath>(
            &["/", "/outbox", "/ops/outbox/", "/a-b/c_d/e.f", "/metrics/outbox", "/api"],
            &["", "outbox", "//", "/a//b", "/..", "/{x}", "/a b", "/%2e", "/ö", &"/a".repeat(200)],
        );
        check::<UrlPath>(&[], &["/metrics", "/metrics/", "/healthz", "/readyz"]);
    }

    #[test]
    fn text_is_limited_in_bytes_and_printable() {
        check::<Text<255>>(&[&"ö".repeat(127)], &["", "a\nb", "a\0", "\u{1b}[31m", &"ö".repeat(128)]);
    }

    #[test]
    fn a_misspelled_level_is_refused_instead_of_silencing_the_relay() {
        check::<Filter>(
            &["info", "WARN", "off", "info,relay=debug", "relay=trace", "info,relay[{id}]=debug"],
            &["", "inof", "info,", "relay=loud", "info relay=debug", "info, relay=debug", "relay"],
        );
    }

    #[test]
    fn a_port_alone_is_one_of_the_loopback_address() {
        let at = |address: &str| Ok(address.parse().unwrap());
        assert_eq!(ListenAt::parse("9187"), at("127.0.0.1:9187"));
        assert_eq!(ListenAt::parse("0.0.0.0:9187"), at("0.0.0.0:9187"));
        assert_eq!(ListenAt::parse("[::1]:9187"), at("[::1]:9187"));
        check::<ListenAt>(&[], &["", "on", "localhost:9187", "127.0.0.1", "65536", ":9187", " 9187"]);
    }
}
