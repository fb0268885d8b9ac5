//! Inserts into `outbox.events` without a statement.
//!
//! An INSERT prepares to run at each call: it looks up its plan, copies the table's triggers, opens each index and prepares
//! its predicate, makes and frees the executor's memory. That is most of what a single-row INSERT costs. Here all of it is
//! kept from call to call, and made anew when PostgreSQL says that the table has changed. The row itself takes
//! the executor's own way, as one does that logical replication applies: triggers, constraints, the table, the indexes.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int};

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

use super::insert::{COLUMNS, TYPES, Values};

/// As an INSERT locks its table and the indexes.
const LOCK: pg_sys::LOCKMODE = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

/// The extension's own indexes with a predicate. One of the user's may run functions that need the owner's rights.
const PARTIAL_INDEXES: [&CStr; 4] = [c"events_pending", c"events_due", c"events_holding", c"events_failed"];

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    /// The table that [`KEPT`] is about.
    static TABLE: Cell<pg_sys::Oid> = const { Cell::new(pg_sys::InvalidOid) };
    /// Something has changed since it was made, or an error has left it half done.
    static IS_STALE: Cell<bool> = const { Cell::new(true) };
    static IS_BROKEN: Cell<bool> = const { Cell::new(false) };
    static LISTENS: Cell<bool> = const { Cell::new(false) };
}

/// What an INSERT would make anew.
struct Kept {
    /// Null: the table has something that only a statement does justice to.
    ready: Option<Ready>,
}

struct Ready {
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    indexes: Vec<pg_sys::Oid>,
    /// Where the table has [`COLUMNS`], from 0.
    places: [usize; COLUMNS.len()],
    /// The other columns.
    defaults: Vec<(usize, DefaultValue)>,
}

enum DefaultValue {
    Null,
    Constant(pg_sys::Datum),
    Expression(*mut pg_sys::ExprState),
}

/// Inserts one row, if the table allows it this way.
///
/// # Safety
/// The values are of the types of their columns.
pub(super) unsafe fn insert(values: &Values) -> bool {
    KEPT.with(|kept| {
        // Taken when a function in an index of the user's emits, too.
        let Ok(mut kept) = kept.try_borrow_mut() else { return false };
        // SAFETY: by this function's contract. What is kept is used under the table's lock and only if it is not stale then.
        unsafe {
            let table = open(&mut kept);
            let ready = kept.as_ref().and_then(|kept| kept.ready.as_ref());
            if let Some(ready) = ready {
                pg_sys::PreventCommandIfReadOnly(c"outbox.emit()".as_ptr());
                pg_sys::PreventCommandIfParallelMode(c"outbox.emit()".as_ptr());
                IS_BROKEN.set(true);
                ready.insert(table, values);
                IS_BROKEN.set(false); // and not IS_STALE: news of a change may have come meanwhile
            }
            let inserted = ready.is_some();
            pg_sys::table_close(table, NO_LOCK);
            inserted
        }
    })
}

/// Opens the table, with what is kept as fresh as the lock.
unsafe fn open(kept: &mut Option<Kept>) -> pg_sys::Relation {
    // SAFETY: a relation that is returned is open.
    unsafe {
        loop {
            let is_fresh = kept.is_some() && !IS_STALE.get() && !IS_BROKEN.get();
            if !is_fresh {
                TABLE.set(look_up());
            }
            let table = pg_sys::try_table_open(TABLE.get(), LOCK);
            // News of a change comes while the lock is waited for. The table may have another name then, or be gone.
            if is_fresh && !IS_STALE.get() && !table.is_null() {
                return table;
            }
            if look_up() == TABLE.get() {
                if table.is_null() {
                    pgrx::error!("the table outbox.events does not exist");
                }
                listen();
                if let Some(Kept { ready: Some(old) }) = kept.take() {
                    pg_sys::FreeExecutorState(old.estate);
                }
                IS_STALE.set(false);
                IS_BROKEN.set(false);
                *kept = Some(Kept { ready: if is_plain(table) { Ready::new(table) } else { None } });
                if !IS_STALE.get() {
                    return table;
                }
            }
            if !table.is_null() {
                pg_sys::table_close(table, NO_LOCK);
            }
        }
    }
}

unsafe fn look_up() -> pg_sys::Oid {
    // SAFETY: the names are static.
    unsafe { pg_sys::get_relname_relid(c"events".as_ptr(), pg_sys::get_namespace_oid(c"outbox".as_ptr(), false)) }
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

impl Ready {
    /// `None`: an index is of a kind that keeps something of its own from row to row, or an index or a DEFAULT runs code that
    /// may be the user's.
    unsafe fn new(table: pg_sys::Relation) -> Option<Self> {
        // SAFETY: the table is open. All that is made here is in the executor's memory, which lives as long as it.
        unsafe {
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
            let defaults = others.map(|place| Some((place, default_value(table, place)?))).collect::<Option<_>>()?;

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

    unsafe fn insert(&self, table: pg_sys::Relation, values: &Values) {
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
                let value = match default {
                    DefaultValue::Null => None,
                    DefaultValue::Constant(value) => Some(*value),
                    DefaultValue::Expression(expression) => {
                        let mut is_null = false;
                        let value = evaluate(*expression, context, &raw mut is_null);
                        (!is_null).then_some(value)
                    }
                };
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

/// What a column is given that `emit` does not know: its DEFAULT, or the next number of its identity. `None`: a DEFAULT that
/// may need the owner's rights.
unsafe fn default_value(table: pg_sys::Relation, place: usize) -> Option<DefaultValue> {
    /// `now()` (`pg_proc.dat`).
    const NOW: u32 = 1299;
    // SAFETY: the table has such a column, and a node is of the type that its tag says.
    unsafe {
        let number = place as c_int + 1;
        let type_of_it = pg_sys::SPI_gettypeid((*table).rd_att, number);
        let is_dropped = type_of_it == pg_sys::InvalidOid;
        if !is_dropped && pg_sys::get_typtype(type_of_it) == pg_sys::TYPTYPE_DOMAIN as c_char {
            return None;
        }
        let expression = if is_dropped { std::ptr::null_mut() } else { pg_sys::build_column_default(table, number) };
        if expression.is_null() {
            return Some(DefaultValue::Null);
        }
        let planned = pg_sys::expression_planner(expression.cast());
        let is_known = match (*planned).type_ {
            pg_sys::NodeTag::T_Const => {
                let constant = &*planned.cast::<pg_sys::Const>();
                let value = DefaultValue::Constant(constant.constvalue);
                return Some(if constant.constisnull { DefaultValue::Null } else { value });
            }
            pg_sys::NodeTag::T_NextValueExpr => true, // an identity's number needs no right
            pg_sys::NodeTag::T_FuncExpr => (*planned.cast::<pg_sys::FuncExpr>()).funcid == pg_sys::Oid::from(NOW),
            _ => false,
        };
        is_known.then(|| DefaultValue::Expression(pg_sys::ExecInitExpr(planned, std::ptr::null_mut())))
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

/// `ExecEvalExpr`, which is inline in C.
unsafe fn evaluate(
    expression: *mut pg_sys::ExprState,
    context: *mut pg_sys::ExprContext,
    is_null: *mut bool,
) -> pg_sys::Datum {
    // SAFETY: an initialised expression has this function. The boundary turns an ERROR into a panic.
    unsafe {
        match (*expression).evalfunc {
            Some(evaluate) => pg_guard_ffi_boundary(|| evaluate(expression, context, is_null)),
            None => pgrx::error!("a default of outbox.events has no way to be evaluated"),
        }
    }
}

/// Has PostgreSQL tell of changes to the table and to functions, once in a backend.
fn listen() {
    #[pgrx::pg_guard]
    extern "C-unwind" fn table_changed(_nothing: pg_sys::Datum, relation: pg_sys::Oid) {
        if relation == TABLE.get() || relation == pg_sys::InvalidOid {
            IS_STALE.set(true);
        }
    }
    #[pgrx::pg_guard]
    extern "C-unwind" fn function_changed(_nothing: pg_sys::Datum, _cache: c_int, _hash: u32) {
        IS_STALE.set(true);
    }
    if !LISTENS.replace(true) {
        // SAFETY: the functions live as long as the library, which is never unloaded.
        unsafe {
            pg_sys::CacheRegisterRelcacheCallback(Some(table_changed), pg_sys::Datum::null());
            let functions = pg_sys::SysCacheIdentifier::PROCOID as c_int;
            pg_sys::CacheRegisterSyscacheCallback(functions, Some(function_changed), pg_sys::Datum::null());
        }
    }
}
