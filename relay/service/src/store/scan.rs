//! Reads pending events, with one query after the other, up to the scan's limits.

use std::{
    future::Future,
    pin::pin,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, SystemTime},
};

use futures_util::TryStreamExt;
use outbox_core::{Due, KeyHolder, KeyName, Page, Scan};
use pg_replication::Lsn;
use tokio_postgres::{Error, Row, RowStream, types::ToSql};
use tracing::warn;

use super::{
    Store, StoreError,
    found::{Found, LARGE, QUERY_BYTES, QUERY_ROWS, Queries},
    parse, sql,
};

impl Store {
    /// Reads pending events that are not deferred, in the order of `seq`: by several queries under one snapshot, until
    /// the scan's limits or the end of the table.
    pub(super) async fn pending(&self, scan: Scan) -> Result<Page, StoreError> {
        let read = |queries| self.read_pending(&scan, queries);
        self.read(&scan, read, "a page of the table cannot be read: reading it row by row").await
    }

    /// Reads the deferred events that are due, in the order of their times: by several queries under one snapshot,
    /// until the scan's limits or the last due event.
    pub(super) async fn due(&self, scan: Scan) -> Result<Due, StoreError> {
        let read = |queries| self.read_due(&scan, queries);
        self.read(&scan, read, "events that are due cannot be read: reading them row by row").await
    }

    /// Reads in a transaction. If that fails and a row may be the cause, reads once more, row by row.
    async fn read<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        scan: &Scan,
        read: impl Fn(Queries) -> F,
        trouble: &str,
    ) -> Result<T, StoreError> {
        let usual = Queries { rows: self.query_rows.load(Relaxed), row_by_row: false };
        match self.in_transaction(read(if scan.row_by_row { Queries::ROW_BY_ROW } else { usual })).await {
            Err(error) if error.may_be_a_rows() && !scan.row_by_row => {
                warn!(target: "relay", %error, "{trouble}");
                self.in_transaction(read(Queries::ROW_BY_ROW)).await
            }
            done => done,
        }
    }

    /// Does the work, and rolls the transaction back if the work fails.
    async fn in_transaction<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let result = work.await;
        if result.is_err() && !self.client.is_closed() {
            self.client.batch_execute(sql::ROLLBACK).await?;
        }
        result
    }

    async fn read_pending(&self, scan: &Scan, queries: Queries) -> Result<Page, StoreError> {
        let types: Vec<_> = scan.left_out.iter().map(|key| key.aggregate_type.as_deref()).collect();
        let ids: Vec<_> = scan.left_out.iter().map(|key| key.aggregate_id.as_str()).collect();
        let older_than = scan.older_than.map(i64::from);
        let mut found = Found::new(scan);
        let mut after_seq = scan.after_seq;
        let row_by_row = queries.row_by_row;
        let mut counts_bytes = row_by_row;
        let query = async |after_seq: i64, max_rows: i32, counts_bytes: bool| {
            if counts_bytes {
                let parameters: [&(dyn ToSql + Sync); 8] =
                    [&after_seq, &max_rows, &QUERY_BYTES, &types, &ids, &older_than, &scan.respect_holds, &row_by_row];
                self.client.query_raw(&self.pending_page_by_bytes, parameters).await
            } else {
                let parameters: [&(dyn ToSql + Sync); 6] =
                    [&after_seq, &max_rows, &types, &ids, &older_than, &scan.respect_holds];
                self.client.query_raw(&self.pending_page, parameters).await
            }
        };
        // One holder more than the limit is asked for, to find out whether there are more.
        let max_holders =
            if scan.after_seq == 0 { i32::try_from(scan.max_holders).unwrap_or(i32::MAX - 1) + 1 } else { 0 };
        let parameters: [&(dyn ToSql + Sync); 1] = [&max_holders];
        // The statements are pipelined: the transaction's start and its first query take one round trip.
        let ((), seen, holders, mut rows) = tokio::try_join!(
            biased;
            self.client.batch_execute(sql::BEGIN),
            self.client.query_one(&self.snapshot, &[]),
            self.client.query(&self.key_holders, &parameters),
            query(after_seq, found.may_take(queries), counts_bytes),
        )?;
        loop {
            let read = self.collect(rows, &mut found, if counts_bytes { |_| Ok(None) } else { Stop::before }).await?;
            after_seq = read.last.as_ref().map_or(after_seq, |(_, seq)| *seq);
            match read.stop {
                Some(Stop::Large) => counts_bytes = true,
                Some(Stop::Young) => break,
                None if read.last.is_none() => break,
                None => counts_bytes = row_by_row || counts_bytes && read.average_bytes >= LARGE,
            }
            if found.cut {
                break;
            }
            rows = query(after_seq, found.may_take(queries), counts_bytes).await?;
        }
        let horizon: Lsn = parse(&seen, 1)?;
        self.commit_read(horizon, !found.events.is_empty()).await?;
        Ok(Page {
            snapshot: parse(&seen, 0)?,
            horizon: outbox_core::Lsn(horizon.0),
            stopped_at: found.cut.then_some(after_seq),
            events: found.events,
            left_out: scan.left_out.clone(),
            holders_cut: holders.len() > scan.max_holders,
            holders: holders.iter().take(scan.max_holders).map(to_holder).collect::<Result<_, _>>()?,
        })
    }

    async fn read_due(&self, scan: &Scan, queries: Queries) -> Result<Due, StoreError> {
        // The next due time is read before the events, so that an event that comes due in between is not missed.
        let ((), seen, next) = tokio::try_join!(
            biased;
            self.client.batch_execute(sql::BEGIN),
            self.client.query_one(&self.snapshot, &[]),
            self.client.query_one(&self.next_due, &[]),
        )?;
        let next: Option<i64> = next.try_get(0)?;
        let mut found = Found::new(scan);
        let mut after: (Option<SystemTime>, i64) = (None, 0);
        let older_than = scan.older_than.map(i64::from);
        while !found.cut {
            let (rows, row_by_row) = (found.may_take(queries), queries.row_by_row);
            let parameters: [&(dyn ToSql + Sync); 7] =
                [&rows, &QUERY_BYTES, &after.0, &after.1, &older_than, &scan.respect_holds, &row_by_row];
            let rows = self.client.query_raw(&self.due_page, parameters).await?;
            let Some((row, seq)) = self.collect(rows, &mut found, |_| Ok(None)).await?.last else { break };
            after = (row.try_get("available_at")?, seq);
        }
        self.commit_read(parse(&seen, 1)?, !found.events.is_empty()).await?;
        let next_in = next.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        Ok(Due { snapshot: parse(&seen, 0)?, events: found.events, cut: found.cut, next_in })
    }

    /// Ends a transaction that has read events, and waits until the WAL up to `horizon`, with all commits in the
    /// snapshot, is on the server's disk.
    ///
    /// A commit under `synchronous_commit = off` is visible before it is on disk and lost after a crash, so its events
    /// must not be published yet. The stream needs no such wait, because the server streams only WAL that is on its
    /// disk.
    async fn commit_read(&self, horizon: Lsn, has_events: bool) -> Result<(), StoreError> {
        let ((), flushed) = tokio::try_join!(
            biased;
            self.client.batch_execute(sql::COMMIT),
            self.client.query_one(&self.flushed, &[]),
        )?;
        if has_events && parse::<Lsn>(&flushed, 0)? < horizon {
            self.client.query_one(&self.flush, &[&horizon.to_string()]).await?;
        }
        Ok(())
    }

    /// Adds the rows whose events are not in memory, up to the scan's limits. The rows are taken one by one as they
    /// come, because they can be far larger printed than stored.
    ///
    /// The server also sends the rows that are not taken. The next query therefore asks for as many rows as, at the
    /// average size of these, print [`QUERY_BYTES`].
    async fn collect(
        &self,
        rows: RowStream,
        found: &mut Found<'_>,
        stops: fn(&Row) -> Result<Option<Stop>, Error>,
    ) -> Result<Read, StoreError> {
        let mut rows = pin!(rows);
        let mut read = Read::default();
        let bytes_before = found.bytes;
        let mut taken = 0_usize;
        while let Some(row) = rows.try_next().await? {
            read.stop = stops(&row)?;
            if read.stop.is_some() {
                break;
            }
            let Some(seq) = found.take(&self.layout, &row)? else { break };
            taken += 1;
            read.last = Some((row, seq));
        }
        if let Some(average) = (found.bytes - bytes_before).checked_div(taken) {
            let next = i32::try_from(QUERY_BYTES.unsigned_abs() / (average as u64).max(1)).unwrap_or(QUERY_ROWS);
            self.query_rows.store(next.clamp(1, QUERY_ROWS), Relaxed);
            read.average_bytes = average;
        }
        // A scan at its limit may be complete. Another query to find out is not worth its cost; the next scan shows it.
        found.cut |= read.last.is_some() && found.is_at_limit();
        Ok(read)
    }
}

/// The result of one query.
#[derive(Default)]
struct Read {
    /// The last row that was dealt with, and its `seq`; `None`: there was none.
    last: Option<(Row, i64)>,
    /// Why the row after `last` was not taken; `None`: there was none, or the scan has reached a limit.
    stop: Option<Stop>,
    /// Average memory of an event, in bytes.
    average_bytes: usize,
}

/// Why a row of `outbox.pending_page` is not taken.
#[derive(Clone, Copy)]
enum Stop {
    /// The row comes without its contents, which are large.
    Large,
    /// The row's transaction may depend on an event that was not visible, so the scan ends before the row.
    Young,
}

impl Stop {
    fn before(row: &Row) -> Result<Option<Self>, Error> {
        let (is_large, is_old) = (row.try_get("is_large")?, row.try_get::<_, bool>("is_old")?);
        Ok(if !is_old {
            Some(Self::Young)
        } else if is_large {
            Some(Self::Large)
        } else {
            None
        })
    }
}

fn to_holder(row: &Row) -> Result<KeyHolder, StoreError> {
    Ok(KeyHolder {
        id: row.try_get(0)?,
        key: KeyName { aggregate_type: row.try_get(1)?, aggregate_id: row.try_get(2)? },
    })
}
