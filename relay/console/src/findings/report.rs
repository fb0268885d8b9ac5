//! Findings of checks.

use std::time::Duration;

use outbox_service::error::RunError;
use serde::Serialize;

use crate::{
    format::{Tone, escaped, exact},
    terminal::output::Output,
};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Ok,
    /// It works, and will not under some circumstances.
    Warning,
    /// Events do not flow, or will not; or a role may change or read events without a grant.
    Bad,
    /// The check could not be made.
    Unknown,
}

impl Level {
    fn tone(self) -> Tone {
        match self {
            Self::Ok => Tone::Good,
            Self::Warning => Tone::Warning,
            Self::Bad => Tone::Bad,
            Self::Unknown => Tone::Dim,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok     ",
            Self::Warning => "warning",
            Self::Bad => "bad    ",
            Self::Unknown => "unknown",
        }
    }
}

/// Every check of the database, in the order in which findings are printed. Those of the sink follow.
const CHECKS: [&str; 21] = [
    "database",
    "primary",
    "wal_level",
    "output_plugin",
    "replication_slots",
    "wal_senders",
    "slot",
    "slot_limit",
    "transactions",
    "synchronous_standbys",
    "extension",
    "triggers",
    "publication",
    "sequence",
    "grants",
    "replication_right",
    "everybody",
    "other_rights",
    "foreign_keys",
    "clock",
    "database_certificate",
];

/// The finding of one check.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    check: &'static str,
    level: Level,
    found: String,
    /// What to do about the finding.
    to_do: Option<String>,
}

/// All findings.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    findings: Vec<Finding>,
}

impl Report {
    /// Adds the finding of a check.
    pub(crate) fn add(
        &mut self,
        check: &'static str,
        level: Level,
        found: impl Into<String>,
        to_do: impl Into<String>,
    ) {
        let to_do = Some(to_do.into()).filter(|to_do| !to_do.is_empty());
        self.findings.push(Finding { check, level, found: found.into(), to_do });
    }

    pub(crate) fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, Level::Ok, found, "");
    }

    pub(crate) fn bad(&mut self, check: &'static str, found: impl Into<String>, to_do: impl Into<String>) {
        self.add(check, Level::Bad, found, to_do);
    }

    pub(crate) fn warning(&mut self, check: &'static str, found: impl Into<String>, to_do: impl Into<String>) {
        self.add(check, Level::Warning, found, to_do);
    }

    pub(crate) fn unknown(&mut self, check: &'static str, found: impl Into<String>, to_do: impl Into<String>) {
        self.add(check, Level::Unknown, found, to_do);
    }

    /// Adds the findings of checks that ran concurrently.
    pub(crate) fn join(&mut self, other: Self) {
        self.findings.extend(other.findings);
    }

    /// Whether the check was made.
    pub(crate) fn has(&self, check: &str) -> bool {
        self.findings.iter().any(|finding| finding.check == check)
    }

    /// Sorts the findings. Checks that were not made are unknown, for the reason that `out_of_time` was over, if it
    /// was. `of_sink` names the sink's checks.
    pub(crate) fn complete(mut self, of_sink: &[&'static str], out_of_time: Option<Duration>) -> Self {
        let checks = [&CHECKS, of_sink].concat();
        debug_assert!(self.findings.iter().all(|finding| checks.contains(&finding.check)), "{:?}", self.findings);
        for check in checks.iter().copied().filter(|check| !self.has(check)).collect::<Vec<_>>() {
            match out_of_time {
                Some(limit) => {
                    self.unknown(check, format!("not looked at within {}", exact(limit)), "allow more by --timeout");
                }
                None => self.unknown(check, "could not be looked at, because of what is wrong above or below", ""),
            }
        }
        self.findings.sort_by_key(|finding| checks.iter().position(|check| *check == finding.check));
        self
    }

    /// Whether no finding is bad.
    pub(crate) fn is_fine(&self) -> bool {
        self.findings.iter().all(|finding| finding.level != Level::Bad)
    }

    /// Prints the findings: as JSON, one object each, or for people.
    pub(crate) fn print(&self, output: &mut Output) -> Result<(), RunError> {
        if output.json {
            return self.findings.iter().try_for_each(|finding| output.object(finding));
        }
        let width = self.findings.iter().map(|finding| finding.check.len()).max().unwrap_or_default();
        for Finding { check, level, found, to_do } in &self.findings {
            let word = output.paint(level.tone(), level.word());
            let to_do = to_do.as_ref().map(|to_do| format!("{:9}{:width$}  → {}\n", "", "", escaped(to_do)));
            output.print(&format!("{word}  {check:width$}  {}\n{}", escaped(found), to_do.unwrap_or_default()))?;
        }
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        let [ok, warnings, bad, unknown] = [Level::Ok, Level::Warning, Level::Bad, Level::Unknown].map(count);
        output.print(&format!("\n{bad} bad, {warnings} to be aware of, {unknown} unknown, {ok} ok\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_looked_at_is_unknown_and_never_ok() {
        let mut report = Report::default();
        report.ok("broker", "connected");
        let report = report.complete(&["broker", "topics"], None);
        let checks: Vec<_> = CHECKS.into_iter().chain(["broker", "topics"]).collect();
        assert_eq!(report.findings.iter().map(|finding| finding.check).collect::<Vec<_>>(), checks);
        for Finding { check, level, .. } in &report.findings {
            assert_eq!(*level == Level::Ok, *check == "broker", "{check}");
        }
        assert!(report.is_fine());
    }
}
