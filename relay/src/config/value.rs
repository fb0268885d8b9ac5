//! From the text of a setting to its typed value.

use std::{fmt, time::Duration};

use super::rule::Rule;
use crate::dispatch::Ordering;

/// A value that holds a password: it has no `Display`, and `Debug` hides it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that needs it. Never for a log line or an error.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// What becomes of an event that no queue is bound for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroutable {
    /// It is `FAILED` at once.
    Fail,
    /// It is tried again, as after a nack.
    Retry,
}

/// What becomes of the later events of a key when one has `FAILED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailed {
    /// They go on without it.
    Continue,
    /// They wait until an operator decides.
    Hold,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The type of a setting's value.
pub(super) trait Value: Sized {
    /// Reads `text` if `rule` allows it. The error says what was expected, and repeats nothing of a secret.
    fn read(rule: &Rule, text: &str) -> Result<Self, String>;

    /// What stands for a value that is not given and not needed.
    fn unneeded() -> Option<Self> {
        None
    }
}

fn expected<T>(rule: &Rule, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| format!("expected {}", rule.allowed()))
}

fn whole<T: TryFrom<u64>>(rule: &Rule, text: &str) -> Result<T, String> {
    expected(rule, rule.number(text).and_then(|number| number.try_into().ok()))
}

impl Value for usize {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        whole(rule, text)
    }
}

impl Value for u32 {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        whole(rule, text)
    }
}

impl Value for Duration {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        expected(rule, rule.time(text))
    }
}

impl Value for bool {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        expected(rule, text.parse().ok())
    }
}

impl Value for String {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        expected(rule, rule.takes(text).then(|| text.to_owned()))
    }
}

impl Value for Secret {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        match rule {
            Rule::Url { check, .. } => check(text).map(|_| Self::new(text)),
            _ => expected(rule, None),
        }
    }

    fn unneeded() -> Option<Self> {
        Some(Self::default())
    }
}

/// An enum whose variants are words: the rule and the reading of it come from one list.
macro_rules! choice {
    ($rule:ident: $type:ty { $($word:literal => $variant:expr),+ $(,)? }) => {
        pub(super) const $rule: Rule = Rule::Choice(&[$($word),+]);

        impl Value for $type {
            fn read(rule: &Rule, text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok($variant),)+
                    _ => expected(rule, None),
                }
            }
        }
    };
}

choice!(ORDERING: Ordering {
    "strict" => Ordering::Strict,
    "pipelined" => Ordering::Pipelined,
    "none" => Ordering::None,
});
choice!(UNROUTABLE: Unroutable { "fail" => Unroutable::Fail, "retry" => Unroutable::Retry });
choice!(AFTER_FAILED: AfterFailed { "continue" => AfterFailed::Continue, "hold" => AfterFailed::Hold });
choice!(LOG_FORMAT: LogFormat { "text" => LogFormat::Text, "json" => LogFormat::Json });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_nothing_of_a_secret() {
        let secret = Secret::new("amqp://app:hunter2@broker/");
        assert_eq!(format!("{secret:?}"), "Secret(hidden)");
        assert_eq!(secret.expose(), "amqp://app:hunter2@broker/");
    }
}
