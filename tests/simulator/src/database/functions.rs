//! The extension's functions, as the relay calls them. Each operation on the table runs at one moment.

use std::{sync::Arc, time::Duration};

use outbox_core::{
    Batch, Due, Failure, Finished, KeyHolder, KeyName, Lsn, NotWritten, Page, Published, Remedy, Request, Scan,
    ScanFrom, Sequence, Status,
    faults::{Fault, is_on},
    marked,
};
use uuid::Uuid;

use super::{Change, Database, Micros, Row, Transaction, id_of, seq_of};

/// The end of an operation on the table, and how long it takes, for instance to flush the WAL.
#[derive(Clone)]
pub(crate) struct Executed {
    pub(crate) finished: Finished,
    pub(crate) wait: Duration,
    /// The verdicts that were written: event and status.
    pub(crate) written: Vec<(i64, Status)>,
}

marked!(Executed { finished } not { wait, written });

impl Database {
    /// Runs an operation at this moment.
    pub(crate) fn execute(&mut self, request: Request, now: Micros) -> Executed {
        let fails = self.statements_fail_until > now;
        let failure = |remedy| Failure { remedy, error: "a deadlock, for all that is known".to_owned() };
        let mut wait = Duration::ZERO;
        let mut written = Vec::new();
        let finished = match request {
            Request::Settle(batch) if fails => Finished::NotSettled(batch, failure(Remedy::Repeat)),
            Request::Settle(batch) => self.settle(batch, now, &mut wait, &mut written),
            Request::Keep(_) if fails => Finished::NotKept { is_transient: true, error: "a deadlock".to_owned() },
            Request::Keep(doubts) => self.keep_in_doubt(doubts),
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
            Request::LookAtPublication => Finished::Published(self.published()),
            Request::EnsurePublication => self.ensure_publication(now),
            Request::EnsureSequence if self.repairs_refused_until > now => {
                Finished::Sequence(Sequence::Refused("a trigger that freezes DDL".to_owned()))
            }
            Request::EnsureSequence => Finished::Sequence(Sequence::InOrder),
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
        let mut wakes = false;
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
            row.sent_at = (verdict.status == Status::Sent).then_some(now);
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
            wakes |= held && !row.holds_key;
            written.push((seq, verdict.status));
        }
        self.append(xid, Vec::new(), wakes, false, false, now);
        Finished::Settled(batch, not_written)
    }

    /// `outbox.pending_page` and `outbox.pending_page_by_bytes`.
    fn pending(&self, from: ScanFrom, scan: Scan) -> Page {
        let holders: Vec<(i64, u64)> = self.holders();
        let is_old = |row: &Row| scan.older_than.is_none_or(|oldest| self.is_older(row, oldest));
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
            if is_left_out || scan.respect_holds && is_behind(row, &holders) {
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
                let event = row.event();
                bytes += event.memory();
                page.events.push(Arc::new(event));
            }
            last = seq;
        }
        debug_assert!(from.after_seq == scan.after_seq, "one beginning");
        page
    }

    /// `age(row.xmin) > age(oldest)`, where a very old row counts as frozen. No row is older than 0.
    fn is_older(&self, row: &Row, oldest: u32) -> bool {
        let age = self.next_xid.saturating_sub(row.writer).min((1 << 31) - 1) as u32;
        oldest > 0 && age > (self.next_xid as u32).wrapping_sub(oldest)
    }

    /// `outbox.due_page` and `outbox.next_due`.
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
            let waits_for_pass = row.emitted.key.is_some()
                && !row.holds_key
                && scan.older_than.is_some_and(|oldest| !self.is_older(row, oldest));
            if waits_for_pass
                || !row.holds_key && scan.respect_holds && is_behind(row, &holders)
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
                let event = row.event();
                bytes += event.memory();
                due.events.push(Arc::new(event));
            }
        }
        due
    }

    /// The events that a session leaves to the table for longer: their keys are held or have spilled, or they are not
    /// visible yet. `knows`: whether the session has them in memory.
    pub(crate) fn left_out(&self, knows: impl Fn(&Uuid) -> bool) -> Vec<i64> {
        let holders = self.holders();
        let is_left_out = |row: &&Row| {
            let is_out = row.available_at.is_none() && row.emitted.key.is_some() || is_behind(row, &holders);
            is_out && row.status == Status::Pending && !knows(&id_of(row.emitted.seq))
        };
        let inserted = |change: &Change| if let Change::Insert(emitted, _) = change { Some(emitted.seq) } else { None };
        let invisible = self.hidden.values().flat_map(|hidden| &hidden.changes).filter_map(inserted);
        self.rows.values().filter(is_left_out).map(|row| row.emitted.seq).chain(invisible).collect()
    }

    /// The publication as a look finds it.
    fn published(&self) -> Published {
        let has_written = |(_, transaction): &(&u64, &Transaction)| !transaction.changes.is_empty();
        let writers = self.open.iter().chain(&self.hidden).filter(has_written).map(|(xid, _)| *xid as u32).collect();
        Published {
            identity: self.is_published.then(|| self.publication.to_string()),
            changed_by: self.published_by.iter().map(|xid| *xid as u32).collect(),
            snapshot: self.snapshot(),
            writers: Some(writers),
        }
    }

    /// Adds the table to the publication, or takes it out. No other transaction begins meanwhile: docs/failures.md
    /// describes the case that this leaves out.
    pub(crate) fn publish(&mut self, is_published: bool) {
        if self.is_published != is_published {
            self.is_published = is_published;
            self.publication += 1;
            self.published_by = Some(self.take_xid());
        }
    }

    /// `outbox.ensure_publication`.
    fn ensure_publication(&mut self, now: Micros) -> Finished {
        if self.is_published {
            return Finished::PublicationEnsured(None);
        }
        if self.repairs_refused_until > now {
            return Finished::PublicationRefused("a trigger that freezes DDL".to_owned());
        }
        self.publish(true);
        Finished::PublicationEnsured(Some("table added".to_owned()))
    }

    /// The events that hold a key, with their keys.
    fn holders(&self) -> Vec<(i64, u64)> {
        let holds = |row: &&Row| row.holds_key;
        self.rows.values().filter(holds).filter_map(|row| Some((row.emitted.seq, row.emitted.key?))).collect()
    }
}

/// Whether another event holds the row's key.
fn is_behind(row: &Row, holders: &[(i64, u64)]) -> bool {
    row.emitted.key.is_some_and(|key| holders.iter().any(|(seq, held)| *held == key && *seq != row.emitted.seq))
}

fn key_name(key: u64) -> KeyName {
    KeyName { aggregate_type: None, aggregate_id: key.to_string() }
}
