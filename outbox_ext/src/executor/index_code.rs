//! Whose code an index runs for a row: PostgreSQL's own, or the user's, which must run as the table's owner.

use std::ffi::c_int;

use pgrx::pg_sys::{self, NodeTag};

/// Whether a row gets into the index by PostgreSQL's own functions on PostgreSQL's own types alone: no expression, and
/// no operator class or predicate of the user's.
///
/// # Safety
/// The index is open, and `info` describes it.
pub(super) unsafe fn runs_only_built_in_code(index: pg_sys::Relation, info: &pg_sys::IndexInfo) -> bool {
    // SAFETY: by this function's contract. An index has `amsupport` functions for each key column.
    unsafe {
        let keys = info.ii_NumIndexKeyAttrs as usize;
        let functions = (*index).rd_indam.as_ref().map_or(0, |method| usize::from(method.amsupport));
        let functions = std::slice::from_raw_parts((*index).rd_support, functions * keys);
        info.ii_Expressions.is_null()
            && info.ii_ExclusionOps.is_null()
            && functions.iter().copied().all(is_built_in)
            // PostgreSQL's own comparison of arrays calls the comparison of their elements, which may be the user's.
            && (1..=keys).all(|number| is_plain_type(pg_sys::SPI_gettypeid((*index).rd_att, number as c_int)))
            && is_plain_list(info.ii_Predicate)
    }
}

/// Whether an object came with PostgreSQL.
fn is_built_in(object: pg_sys::Oid) -> bool {
    object.to_u32() < pg_sys::FirstNormalObjectId
}

unsafe fn is_plain_type(oid: pg_sys::Oid) -> bool {
    // SAFETY: looks the type up in a cache. PostgreSQL compares enums by their order, without code of the user's.
    is_built_in(oid) || unsafe { pg_sys::type_is_enum(oid) }
}

unsafe fn is_plain_list(list: *const pg_sys::List) -> bool {
    // SAFETY: an empty list is null; any other has `length` elements, each of them a node.
    unsafe {
        let Some(list) = list.as_ref() else { return true };
        let nodes = std::slice::from_raw_parts(list.elements, list.length as usize);
        nodes.iter().all(|node| is_plain(node.ptr_value.cast()))
    }
}

/// Whether an expression is of a kind that calls nothing, or calls only PostgreSQL's own operators. Any other kind
/// counts as the user's.
unsafe fn is_plain(node: *const pg_sys::Node) -> bool {
    // SAFETY: a node's tag names its type.
    unsafe {
        match (*node).type_ {
            NodeTag::T_Var => is_plain_type((*node.cast::<pg_sys::Var>()).vartype),
            NodeTag::T_Const => is_plain_type((*node.cast::<pg_sys::Const>()).consttype),
            NodeTag::T_BoolExpr => is_plain_list((*node.cast::<pg_sys::BoolExpr>()).args),
            NodeTag::T_NullTest => is_plain((*node.cast::<pg_sys::NullTest>()).arg.cast()),
            NodeTag::T_RelabelType => {
                let relabel = &*node.cast::<pg_sys::RelabelType>();
                is_plain_type(relabel.resulttype) && is_plain(relabel.arg.cast())
            }
            NodeTag::T_OpExpr => {
                let operation = &*node.cast::<pg_sys::OpExpr>();
                is_built_in(operation.opfuncid)
                    && operation.opfuncid != pg_sys::InvalidOid
                    && is_plain_list(operation.args)
            }
            _ => false,
        }
    }
}
