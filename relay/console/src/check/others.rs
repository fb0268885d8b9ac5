//! Checks of rights that no `outbox.grant_*()` has given to a role: default privileges of a database into which a dump
//! was restored, or grants by hand.

use outbox_service::{error::chain, legible::statement};
use tokio_postgres::Error;

use crate::findings::Report;
use crate::{
    format::count,
    queries::{session::Session, sql::OTHER_RIGHTS},
};

const CHECK: &str = "other_rights";

/// Most roles that are named, and most rights of each.
const NAMED: usize = 3;

/// A role, and its rights beyond its grants, such as `UPDATE on table outbox.events`.
struct Other {
    role: String,
    rights: Vec<String>,
}

pub(super) async fn inspect(session: &Session, report: &mut Report) {
    match others(session).await {
        Ok(others) if others.is_empty() => report.ok(CHECK, "no role may do more than outbox.grant_*() lets it"),
        Ok(others) => {
            let (found, to_do) = describe(&others);
            report.warning(CHECK, found, to_do);
        }
        Err(error) => report.unknown(CHECK, chain(&error), ""),
    }
}

async fn others(session: &Session) -> Result<Vec<Other>, Error> {
    let rows = session.client.query(OTHER_RIGHTS, &[]).await?;
    rows.iter().map(|row| Ok(Other { role: row.try_get("role")?, rights: row.try_get("rights")? })).collect()
}

fn describe(others: &[Other]) -> (String, String) {
    let more = |length: usize, noun| match i64::try_from(length.saturating_sub(NAMED)).unwrap_or(i64::MAX) {
        0 => String::new(),
        rest => format!(" and {} more", count(rest, noun)),
    };
    let roles: Vec<String> = others
        .iter()
        .take(NAMED)
        .map(|Other { role, rights }| {
            let named = rights.get(..NAMED).unwrap_or(rights).join(", ");
            format!("{role} has {named}{}", more(rights.len(), "right"))
        })
        .collect();
    let found = format!("rights that no outbox.grant_*() gives: {}{}", roles.join("; "), more(others.len(), "role"));
    let statements: Vec<String> = others
        .iter()
        .take(NAMED)
        .map(|Other { role, .. }| {
            let all = ["TABLES", "SEQUENCES", "ROUTINES"]
                .map(|kind| format!("REVOKE ALL ON ALL {kind} IN SCHEMA outbox FROM {role} CASCADE"));
            format!("{}; REVOKE CREATE ON SCHEMA outbox FROM {role} CASCADE", all.join("; "))
        })
        .collect();
    let to_do = "unless that was meant, as the outbox's owner, and then each grant of these roles again";
    (found, format!("{to_do}: {}", statement(&statements.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_roles_are_named_with_a_few_of_their_rights_and_how_many_there_are_more() {
        let other = |role: &str, rights| Other {
            role: role.to_owned(),
            rights: (1..=rights).map(|number| format!("SELECT on table t{number}")).collect(),
        };
        let (found, to_do) = describe(&[other("reporting", 1)]);
        assert!(found.ends_with(": reporting has SELECT on table t1"), "{found}");
        assert!(to_do.contains("REVOKE ALL ON ALL TABLES IN SCHEMA outbox FROM reporting CASCADE"), "{to_do}");
        let (found, _) = describe(&[other("a", 4), other("b", 1), other("c", 1), other("d", 1)]);
        assert!(
            found.contains("a has SELECT on table t1, SELECT on table t2, SELECT on table t3 and 1 right more;"),
            "{found}"
        );
        assert!(found.ends_with("c has SELECT on table t1 and 1 role more"), "{found}");
    }
}
