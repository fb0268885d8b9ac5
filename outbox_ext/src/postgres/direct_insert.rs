//! Inserts into `outbox.events` without a statement.
//!
//! The row goes through the executor as one does that logical replication applies: triggers, constraints, the table, the
//! indexes.

use std::cell::RefCell;

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

use super::backend::SqlFunction;
use super::columns::{EMITTED, Values};
use super::default_value::DefaultValue;
use super::kept::{Kept, Ready, with_ready};
use super::raw;
use super::target::{Target, prepare};

thread_local! {
    static KEPT: RefCell<Kept<Insertion>> = const { RefCell::new(Kept::nothing()) };
}

/// Inserts one row, if the table allows it this way; `admit` is the function of the extension's own INSERT trigger.
///
/// # Safety
/// The values are of the types of their columns.
pub(super) unsafe fn insert(values: &Values, admit: SqlFunction) -> bool {
    // SAFETY: by this function's contract.
    unsafe {
        let make = |table| Insertion::new(table, admit);
        let inserted = with_ready(&KEPT, make, |insertion, table| {
            pg_guard_ffi_boundary(|| {
                raw::PreventCommandIfReadOnly(c"INSERT".as_ptr());
                raw::PreventCommandIfParallelMode(c"INSERT".as_ptr());
            });
            insertion.insert(table, values);
        });
        inserted.is_some()
    }
}

/// The table and a row on its way into it.
struct Insertion {
    target: Target,
    slot: *mut pg_sys::TupleTableSlot,
    /// Where the table has the columns of [`EMITTED`], from 0.
    places: Vec<usize>,
    /// The other columns.
    defaults: Vec<(usize, DefaultValue)>,
}

impl Ready for Insertion {
    unsafe fn free(self) {
        // SAFETY: by the trait's contract.
        unsafe { self.target.free() }
    }
}

impl Insertion {
    /// `None`: the table has something that only a statement does justice to.
    ///
    /// # Safety
    /// The table is open and locked.
    unsafe fn new(table: pg_sys::Relation, admit: SqlFunction) -> Option<Self> {
        let ready = |target: Target| {
            // SAFETY: the table is open.
            unsafe {
                if !is_admitted_by(&target, admit) {
                    return None;
                }
                let emitted = EMITTED.iter().map(|(name, expected)| target.place(name, *expected));
                let places = emitted.collect::<Option<Vec<usize>>>()?;
                let others = (0..(*target.shape).natts as usize).filter(|place| !places.contains(place));
                let defaults =
                    others.map(|place| Some((place, DefaultValue::of(table, place)?))).collect::<Option<_>>()?;
                let slot = pg_sys::MakeSingleTupleTableSlot(target.shape, &raw const pg_sys::TTSOpsHeapTuple);
                Some(Self { target, slot, places, defaults })
            }
        };
        // SAFETY: by this function's contract.
        unsafe { prepare(table, ready) }
    }

    unsafe fn insert(&self, table: pg_sys::Relation, values: &Values) {
        let Self { target, slot, .. } = self;
        // SAFETY: the slot has room for a value of each column; places are within it. Indexes are open while they are used.
        unsafe {
            for (place, value) in self.places.iter().zip(values) {
                self.put(*place, *value);
            }
            for (place, default) in &self.defaults {
                self.put(*place, default.value(target.context));
            }
            pg_guard_ffi_boundary(|| {
                raw::ExecStoreVirtualTuple(*slot);
                target.open(table);
                raw::ExecSimpleRelationInsert(target.info, target.estate, *slot);
                target.close();
                raw::clear(*slot);
                raw::MemoryContextReset(target.memory());
                // So that what follows in the same statement sees the event.
                raw::CommandCounterIncrement();
            });
        }
    }

    unsafe fn put(&self, place: usize, value: Option<pg_sys::Datum>) {
        // SAFETY: by the caller, the place is a column's.
        unsafe {
            *(*self.slot).tts_values.add(place) = value.unwrap_or(pg_sys::Datum::null());
            *(*self.slot).tts_isnull.add(place) = value.is_none();
        }
    }
}

/// Whether the table's only INSERT trigger calls `admit` BEFORE each row, without a wrapper that changes settings or rights.
/// PostgreSQL looks when it calls the trigger whether this session has it enabled. The look-up of the function allocates in
/// memory that lives as long as the executor's.
unsafe fn is_admitted_by(target: &Target, admit: SqlFunction) -> bool {
    // SAFETY: there is room for a function for each trigger.
    unsafe {
        let is_insert = |trigger: &pg_sys::Trigger| trigger.tgtype & pg_sys::TRIGGER_TYPE_INSERT as i16 != 0;
        let mut on_insert = target.triggers().iter().enumerate().filter(|(_, trigger)| is_insert(trigger));
        let (Some((number, trigger)), None) = (on_insert.next(), on_insert.next()) else { return false };
        if !(*(*target.info).ri_TrigDesc).trig_insert_before_row || !trigger.tgqual.is_null() {
            return false;
        }
        let function = (*target.info).ri_TrigFunctions.add(number);
        pg_sys::fmgr_info_cxt(trigger.tgfoid, function, (*target.estate).es_query_cxt);
        (*function).fn_addr.is_some_and(|found| found as usize == admit as usize)
    }
}
