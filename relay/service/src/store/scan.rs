//! Reading what is owed, chunk by chunk, as far as memory reaches.

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
    found::{CHUNK_BYTES, CHUNK_ROWS, Chunks, Found, LARGE},
    parse, sql,
};

impl Store {
    /// Reads what is owed to the broker, in `seq` order, without what waits for its time: chunk by chunk under one
    /// snapshot, until memory or the table ends.
    pub(super) async fn pending(&self, scan: Scan) -> Result<Page, StoreError> {
        let read = |chunks| self.read_pending(&scan, chunks);
        self.read(&scan, read, "a page of the table cannot be read: reading it row by row").await
    }

    /// Reads the deferred events whose time has come, in the order in which it came: chunk by chunk under one snapshot, until
    /// memory or the due events end.
    pub(super) async fn due(&self, scan: Scan) -> Result<Due, StoreError> {
        let read = |chunks| self.read_due(&scan, chunks);
        self.read(&scan, read, "events that are due cannot be read: reading them row by row").await
    }

    /// Reads in a transaction; once more, row by row, if that fails and a row may be the cause.
    async fn read<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        scan: &Scan,
        read: impl Fn(Chunks) -> F,
        trouble: &str,
    ) -> Result<T, StoreError> {
        let usual = Chunks { rows: self.chunk_rows.load(Relaxed), row_by_row: false };
        match self.in_transaction(read(if scan.row_by_row { Chunks::ROW_BY_ROW } else { usual })).await {
            Err(error) if error.may_be_a_rows() && !scan.row_by_row => {
                warn!(target: "relay", %error, "{trouble}");
                self.in_transaction(read(Chunks::ROW_BY_ROW)).await
            }
            done => done,
        }
    }

    /// Leaves no transaction open when the work fails.
    async fn in_transaction<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let result = work.await;
        if result.is_err() && !self.client.is_closed() {
            self.client.batch_execute(sql::ROLLBACK).await?;
        }
        result
    }

    async fn read_pending(&self, scan: &Scan, chunks: Chunks) -> Result<Page, StoreError> {
        let types: Vec<_> = scan.left_out.iter().map(|key| key.aggregate_type.as_deref()).collect();
        let ids: Vec<_> = scan.left_out.iter().map(|key| key.aggregate_id.as_str()).collect();
        let older_than = scan.older_than.map(i64::from);
        let mut found = Found::new(scan);
        let mut after_seq = scan.after_seq;
        let row_by_row = chunks.row_by_row;
        let mut counts_bytes = row_by_row;
        let chunk = async |after_seq: i64, max_rows: i32, counts_bytes: bool| {
            if counts_bytes {
                let parameters: [&(dyn ToSql + Sync); 8] =
                    [&after_seq, &max_rows, &CHUNK_BYTES, &types, &ids, &older_than, &scan.respect_holds, &row_by_row];
                self.client.query_raw(&self.pending, parameters).await
            } else {
                let parameters: [&(dyn ToSql + Sync); 6] =
                    [&after_seq, &max_rows, &types, &ids, &older_than, &scan.respect_holds];
                self.client.query_raw(&self.owed, parameters).await
            }
        };
        // One more, to see whether there are more.
        let max_holders =
            if scan.after_seq == 0 { i32::try_from(scan.max_holders).unwrap_or(i32::MAX - 1) + 1 } else { 0 };
        let parameters: [&(dyn ToSql + Sync); 1] = [&max_holders];
        // Pipelined: one round trip for the transaction's start and its first chunk.
        let ((), seen, holders, mut rows) = tokio::try_join!(
            biased;
            self.client.batch_execute(sql::BEGIN),
            self.client.query_one(&self.snapshot, &[]),
            self.client.query(&self.holding, &parameters),
            chunk(after_seq, found.may_take(chunks), counts_bytes),
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
            rows = chunk(after_seq, found.may_take(chunks), counts_bytes).await?;
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

    async fn read_due(&self, scan: &Scan, chunks: Chunks) -> Result<Due, StoreError> {
        // In this order: an event that comes due in between is then found by the chunks, and missed by none.
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
            let (rows, row_by_row) = (found.may_take(chunks), chunks.row_by_row);
            let parameters: [&(dyn ToSql + Sync); 7] =
                [&rows, &CHUNK_BYTES, &after.0, &after.1, &older_than, &scan.respect_holds, &row_by_row];
            let rows = self.client.query_raw(&self.due, parameters).await?;
            let Some((row, seq)) = self.collect(rows, &mut found, |_| Ok(None)).await?.last else { break };
            after = (row.try_get("available_at")?, seq);
        }
        self.commit_read(parse(&seen, 1)?, !found.events.is_empty()).await?;
        let next_in = next.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        Ok(Due { snapshot: parse(&seen, 0)?, events: found.events, cut: found.cut, next_in })
    }

    /// Ends a transaction that has read events. Those may be published only when the commits that the snapshot saw, all of which
    /// lie before `horizon`, are on the server's disk: one under `synchronous_commit = off` is seen before it is, and is gone
    /// after a crash. The stream needs none of this: the server streams only what is on its disk.
    async fn commit_read(&self, horizon: Lsn, has_events: bool) -> Result<(), StoreError> {
        let ((), flushed) = tokio::try_join!(biased; self.client.batch_execute(sql::COMMIT), self.client.query_one(&self.flushed, &[]))?;
        if has_events && parse::<Lsn>(&flushed, 0)? < horizon {
            self.client.query_one(&self.flush, &[&horizon.to_string()]).await?;
        }
        Ok(())
    }

    /// Adds the rows that are not in memory, up to the scan's limits, one by one as they come: printed, they can be far larger than
    /// they are stored.
    ///
    /// The server goes on sending what is not taken any more. So it is asked for as many as, going by these, print a chunk's bytes.
    async fn collect(
        &self,
        rows: RowStream,
        found: &mut Found<'_>,
        stops: fn(&Row) -> Result<Option<Stop>, Error>,
    ) -> Result<Chunk, StoreError> {
        let mut rows = pin!(rows);
        let mut chunk = Chunk::default();
        let bytes_before = found.bytes;
        let mut taken = 0_usize;
        while let Some(row) = rows.try_next().await? {
            chunk.stop = stops(&row)?;
            if chunk.stop.is_some() {
                break;
            }
            let Some(seq) = found.take(&self.layout, &row)? else { break };
            taken += 1;
            chunk.last = Some((row, seq));
        }
        if let Some(average) = (found.bytes - bytes_before).checked_div(taken) {
            let next = i32::try_from(CHUNK_BYTES.unsigned_abs() / (average as u64).max(1)).unwrap_or(CHUNK_ROWS);
            self.chunk_rows.store(next.clamp(1, CHUNK_ROWS), Relaxed);
            chunk.average_bytes = average;
        }
        // Whether there are more is not worth another chunk: the next page tells.
        found.cut |= chunk.last.is_some() && found.is_at_limit();
        Ok(chunk)
    }
}

/// What became of a chunk.
#[derive(Default)]
struct Chunk {
    /// The last row that was dealt with, and its `seq`; `None`: there was none.
    last: Option<(Row, i64)>,
    /// What the row after it is; `None`: the rows or the scan's limits have ended.
    stop: Option<Stop>,
    /// In memory, an event.
    average_bytes: usize,
}

/// A row of `outbox.owed` that is not taken.
#[derive(Clone, Copy)]
enum Stop {
    /// It comes without its contents.
    Large,
    /// The scan ends before it: its transaction may build on an event that could not be seen.
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
