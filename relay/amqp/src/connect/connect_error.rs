//! Why no host gave a connection.

use std::{error::Error, fmt};

use super::{error::AmqpError, url::AmqpUrl};
use crate::protocol::wire::SHORT_STRING_MAX;

/// Every host that was tried, with the error that it gave. `Display` shows all of it, so `source()` is empty.
#[derive(Debug)]
pub struct ConnectError {
    /// Errors in the order of the URL; at least one.
    pub failures: Vec<Failure>,
}

/// The error of one host.
#[derive(Debug)]
pub struct Failure {
    /// `host:port`, and the address behind a name.
    pub host: String,
    /// The error.
    pub cause: AmqpError,
}

impl ConnectError {
    /// The refusal that decides for all hosts, if there is one; see [`AmqpError::is_refusal`].
    pub fn refusal(&self) -> Option<&AmqpError> {
        self.failures.iter().map(|failure| &failure.cause).find(|cause| cause.is_refusal())
    }

    /// Whether the error of at least one host is [transient](AmqpError::is_transient), and no host decides for all.
    pub fn is_transient(&self) -> bool {
        let causes = || self.failures.iter().map(|failure| &failure.cause);
        !causes().any(AmqpError::concerns_all_hosts) && causes().any(AmqpError::is_transient)
    }

    /// Hosts and causes in one line. Hosts with the same cause stand together.
    pub fn describe(&self, describe: impl Fn(&AmqpError) -> String) -> String {
        let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
        for Failure { host, cause } in &self.failures {
            let described = describe(cause);
            match groups.iter_mut().find(|(_, other)| *other == described) {
                Some((hosts, _)) => hosts.push(host),
                None => groups.push((vec![host], described)),
            }
        }
        let lines: Vec<String> =
            groups.iter().map(|(hosts, described)| format!("{}: {described}", hosts.join(", "))).collect();
        lines.join("; ")
    }
}

/// Checks that each setting fits one of AMQP's short strings.
pub(crate) fn check_lengths<'a>(
    url: &AmqpUrl,
    settings: impl IntoIterator<Item = (&'static str, &'a str)>,
) -> Result<(), ConnectError> {
    match settings.into_iter().find(|(_, text)| text.len() > SHORT_STRING_MAX) {
        None => Ok(()),
        Some((name, text)) => {
            let reason = format!("has {} bytes, AMQP allows {SHORT_STRING_MAX}", text.len());
            let cause = AmqpError::Setting { name, reason };
            Err(ConnectError { failures: vec![Failure { host: url.to_string(), cause }] })
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(|cause| match cause.source() {
            Some(source) => format!("{cause}: {source}"),
            None => cause.to_string(),
        }))
    }
}

impl Error for ConnectError {}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn failure(host: &str, cause: AmqpError) -> Failure {
        Failure { host: host.to_owned(), cause }
    }

    fn refused() -> AmqpError {
        AmqpError::Connect(io::ErrorKind::ConnectionRefused.into())
    }

    fn vhost() -> AmqpError {
        AmqpError::Vhost { vhost: "v".to_owned(), code: 530, text: "NOT_ALLOWED - vhost v not found".to_owned() }
    }

    #[test]
    fn every_host_is_shown_and_those_with_the_same_cause_together() {
        let failures = vec![failure("a:1", refused()), failure("b:1", AmqpError::HungUp), failure("c:1", refused())];
        let shown = ConnectError { failures }.to_string();
        assert!(
            shown.starts_with("a:1, c:1: cannot connect: connection refused; b:1: it ends the connection"),
            "{shown}"
        );
    }

    #[test]
    fn what_one_host_says_of_user_vhost_or_exchange_decides_for_all() {
        let failures = vec![failure("a:1", refused()), failure("b:1", vhost())];
        let error = ConnectError { failures };
        assert!(error.refusal().is_some() && !error.is_transient());
    }

    #[test]
    fn a_host_that_is_only_away_may_yet_do_what_another_cannot() {
        let wrong = || AmqpError::WrongPort("it speaks HTTP");
        let error =
            |causes: [AmqpError; 2]| ConnectError { failures: causes.map(|cause| failure("a:1", cause)).into() };
        assert!(error([refused(), wrong()]).is_transient());
        assert!(!error([wrong(), wrong()]).is_transient());
    }
}
