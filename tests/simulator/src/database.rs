//! A simulated PostgreSQL: transactions that are committed before they can be seen, a log that is on disk up to a point, one slot,
//! and the extension's functions (`sql/*.sql`) over its rows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use outbox_core::{
    Batch, Due, Event, Failure, Finished, KeyHolder, KeyName, Lsn, NotWritten, Page, Published, Remedy, Request, Scan,
    ScanFrom, Snapshot, Status, Text,
    faults::{Fault, is_on},
};
use uuid::Uuid;

/// Microseconds since the run began.
pub(crate) type Micros = u64;

/// What an event is from its emission on.
#[derive(Clone, Debug)]
pub(crate) struct Emitted {
    pub(crate) seq: i64,
    pub(crate) key: Option<u64>,
    pub(crate) topic: usize,
    pub(crate) is_poison: bool,
    pub(crate) is_oversized: bool,
    pub(crate) is_deferred: bool,
}

/// A row that can be seen.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) emitted: Emitted,
    pub(crate) status: Status,
    pub(crate) attempts: u32,
    pub(crate) first_attempted_at: Option<Micros>,
    pub(crate) available_at: Option<Micros>,
    pub(crate) holds_key: bool,
    /// The transaction that wrote it last.
    pub(crate) writer: u64,
    /// Locked by someone else until then.
    pub(crate) locked_until: Micros,
    /// A trigger refuses its verdict until then.
    pub(crate) refused_until: Micros,
}

/// A change that a transaction makes.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Insert(Emitted, Option<Micros>),
    /// SENT or FAILED to PENDING; whether its trigger writes a message.
    Replay(i64, bool),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) changes: Vec<Change>,
}

/// What the log has of a commit.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) xid: u64,
    /// Where the commit stands, and where it ends.
    pub(crate) lsn: u64,
    pub(crate) end: u64,
    pub(crate) inserts: Vec<Emitted>,
    pub(crate) deferred_until: Vec<Option<Micros>>,
    /// Rows became `PENDING` again, and a message says so.
    pub(crate) has_message: bool,
    /// The table was in the publication.
    pub(crate) is_published: bool,
    /// The publication as it was.
    pub(crate) publication: u64,
    /// The server cannot send it.
    pub(crate) is_unstreamable: bool,
    /// When it was written.
    pub(crate) at: Micros,
}

/// The replication slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) confirmed: u64,
    /// The session that reads it.
    pub(crate) reader: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) rows: BTreeMap<i64, Row>,
    pub(crate) open: BTreeMap<u64, Transaction>,
    /// In the log, and not visible to others yet.
    pub(crate) hidden: BTreeMap<u64, Transaction>,
    pub(crate) log: Vec<Entry>,
    pub(crate) flushed: u64,
    pub(crate) wal_end: u64,
    pub(crate) slot: Option<Slot>,
    pub(crate) is_up: bool,
    /// The publication has the table; and a number that changes when it does.
    pub(crate) is_published: bool,
    pub(crate) publication: u64,
    /// Statements that write, and that read, fail until then.
    pub(crate) statements_fail_until: Micros,
    next_xid: u64,
    next_seq: i64,
}

/// The end of an operation on the table, and whether it waits for the log to be on disk.
pub(crate) struct Executed {
    pub(crate) finished: Finished,
    pub(crate) wait: Duration,
    /// What was written: event, status.
    pub(crate) written: Vec<(i64, Status)>,
}

pub(crate) fn id_of(seq: i64) -> Uuid {
    // Spread, as ids of version 7 are in their low half.
    Uuid::from_u128((seq as u128) << 64 | u128::from((seq as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

pub(crate) fn seq_of(id: &Uuid) -> i64 {
    (id.as_u128() >> 64) as i64
}

fn key_name(key: u64) -> KeyName {
    KeyName { aggregate_type: None, aggregate_id: key.to_string() }
}

impl Database {
    pub(crate) fn new(first_xid: u64) -> Self {
        Self {
            rows: BTreeMap::new(),
            open: BTreeMap::new(),
            hidden: BTreeMap::new(),
            log: Vec::new(),
            flushed: 0,
            wal_end: 1,
            slot: None,
            is_up: true,
            is_published: true,
            publication: 0,
            statements_fail_until: 0,
            next_xid: first_xid,
            next_seq: 1,
        }
    }

    pub(crate) fn begin(&mut self) -> u64 {
        let xid = self.take_xid();
        self.open.insert(xid, Transaction::default());
        xid
    }

    pub(crate) fn next_seq(&mut self) -> i64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// Writes the commit into the log. It is visible later.
    pub(crate) fn commit(&mut self, xid: u64, is_async: bool, is_unstreamable: bool, now: Micros) -> bool {
        let Some(transaction) = self.open.remove(&xid) else { return false };
        let inserts: Vec<(Emitted, Option<Micros>)> = transaction
            .changes
            .iter()
            .filter_map(|change| match change {
                Change::Insert(emitted, until) => Some((emitted.clone(), *until)),
                Change::Replay(..) => None,
            })
            .collect();
        let has_message = transaction.changes.iter().any(|change| matches!(change, Change::Replay(_, true)));
        self.append(xid, inserts, has_message, is_unstreamable, is_async, now);
        self.hidden.insert(xid, transaction);
        true
    }

    fn append(
        &mut self,
        xid: u64,
        inserts: Vec<(Emitted, Option<Micros>)>,
        has_message: bool,
        is_unstreamable: bool,
        is_async: bool,
        at: Micros,
    ) {
        let lsn = self.wal_end + 10;
        self.wal_end = lsn + 5;
        let (inserts, deferred_until) = inserts.into_iter().unzip();
        self.log.push(Entry {
            xid,
            lsn,
            end: self.wal_end,
            inserts,
            deferred_until,
            has_message,
            is_published: self.is_published,
            publication: self.publication,
            is_unstreamable,
            at,
        });
        if !is_async {
            self.flushed = self.wal_end;
        }
    }

    /// What the transaction wrote can be seen from now on.
    pub(crate) fn show(&mut self, xid: u64) -> Option<Transaction> {
        let transaction = self.hidden.remove(&xid)?;
        for change in &transaction.changes {
            match change {
                Change::Insert(emitted, until) => {
                    let row = Row {
                        emitted: emitted.clone(),
                        status: Status::Pending,
                        attempts: 0,
                        first_attempted_at: None,
                        available_at: *until,
                        holds_key: false,
                        writer: xid,
                        locked_until: 0,
                        refused_until: 0,
                    };
                    self.rows.insert(emitted.seq, row);
                }
                Change::Replay(seq, _) => {
                    if let Some(row) = self.rows.get_mut(seq) {
                        row.status = Status::Pending;
                        row.attempts = 0;
                        row.first_attempted_at = None;
                        row.available_at = None;
                        row.holds_key = false;
                        row.writer = xid;
                        row.locked_until = 0;
                    }
                }
            }
        }
        Some(transaction)
    }

    /// A change by an operator's own short transaction. Returns whether there was such a row.
    pub(crate) fn update(&mut self, seq: i64, now: Micros, change: impl FnOnce(&mut Row) -> bool) -> bool {
        let xid = self.next_xid;
        let Some(row) = self.rows.get_mut(&seq) else { return false };
        let held = row.holds_key;
        if !change(row) {
            return false;
        }
        row.writer = xid;
        let rings = held && !row.holds_key;
        let xid = self.take_xid();
        self.append(xid, Vec::new(), rings, false, false, now);
        true
    }

    /// The log on disk, as far as it is written.
    pub(crate) fn flush(&mut self) {
        self.flushed = self.wal_end;
    }

    /// The server dies and comes back with what was on disk, less `drop` commits: those that a standby did not have. Returns the rows
    /// that are gone, and whether they had been on disk; and the transactions that can be seen from now on.
    pub(crate) fn crash(&mut self, drop: usize) -> (Vec<(i64, bool)>, Vec<Transaction>) {
        let keep = self.log.iter().take_while(|entry| entry.end <= self.flushed).count();
        let gone: Vec<Entry> = self.log.split_off(keep.saturating_sub(drop));
        self.open.clear();
        let mut shown = Vec::new();
        let lost: BTreeSet<u64> = gone.iter().map(|entry| entry.xid).collect();
        for xid in self.hidden.keys().copied().collect::<Vec<_>>() {
            if lost.contains(&xid) {
                self.hidden.remove(&xid);
            } else {
                shown.extend(self.show(xid));
            }
        }
        let flushed = self.flushed;
        let rows = |entry: &Entry| -> Vec<(i64, bool)> {
            entry.inserts.iter().map(|emitted| (emitted.seq, entry.end <= flushed)).collect()
        };
        let seqs: Vec<(i64, bool)> = gone.iter().flat_map(rows).collect();
        for (seq, _) in &seqs {
            self.rows.remove(seq);
        }
        for row in self.rows.values_mut() {
            row.locked_until = 0;
        }
        self.wal_end = self.log.last().map_or(1, |entry| entry.end);
        if let Some(slot) = &mut self.slot {
            slot.reader = None;
            slot.confirmed = slot.confirmed.min(self.wal_end);
        }
        // Log positions of the new timeline do not repeat those that were seen.
        self.wal_end += 100_000;
        self.flushed = self.wal_end;
        (seqs, shown)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let running: Vec<u64> = self.open.keys().chain(self.hidden.keys()).copied().collect();
        let xmin = running.iter().min().copied().unwrap_or(self.next_xid);
        Snapshot::new(xmin, self.next_xid, running)
    }

    /// Runs an operation, at this moment.
    pub(crate) fn execute(&mut self, request: Request, now: Micros) -> Executed {
        let fails = self.statements_fail_until > now;
        let failure = |remedy| Failure { remedy, error: "a deadlock, for all that is known".to_owned() };
        let mut wait = Duration::ZERO;
        let mut written = Vec::new();
        let finished = match request {
            Request::Settle(batch) if fails => Finished::NotSettled(batch, failure(Remedy::Repeat)),
            Request::Settle(batch) => self.settle(batch, now, &mut wait, &mut written),
            Request::Snapshot => Finished::Snapshot(self.snapshot()),
            _ if fails => Finished::NotRead(failure(Remedy::Repeat)),
            Request::Scan(from, scan) => {
                let page = self.pending(from, scan);
                if !page.events.is_empty() && self.flushed < page.horizon.0 && !is_on(Fault::VisibleNotFlushed) {
                    self.flush();
                    wait = Duration::from_millis(2);
                }
                Finished::Scanned(from, page)
            }
            Request::Due(scan) => {
                let due = self.due(&scan, now);
                if !due.events.is_empty() && !is_on(Fault::VisibleNotFlushed) {
                    self.flush();
                }
                Finished::Due(due)
            }
            Request::LookAtPublication => Finished::Published(Published {
                identity: self.is_published.then(|| self.publication.to_string()),
                snapshot: self.snapshot(),
            }),
            Request::EnsurePublication => {
                let outcome = if self.is_published { "exists" } else { "table added" };
                if !self.is_published {
                    self.is_published = true;
                    self.publication += 1;
                }
                Finished::PublicationEnsured(outcome.to_owned())
            }
        };
        Executed { finished, wait, written }
    }

    /// `outbox.settle`.
    fn settle(&mut self, batch: Batch, now: Micros, wait: &mut Duration, written: &mut Vec<(i64, Status)>) -> Finished {
        let mut not_written = NotWritten::default();
        let row_of = |id: &Uuid| self.rows.get(&seq_of(id));
        if !batch.skip_locked
            && batch.verdicts.iter().filter_map(|verdict| row_of(&verdict.id)).any(|row| row.locked_until > now)
        {
            *wait = Duration::from_millis(250);
            let failure = Failure { remedy: Remedy::PassLocks, error: "lock timeout".to_owned() };
            return Finished::NotSettled(batch, failure);
        }
        let is_refused =
            |row: &Row| row.refused_until > now && row.status == Status::Pending && row.locked_until <= now;
        if batch.verdicts.iter().filter_map(|verdict| row_of(&verdict.id)).any(is_refused) {
            let failure = Failure { remedy: Remedy::Isolate, error: "a trigger says no".to_owned() };
            return Finished::NotSettled(batch, failure);
        }
        let xid = self.take_xid();
        let mut rings = false;
        for verdict in &batch.verdicts {
            let seq = seq_of(&verdict.id);
            let Some(row) = self.rows.get_mut(&seq) else {
                not_written.missing.push(verdict.id);
                continue;
            };
            if row.locked_until > now {
                not_written.locked.push(verdict.id);
                continue;
            }
            if row.status != Status::Pending {
                if verdict.status == Status::Pending || verdict.holds_key {
                    not_written.finished.push(verdict.id);
                }
                continue;
            }
            let held = row.holds_key;
            row.status = verdict.status;
            row.holds_key = verdict.holds_key;
            row.writer = xid;
            if verdict.status != Status::Pending || verdict.error.is_some() {
                row.attempts += 1;
            }
            if verdict.status == Status::Pending {
                let retry = u64::try_from(verdict.retry_in.unwrap_or_default().as_micros()).unwrap_or(u64::MAX);
                row.available_at = Some(now.saturating_add(retry / 1000 * 1000));
                if verdict.error.is_some() {
                    row.first_attempted_at.get_or_insert(now);
                }
            }
            rings |= held && !row.holds_key;
            written.push((seq, verdict.status));
        }
        self.append(xid, Vec::new(), rings, false, false, now);
        Finished::Settled(batch, not_written)
    }

    /// `outbox.pending`, and what the relay makes of its chunks.
    fn pending(&self, from: ScanFrom, scan: Scan) -> Page {
        let holders: Vec<(i64, u64)> = self.holders();
        // A row that is older is frozen.
        let age = |xid: u64| self.next_xid.saturating_sub(xid).min((1 << 31) - 1) as u32;
        let is_old = |row: &Row| {
            scan.older_than.is_none_or(|oldest| age(row.writer) > (self.next_xid as u32).wrapping_sub(oldest))
        };
        let mut page = Page {
            snapshot: self.snapshot(),
            horizon: Lsn(self.wal_end),
            events: Vec::new(),
            stopped_at: None,
            left_out: scan.left_out.clone(),
            holders: Vec::new(),
            holders_cut: false,
        };
        if scan.after_seq == 0 {
            let named = |(seq, key): &(i64, u64)| KeyHolder { key: key_name(*key), id: id_of(*seq) };
            page.holders = holders.iter().take(scan.max_holders).map(named).collect();
            page.holders_cut = holders.len() > scan.max_holders;
        }
        let (mut bytes, mut last) = (0, scan.after_seq);
        for (&seq, row) in self.rows.range(scan.after_seq + 1..) {
            if row.status != Status::Pending || row.available_at.is_some() {
                continue;
            }
            let is_left_out = row.emitted.key.is_some_and(|key| scan.left_out.contains(&key_name(key)));
            if is_left_out || scan.heed_holders && is_behind(row, &holders) {
                continue;
            }
            if !is_old(row) {
                break;
            }
            if !scan.known.contains(&id_of(seq)) {
                if page.events.len() >= scan.max_rows || bytes >= scan.max_bytes {
                    page.stopped_at = Some(last);
                    break;
                }
                let event = event(row);
                bytes += event.memory();
                page.events.push(Arc::new(event));
            }
            last = seq;
        }
        debug_assert!(from.after_seq == scan.after_seq, "one beginning");
        page
    }

    /// `outbox.due` and `outbox.next_due`.
    fn due(&self, scan: &Scan, now: Micros) -> Due {
        let holders = self.holders();
        let waiting = self.rows.values().filter(|row| row.status == Status::Pending);
        let next = waiting.clone().filter_map(|row| row.available_at).filter(|at| *at > now).min();
        let mut rows: Vec<&Row> = waiting.filter(|row| row.available_at.is_some_and(|at| at <= now)).collect();
        rows.sort_by_key(|row| (row.available_at, row.emitted.seq));
        let mut due = Due {
            snapshot: self.snapshot(),
            events: Vec::new(),
            cut: false,
            next_in: next.map(|at| Duration::from_millis((at - now).div_ceil(1000))),
        };
        let mut bytes = 0;
        for row in rows {
            if !row.holds_key && scan.heed_holders && is_behind(row, &holders)
                || scan.known.contains(&id_of(row.emitted.seq))
            {
                continue;
            }
            if due.events.len() >= scan.max_rows || bytes >= scan.max_bytes {
                due.cut = true;
                break;
            }
            let is_left_out = row.emitted.key.is_some_and(|key| scan.left_out.contains(&key_name(key)));
            if row.holds_key || !is_left_out {
                let event = event(row);
                bytes += event.memory();
                due.events.push(Arc::new(event));
            }
        }
        due
    }

    fn holders(&self) -> Vec<(i64, u64)> {
        let holds = |row: &&Row| row.holds_key;
        self.rows.values().filter(holds).filter_map(|row| Some((row.emitted.seq, row.emitted.key?))).collect()
    }

    fn take_xid(&mut self) -> u64 {
        self.next_xid += 1;
        self.next_xid - 1
    }
}

fn is_behind(row: &Row, holders: &[(i64, u64)]) -> bool {
    row.emitted.key.is_some_and(|key| holders.iter().any(|(seq, held)| *held == key && *seq != row.emitted.seq))
}

fn event(row: &Row) -> Event {
    Event {
        attempts: row.attempts,
        first_attempted_at_us: row.first_attempted_at.map(|at| at as i64),
        holds_key: row.holds_key,
        ..streamed(&row.emitted)
    }
}

/// The event as it was inserted.
pub(crate) fn streamed(emitted: &Emitted) -> Event {
    const TOPICS: [&str; 3] = ["a", "b", "c"];
    Event {
        id: id_of(emitted.seq),
        seq: emitted.seq,
        exchange: None,
        topic: Text::from_static(TOPICS.get(emitted.topic).copied().unwrap_or("a")),
        event_type: emitted.is_poison.then_some(Text::from_static("poison")),
        aggregate_type: None,
        aggregate_id: emitted.key.and_then(|key| Text::new(Bytes::from(key.to_string())).ok()),
        body: Ok(Bytes::new()),
        content_type: Text::from_static("application/json"),
        headers: None,
        correlation_id: None,
        created_at_us: 0,
        attempts: 0,
        first_attempted_at_us: None,
        holds_key: false,
    }
}
