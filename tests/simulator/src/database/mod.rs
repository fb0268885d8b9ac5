//! A simulated PostgreSQL: transactions that are committed before they are visible, a WAL that is on disk up to a
//! position, and one slot.
//!
//! | module | what it has |
//! |---|---|
//! | `row` | an event as it was emitted, its row, changes of it, and what the relay reads |
//! | `functions` | the extension's functions (`sql/*.sql`) over the rows |

mod functions;
mod row;

use std::collections::{BTreeMap, BTreeSet};

use outbox_core::{Doubts, Finished, InDoubt, Kind, Marked, Marks, SlotSize, Snapshot, Status, marked};

pub(crate) use self::{
    functions::Executed,
    row::{Change, Emitted, Row, Transaction, id_of, seq_of, streamed},
};

/// Microseconds since the run began.
pub(crate) type Micros = u64;

/// A commit in the WAL.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) xid: u64,
    /// Position of the commit, and the position behind it.
    pub(crate) lsn: u64,
    pub(crate) end: u64,
    pub(crate) inserts: Vec<Emitted>,
    pub(crate) deferred_until: Vec<Option<Micros>>,
    /// Whether the transaction wakes the relay, by a message.
    pub(crate) has_message: bool,
    /// The publication at the time, by number.
    pub(crate) publication: u64,
    /// Whether the server cannot send it.
    pub(crate) is_unstreamable: bool,
    /// When it was written.
    pub(crate) at: Micros,
}

marked!(Entry {
    xid as Xid, lsn as Lsn, end as Lsn, inserts, has_message, publication, at
} not { deferred_until, is_unstreamable });

impl Entry {
    /// Whether the stream brings anything of it.
    pub(crate) fn is_streamed(&self) -> bool {
        !self.inserts.is_empty() || self.has_message
    }
}

/// The replication slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) confirmed: u64,
    /// The session that reads the slot or creates it.
    pub(crate) reader: Option<u64>,
    /// A slot that is still being created is dropped with its session.
    pub(crate) is_created: bool,
    /// The slot keeps the WAL from here on, whatever is confirmed, since a transaction that was open then is still
    /// open.
    pub(crate) kept_from: Option<u64>,
}

marked!(Slot { confirmed as Lsn, is_created, kept_from as Lsn } not { reader });

#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) rows: BTreeMap<i64, Row>,
    pub(crate) open: BTreeMap<u64, Transaction>,
    /// Committed transactions that are not yet visible.
    pub(crate) hidden: BTreeMap<u64, Transaction>,
    pub(crate) wal: Vec<Entry>,
    pub(crate) flushed: u64,
    pub(crate) wal_end: u64,
    pub(crate) slot: Option<Slot>,
    pub(crate) is_up: bool,
    /// Whether the publication has the table, and a number that changes with that.
    pub(crate) is_published: bool,
    pub(crate) publication: u64,
    /// The transaction that last changed the publication; `None`: it changed long ago.
    published_by: Option<u64>,
    /// The relay may not repair the publication before this time.
    pub(crate) repairs_refused_until: Micros,
    /// WAL that the largest other slot of this server keeps.
    pub(crate) kept_by_other: u64,
    /// Statements fail until this time.
    pub(crate) statements_fail_until: Micros,
    /// What relays have kept of events whose verdicts are late.
    in_doubt: BTreeMap<i64, InDoubt>,
    /// The floor that a session has kept.
    pub(crate) floor: Option<i64>,
    next_xid: u64,
    next_seq: i64,
}

/// The WAL is left out: what a session has read of it and can still read counts (`relay::Session`).
impl Marked for Database {
    fn mark(&self, marks: &mut Marks) {
        self.rows.mark(marks);
        for (xid, transaction) in self.open.iter().chain(&self.hidden) {
            marks.counted(Kind::Xid, xid);
            transaction.mark(marks);
        }
        marks.plain(self.open.len() as u64);
        marks.counted(Kind::Lsn, &self.flushed);
        marks.counted(Kind::Lsn, &self.wal_end);
        marks.counted(Kind::Xid, &self.published_by);
        marks.counted(Kind::Xid, &self.next_xid);
        (&self.slot, (self.is_published, self.publication)).mark(marks);
        (self.next_seq, self.is_up).mark(marks);
        (&self.in_doubt, self.floor.is_some()).mark(marks);
    }
}

impl Database {
    pub(crate) fn new(first_xid: u64) -> Self {
        Self {
            rows: BTreeMap::new(),
            open: BTreeMap::new(),
            hidden: BTreeMap::new(),
            wal: Vec::new(),
            flushed: 0,
            wal_end: 1,
            slot: None,
            is_up: true,
            is_published: true,
            publication: 0,
            published_by: None,
            repairs_refused_until: 0,
            kept_by_other: 0,
            statements_fail_until: 0,
            in_doubt: BTreeMap::new(),
            floor: None,
            next_xid: first_xid,
            next_seq: 1,
        }
    }

    pub(crate) fn begin(&mut self) -> u64 {
        let xid = self.take_xid();
        self.open.insert(xid, Transaction::default());
        xid
    }

    fn take_xid(&mut self) -> u64 {
        self.next_xid += 1;
        self.next_xid - 1
    }

    pub(crate) fn next_seq(&mut self) -> i64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// Writes the commit into the WAL. It becomes visible later. Returns whether the transaction was open.
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
        self.wal.push(Entry {
            xid,
            lsn,
            end: self.wal_end,
            inserts,
            deferred_until,
            has_message,
            publication: self.publication,
            is_unstreamable,
            at,
        });
        if !is_async {
            self.flushed = self.wal_end;
        }
    }

    /// The transaction becomes visible.
    pub(crate) fn show(&mut self, xid: u64) -> Option<Transaction> {
        let transaction = self.hidden.remove(&xid)?;
        for change in &transaction.changes {
            match change {
                Change::Insert(emitted, until) => {
                    self.rows.insert(emitted.seq, Row::new(emitted.clone(), *until, xid));
                }
                Change::Replay(seq, _) => {
                    if let Some(row) = self.rows.get_mut(seq) {
                        row.replay(xid);
                    }
                }
            }
        }
        Some(transaction)
    }

    /// An operator changes a row in a short transaction. Returns whether there was such a row.
    pub(crate) fn update(&mut self, seq: i64, now: Micros, change: impl FnOnce(&mut Row) -> bool) -> bool {
        let xid = self.next_xid;
        let Some(row) = self.rows.get_mut(&seq) else { return false };
        let held = row.holds_key;
        if !change(row) {
            return false;
        }
        row.writer = xid;
        let wakes = held && !row.holds_key;
        let xid = self.take_xid();
        self.append(xid, Vec::new(), wakes, false, false, now);
        true
    }

    /// Someone writes WAL that has nothing to do with the outbox.
    pub(crate) fn write_elsewhere(&mut self, bytes: u64) {
        self.wal_end += bytes;
        self.flushed = self.wal_end;
    }

    /// What a look at the slot finds.
    pub(crate) fn slot_size(&self) -> Option<SlotSize> {
        let slot = self.slot.as_ref()?;
        let from = slot.kept_from.map_or(slot.confirmed, |kept_from| kept_from.min(slot.confirmed));
        let kept = self.wal_end.saturating_sub(from);
        Some(SlotSize { kept, kept_by_other: self.kept_by_other, ..SlotSize::default() })
    }

    /// Flushes the WAL to disk.
    pub(crate) fn flush(&mut self) {
        self.flushed = self.wal_end;
    }

    /// The server crashes and comes back with the WAL on disk, less `drop` commits that a standby did not have. Returns
    /// the rows that are gone, each with whether it had been on disk, and the transactions that become visible.
    pub(crate) fn crash(&mut self, drop: usize) -> (Vec<(i64, bool)>, Vec<Transaction>) {
        let keep = self.wal.iter().take_while(|entry| entry.end <= self.flushed).count();
        let gone: Vec<Entry> = self.wal.split_off(keep.saturating_sub(drop));
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
        self.wal_end = self.wal.last().map_or(1, |entry| entry.end);
        if let Some(slot) = &mut self.slot {
            slot.reader = None;
            slot.confirmed = slot.confirmed.min(self.wal_end);
        }
        self.slot.take_if(|slot| !slot.is_created);
        // WAL positions of the new timeline differ from all earlier ones.
        self.wal_end += 100_000;
        self.flushed = self.wal_end;
        (seqs, shown)
    }

    /// When the newest `SENT` row became so; `None`: there is none.
    pub(crate) fn last_settled(&self) -> Option<Micros> {
        self.rows.values().filter_map(|row| row.sent_at).max()
    }

    /// `outbox.keep_in_doubt`.
    fn keep_in_doubt(&mut self, doubts: Doubts) -> Finished {
        self.in_doubt.extend(doubts.events.iter().map(|kept| (seq_of(&kept.id), *kept)));
        self.floor = doubts.floor_us;
        Finished::Kept(doubts)
    }

    /// `outbox.events_in_doubt`.
    pub(crate) fn events_in_doubt(&self) -> Vec<InDoubt> {
        // A row that is missing may not be visible yet.
        let is_open = |(seq, kept): &(&i64, &InDoubt)| {
            self.rows.get(seq).is_none_or(|row| row.status == Status::Pending && row.replays == kept.replays)
        };
        self.in_doubt.iter().filter(is_open).map(|(_, kept)| *kept).collect()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let running: Vec<u64> = self.open.keys().chain(self.hidden.keys()).copied().collect();
        let xmin = running.iter().min().copied().unwrap_or(self.next_xid);
        Snapshot::new(xmin, self.next_xid, running)
    }
}
