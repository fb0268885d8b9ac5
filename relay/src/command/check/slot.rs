//! The slot.

use tokio_postgres::{Error, Row};

use super::finding::Report;
use crate::{
    command::{format::bytes, session::Session, sql},
    config::Config,
    error::chain,
};

/// From so much on, the log that a slot keeps is worth a look: 1 GiB.
const MUCH: i64 = 1 << 30;

pub(super) async fn look(session: &Session, config: &Config, report: &mut Report) {
    match session.client.query_opt(sql::SLOT, &[&config.slot]).await {
        Ok(None) if config.create_slot => {
            let found = format!("there is no slot {:?} yet", config.slot);
            report.warning("slot", found, "the relay makes it at its start, or run `outbox-relay init`");
        }
        Ok(None) => report.bad("slot", format!("there is no slot {:?}", config.slot), "run `outbox-relay init`"),
        Ok(Some(row)) => {
            if let Err(error) = tell(&row, config, report) {
                report.unknown("slot", chain(&error), "");
            }
        }
        Err(error) => report.unknown("slot", chain(&error), ""),
    }
}

fn tell(row: &Row, config: &Config, report: &mut Report) -> Result<(), Error> {
    let slot = &config.slot;
    let (plugin, is_here): (Option<&str>, Option<bool>) = (row.try_get(0)?, row.try_get(1)?);
    let (active, wal_status): (bool, Option<&str>) = (row.try_get(2)?, row.try_get(3)?);
    let (kept, safe): (Option<i64>, Option<i64>) = (row.try_get(4)?, row.try_get(5)?);
    let keeps = kept.map(|kept| format!(", keeps {}", bytes(kept))).unwrap_or_default();
    if is_here != Some(true) || plugin != Some("pgoutput") {
        let found = format!("the slot {slot:?} is not a pgoutput slot of this database");
        report.bad("slot", found, "choose another name with --slot, or drop that slot");
    } else if wal_status == Some("lost") {
        let found = format!("PostgreSQL has given up the slot {slot:?}");
        let to_do = "start the relay: it makes the slot anew and reads what is PENDING from the table; then look at max_slot_wal_keep_size";
        report.bad("slot", found, to_do);
    } else if wal_status == Some("unreserved") {
        let found = format!("the slot {slot:?} is about to be lost{keeps}");
        report.bad("slot", found, "see that a relay runs and keeps up, or raise max_slot_wal_keep_size");
    } else if !active {
        let found = format!("no relay reads the slot {slot:?}{keeps}");
        report.warning("slot", found, "start the relay: the slot keeps the log until one reads it");
    } else if let Some(much) = kept.filter(|kept| *kept > MUCH) {
        let found = format!("the slot {slot:?} keeps {}", bytes(much));
        report.warning("slot", found, "see in the relay's log whether it keeps up, and look for long transactions");
    } else {
        let safe = safe.map(|safe| format!(", {} until it is lost", bytes(safe))).unwrap_or_default();
        report.ok("slot", format!("a relay reads {slot:?}{keeps}{safe}"));
    }
    Ok(())
}
