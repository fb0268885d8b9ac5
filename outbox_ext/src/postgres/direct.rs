//! Inserts into `outbox.events` without a statement.
//!
//! An INSERT prepares to run at each call: it looks up its plan, copies the table's triggers, opens each index and prepares
//! its predicate, makes and frees the executor's memory. That is most of what a single-row INSERT costs. Here all of it is
//! kept from call to call, and made anew when PostgreSQL says that the table has changed. The row itself takes
//! the executor's own way, as one does that logical replication applies: triggers, constraints, the table, the indexes.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

use super::insert::{COLUMNS, Values};

/// As an INSERT locks its table and the indexes.
const LOCK: pg_sys::LOCKMODE = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    /// The table that [`KEPT`] is about.
    static TABLE: Cell<pg_sys::Oid> = const { Cell::new(pg_sys::InvalidOid) };
    static IS_STALE: Cell<bool> = const { Cell::new(true) };
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
                // An error on the way leaves things half done: they are made anew then.
                IS_STALE.set(true);
                ready.insert(table, values);
                IS_STALE.set(false);
            }
            let inserted = ready.is_some();
            pg_sys::table_close(table, NO_LOCK);
            inserted
        }
    })
}

/// Opens the table, with what is kept as fresh as the lock.
unsafe fn open(kept: &mut Option<Kept>) -> pg_sys::Relation {
    // SAFETY: names are static; a relation that is returned is open.
    unsafe {
        loop {
            if kept.is_none() || IS_STALE.get() {
                let schema = pg_sys::get_namespace_oid(c"outbox".as_ptr(), false);
                TABLE.set(pg_sys::get_relname_relid(c"events".as_ptr(), schema));
            }
            let table = pg_sys::try_table_open(TABLE.get(), LOCK);
            if table.is_null() {
                // Dropped, and perhaps made again.
                if IS_STALE.replace(true) {
                    pgrx::error!("the table outbox.events does not exist");
                }
                continue;
            }
            if kept.is_none() || IS_STALE.get() {
                listen();
                if let Some(Kept { ready: Some(old) }) = kept.take() {
                    pg_sys::FreeExecutorState(old.estate);
                }
                IS_STALE.set(false);
                *kept = Some(Kept { ready: is_plain(table).then(|| Ready::new(table)).flatten() });
            }
            if !IS_STALE.get() {
                return table;
            }
            pg_sys::table_close(table, NO_LOCK);
        }
    }
}

/// Whether the row needs nothing but the extension's own trigger and btree indexes without expressions.
unsafe fn is_plain(table: pg_sys::Relation) -> bool {
    // SAFETY: the table is open, so its descriptors are there.
    unsafe {
        let class = &*(*table).rd_rel;
        let is_ordinary = class.relkind == pg_sys::RELKIND_RELATION as std::ffi::c_char
            && !class.relispartition
            && !class.relrowsecurity
            && (*table).rd_rules.is_null();
        let constraints = (*(*table).rd_att).constr.as_ref();
        let is_unchecked = constraints.is_none_or(|those| those.num_check == 0 && !those.has_generated_stored);
        let Some(triggers) = (*table).trigdesc.as_ref() else { return false };
        let is_insert = |trigger: &&pg_sys::Trigger| trigger.tgtype & pg_sys::TRIGGER_TYPE_INSERT as i16 != 0;
        let list = std::slice::from_raw_parts(triggers.triggers, triggers.numtriggers as usize);
        let on_insert: Vec<_> = list.iter().filter(is_insert).collect();
        let has_only_ours = match on_insert.as_slice() {
            [admit] => triggers.trig_insert_before_row && std::ffi::CStr::from_ptr(admit.tgname) == c"admit",
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
            let before = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            let estate = pg_sys::CreateExecutorState();
            pg_sys::MemoryContextSwitchTo((*estate).es_query_cxt);
            let ready = Self::prepared(table, estate);
            pg_sys::MemoryContextSwitchTo(before);
            if ready.is_none() {
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
            let places = places.map(|number| number as usize - 1);
            let others = (0..(*shape).natts as usize).filter(|place| !places.contains(place));
            let defaults = others.map(|place| Some((place, default_value(table, place)?))).collect::<Option<_>>()?;

            let target = pg_sys::palloc0(size_of::<pg_sys::ResultRelInfo>()).cast::<pg_sys::ResultRelInfo>();
            (*target).type_ = pg_sys::NodeTag::T_ResultRelInfo;
            pg_sys::InitResultRelInfo(target, table, 0, std::ptr::null_mut(), 0);

            let indexes = oids(pg_sys::RelationGetIndexList(table));
            let pointers = || pg_sys::palloc0(indexes.len() * size_of::<*mut u8>());
            (*target).ri_NumIndices = indexes.len() as c_int;
            (*target).ri_IndexRelationDescs = pointers().cast();
            (*target).ri_IndexRelationInfo = pointers().cast();
            for (number, oid) in indexes.iter().enumerate() {
                let index = pg_sys::index_open(*oid, LOCK);
                let info = pg_sys::BuildIndexInfo(index);
                let is_btree = (*(*index).rd_rel).relam == pg_sys::Oid::from(pg_sys::BTREE_AM_OID);
                pg_sys::index_close(index, LOCK);
                if !is_btree || !(*info).ii_Expressions.is_null() {
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
                *(*target).ri_IndexRelationDescs.add(number) = pg_sys::index_open(*oid, LOCK);
            }
            pg_sys::ExecSimpleRelationInsert(target, estate, slot);
            pg_sys::ExecCloseIndices(target);
            clear(slot);
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
        let is_dropped = pg_sys::SPI_gettypeid((*table).rd_att, number) == pg_sys::InvalidOid;
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

/// Has PostgreSQL tell of changes to the table, once in a backend.
fn listen() {
    #[pgrx::pg_guard]
    extern "C-unwind" fn changed(_nothing: pg_sys::Datum, relation: pg_sys::Oid) {
        if relation == TABLE.get() || relation == pg_sys::InvalidOid {
            IS_STALE.set(true);
        }
    }
    if !LISTENS.replace(true) {
        // SAFETY: the function lives as long as the library, which is never unloaded.
        unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(changed), pg_sys::Datum::null()) };
    }
}
