//! The table as the executor writes into it: with its indexes and triggers.
//!
//! A table qualifies if it has only what the extension has made, and plain B-trees. A table that may run code of the
//! user's, or needs a step that is left out here, is written by a statement.

use std::ffi::{CStr, c_char, c_int};

use pgrx::pg_sys;

use super::index_code::runs_only_built_in_code;
use super::raw;
use crate::postgres::table::{LOCK, NO_LOCK};

/// The table, ready to take rows.
pub(super) struct Target {
    /// The executor's state, whose memory holds everything that is made ready.
    pub(super) estate: *mut pg_sys::EState,
    pub(super) info: *mut pg_sys::ResultRelInfo,
    pub(super) descriptor: pg_sys::TupleDesc,
    pub(super) indexes: Vec<pg_sys::Oid>,
    /// The context of expressions. Its memory of one row is freed with that row.
    pub(super) context: *mut pg_sys::ExprContext,
}

/// Makes a target, and whatever `rest` adds to it, in the target's memory.
///
/// # Safety
/// The table is open and locked.
pub(super) unsafe fn prepare<T>(table: pg_sys::Relation, rest: impl FnOnce(Target) -> Option<T>) -> Option<T> {
    // SAFETY: by this function's contract. Everything is made in the executor's memory, which lives as long as the
    // target.
    unsafe {
        if !is_plain(table) {
            return None;
        }
        let estate = pg_sys::CreateExecutorState(); // freed with the call if an error comes now
        let before = pg_sys::MemoryContextSwitchTo((*estate).es_query_cxt);
        let ready = Target::new(table, estate).and_then(rest);
        pg_sys::MemoryContextSwitchTo(before);
        if ready.is_some() {
            pg_sys::MemoryContextSetParent((*estate).es_query_cxt, pg_sys::TopMemoryContext);
        } else {
            pg_sys::FreeExecutorState(estate);
        }
        ready
    }
}

impl Target {
    /// `None`: an index is no B-tree and may keep something from row to row, may run code of the user's, or is checked
    /// at the end of the transaction.
    unsafe fn new(table: pg_sys::Relation, estate: *mut pg_sys::EState) -> Option<Self> {
        // SAFETY: as in prepare().
        unsafe {
            let descriptor = pg_sys::CreateTupleDescCopyConstr((*table).rd_att);
            let info = pg_sys::palloc0(size_of::<pg_sys::ResultRelInfo>()).cast::<pg_sys::ResultRelInfo>();
            (*info).type_ = pg_sys::NodeTag::T_ResultRelInfo;
            pg_sys::InitResultRelInfo(info, table, 0, std::ptr::null_mut(), 0);

            let indexes = oids(pg_sys::RelationGetIndexList(table));
            let pointers = || pg_sys::palloc0(indexes.len() * size_of::<*mut u8>());
            (*info).ri_NumIndices = indexes.len() as c_int;
            (*info).ri_IndexRelationDescs = pointers().cast();
            (*info).ri_IndexRelationInfo = pointers().cast();
            for (number, oid) in indexes.iter().enumerate() {
                let index = pg_sys::index_open(*oid, LOCK);
                let index_info = pg_sys::BuildIndexInfo(index);
                let is_btree = (*(*index).rd_rel).relam == pg_sys::BTREE_AM_OID;
                let is_immediate = (*(*index).rd_index).indimmediate;
                let is_built_in = runs_only_built_in_code(index, &*index_info);
                pg_sys::index_close(index, LOCK);
                if !(is_btree && is_immediate && is_built_in) {
                    return None;
                }
                *(*info).ri_IndexRelationInfo.add(number) = index_info;
            }
            Some(Self { estate, info, descriptor, indexes, context: pg_sys::MakePerTupleExprContext(estate) })
        }
    }

    /// Where the table has a column of this type, from 0.
    pub(super) unsafe fn position(&self, name: &CStr, expected: pg_sys::Oid) -> Option<usize> {
        // SAFETY: the target was made for the table, which is open.
        unsafe {
            let number = pg_sys::SPI_fnumber(self.descriptor, name.as_ptr());
            let (mut found, mut modifier, mut collation) = (pg_sys::InvalidOid, 0, pg_sys::InvalidOid);
            if number > 0 {
                pg_sys::get_atttypetypmodcoll(
                    (*(*self.info).ri_RelationDesc).rd_id,
                    number as pg_sys::AttrNumber,
                    &raw mut found,
                    &raw mut modifier,
                    &raw mut collation,
                );
            }
            (found == expected && modifier == -1).then(|| number as usize - 1)
        }
    }

    /// Which of the indexes is the primary key, if this column alone is the key.
    pub(super) unsafe fn primary_key(&self, table: pg_sys::Relation, position: usize) -> Option<usize> {
        // SAFETY: the table is open, and the target was made for it.
        unsafe {
            #[cfg(not(feature = "pg18"))]
            let oid = pg_sys::RelationGetPrimaryKeyIndex(table);
            #[cfg(feature = "pg18")]
            let oid = pg_sys::RelationGetPrimaryKeyIndex(table, false);
            let number = self.indexes.iter().position(|index| *index == oid)?;
            let index = &**(*self.info).ri_IndexRelationInfo.add(number);
            let is_all = index.ii_NumIndexKeyAttrs == 1 && index.ii_IndexAttrNumbers[0] as usize == position + 1;
            is_all.then_some(number)
        }
    }

    /// The memory of one row, which is reset for the next row.
    pub(super) fn memory(&self) -> pg_sys::MemoryContext {
        // SAFETY: the context lives as long as the target.
        unsafe { (*self.context).ecxt_per_tuple_memory }
    }

    /// Opens the indexes.
    ///
    /// # Safety
    /// As for [`raw`], and the table is open.
    pub(super) unsafe fn open(&self, table: pg_sys::Relation) {
        // SAFETY: there is room for as many indexes as the target has.
        unsafe {
            (*self.info).ri_RelationDesc = table;
            for (number, oid) in self.indexes.iter().enumerate() {
                let index = raw::index_open(*oid, LOCK);
                *(*self.info).ri_IndexRelationDescs.add(number) = index;
                // CREATE INDEX CONCURRENTLY announces this change for the index, not for the table.
                (**(*self.info).ri_IndexRelationInfo.add(number)).ii_ReadyForInserts = (*(*index).rd_index).indisready;
            }
        }
    }

    /// Closes the indexes. Their locks stay until the transaction ends, as those of an UPDATE do, and taking one again
    /// then needs only the session's own memory.
    ///
    /// # Safety
    /// As for [`raw`], and the indexes are open.
    pub(super) unsafe fn close(&self) {
        // SAFETY: by this function's contract.
        unsafe {
            for number in 0..self.indexes.len() {
                raw::index_close(*(*self.info).ri_IndexRelationDescs.add(number), NO_LOCK);
            }
        }
    }

    /// The table's triggers.
    pub(super) unsafe fn triggers(&self) -> &[pg_sys::Trigger] {
        // SAFETY: the descriptor of the triggers is the target's own copy.
        unsafe {
            match (*self.info).ri_TrigDesc.as_ref() {
                Some(triggers) => std::slice::from_raw_parts(triggers.triggers, triggers.numtriggers as usize),
                None => &[],
            }
        }
    }

    pub(super) unsafe fn free(self) {
        // SAFETY: by the contract of the callers, nothing refers to the executor's memory any longer.
        unsafe { pg_sys::FreeExecutorState(self.estate) }
    }
}

/// Whether a row of the table needs nothing but its triggers and indexes.
unsafe fn is_plain(table: pg_sys::Relation) -> bool {
    // SAFETY: the table is open, so its descriptors live.
    unsafe {
        let class = &*(*table).rd_rel;
        let is_ordinary = class.relkind == pg_sys::RELKIND_RELATION as c_char
            && class.relam == pg_sys::HEAP_TABLE_AM_OID
            && !class.relispartition
            && !class.relhassubclass
            && !class.relrowsecurity
            && (*table).rd_rules.is_null();
        let constraints = (*(*table).rd_att).constr.as_ref();
        let is_unchecked = constraints.is_none_or(|found| found.num_check == 0 && !found.has_generated_stored);
        #[cfg(feature = "pg18")]
        let is_unchecked = is_unchecked && constraints.is_none_or(|found| !found.has_generated_virtual);
        is_ordinary && is_unchecked
    }
}

unsafe fn oids(list: *mut pg_sys::List) -> Vec<pg_sys::Oid> {
    // SAFETY: an empty list is null; any other has `length` elements.
    unsafe {
        let Some(list) = list.as_ref() else { return Vec::new() };
        std::slice::from_raw_parts(list.elements, list.length as usize).iter().map(|cell| cell.oid_value).collect()
    }
}
