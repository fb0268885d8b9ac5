//! Check of the oldest transaction that writes: no relay can move the slot beyond it, whichever database of the server
//! it is in.

use std::time::Duration;

use outbox_service::{error::chain, store::sql};
use tokio_postgres::{Error, Row};

use crate::findings::{Level, Report};
use crate::{format::age, queries::session::Session};

/// Age in seconds from which a transaction is long, if the slot keeps little: ten minutes.
const LONG: i64 = 600;

/// Number and interval of the looks for a transaction whose age this role may not see. On a busy server some
/// transaction always writes, so only one that stays is reported.
const TRIES: (u32, Duration) = (10, Duration::from_millis(200));

/// Makes the check. If the slot keeps much, the oldest transaction is reported whatever its age.
pub(super) async fn inspect(session: &Session, keeps_much: bool, report: &mut Report) {
    let reported = match oldest(session).await {
        Ok(Oldest::None) => {
            report.ok("transactions", "none is open that writes");
            return;
        }
        Ok(Oldest::Passing) => {
            report.ok("transactions", "none that writes has stayed open while this looked");
            return;
        }
        Ok(Oldest::Open(row)) => report_age(&row, keeps_much, report),
        Err(error) => Err(error),
    };
    if let Err(error) = reported {
        report.unknown("transactions", chain(&error), "");
    }
}

enum Oldest {
    None,
    /// A transaction whose age this role may not see, and which has ended since the first look.
    Passing,
    Open(Row),
}

async fn oldest(session: &Session) -> Result<Oldest, Error> {
    let (tries, interval) = TRIES;
    let mut first = None;
    for _ in 0..tries {
        let Some(row) = session.client.query_opt(sql::OLDEST_TRANSACTION, &[]).await? else {
            return Ok(if first.is_some() { Oldest::Passing } else { Oldest::None });
        };
        let (seconds, xid): (Option<i64>, Option<String>) = (row.try_get(4)?, row.try_get(5)?);
        if seconds.is_some() {
            return Ok(Oldest::Open(row));
        }
        match &first {
            Some((_, before)) if *before != xid => return Ok(Oldest::Passing),
            Some(_) => {}
            None => first = Some((row, xid)),
        }
        tokio::time::sleep(interval).await;
    }
    Ok(first.map_or(Oldest::None, |(row, _)| Oldest::Open(row)))
}

fn report_age(row: &Row, keeps_much: bool, report: &mut Report) -> Result<(), Error> {
    let (pid, user): (Option<i32>, &str) = (row.try_get(0)?, row.try_get(1)?);
    let (application, state): (Option<&str>, Option<&str>) = (row.try_get(2)?, row.try_get(3)?);
    let seconds: Option<i64> = row.try_get(4)?;
    let who = match pid {
        Some(pid) => format!("process {pid} of role {user:?}"),
        None => format!("role {user:?}"),
    };
    let Some(seconds) = seconds else {
        let found = format!("the oldest that writes is that of {who}; since when is not known");
        report.unknown("transactions", found, "GRANT pg_monitor to this role");
        return Ok(());
    };
    let lasted = age(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
    let what =
        [application, state].into_iter().flatten().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ");
    let found = format!("the oldest that writes has lasted for {lasted}: {who} ({what})");
    if keeps_much || seconds >= LONG {
        let to_do = match pid {
            Some(pid) => {
                format!("the slot keeps the WAL since then: let it end, or SELECT pg_terminate_backend({pid})")
            }
            None => {
                "the slot keeps the WAL since then: COMMIT PREPARED or ROLLBACK PREPARED, in its database".to_owned()
            }
        };
        report.add("transactions", Level::Warning, found, to_do);
    } else {
        report.ok("transactions", found);
    }
    Ok(())
}
