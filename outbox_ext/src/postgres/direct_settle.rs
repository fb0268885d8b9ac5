//! Writes the verdict `SENT` into `outbox.events` without a statement.
//!
//! Each row is found by its primary key, and its new version takes the executor's own way: constraints, the table, the
//! indexes. The table's own triggers have nothing to do here, because the row is stamped in full: see `sql/triggers/status.sql`.

use std::cell::RefCell;
use std::ffi::{CStr, c_int};

use pgrx::Uuid;
use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

use super::backend::transaction_time;
use super::kept::{Kept, Ready, with_ready};
use super::passing_triggers::lets_pass;
use super::raw;
use super::target::{Target, prepare};
use super::update::{begin_scan, update};

thread_local! {
    static KEPT: RefCell<Kept<Verdicts>> = const { RefCell::new(Kept::nothing()) };
}

/// Writes `SENT` to events, in the order of their ids, up to the first that is neither finished nor `PENDING` without a hold on its
/// key. Returns those that it has not written.
pub(crate) fn settle_sent(mut ids: Vec<Uuid>) -> Vec<Uuid> {
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

/// The table, and a row in it that gets its verdict.
struct Verdicts {
    target: Target,
    /// Which of the table's indexes is the primary key.
    primary_key: usize,
    places: Places,
    /// Dropped columns, whose values may still lie in old rows.
    dropped: Vec<usize>,
    /// Values of the enum.
    pending: pg_sys::Oid,
    sent: pg_sys::Oid,
    /// The version of the row that is in the table.
    found: *mut pg_sys::TupleTableSlot,
    /// The version that takes its place.
    next: *mut pg_sys::TupleTableSlot,
}

/// Where the table has the columns of a verdict, from 0.
struct Places {
    status: usize,
    attempts: usize,
    holds_key: usize,
    last_error: usize,
    last_attempted_at: usize,
    processed_at: usize,
    /// Not written here, but the statement names it, which decides what triggers are called.
    available_at: usize,
    first_attempted_at: usize,
}

impl Places {
    /// What the statement of `outbox.settle()` sets: a trigger UPDATE OF these is called, whatever their values.
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

/// What became of one row.
enum Outcome {
    Written,
    /// It has its verdict already.
    Finished,
    /// It needs what only the statement does.
    Unusual,
}

impl Ready for Verdicts {
    unsafe fn free(self) {
        // SAFETY: by the trait's contract.
        unsafe { self.target.free() }
    }
}

impl Verdicts {
    /// `None`: the table has something that only a statement does justice to.
    ///
    /// # Safety
    /// The table is open and locked.
    unsafe fn new(table: pg_sys::Relation) -> Option<Self> {
        let ready = |target: Target| {
            // SAFETY: the table is open.
            unsafe {
                let type_of_status =
                    pg_sys::SPI_gettypeid(target.shape, pg_sys::SPI_fnumber(target.shape, c"status".as_ptr()));
                let places = Places {
                    status: target.place(c"status", type_of_status)?,
                    attempts: target.place(c"attempts", pg_sys::INT4OID)?,
                    holds_key: target.place(c"holds_key", pg_sys::BOOLOID)?,
                    last_error: target.place(c"last_error", pg_sys::TEXTOID)?,
                    last_attempted_at: target.place(c"last_attempted_at", pg_sys::TIMESTAMPTZOID)?,
                    processed_at: target.place(c"processed_at", pg_sys::TIMESTAMPTZOID)?,
                    available_at: target.place(c"available_at", pg_sys::TIMESTAMPTZOID)?,
                    first_attempted_at: target.place(c"first_attempted_at", pg_sys::TIMESTAMPTZOID)?,
                };
                if !target.triggers().iter().all(|trigger| lets_pass(trigger, &places.named())) {
                    return None;
                }
                let primary_key = target.primary_key(table, target.place(c"id", pg_sys::UUIDOID)?)?;
                let pending = enum_value(type_of_status, c"PENDING")?;
                let sent = enum_value(type_of_status, c"SENT")?;
                let found = pg_sys::MakeSingleTupleTableSlot(target.shape, pg_sys::table_slot_callbacks(table));
                let next = pg_sys::MakeSingleTupleTableSlot(target.shape, &raw const pg_sys::TTSOpsHeapTuple);
                let columns = 0..(*target.shape).natts;
                let is_dropped = |place: &c_int| pg_sys::SPI_gettypeid(target.shape, place + 1) == pg_sys::InvalidOid;
                let dropped = columns.filter(is_dropped).map(|place| place as usize).collect();
                Some(Self { target, primary_key, places, dropped, pending, sent, found, next })
            }
        };
        // SAFETY: by this function's contract.
        unsafe { prepare(table, ready) }
    }

    /// Returns the ids that are not written.
    unsafe fn write(&self, table: pg_sys::Relation, ids: &[Uuid]) -> Vec<Uuid> {
        let mut left = Vec::new();
        // SAFETY: the table and its indexes are open while they are used. A scan's memory is the caller's, a row's is reset.
        unsafe {
            pg_guard_ffi_boundary(|| self.target.open(table));
            // So that the scan sees what this command has done so far.
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
                    // The statement may lock this row and those that come after it, and none of them is locked now: two that
                    // settle take the rows in one order and cannot deadlock.
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
                // So that what follows in the same statement sees the verdicts.
                raw::CommandCounterIncrement();
            });
        }
        left
    }

    unsafe fn write_found(&self, table: pg_sys::Relation, snapshot: pg_sys::Snapshot) -> Outcome {
        let Self { found, next, ref places, .. } = *self;
        // SAFETY: the slots have room for each of the table's columns, and the places are those of columns.
        unsafe {
            pg_sys::slot_getsomeattrs_int(found, (*self.target.shape).natts);
            let now = |place: usize| (!*(*found).tts_isnull.add(place)).then(|| *(*found).tts_values.add(place));
            let attempts = now(places.attempts).and_then(|attempts| (attempts.value() as i32).checked_add(1));
            let holds_key = now(places.holds_key).map(|holds| holds.value() as u8 != 0);
            let status = now(places.status).map(|status| status.value() as u32);
            let (Some(attempts), Some(false), Some(status)) = (attempts, holds_key, status) else {
                return Outcome::Unusual;
            };
            if status != self.pending.to_u32() {
                return Outcome::Finished;
            }

            pg_guard_ffi_boundary(|| raw::clear(next));
            let columns = (*self.target.shape).natts as usize;
            std::ptr::copy_nonoverlapping((*found).tts_values, (*next).tts_values, columns);
            std::ptr::copy_nonoverlapping((*found).tts_isnull, (*next).tts_isnull, columns);
            let put = |place: usize, value: Option<pg_sys::Datum>| {
                *(*next).tts_values.add(place) = value.unwrap_or(pg_sys::Datum::null());
                *(*next).tts_isnull.add(place) = value.is_none();
            };
            let time = Some(pg_sys::Datum::from(transaction_time()));
            put(places.status, Some(self.sent.into()));
            put(places.attempts, Some(attempts.into()));
            put(places.last_error, None);
            put(places.last_attempted_at, time);
            put(places.processed_at, time);
            self.dropped.iter().for_each(|place| put(*place, None));
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
