//! The table as a row is put into it: its indexes, trigger and columns, ready to be used.
//!
//! A table qualifies that has nothing but what the extension gives it and plain btree indexes. Whatever may run code of the
//! user's, or needs what only a statement does, does not: see [`super::plan`].

use std::ffi::{CStr, c_char, c_int};

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

use super::default_value::DefaultValue;
use super::direct::LOCK;
use super::insert::{COLUMNS, TYPES, Values};

/// The extension's own indexes with a predicate. One of the user's may run functions that need the owner's rights.
const PARTIAL_INDEXES: [&CStr; 4] = [c"events_pending", c"events_due", c"events_holding", c"events_failed"];

/// What an INSERT would prepare for itself.
pub(super) struct Ready {
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    indexes: Vec<pg_sys::Oid>,
    /// Where the table has [`COLUMNS`], from 0.
    places: [usize; COLUMNS.len()],
    /// The other columns.
    defaults: Vec<(usize, DefaultValue)>,
}

impl Ready {
    /// `None`: an index is of a kind that keeps something of its own from row to row, or an index or a DEFAULT runs code that
    /// may be the user's.
    pub(super) unsafe fn new(table: pg_sys::Relation) -> Option<Self> {
        // SAFETY: the table is open. All that is made here is in the executor's memory, which lives as long as it.
        unsafe {
            if !is_plain(table) {
                return None;
            }
            let estate = pg_sys::CreateExecutorState(); // gone with the call if an error comes now
            let before = pg_sys::MemoryContextSwitchTo((*estate).es_query_cxt);
            let ready = Self::prepared(table, estate);
            pg_sys::MemoryContextSwitchTo(before);
            if ready.is_some() {
                pg_sys::MemoryContextSetParent((*estate).es_query_cxt, pg_sys::TopMemoryContext);
            } else {
                pg_sys::FreeExecutorState(estate);
            }
            ready
        }
    }

    pub(super) unsafe fn free(self) {
        // SAFETY: nothing refers to what is in the executor's memory any longer.
        unsafe { pg_sys::FreeExecutorState(self.estate) }
    }

    unsafe fn prepared(table: pg_sys::Relation, estate: *mut pg_sys::EState) -> Option<Self> {
        // SAFETY: as in new().
        unsafe {
            let shape = pg_sys::CreateTupleDescCopy((*table).rd_att);
            let places = COLUMNS.map(|name| pg_sys::SPI_fnumber(shape, name.as_ptr()));
            if places.iter().any(|number| *number < 1) {
                return None;
            }
            let has_type = |(number, expected): (&c_int, pg_sys::Oid)| {
                let (mut found, mut modifier, mut collation) = (pg_sys::InvalidOid, 0, pg_sys::InvalidOid);
                let number = *number as pg_sys::AttrNumber;
                pg_sys::get_atttypetypmodcoll(
                    (*table).rd_id,
                    number,
                    &raw mut found,
                    &raw mut modifier,
                    &raw mut collation,
                );
                found == expected && modifier == -1
            };
            if !places.iter().zip(TYPES).all(has_type) {
                return None;
            }
            let places = places.map(|number| number as usize - 1);
            let others = (0..(*shape).natts as usize).filter(|place| !places.contains(place));
            let defaults = others.map(|place| Some((place, DefaultValue::of(table, place)?))).collect::<Option<_>>()?;

            let target = pg_sys::palloc0(size_of::<pg_sys::ResultRelInfo>()).cast::<pg_sys::ResultRelInfo>();
            (*target).type_ = pg_sys::NodeTag::T_ResultRelInfo;
            pg_sys::InitResultRelInfo(target, table, 0, std::ptr::null_mut(), 0);
            if !is_admitted_by_us(target, estate) {
                return None;
            }

            let indexes = oids(pg_sys::RelationGetIndexList(table));
            let pointers = || pg_sys::palloc0(indexes.len() * size_of::<*mut u8>());
            (*target).ri_NumIndices = indexes.len() as c_int;
            (*target).ri_IndexRelationDescs = pointers().cast();
            (*target).ri_IndexRelationInfo = pointers().cast();
            for (number, oid) in indexes.iter().enumerate() {
                let index = pg_sys::index_open(*oid, LOCK);
                let info = pg_sys::BuildIndexInfo(index);
                let class = &*(*index).rd_rel;
                let is_btree = class.relam == pg_sys::BTREE_AM_OID;
                let name = CStr::from_ptr(class.relname.data.as_ptr());
                let runs_nothing = (*info).ii_Expressions.is_null()
                    && (*info).ii_ExclusionOps.is_null()
                    && ((*info).ii_Predicate.is_null() || PARTIAL_INDEXES.contains(&name));
                pg_sys::index_close(index, LOCK);
                if !is_btree || !runs_nothing {
                    return None;
                }
                *(*target).ri_IndexRelationInfo.add(number) = info;
            }
            let slot = pg_sys::MakeSingleTupleTableSlot(shape, &raw const pg_sys::TTSOpsHeapTuple);
            Some(Self { estate, target, slot, indexes, places, defaults })
        }
    }

    pub(super) unsafe fn insert(&self, table: pg_sys::Relation, values: &Values) {
        let Self { estate, target, slot, .. } = *self;
        // SAFETY: the slot has room for a value of each column; places are within it. Indexes are open while they are used.
        unsafe {
            let context = match (*estate).es_per_tuple_exprcontext {
                none if none.is_null() => pg_sys::MakePerTupleExprContext(estate),
                context => context,
            };
            pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
            clear(slot);
            for (place, value) in self.places.iter().zip(values) {
                self.put(*place, *value);
            }
            for (place, default) in &self.defaults {
                let value = default.value(context);
                self.put(*place, value);
            }
            pg_sys::ExecStoreVirtualTuple(slot);

            (*target).ri_RelationDesc = table;
            for (number, oid) in self.indexes.iter().enumerate() {
                let index = pg_sys::index_open(*oid, LOCK);
                *(*target).ri_IndexRelationDescs.add(number) = index;
                // CREATE INDEX CONCURRENTLY tells of this under the index's name only.
                (**(*target).ri_IndexRelationInfo.add(number)).ii_ReadyForInserts = (*(*index).rd_index).indisready;
            }
            pg_sys::ExecSimpleRelationInsert(target, estate, slot);
            pg_sys::ExecCloseIndices(target);
            clear(slot);
            pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
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

/// Whether the row needs nothing but the extension's own trigger and btree indexes without expressions.
unsafe fn is_plain(table: pg_sys::Relation) -> bool {
    // SAFETY: the table is open, so its descriptors are there.
    unsafe {
        let class = &*(*table).rd_rel;
        let is_ordinary = class.relkind == pg_sys::RELKIND_RELATION as c_char
            && !class.relispartition
            && !class.relrowsecurity
            && (*table).rd_rules.is_null();
        let constraints = (*(*table).rd_att).constr.as_ref();
        let is_unchecked = constraints.is_none_or(|those| those.num_check == 0 && !those.has_generated_stored);
        #[cfg(feature = "pg18")]
        let is_unchecked = is_unchecked && constraints.is_none_or(|those| !those.has_generated_virtual);
        let Some(triggers) = (*table).trigdesc.as_ref() else { return false };
        let is_insert = |trigger: &&pg_sys::Trigger| trigger.tgtype & pg_sys::TRIGGER_TYPE_INSERT as i16 != 0;
        let list = std::slice::from_raw_parts(triggers.triggers, triggers.numtriggers as usize);
        let on_insert: Vec<_> = list.iter().filter(is_insert).collect();
        let has_only_ours = match on_insert.as_slice() {
            [admit] => triggers.trig_insert_before_row && admit.tgqual.is_null(), // its function is looked at below
            _ => false,
        };
        is_ordinary && is_unchecked && has_only_ours
    }
}

/// Finds the trigger's function, in memory that lives as long as the executor's, and says whether it is the extension's own as
/// it was made: no wrapper that changes settings or rights.
unsafe fn is_admitted_by_us(target: *mut pg_sys::ResultRelInfo, estate: *mut pg_sys::EState) -> bool {
    // SAFETY: is_plain has seen that there are triggers; there is room for a function for each.
    unsafe {
        let triggers = &*(*target).ri_TrigDesc;
        (0..triggers.numtriggers as usize).all(|number| {
            let trigger = &*triggers.triggers.add(number);
            if trigger.tgtype & pg_sys::TRIGGER_TYPE_INSERT as i16 == 0 {
                return true;
            }
            let function = (*target).ri_TrigFunctions.add(number);
            pg_sys::fmgr_info_cxt(trigger.tgfoid, function, (*estate).es_query_cxt);
            (*function).fn_addr.is_some_and(|found| found as usize == crate::admit::ADDRESS as usize)
        })
    }
}

unsafe fn oids(list: *mut pg_sys::List) -> Vec<pg_sys::Oid> {
    // SAFETY: an empty list is null; another has as many elements as it says.
    unsafe {
        let Some(list) = list.as_ref() else { return Vec::new() };
        std::slice::from_raw_parts(list.elements, list.length as usize).iter().map(|cell| cell.oid_value).collect()
    }
}

/// `ExecClearTuple`, which is inline in C.
unsafe fn clear(slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: each kind of slot has this function. The boundary turns an ERROR into a panic.
    unsafe {
        if let Some(clear) = (*(*slot).tts_ops).clear {
            pg_guard_ffi_boundary(|| clear(slot));
        }
    }
}
