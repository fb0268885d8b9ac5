//! Inserts an event without a statement.
//!
//! The row takes the way of a row that logical replication applies: triggers, constraints, the table, the indexes.

use std::cell::RefCell;

use pgrx::Uuid;
use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

use super::default_value::DefaultValue;
use super::kept::{Kept, Ready, with_ready};
use super::target::{Target, prepare};
use super::{raw, switch};
use crate::postgres::columns::{EMITTED, Values};
use crate::postgres::{EmitArguments, SqlFunction};

thread_local! {
    static KEPT: RefCell<Kept<Insertion>> = const { RefCell::new(Kept::nothing()) };
}

/// Inserts one event; `false`: the setting is off, or the table has something that needs a statement, and nothing is
/// inserted. `admit` is the function of the extension's own INSERT trigger.
pub(crate) fn insert(id: &Uuid, arguments: &EmitArguments, admit: SqlFunction) -> bool {
    if !switch::is_on() {
        return false;
    }
    let values = arguments.values(id);
    // SAFETY: the values are of the types of their columns, and valid until this call returns.
    unsafe {
        let make = |table| Insertion::new(table, admit);
        let inserted = with_ready(&KEPT, make, |insertion, table| {
            pg_guard_ffi_boundary(|| {
                raw::PreventCommandIfReadOnly(c"INSERT".as_ptr());
                raw::PreventCommandIfParallelMode(c"INSERT".as_ptr());
            });
            insertion.insert(table, &values);
        });
        inserted.is_some()
    }
}

/// The table and a row on its way into it.
struct Insertion {
    target: Target,
    slot: *mut pg_sys::TupleTableSlot,
    /// Where the table has the columns of [`EMITTED`], from 0.
    positions: Vec<usize>,
    /// The positions of all other columns, with their values.
    defaults: Vec<(usize, DefaultValue)>,
}

impl Ready for Insertion {
    unsafe fn free(self) {
        // SAFETY: by the trait's contract.
        unsafe { self.target.free() }
    }
}

impl Insertion {
    /// `None`: the table has something that needs a statement.
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
                let emitted = EMITTED.iter().map(|(name, expected)| target.position(name, *expected));
                let positions = emitted.collect::<Option<Vec<usize>>>()?;
                let others = (0..(*target.descriptor).natts as usize).filter(|position| !positions.contains(position));
                let defaults = others
                    .map(|position| Some((position, DefaultValue::of(table, position)?)))
                    .collect::<Option<_>>()?;
                let slot = pg_sys::MakeSingleTupleTableSlot(target.descriptor, &raw const pg_sys::TTSOpsHeapTuple);
                Some(Self { target, slot, positions, defaults })
            }
        };
        // SAFETY: by this function's contract.
        unsafe { prepare(table, ready) }
    }

    unsafe fn insert(&self, table: pg_sys::Relation, values: &Values) {
        let Self { target, slot, .. } = self;
        // SAFETY: the slot has room for a value of each column, and positions are within it. Indexes are open while
        // used.
        unsafe {
            for (position, value) in self.positions.iter().zip(values) {
                self.put(*position, *value);
            }
            for (position, default) in &self.defaults {
                self.put(*position, default.value(target.context));
            }
            pg_guard_ffi_boundary(|| {
                raw::ExecStoreVirtualTuple(*slot);
                target.open(table);
                raw::ExecSimpleRelationInsert(target.info, target.estate, *slot);
                target.close();
                raw::clear(*slot);
                raw::MemoryContextReset(target.memory());
                // The rest of the same statement sees the event.
                raw::CommandCounterIncrement();
            });
        }
    }

    unsafe fn put(&self, position: usize, value: Option<pg_sys::Datum>) {
        // SAFETY: the callers give the position of a column.
        unsafe {
            *(*self.slot).tts_values.add(position) = value.unwrap_or(pg_sys::Datum::null());
            *(*self.slot).tts_isnull.add(position) = value.is_none();
        }
    }
}

/// Whether the table's only INSERT trigger calls `admit` BEFORE each row, without a wrapper that changes settings or
/// rights. PostgreSQL itself checks at each call whether this session has the trigger enabled.
unsafe fn is_admitted_by(target: &Target, admit: SqlFunction) -> bool {
    // SAFETY: there is room for the function of each trigger. The look-up allocates in the executor's memory.
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
