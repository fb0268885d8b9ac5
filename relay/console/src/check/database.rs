//! Checks of the PostgreSQL server.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use outbox_service::{
    Config,
    database::{platform::Platform, requirements::Server},
    error::chain,
    legible::statement,
};
use pg_replication::quoting::identifier;
use tokio_postgres::{Error, error::SqlState};

use super::slot;
use crate::findings::Report;
use crate::queries::session::Session;

/// Tolerated difference of the clocks. No decision of the relay depends on it; it misleads people who compare times.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Number of comparisons of the clocks: the quickest answer is the most exact.
const CLOCK_TRIES: usize = 5;

/// Free connections, senders and slots of the server, the slot's limit, and settings that would stop a relay later.
const ROOM: &str = "SELECT
        (SELECT count(*) FROM pg_replication_slots) AS slots,
        current_setting('max_replication_slots')::int AS most_slots,
        (SELECT count(*) FROM pg_stat_replication) AS senders,
        current_setting('max_wal_senders')::int AS most_senders,
        EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1) AS slot_is_there,
        EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active) AS slot_is_read,
        (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS keep_mb,
        current_setting('synchronous_standby_names') AS standbys,
        (SELECT reset_val = 'on' FROM pg_settings WHERE name = 'default_transaction_read_only')
            AS others_are_read_only";

/// Whether pgoutput may read the WAL; null on a server without a list of plugins. Only some roles may see the list.
const OUTPUT_PLUGIN: &str = "SELECT list, 'pgoutput' = ANY (SELECT pg_catalog.btrim(name, ' \"')
        FROM pg_catalog.string_to_table(list, ',') AS name)
    FROM pg_catalog.current_setting('output_plugin_libraries', true) AS list";

/// The database's clock, in seconds since 1970.
const CLOCK: &str = "SELECT extract(epoch FROM clock_timestamp())::float8";

pub(super) async fn inspect(session: &Session, config: &Config, report: &mut Report) {
    let platform = Platform::of(&session.client).await;
    if let Err(error) = server(session, config, platform, report).await {
        report.unknown("primary", format!("the server's settings cannot be read: {}", chain(&error)), "");
    }
    output_plugin(session, config, platform, report).await;
    clock(session, report).await;
}

/// Checks whether the server lets pgoutput read its WAL.
async fn output_plugin(session: &Session, config: &Config, platform: Platform, report: &mut Report) {
    const CHECK: &str = "output_plugin";
    let answer = session.client.query_one(OUTPUT_PLUGIN, &[]).await;
    let answer = answer.and_then(|row| Ok((row.try_get::<_, Option<String>>(0)?, row.try_get::<_, Option<bool>>(1)?)));
    match answer {
        Ok((Some(list), Some(false))) => {
            let found = format!("output_plugin_libraries is {list:?}: pgoutput may not read the WAL, so no relay can");
            report.bad(CHECK, found, platform.allow_pgoutput());
        }
        Ok((Some(_), _)) => report.ok(CHECK, "output_plugin_libraries names pgoutput"),
        Ok((None, _)) => report.ok(CHECK, "this server lets every plugin read the WAL"),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            if slot::is_read(session, config).await.unwrap_or_default() {
                report.ok(CHECK, "a relay reads the WAL by pgoutput");
            } else {
                let found = "this role is not shown output_plugin_libraries, which must name pgoutput";
                report.unknown(CHECK, found, "GRANT pg_read_all_settings to this role, or check as a superuser");
            }
        }
        Err(error) => report.unknown(CHECK, chain(&error), ""),
    }
}

async fn server(session: &Session, config: &Config, platform: Platform, report: &mut Report) -> Result<(), Error> {
    let server = Server::of(&session.client).await?;
    let row = session.client.query_one(ROOM, &[&config.slot]).await?;
    let version = server.version;
    if let Some(unfit) = server.unfit(&config.database_url, config.failover_slot) {
        report.bad("primary", unfit.what, unfit.hint);
    } else if row.try_get("others_are_read_only")? {
        // This session has turned the setting off for itself; the relay's sessions have not.
        let (user, database) = (config.database_url.user(), config.database_url.database());
        let found = format!("default_transaction_read_only is on for the role {user:?} in the database {database:?}");
        let to_do = format!(
            "if that is not meant for the relay: SET default_transaction_read_only = off; ALTER ROLE {} IN DATABASE {} SET default_transaction_read_only = off \
             (\\drds of psql shows where it is set, unless it is in postgresql.conf or in DATABASE_URL)",
            statement(&identifier(&user)),
            statement(&identifier(&database))
        );
        report.bad("primary", found, to_do);
    } else {
        report.ok("primary", format!("PostgreSQL {}.{}, a primary", version / 10_000, version % 10_000));
    }
    if server.streams() {
        report.ok("wal_level", server.wal_level);
    } else {
        let found = format!("wal_level is {}: nothing is ever sent", server.wal_level);
        report.bad("wal_level", found, platform.raise_wal_level());
    }

    let (slots, most_slots): (i64, i32) = (row.try_get("slots")?, row.try_get("most_slots")?);
    let (senders, most_senders): (i64, i32) = (row.try_get("senders")?, row.try_get("most_senders")?);
    let slot_is_there: bool = row.try_get("slot_is_there")?;
    let is_read: bool = row.try_get("slot_is_read")?;
    room("replication_slots", "max_replication_slots", (slots, most_slots), slot_is_there, platform, report);
    room("wal_senders", "max_wal_senders", (senders, most_senders), is_read, platform, report);

    let keep: i64 = row.try_get("keep_mb")?;
    if keep < 0 {
        let found = "max_slot_wal_keep_size is not set: if no relay runs, the slot keeps the WAL until the disk is full (reaching the limit costs no event)";
        let reload = if platform == Platform::Own { "; SELECT pg_reload_conf()" } else { "" };
        let to_do = platform.set("max_slot_wal_keep_size", "10GB") + reload;
        report.warning("slot_limit", found, to_do);
    } else {
        report.ok("slot_limit", format!("max_slot_wal_keep_size is {keep} MB"));
    }
    let standbys: &str = row.try_get("standbys")?;
    if standbys.split(|c: char| "(), ".contains(c)).any(|name| name == "*") {
        let found =
            format!("synchronous_standby_names is {standbys:?}: commits wait for the relay as if it were a standby");
        report.bad("synchronous_standbys", found, "name your standbys there instead of *");
    } else {
        let found =
            if standbys.is_empty() { "commits wait for no standby" } else { "commits wait for standbys by name" };
        report.ok("synchronous_standbys", found);
    }
    Ok(())
}

/// Checks whether the server has room for one more; `has_own` is whether the relay already has its own.
fn room(
    check: &'static str,
    setting: &str,
    (used, most): (i64, i32),
    has_own: bool,
    platform: Platform,
    report: &mut Report,
) {
    let left = i64::from(most) - used;
    let found = format!("{used} of {most} ({setting}) are in use");
    let to_do = platform.raise(setting);
    match (left, has_own) {
        (..=0, false) => report.bad(check, format!("{found}: the relay gets none"), to_do),
        (..=0, true) => report.warning(check, format!("{found}, the relay's own among them"), to_do),
        _ => report.ok(check, found),
    }
}

/// Compares the clocks of the database and of this machine.
async fn clock(session: &Session, report: &mut Report) {
    let mut best: Option<(Duration, f64)> = None;
    for _ in 0..CLOCK_TRIES {
        let (asked, before) = (Instant::now(), now());
        let answer = session.client.query_one(CLOCK, &[]).await.and_then(|row| row.try_get::<_, f64>(0));
        let took = asked.elapsed();
        match answer {
            Ok(theirs) if best.is_none_or(|(least, _)| took < least) => {
                best = Some((took, theirs - before - took.as_secs_f64() / 2.0));
            }
            Ok(_) => {}
            Err(error) => return report.unknown("clock", chain(&error), ""),
        }
    }
    let Some((took, ahead)) = best else { return };
    let (found, agree) = compared(took, ahead);
    if agree {
        report.ok("clock", found);
    } else {
        report.warning(
            "clock",
            found,
            "let both machines keep time by NTP: logs and the messages' timestamps do not agree",
        );
    }
}

/// Returns the difference of the clocks in words, and whether it is within the tolerance. `took` is the duration of the
/// query, `ahead` how many seconds the database's answer was ahead of the query's middle.
fn compared(took: Duration, ahead: f64) -> (String, bool) {
    let direction = if ahead < 0.0 { "behind" } else { "ahead of" };
    let unsure = took.as_secs_f64() / 2.0;
    let found = format!("the database's clock is {:.3} s {direction} this machine's (± {unsure:.3} s)", ahead.abs());
    (found, ahead.abs() - unsure <= CLOCK_TOLERANCE.as_secs_f64())
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_disagree_only_by_more_than_the_question_took() {
        let second = Duration::from_secs(1);
        assert!(compared(Duration::ZERO, 0.999).1 && compared(second, -1.499).1);
        assert!(!compared(Duration::ZERO, -1.001).1 && !compared(second, 1.501).1);
        let (found, _) = compared(Duration::from_millis(4), -2.5);
        assert_eq!(found, "the database's clock is 2.500 s behind this machine's (± 0.002 s)");
    }
}
