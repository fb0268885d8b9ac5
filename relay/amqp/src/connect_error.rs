//! Why there is no connection at all: what went wrong at each host.

use std::{error::Error, fmt};

use crate::PublishError;

/// No connection: every host that was tried, with what went wrong there. `Display` tells it all, so `source()` is empty.
#[derive(Debug)]
pub struct ConnectError {
    /// In the order of the URL; at least one.
    pub failures: Vec<Failure>,
}

/// What went wrong at one host.
#[derive(Debug)]
pub struct Failure {
    /// `host:port`, with the address that it led to.
    pub host: String,
    /// What went wrong.
    pub cause: PublishError,
}

impl ConnectError {
    /// The refusal that has decided for all hosts, if there is one; see [`PublishError::is_refusal`].
    pub fn refusal(&self) -> Option<&PublishError> {
        self.failures.iter().map(|failure| &failure.cause).find(|cause| cause.is_refusal())
    }

    /// As [`PublishError::may_pass`], for at least one of the hosts, and no host has decided for all.
    pub fn may_pass(&self) -> bool {
        let causes = || self.failures.iter().map(|failure| &failure.cause);
        !causes().any(PublishError::concerns_all_hosts) && causes().any(PublishError::may_pass)
    }

    /// Hosts and causes in one line. Hosts with the same cause stand together.
    pub fn describe(&self, tell: impl Fn(&PublishError) -> String) -> String {
        let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
        for Failure { host, cause } in &self.failures {
            let told = tell(cause);
            match groups.iter_mut().find(|(_, other)| *other == told) {
                Some((hosts, _)) => hosts.push(host),
                None => groups.push((vec![host], told)),
            }
        }
        let lines: Vec<String> = groups.iter().map(|(hosts, told)| format!("{}: {told}", hosts.join(", "))).collect();
        lines.join("; ")
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

    fn failure(host: &str, cause: PublishError) -> Failure {
        Failure { host: host.to_owned(), cause }
    }

    fn refused() -> PublishError {
        PublishError::Connect(io::ErrorKind::ConnectionRefused.into())
    }

    fn vhost() -> PublishError {
        PublishError::Vhost { vhost: "v".to_owned(), code: 530, text: "NOT_ALLOWED - vhost v not found".to_owned() }
    }

    #[test]
    fn every_host_is_told_and_those_with_the_same_cause_together() {
        let failures = vec![failure("a:1", refused()), failure("b:1", PublishError::HungUp), failure("c:1", refused())];
        let told = ConnectError { failures }.to_string();
        assert!(
            told.starts_with("a:1, c:1: cannot connect: connection refused; b:1: it ends the connection"),
            "{told}"
        );
    }

    #[test]
    fn what_one_host_says_of_user_vhost_or_exchange_decides_for_all() {
        let failures = vec![failure("a:1", refused()), failure("b:1", vhost())];
        let error = ConnectError { failures };
        assert!(error.refusal().is_some() && !error.may_pass());
    }

    #[test]
    fn a_host_that_is_only_away_may_yet_do_what_another_cannot() {
        let wrong = || PublishError::WrongPort("it speaks HTTP");
        let error =
            |causes: [PublishError; 2]| ConnectError { failures: causes.map(|cause| failure("a:1", cause)).into() };
        assert!(error([refused(), wrong()]).may_pass());
        assert!(!error([wrong(), wrong()]).may_pass());
    }
}
