//! Kinds of settings: which values a setting takes, in words and as a check, and their type in Rust.

mod number;
mod text;
mod url;

use std::path::PathBuf;

use kafka_producer::Compression;
use outbox_core::Ordering;
use outbox_service::{
    redact::redacted,
    sink::{Unroutable, kafka::Envelope},
};

pub(super) use self::{
    number::{Count, Size, Time},
    text::{File, Filter, HostNames, Identifier, ListenAt, SlotName, Text, Topic, UrlPath},
    url::Url,
};

/// A kind of settings, which a setting's line in the list names as a type.
pub(crate) trait Kind {
    /// The type of the setting's value.
    type Value;
    /// Whether the text must not be shown.
    const IS_SECRET: bool = false;
    /// Whether the value may stand in a file of its own.
    const HAS_FILE: bool = false;

    /// Reads a value. The error says what is wrong, and contains nothing of a secret.
    fn parse(text: &str) -> Result<Self::Value, String>;

    /// Returns the allowed values, in words that follow "expected".
    fn allowed() -> String;

    /// Returns the placeholder of the value in the help text.
    fn placeholder() -> &'static str;

    /// Returns the part of the text that may be shown.
    fn shown(text: &str) -> String {
        redacted(text).escape_debug().to_string()
    }

    /// Takes the value from a file, if [`HAS_FILE`](Self::HAS_FILE), and reads the file now if it is `needed`.
    fn in_file(_: PathBuf, _needed: bool) -> Result<Self::Value, String> {
        Err(expected::<Self>())
    }

    /// Returns the value of a setting without a default that was not given; `None` if it must be given.
    fn absent() -> Option<Self::Value> {
        None
    }
}

/// Returns the error about a text that is none of the allowed values.
pub(super) fn expected<K: Kind + ?Sized>() -> String {
    format!("expected {}", K::allowed())
}

/// The word for a value that is left out.
pub(super) const OFF: &str = "off";

/// A kind whose value may be left out, written as `off`.
pub(crate) struct OrOff<K>(K);

impl<K: Kind> Kind for OrOff<K> {
    type Value = Option<K::Value>;
    const IS_SECRET: bool = K::IS_SECRET;
    const HAS_FILE: bool = K::HAS_FILE;

    fn parse(text: &str) -> Result<Self::Value, String> {
        if text == OFF {
            return Ok(None);
        }
        K::parse(text).map(Some).map_err(|why| why.replace(&K::allowed(), &Self::allowed()))
    }

    fn allowed() -> String {
        format!("{OFF}, or {}", K::allowed())
    }

    fn placeholder() -> &'static str {
        K::placeholder()
    }

    fn shown(text: &str) -> String {
        if text == OFF { OFF.to_owned() } else { K::shown(text) }
    }

    fn in_file(path: PathBuf, needed: bool) -> Result<Self::Value, String> {
        K::in_file(path, needed).map(Some)
    }

    fn absent() -> Option<Self::Value> {
        Some(None)
    }
}

/// Generates kinds from the words for their values.
macro_rules! choice {
    ($($kind:ty { $first:literal => $one:expr $(, $word:literal => $value:expr)+ })+) => {
        $(impl Kind for $kind {
            type Value = Self;

            fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $first => Ok($one),
                    $($word => Ok($value),)+
                    _ => Err(expected::<Self>()),
                }
            }

            fn allowed() -> String {
                let words = Self::placeholder().replace('|', ", ");
                words.rsplit_once(", ").map(|(first, last)| format!("{first} or {last}")).unwrap_or(words)
            }

            fn placeholder() -> &'static str {
                concat!($first $(, "|", $word)+)
            }
        })+
    };
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Whether the later events of a key go on when one event has `FAILED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailed {
    /// Later events go on without the failed one.
    Continue,
    /// Later events wait until an operator replays or releases the failed one.
    Hold,
}

choice! {
    bool { "true" => true, "false" => false }
    Ordering { "strict" => Self::Strict, "pipelined" => Self::Pipelined, "none" => Self::None }
    Envelope { "none" => Self::None, "debezium" => Self::Debezium }
    Unroutable { "fail" => Self::Fail, "retry" => Self::Retry }
    AfterFailed { "continue" => Self::Continue, "hold" => Self::Hold }
    Compression { "none" => Self::None, "gzip" => Self::Gzip, "lz4" => Self::Lz4, "zstd" => Self::Zstd }
    LogFormat { "text" => Self::Text, "json" => Self::Json }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_words_reads_as_a_sentence() {
        assert_eq!(
            (Ordering::allowed(), bool::allowed()),
            ("strict, pipelined or none".into(), "true or false".into())
        );
    }
}
