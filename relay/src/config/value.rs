//! From the text of a setting to its typed value.

use std::time::Duration;

use super::{rule::Rule, secret::Secret};
use outbox_core::Ordering;

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

/// A type that settings have.
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

impl Value for usize {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        expected(rule, rule.number(text).and_then(|number| number.try_into().ok()))
    }
}

impl Value for u32 {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        expected(rule, rule.number(text).and_then(|number| number.try_into().ok()))
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
