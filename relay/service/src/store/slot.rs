//! The state of the slot in PostgreSQL, and the dropping of a slot.

use std::time::Duration;

use outbox_core::SlotSize;
use tokio::time::{Instant, sleep};
use tokio_postgres::{Row, error::SqlState, types::ToSql};

use super::{Blocker, Store, StoreError, sql};

/// Time limit for the server to end this relay's stream. After it, the slot is not dropped, and the next look decides.
const END_OF_STREAM: Duration = Duration::from_secs(10);
/// Pause between two checks whether the stream has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// The result of a look at the slot. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotLook {
    /// `reserved`, `extended`, `unreserved` or `lost`.
    pub(crate) wal_status: String,
    /// WAL that the slot keeps.
    pub(crate) kept: i64,
    /// WAL that may be written before the slot is lost; `None`: there is no limit.
    pub(crate) safe: Option<i64>,
    /// WAL behind the position that the relay has acknowledged; `None`: the slot is being created.
    pub(crate) unconfirmed: Option<i64>,
    /// Id of the oldest transaction whose view of the catalogues is kept for the slot.
    pub(crate) xmin: Option<String>,
    /// Whether the stream waits for the standbys of `synchronized_standby_slots`.
    pub(crate) awaits_standby: bool,
    /// The other slot of this server that keeps most WAL, and how much.
    pub(crate) other: Option<(String, i64)>,
    /// Whether the look also asked for `writer` and `locker`.
    pub(crate) asked_who: bool,
    /// The oldest writing transaction, which may keep the slot from moving on.
    pub(crate) writer: Option<Writer>,
    /// The session that has locked the table.
    pub(crate) locker: Option<Blocker>,
}

impl SlotLook {
    /// The part that the core needs.
    pub(crate) fn size(&self) -> SlotSize {
        let size = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
        SlotSize {
            kept: size(self.kept),
            safe: self.safe,
            is_unreserved: self.wal_status == "unreserved",
            kept_by_other: self.other.as_ref().map_or(0, |(_, kept)| size(*kept)),
        }
    }
}

/// The oldest writing transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) who: Blocker,
    pub(crate) xid: Option<String>,
}

impl Store {
    /// Looks at the slot; `None`: there is none. With `asks_who`, also finds what may keep it from moving on. All
    /// statements are sent at once, so that none of them runs inside a scan's transaction that begins meanwhile.
    pub(crate) async fn look_at_slot(&self, slot: &str, asks_who: bool) -> Result<Option<SlotLook>, StoreError> {
        let of_slot: [&(dyn ToSql + Sync); 1] = [&slot];
        if !asks_who {
            return read(self.client.query_opt(&self.slot, &of_slot).await?.as_ref());
        }
        let locks: [&(dyn ToSql + Sync); 1] = [&&sql::KEEP_VERDICTS_OUT[..]];
        let (slot, writer, locker) = tokio::try_join!(
            self.client.query_opt(&self.slot, &of_slot),
            self.client.query_opt(&self.oldest_transaction, &[]),
            self.client.query_opt(&self.table_lock, &locks),
        )?;
        let Some(look) = read(slot.as_ref())? else { return Ok(None) };
        let writer = writer.map(|row| Ok::<_, StoreError>(Writer { who: Blocker::read(&row)?, xid: row.try_get(5)? }));
        let locker = locker.map(|row| Blocker::read(&row)).transpose()?;
        Ok(Some(SlotLook { asked_who: true, writer: writer.transpose()?, locker, ..look }))
    }

    /// Drops the slot that `walsender`, the server process of this relay's stream, has read or created. Returns whether
    /// the slot is gone; a slot that another relay reads stays.
    pub(crate) async fn drop_slot(&self, slot: &str, walsender: i32) -> Result<bool, StoreError> {
        let until = Instant::now() + END_OF_STREAM;
        while Instant::now() < until {
            let Some(row) = self.client.query_opt(sql::OWN_SLOT_READER, &[&slot]).await? else { return Ok(true) };
            match row.try_get::<_, Option<i32>>(0)? {
                // In the middle of a large transaction the server does not notice the request to end the stream.
                Some(pid) if pid == walsender => {
                    self.client.execute("SELECT pg_catalog.pg_terminate_backend($1)", &[&pid]).await?;
                }
                Some(_) => return Ok(false),
                None => match self.client.execute(sql::DROP_SLOT, &[&slot]).await {
                    Ok(0) => {}
                    Ok(_) => return Ok(true),
                    Err(error) if error.code() == Some(&SqlState::OBJECT_IN_USE) => {}
                    Err(error) if error.code() == Some(&SqlState::UNDEFINED_OBJECT) => return Ok(true),
                    Err(error) => return Err(error.into()),
                },
            }
            sleep(PAUSE).await;
        }
        Ok(false)
    }
}

fn read(row: Option<&Row>) -> Result<Option<SlotLook>, StoreError> {
    let Some(row) = row else { return Ok(None) };
    let other: Option<(String, i64)> =
        row.try_get::<_, Option<String>>(6)?.zip(row.try_get::<_, Option<i64>>(7)?).filter(|(_, kept)| *kept > 0);
    Ok(Some(SlotLook {
        wal_status: row.try_get::<_, Option<String>>(0)?.unwrap_or_default(),
        kept: row.try_get::<_, Option<i64>>(1)?.unwrap_or_default(),
        safe: row.try_get(2)?,
        unconfirmed: row.try_get(3)?,
        xmin: row.try_get(4)?,
        awaits_standby: row.try_get(5)?,
        other,
        asked_who: false,
        writer: None,
        locker: None,
    }))
}
