//! Checks of the replication slot.

use outbox_service::{
    Config,
    database::{foreign::Listed, requirements::failover_slot_refused},
    error::chain,
};
use tokio_postgres::{Error, Row};

use crate::findings::Report;
use crate::{format::bytes, queries::session::Session};

/// WAL in bytes above which a slot keeps much: 1 GiB.
const MUCH: i64 = 1 << 30;

/// The slot: plugin, whether it belongs to this database and is read, the WAL that it keeps, whether it is still being
/// created, and its owner.
const SLOT: &str = "
    SELECT plugin::text AS plugin, database = current_database() AS is_here, active, wal_status,
        CASE WHEN NOT pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint END AS kept,
        safe_wal_size AS safe, confirmed_flush_lsn IS NULL AS is_unconfirmed,
        coalesce((to_jsonb(s) ->> 'failover')::bool, false) AS is_copied,
        current_setting('server_version_num')::int AS version,
        database::text AS database, temporary AS is_temporary, active_pid AS pid
    FROM pg_replication_slots AS s WHERE slot_name = $1";

/// Checks the slot. Returns whether it keeps so much WAL that the reason matters.
pub(super) async fn inspect(session: &Session, config: &Config, report: &mut Report) -> bool {
    match session.client.query_opt(SLOT, &[&config.slot]).await {
        Ok(None) if config.create_slot => {
            let found = format!("there is no slot {:?} yet", config.slot);
            report.warning("slot", found, "the relay makes it at its start, or run `outbox-relay init`");
        }
        Ok(None) => report.bad("slot", format!("there is no slot {:?}", config.slot), "run `outbox-relay init`"),
        Ok(Some(row)) => match report_slot(&row, config, report) {
            Ok(keeps_much) => return keeps_much,
            Err(error) => report.unknown("slot", chain(&error), ""),
        },
        Err(error) => report.unknown("slot", chain(&error), ""),
    }
    false
}

/// Whether a relay reads the slot.
pub(super) async fn is_read(session: &Session, config: &Config) -> Result<bool, Error> {
    let Some(slot) = session.client.query_opt(SLOT, &[&config.slot]).await? else { return Ok(false) };
    let (is_here, active, is_temporary): (Option<bool>, bool, bool) =
        (slot.try_get("is_here")?, slot.try_get("active")?, slot.try_get("is_temporary")?);
    Ok(is_here == Some(true) && active && !is_temporary)
}

fn report_slot(row: &Row, config: &Config, report: &mut Report) -> Result<bool, Error> {
    let slot = &config.slot;
    let (plugin, is_here): (Option<&str>, Option<bool>) = (row.try_get("plugin")?, row.try_get("is_here")?);
    let (active, wal_status): (bool, Option<&str>) = (row.try_get("active")?, row.try_get("wal_status")?);
    let (kept, safe): (Option<i64>, Option<i64>) = (row.try_get("kept")?, row.try_get("safe")?);
    let (is_copied, version): (bool, i32) = (row.try_get("is_copied")?, row.try_get("version")?);
    let is_being_made = active && row.try_get("is_unconfirmed")?;
    let keeps = kept.map(|kept| format!(", keeps {}", bytes(kept))).unwrap_or_default();
    let left = safe.map(|safe| format!(", {} until it is lost", bytes(safe))).unwrap_or_default();
    // The slot is filling at half of its limit, and nearly lost at four fifths.
    let is_filling = kept.zip(safe).is_some_and(|(kept, safe)| safe < kept);
    let is_nearly_lost = kept.zip(safe).is_some_and(|(kept, safe)| safe < kept / 4) || wal_status == Some("unreserved");
    let keeps_much = is_being_made || is_filling || is_nearly_lost || kept.is_some_and(|kept| kept > MUCH);
    let listed = Listed {
        name: slot,
        plugin,
        database: row.try_get("database")?,
        is_here: is_here == Some(true),
        is_temporary: row.try_get("is_temporary")?,
        pid: row.try_get("pid")?,
    };
    if let Some((found, to_do)) = listed.refused() {
        report.bad("slot", found, to_do);
    } else if wal_status == Some("lost") {
        let found = format!("PostgreSQL has given up the slot {slot:?}");
        let to_do = "no event is lost: start the relay, which creates the slot again and reads what is PENDING from the table; then look at max_slot_wal_keep_size";
        report.bad("slot", found, to_do);
    } else if is_being_made {
        let found = format!(
            "a relay is creating the slot {slot:?}, which waits for older transactions to end; meanwhile it reads the table every second"
        );
        report.bad("slot", found, "end the oldest one (see transactions)");
    } else if is_nearly_lost {
        let found = format!("the slot {slot:?} is about to be lost{keeps}{left}");
        let to_do = match active {
            true => {
                "end the transaction that keeps it (see transactions), see in the relay's log whether it keeps up, or raise max_slot_wal_keep_size"
            }
            false => "start the relay, or raise max_slot_wal_keep_size",
        };
        report.bad("slot", found, to_do);
    } else if !active {
        let found = format!("no relay reads the slot {slot:?}{keeps}{left}");
        report.warning("slot", found, "start the relay: the slot keeps the WAL until one reads it");
    } else if config.failover_slot && !is_copied && failover_slot_refused(config.failover_slot, version).is_none() {
        let to_do =
            if config.create_slot { "the relay lets them at its next start" } else { "run `outbox-relay init`" };
        report.warning("slot", format!("standbys may not copy {slot:?}, although failover_slot is set"), to_do);
    } else if keeps_much {
        let to_do = "look for a long transaction (see transactions), and see in the relay's log whether it keeps up";
        report.warning("slot", format!("a relay reads {slot:?}{keeps}{left}"), to_do);
    } else {
        report.ok("slot", format!("a relay reads {slot:?}{keeps}{left}"));
    }
    Ok(keeps_much)
}
