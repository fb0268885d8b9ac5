//! Exit codes: one for each kind of failure, so that a supervisor can tell what to restart from what to report.

use std::fmt::Write;

use relay::error::Kind;

/// Every kind, in the order of the codes.
const KINDS: [Kind; 13] = [
    Kind::Usage,
    Kind::Database,
    Kind::Authentication,
    Kind::NoDatabase,
    Kind::NotPermitted,
    Kind::ExtensionMissing,
    Kind::ExtensionVersion,
    Kind::WalLevel,
    Kind::Slot,
    Kind::Broker,
    Kind::BrokerRefused,
    Kind::DrainTimeout,
    Kind::Internal,
];

/// Exit codes of a process that a second signal ended, as a shell reports them: 128 + the signal's number.
pub(crate) const SIGINT: u8 = 130;
pub(crate) const SIGTERM: u8 = 143;

/// The exit code of a failure.
pub(crate) fn code(kind: Kind) -> u8 {
    row(kind).0
}

/// Code and meaning. Tens group the codes: 1x the database, 2x the broker, 3x the end; 70 is `EX_SOFTWARE` of `sysexits.h`.
fn row(kind: Kind) -> (u8, &'static str) {
    match kind {
        Kind::Usage => (2, "a flag, variable or file key is wrong"), // as the command line's own errors
        Kind::Database => (10, "PostgreSQL cannot be reached or used"),
        Kind::Authentication => (11, "PostgreSQL refuses user or password"),
        Kind::NoDatabase => (12, "the database does not exist"),
        Kind::NotPermitted => (13, "the role lacks REPLICATION or a grant"),
        Kind::ExtensionMissing => (14, "the database has no outbox extension"),
        Kind::ExtensionVersion => (15, "the extension's version does not fit"),
        Kind::WalLevel => (16, "wal_level is not logical (before PostgreSQL 19)"),
        Kind::Slot => {
            (17, "the replication slot is missing, invalidated or not of this database (one in use is waited for)")
        }
        Kind::Broker => (20, "RabbitMQ cannot be reached"),
        Kind::BrokerRefused => (21, "RabbitMQ refuses user, vhost or exchange"),
        Kind::DrainTimeout => (30, "the drain took longer than shutdown-timeout"),
        Kind::Internal => (70, "a fault of the relay or of its machine"),
    }
}

/// Code and meaning of every way to end, success and signals included.
fn rows() -> impl Iterator<Item = (u8, &'static str)> {
    let signals = [
        (SIGINT, "a second signal, SIGINT, ended it at once"),
        (SIGTERM, "a second signal, SIGTERM, ended it at once"),
    ];
    [(0, "done; or told to stop, and drained")].into_iter().chain(KINDS.map(row)).chain(signals)
}

/// The codes, for the end of the help text.
pub(crate) fn help() -> String {
    rows().fold("Exit codes:\n".to_owned(), |mut text, (code, meaning)| {
        let _ = writeln!(text, "  {code:>3}  {meaning}"); // a String takes every write
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_end_has_a_code_of_its_own() {
        let codes: Vec<u8> = rows().map(|(code, _)| code).collect();
        assert!(codes.is_sorted_by(|left, right| left < right), "{codes:?}");
    }

    #[test]
    fn the_reference_lists_every_code() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md")).unwrap();
        let table: String = rows().map(|(code, meaning)| format!("| {code} | {meaning} |\n")).collect();
        assert!(page.contains(&table), "docs/configuration.md, section Exit codes, should hold:\n{table}");
    }
}
