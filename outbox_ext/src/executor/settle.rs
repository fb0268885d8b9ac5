//! Writes the verdict `SENT` without a statement.
//!
//! Each row is found by its primary key, and its next version takes the executor's way: constraints, the table, the
//! indexes. The extension's own triggers have nothing to do for it (`idle_triggers`).

use std::cell::RefCell;
use std::ffi::{CStr, c_int};

use pgrx::Uuid;
use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

use super::idle_triggers::is_idle;
use super::kept::{Kept, Ready, with_ready};
use super::target::{Target, prepare};
use super::update::{begin_scan, update};
use super::{raw, switch};
use crate::postgres::transaction_time;

thread_local! {
    static KEPT: RefCell<Kept<Verdicts>> = const { RefCell::new(Kept::nothing()) };
}

/// Writes `SENT` into the rows of these events, in the order of their ids, and returns the ids that it has not written.
/// It stops at the first row that holds its key, is missing, or was changed meanwhile. `outbox.notify_status` is off.
pub(crate) fn settle_sent(mut ids: Vec<Uuid>) -> Vec<Uuid> {
    if !switch::is_on() {
        return ids;
    }
    ids.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    // SAFETY: the table is used while it is open.
    let left = unsafe {
        with_ready(
            &KEPT,
            |table| Verdicts::new(table),
            |verdicts, table| {
                pg_sys::PreventCommandIfReadOnly(c"UPDATE".as_ptr());
                pg_sys::PreventCommandIfParallelMode(c"UPDATE".as_ptr());
                pg_sys::CheckCmdReplicaIdentity(table, pg_sys::CmdType::CMD_UPDATE);
                verdicts.write(table, &ids)
            },
        )
    };
    left.unwrap_or(ids)
}

/// The table, with room for two versions of a row.
struct Verdicts {
    target: Target,
    /// Which of the table's indexes is the primary key.
    primary_key: usize,
    positions: Positions,
    /// The positions of dropped columns, whose values may still lie in old rows.
    dropped: Vec<usize>,
    /// The enum's value `PENDING`.
    pending: pg_sys::Oid,
    /// The enum's value `SENT`.
    sent: pg_sys::Oid,
    /// The row's version in the table.
    found: *mut pg_sys::TupleTableSlot,
    /// The row's next version.
    next: *mut pg_sys::TupleTableSlot,
}

/// Where the table has the columns of a verdict, from 0.
struct Positions {
    status: usize,
    attempts: usize,
    holds_key: usize,
    last_error: usize,
    last_attempted_at: usize,
    processed_at: usize,
    /// Not written here. The statement names the column, which decides which triggers it calls.
    available_at: usize,
    /// Not written here, like `available_at`.
    first_attempted_at: usize,
}

impl Positions {
    /// The columns that the statement of `outbox.settle()` sets. It calls a trigger UPDATE OF any of them.
    fn named(&self) -> [usize; 8] {
        let Self {
            status,
            attempts,
            holds_key,
            last_error,
            last_attempted_at,
            processed_at,
            available_at,
            first_attempted_at,
        } = *self;
        [status, attempts, holds_key, last_error, last_attempted_at, processed_at, available_at, first_attempted_at]
    }
}

/// The outcome for one row.
enum Outcome {
    Written,
    /// The row has its verdict already.
    Finished,
    /// The row needs the statement.
    Unusual,
}

impl Ready for Verdicts {
    unsafe fn free(self) {
        // SAFETY: by the trait's contract.
        unsafe { self.target.free() }
    }
}

impl Verdicts {
    /// `None`: the table has something that needs a statement.
    ///
    /// # Safety
    /// The table is open and locked.
    unsafe fn new(table: pg_sys::Relation) -> Option<Self> {
        let ready = |target: Target| {
            // SAFETY: the table is open.
            unsafe {
                let type_of_status = pg_sys::SPI_gettypeid(
                    target.descriptor,
                    pg_sys::SPI_fnumber(target.descriptor, c"status".as_ptr()),
                );
                let positions = Positions {
                    status: target.position(c"status", type_of_status)?,
                    attempts: target.position(c"attempts", pg_sys::INT4OID)?,
                    holds_key: target.position(c"holds_key", pg_sys::BOOLOID)?,
                    last_error: target.position(c"last_error", pg_sys::TEXTOID)?,
                    last_attempted_at: target.position(c"last_attempted_at", pg_sys::TIMESTAMPTZOID)?,
                    processed_at: target.position(c"processed_at", pg_sys::TIMESTAMPTZOID)?,
                    available_at: target.position(c"available_at", pg_sys::TIMESTAMPTZOID)?,
                    first_attempted_at: target.position(c"first_attempted_at", pg_sys::TIMESTAMPTZOID)?,
                };
                if !target.triggers().iter().all(|trigger| is_idle(trigger, &positions.named())) {
                    return None;
                }
                let primary_key = target.primary_key(table, target.position(c"id", pg_sys::UUIDOID)?)?;
                let pending = enum_value(type_of_status, c"PENDING")?;
                let sent = enum_value(type_of_status, c"SENT")?;
                let found = pg_sys::MakeSingleTupleTableSlot(target.descriptor, pg_sys::table_slot_callbacks(table));
                let next = pg_sys::MakeSingleTupleTableSlot(target.descriptor, &raw const pg_sys::TTSOpsHeapTuple);
                let columns = 0..(*target.descriptor).natts;
                let is_dropped =
                    |position: &c_int| pg_sys::SPI_gettypeid(target.descriptor, position + 1) == pg_sys::InvalidOid;
                let dropped = columns.filter(is_dropped).map(|position| position as usize).collect();
                Some(Self { target, primary_key, positions, dropped, pending, sent, found, next })
            }
        };
        // SAFETY: by this function's contract.
        unsafe { prepare(table, ready) }
    }

    /// Returns the ids that are not written.
    unsafe fn write(&self, table: pg_sys::Relation, ids: &[Uuid]) -> Vec<Uuid> {
        let mut left = Vec::new();
        // SAFETY: the table and its indexes are open while they are used. A scan's memory is the call's, a row's is
        // reset.
        unsafe {
            pg_guard_ffi_boundary(|| self.target.open(table));
            // The scan sees the changes that this command has made so far.
            pg_sys::CommandCounterIncrement();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let index = *(*self.target.info).ri_IndexRelationDescs.add(self.primary_key);
            let snapshot = pg_sys::GetActiveSnapshot();
            let scan = begin_scan(table, index, snapshot);
            let mut key = pg_sys::ScanKeyData::default();
            let equal = pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber;
            let nothing_yet = pg_sys::Datum::null();
            pg_sys::ScanKeyInit(&raw mut key, 1, equal, pg_sys::Oid::from(pg_sys::F_UUID_EQ), nothing_yet);
            let mut rest = ids;
            while let Some((id, later)) = rest.split_first() {
                pgrx::check_for_interrupts!();
                key.sk_argument = id.as_bytes().as_ptr().into();
                pg_sys::index_rescan(scan, &raw mut key, 1, std::ptr::null_mut(), 0);
                let forward = pg_sys::ScanDirection::ForwardScanDirection;
                let is_there = pg_sys::index_getnext_slot(scan, forward, self.found);
                match if is_there { self.write_found(table, snapshot) } else { Outcome::Unusual } {
                    Outcome::Written => {}
                    Outcome::Finished => left.push(*id),
                    // The statement locks this row and the later ones, of which none is locked yet. So two sessions
                    // that settle take rows in one order, and cannot deadlock.
                    Outcome::Unusual => {
                        left.extend_from_slice(rest);
                        break;
                    }
                }
                rest = later;
            }
            pg_guard_ffi_boundary(|| {
                raw::clear(self.next);
                raw::clear(self.found);
            });
            pg_sys::index_endscan(scan);
            pg_sys::PopActiveSnapshot();
            pg_guard_ffi_boundary(|| {
                self.target.close();
                raw::MemoryContextReset(self.target.memory());
                // The rest of the same statement sees the verdicts.
                raw::CommandCounterIncrement();
            });
        }
        left
    }

    unsafe fn write_found(&self, table: pg_sys::Relation, snapshot: pg_sys::Snapshot) -> Outcome {
        let Self { found, next, ref positions, .. } = *self;
        // SAFETY: the slots have room for each of the table's columns, and the positions are those of columns.
        unsafe {
            pg_sys::slot_getsomeattrs_int(found, (*self.target.descriptor).natts);
            let value = |at: usize| (!*(*found).tts_isnull.add(at)).then(|| *(*found).tts_values.add(at));
            let attempts = value(positions.attempts).and_then(|attempts| (attempts.value() as i32).checked_add(1));
            let holds_key = value(positions.holds_key).map(|holds| holds.value() as u8 != 0);
            let status = value(positions.status).map(|status| status.value() as u32);
            let (Some(attempts), Some(false), Some(status)) = (attempts, holds_key, status) else {
                return Outcome::Unusual;
            };
            if status != self.pending.to_u32() {
                return Outcome::Finished;
            }

            pg_guard_ffi_boundary(|| raw::clear(next));
            let columns = (*self.target.descriptor).natts as usize;
            std::ptr::copy_nonoverlapping((*found).tts_values, (*next).tts_values, columns);
            std::ptr::copy_nonoverlapping((*found).tts_isnull, (*next).tts_isnull, columns);
            let put = |at: usize, value: Option<pg_sys::Datum>| {
                *(*next).tts_values.add(at) = value.unwrap_or(pg_sys::Datum::null());
                *(*next).tts_isnull.add(at) = value.is_none();
            };
            let time = Some(pg_sys::Datum::from(transaction_time()));
            put(positions.status, Some(self.sent.into()));
            put(positions.attempts, Some(attempts.into()));
            put(positions.last_error, None);
            put(positions.last_attempted_at, time);
            put(positions.processed_at, time);
            self.dropped.iter().for_each(|at| put(*at, None));
            pg_sys::ExecStoreVirtualTuple(next);

            pg_sys::MemoryContextReset(self.target.memory());
            let before = pg_sys::MemoryContextSwitchTo(self.target.memory());
            let is_written = update(&self.target, table, &raw mut (*found).tts_tid, next, snapshot);
            pg_sys::MemoryContextSwitchTo(before);
            if is_written { Outcome::Written } else { Outcome::Unusual }
        }
    }
}

unsafe fn enum_value(of: pg_sys::Oid, label: &CStr) -> Option<pg_sys::Oid> {
    let (cache, column) = (pg_sys::SysCacheIdentifier::ENUMTYPOIDNAME as c_int, pg_sys::Anum_pg_enum_oid);
    let none = pg_sys::Datum::null();
    // SAFETY: the cache is looked up by type and label.
    let value = unsafe {
        pg_sys::GetSysCacheOid(cache, column as pg_sys::AttrNumber, of.into(), label.as_ptr().into(), none, none)
    };
    (value != pg_sys::InvalidOid).then_some(value)
}
