//! Exit codes: one for each kind of failure, so that a supervisor can tell what to restart from what to report.

use std::fmt::Write;

use outbox_service::error::Kind;

/// What each kind means, in the order of the codes.
const MEANINGS: [(Kind, &str); 13] = [
    (Kind::Usage, "a flag, a variable, a key of the file, or a file with a password is wrong"),
    (Kind::Database, "PostgreSQL cannot be reached or used"),
    (Kind::Authentication, "PostgreSQL refuses user or password"),
    (Kind::NoDatabase, "the database does not exist"),
    (Kind::NotPermitted, "the role lacks REPLICATION or a grant"),
    (Kind::ExtensionMissing, "the database has no outbox extension"),
    (Kind::ExtensionVersion, "the schema's version does not fit the relay's"),
    (Kind::WalLevel, "wal_level is not logical (before PostgreSQL 19)"),
    (
        Kind::Slot,
        "the replication slot is missing, invalidated, somebody else's, or not allowed (one in use is waited for)",
    ),
    (Kind::Broker, "the broker cannot be reached or used"),
    (Kind::BrokerRefused, "the broker refuses the user, the exchange or the vhost"),
    (Kind::DrainTimeout, "the drain took longer than shutdown-timeout"),
    (Kind::Internal, "a fault of the relay or of its machine"),
];

/// The exit code of a command that ran and whose answer is no, as grep's.
pub(crate) const NO: u8 = 1;

/// Exit codes of a process that a second signal has ended, as a shell reports them: 128 + the signal's number.
pub(crate) const SIGINT: u8 = 130;
pub(crate) const SIGTERM: u8 = 143;

/// The exit code of a failure.
pub(crate) fn code(kind: Kind) -> u8 {
    kind as u8
}

/// Returns code and meaning of every way to end, success and signals included.
fn rows() -> impl Iterator<Item = (u8, &'static str)> {
    let signals = [
        (SIGINT, "SIGINT ended it: a command but tail, or run at once as the second signal"),
        (SIGTERM, "SIGTERM ended it: a command but tail, or run at once as the second signal"),
    ];
    let answers = [
        (0, "healthy, done, or drained after a signal"),
        (
            NO,
            "unhealthy, no event matched, not every ID was found and changed, --timeout ended a search or a check, or you declined the prompt",
        ),
    ];
    answers.into_iter().chain(MEANINGS.map(|(kind, meaning)| (code(kind), meaning))).chain(signals)
}

/// Lists the codes for the end of the help text.
pub(crate) fn help() -> String {
    rows().fold("Exit codes:\n".to_owned(), |mut text, (code, meaning)| {
        let _ = writeln!(text, "  {code:>3}  {meaning}"); // writing to a String cannot fail
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
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md")).unwrap();
        let table: String = rows().map(|(code, meaning)| format!("| {code} | {meaning} |\n")).collect();
        assert!(page.contains(&table), "docs/configuration.md, section Exit codes, should hold:\n{table}");
    }
}
