//! Checks of rights that PUBLIC has and should not have: a restore has lost their revocation, or somebody has granted
//! them.

use outbox_service::{error::chain, legible::statement};
use tokio_postgres::{Error, error::SqlState};

use crate::findings::Report;
use crate::{
    format::count,
    queries::{
        session::Session,
        sql::{INBOX_OPEN_TO_PUBLIC, OPEN_TO_PUBLIC},
    },
};

const CHECK: &str = "everybody";

/// Most rights that are named, each with its statement.
const NAMED: usize = 5;

/// A right that PUBLIC has.
struct Open {
    /// The right, such as `SELECT on table outbox.events`.
    right: String,
    /// The statement that revokes it.
    closing: String,
}

pub(super) async fn inspect(session: &Session, report: &mut Report) {
    match open(session).await {
        Ok(open) if open.is_empty() => report.ok(CHECK, "PUBLIC may do nothing that was not meant for everybody"),
        Ok(open) => {
            let (found, to_do) = describe(&open);
            report.bad(CHECK, found, to_do);
        }
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            report.unknown(
                CHECK,
                "this role may not see it",
                "check with the relay's own DATABASE_URL, or as the outbox's owner",
            );
        }
        Err(error) => report.unknown(CHECK, chain(&error), ""),
    }
}

async fn open(session: &Session) -> Result<Vec<Open>, Error> {
    let mut rows = session.client.query(OPEN_TO_PUBLIC, &[]).await?;
    rows.extend(session.client.query(INBOX_OPEN_TO_PUBLIC, &[]).await?);
    rows.iter().map(|row| Ok(Open { right: row.try_get("open_right")?, closing: row.try_get("closing")? })).collect()
}

fn describe(open: &[Open]) -> (String, String) {
    let named: Vec<&str> = open.iter().take(NAMED).map(|open| &*open.right).collect();
    let found = format!("everybody may do what was not meant for everybody: {}", named.join(", "));
    let rest = i64::try_from(open.len().saturating_sub(NAMED)).unwrap_or(i64::MAX);
    if rest == 0 {
        let closing: Vec<&str> = open.iter().map(|open| &*open.closing).collect();
        return (found, format!("as the outbox's owner: {}", statement(&closing.join("; "))));
    }
    let to_do = "as the outbox's owner, for each role again: SELECT outbox.grant_emit('<role>'), or grant_relay, grant_operate, grant_monitor, \
                 grant_maintain; each takes all of it back. SELECT * FROM outbox.open_to_public() has each right with its statement";
    (format!("{found}, and {} more", count(rest, "right")), to_do.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rights_are_told_with_their_statements_and_many_with_the_call_that_takes_all_back() {
        let right = |number| Open { right: format!("SELECT on table t{number}"), closing: format!("REVOKE {number}") };
        let (found, to_do) = describe(&[right(1), right(2)]);
        assert!(found.ends_with(": SELECT on table t1, SELECT on table t2"), "{found}");
        assert_eq!(to_do, "as the outbox's owner: REVOKE 1; REVOKE 2");
        let (found, to_do) = describe(&(1..=NAMED + 2).map(right).collect::<Vec<_>>());
        assert!(found.ends_with("SELECT on table t5, and 2 rights more"), "{found}");
        assert!(to_do.contains("outbox.grant_relay") || to_do.contains("grant_relay"), "{to_do}");
    }
}
