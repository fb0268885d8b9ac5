//! Typed values of settings, and how each is read from text.

use std::{
    fmt::Display,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroU32,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use amqp_publisher::AmqpUrl;
use outbox_core::Ordering;
use outbox_service::{
    address::Address,
    collector::{OtlpEndpoint, OtlpHeaders},
    redact::{file_name, holds_login},
    sink::rabbitmq::Unroutable,
};
use pg_replication::ConnInfo;

use super::rule::Rule;

/// Whether the later events of a key go on when one event has `FAILED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailed {
    /// Later events go on without the failed one.
    Continue,
    /// Later events wait until an operator replays or releases the failed one.
    Hold,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Where to listen for HTTP; `None` if nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listen(pub Option<SocketAddr>);

/// A value that may be left out, written as `off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Optional<T>(pub Option<T>);

/// The word for a value that is left out.
pub(super) const OFF: &str = "off";

/// The type of a setting's value.
pub(super) trait Value: Sized {
    /// Reads `text` if `rule` allows it. The error says what was expected, and contains nothing of a secret.
    fn read(rule: &Rule, text: &str) -> Result<Self, String>;

    /// Takes the value from a file, and reads it now if it is `needed`. The error contains nothing of a secret.
    fn in_file(path: PathBuf, _needed: bool) -> Result<Self, String> {
        Err(format!("cannot stand in a file, as in {}", file_name(&path)))
    }

    /// Returns the value of a setting that was not given and is not needed.
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
        if holds_login(text) {
            return Err(format!(
                "it looks like a login with a password, which has no place here: expected {}",
                rule.allowed()
            ));
        }
        expected(rule, rule.takes(text).then(|| text.to_owned()))
    }
}

impl Value for Listen {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        let port = || Some(SocketAddr::from((Ipv4Addr::LOCALHOST, text.parse::<u16>().ok()?)));
        match text {
            "off" => Ok(Self(None)),
            _ => expected(rule, port().or_else(|| text.parse().ok())).map(|address| Self(Some(address))),
        }
    }
}

impl<T: Clone + FromStr<Err: Display> + Display> Value for Address<T> {
    fn read(_: &Rule, text: &str) -> Result<Self, String> {
        address(text).map(Self::given)
    }

    fn in_file(path: PathBuf, needed: bool) -> Result<Self, String> {
        let address = Self::in_file(path);
        if needed {
            address.now().map_err(|bad| bad.to_string())?;
        }
        Ok(address)
    }
}

impl Value for Option<Address<AmqpUrl>> {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        Address::read(rule, text).map(Some)
    }

    fn in_file(path: PathBuf, needed: bool) -> Result<Self, String> {
        <Address<AmqpUrl> as Value>::in_file(path, needed).map(Some)
    }

    fn unneeded() -> Option<Self> {
        Some(None)
    }
}

impl Value for Optional<Address<ConnInfo>> {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        if text == OFF { Ok(Self(None)) } else { Address::read(rule, text).map(|address| Self(Some(address))) }
    }

    fn in_file(path: PathBuf, needed: bool) -> Result<Self, String> {
        <Address<ConnInfo> as Value>::in_file(path, needed).map(|address| Self(Some(address)))
    }
}

/// Implements [`Value`] for secrets that may be left out.
macro_rules! optional_secret {
    ($($type:ident)+) => {
        $(impl Value for Optional<$type> {
            fn read(_: &Rule, text: &str) -> Result<Self, String> {
                if text == OFF { Ok(Self(None)) } else { address(text).map(|secret| Self(Some(secret))) }
            }
        })+
    };
}

optional_secret!(OtlpEndpoint OtlpHeaders);

impl Value for Optional<u64> {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        if text == OFF { Ok(Self(None)) } else { whole(rule, text).map(|number| Self(Some(number))) }
    }
}

impl Value for Optional<NonZeroU32> {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        if text == OFF { Ok(Self(None)) } else { whole(rule, text).map(|number| Self(NonZeroU32::new(number))) }
    }
}

impl Value for Optional<Duration> {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        if text == OFF { Ok(Self(None)) } else { Duration::read(rule, text).map(|time| Self(Some(time))) }
    }
}

impl Value for Optional<PathBuf> {
    fn read(rule: &Rule, text: &str) -> Result<Self, String> {
        let path = String::read(rule, text)?;
        Ok(Self((path != OFF).then(|| path.into())))
    }
}

/// A database that may be left out.
pub(super) const OPTIONAL_DATABASE: Rule =
    Rule::Url { form: "postgres://user:password@host:5432/database, or off", check: harmless_or_off::<ConnInfo> };

/// A size of the WAL that may be left out.
pub(super) const OPTIONAL_WAL: Rule = Rule::SizeOrOff(64 << 20..=1 << 50);

/// Events per second, or `off` for no limit.
pub(super) const OPTIONAL_RATE: Rule = Rule::CountOrOff(1..=1_000_000);

/// A time after which something is deleted, up to ten years, or `off` for never.
pub(super) const RETENTION: Rule = Rule::TimeOrOff(Duration::from_secs(1)..=Duration::from_hours(3650 * 24));

/// A collector that may be left out.
pub(super) const OTLP_ENDPOINT: Rule =
    Rule::Url { form: "http://host:4318, or off", check: harmless_or_off::<OtlpEndpoint> };

/// Headers that may be left out.
pub(super) const OTLP_HEADERS: Rule = Rule::Secret {
    form: "name=value pairs with commas between, values percent-encoded, or off",
    check: harmless_or_off::<OtlpHeaders>,
};

fn harmless_or_off<T: FromStr<Err: Display> + Display>(text: &str) -> Result<String, String> {
    if text == OFF { Ok(OFF.to_owned()) } else { harmless::<T>(text) }
}

/// Parses a server's address. The errors contain nothing of the text, which holds a password.
fn address<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// Returns the part of a server's address that may be shown, or why the address is wrong.
pub(super) fn harmless<T: FromStr<Err: Display> + Display>(text: &str) -> Result<String, String> {
    address::<T>(text).map(|address| address.to_string())
}

/// Generates, from one list of words, the rule and the reading of an enum.
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
    fn a_port_alone_is_one_of_the_loopback_address() {
        let read = |text| Listen::read(&Rule::Listen, text);
        assert_eq!(read("off"), Ok(Listen(None)));
        assert_eq!(read("9187"), Ok(Listen(Some("127.0.0.1:9187".parse().unwrap()))));
        assert_eq!(read("0.0.0.0:9187"), Ok(Listen(Some("0.0.0.0:9187".parse().unwrap()))));
        assert_eq!(read("[::1]:9187"), Ok(Listen(Some("[::1]:9187".parse().unwrap()))));
        for bad in ["", "on", "localhost:9187", "127.0.0.1", "65536", ":9187", " 9187"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_shown_of_an_address_leaves_the_password_out() {
        let shown = harmless::<ConnInfo>("postgres://relay:hunter2@db.example:5433/shop").unwrap();
        assert_eq!(shown, "db.example:5433/shop as relay");
        let shown = harmless::<AmqpUrl>("amqps://relay:hunter2@mq.example/shop?heartbeat=10").unwrap();
        assert_eq!(shown, "amqps://relay@mq.example:5671/shop");
    }

    #[test]
    fn no_refusal_repeats_a_password() {
        let databases = [
            "hunter2",
            "postgres://relay:hunter2",
            "postgres://relay:hunter2@db:port/shop",
            "postgres://relay:hunter2@db/shop?colour=hunter2",
            "postgres://relay:hunter2@db/shop?sslmode=hunter2",
            "postgres://relay:hunter2@db/shop?connect_timeout=hunter2",
            "host=db user=relay password=a hunter2",
            "host=db password=hunter2",
        ];
        for text in databases {
            let why = harmless::<ConnInfo>(text).unwrap_err();
            assert!(!why.contains("hunter2"), "{text}: {why}");
        }
        let brokers = [
            "hunter2",
            "http://relay:hunter2@mq/",
            "amqp://relay:hunter2@mq:port/",
            "amqp://relay:hun/ter2@mq:hunter2/",
            "amqp://relay:100%hunter2@mq/",
            "amqp://relay:hunter2@mq/?colour=hunter2",
            "amqp://relay:hunter2@mq/?heartbeat=hunter2",
        ];
        for text in brokers {
            let why = harmless::<AmqpUrl>(text).unwrap_err();
            assert!(!why.contains("hunter2"), "{text}: {why}");
        }
    }
}
