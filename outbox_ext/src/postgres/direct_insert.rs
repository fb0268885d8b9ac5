//! Inserts into `outbox.events` without a statement.
//!
//! The row takes the executor's own way, as one does that logical replication applies: triggers, constraints, the table, the
//! indexes.

use std::cell::RefCell;

use pgrx::pg_sys;

use super::default_value::DefaultValue;
use super::insert::{COLUMNS, TYPES, Values};
use super::kept::{Kept, Ready, with_ready};
use super::target::{Target, clear, prepare};

thread_local! {
    static KEPT: RefCell<Kept<Insertion>> = const { RefCell::new(Kept::nothing()) };
}

/// Inserts one row, if the table allows it this way.
///
/// # Safety
/// The values are of the types of their columns.
pub(super) unsafe fn insert(values: &Values) -> bool {
    // SAFETY: by this function's contract.
    unsafe {
        let inserted = with_ready(&KEPT, |insertion: &Insertion, table| {
            pg_sys::PreventCommandIfReadOnly(c"INSERT".as_ptr());
            pg_sys::PreventCommandIfParallelMode(c"INSERT".as_ptr());
            insertion.insert(table, values);
        });
        inserted.is_some()
    }
}

/// The table and a row on its way into it.
struct Insertion {
    target: Target,
    slot: *mut pg_sys::TupleTableSlot,
    /// Where the table has [`COLUMNS`], from 0.
    places: Vec<usize>,
    /// The other columns.
    defaults: Vec<(usize, DefaultValue)>,
}

impl Ready for Insertion {
    unsafe fn new(table: pg_sys::Relation) -> Option<Self> {
        let ready = |target: Target| {
            // SAFETY: the table is open.
            unsafe {
                if !is_admitted_by_us(&target) {
                    return None;
                }
                let of_emit = COLUMNS.iter().zip(TYPES).map(|(name, expected)| target.place(name, expected));
                let places = of_emit.collect::<Option<Vec<usize>>>()?;
                let others = (0..(*target.shape).natts as usize).filter(|place| !places.contains(place));
                let defaults =
                    others.map(|place| Some((place, DefaultValue::of(table, place)?))).collect::<Option<_>>()?;
                let slot = pg_sys::MakeSingleTupleTableSlot(target.shape, &raw const pg_sys::TTSOpsHeapTuple);
                Some(Self { target, slot, places, defaults })
            }
        };
        // SAFETY: by the trait's contract.
        unsafe { prepare(table, ready) }
    }

    unsafe fn free(self) {
        // SAFETY: by the trait's contract.
        unsafe { self.target.free() }
    }
}

impl Insertion {
    unsafe fn insert(&self, table: pg_sys::Relation, values: &Values) {
        let Self { target, slot, .. } = self;
        // SAFETY: the slot has room for a value of each column; places are within it. Indexes are open while they are used.
        unsafe {
            target.reset();
            clear(*slot);
            for (place, value) in self.places.iter().zip(values) {
                self.put(*place, *value);
            }
            for (place, default) in &self.defaults {
                self.put(*place, default.value(target.context()));
            }
            pg_sys::ExecStoreVirtualTuple(*slot);
            target.open(table);
            pg_sys::ExecSimpleRelationInsert(target.info, target.estate, *slot);
            target.close();
            clear(*slot);
            target.reset();
            // What follows in the same statement may look for the event.
            pg_sys::CommandCounterIncrement();
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

/// Whether the only trigger of an INSERT is the extension's, BEFORE each row, and its function the extension's own as it
/// was made: no wrapper that changes settings or rights. Whether it is enabled in this session is looked at when it is called.
/// The function is found in memory that lives as long as the executor's.
unsafe fn is_admitted_by_us(target: &Target) -> bool {
    // SAFETY: there is room for a function for each trigger.
    unsafe {
        let is_insert = |trigger: &pg_sys::Trigger| trigger.tgtype & pg_sys::TRIGGER_TYPE_INSERT as i16 != 0;
        let mut on_insert = target.triggers().iter().enumerate().filter(|(_, trigger)| is_insert(trigger));
        let (Some((number, admit)), None) = (on_insert.next(), on_insert.next()) else { return false };
        if !(*(*target.info).ri_TrigDesc).trig_insert_before_row || !admit.tgqual.is_null() {
            return false;
        }
        let function = (*target.info).ri_TrigFunctions.add(number);
        pg_sys::fmgr_info_cxt(admit.tgfoid, function, (*target.estate).es_query_cxt);
        (*function).fn_addr.is_some_and(|found| found as usize == crate::admit::ADDRESS as usize)
    }
}
