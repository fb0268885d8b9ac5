//! The row of a BEFORE INSERT trigger.

use std::ffi::c_int;

use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::trigger_support::{called_as_trigger, trigger_fired_before, trigger_fired_by_insert, trigger_fired_for_row};
use pgrx::{IntoDatum, PgSqlErrorCode::*, pg_sys};

use super::columns::Column;
use super::json_text;
use super::positions::{Positions, positions};
use super::raise::raise;
use super::varlena::{bytes, raw_size};

/// The SQLSTATE for a trigger function that is called as anything else.
const PROTOCOL: pgrx::PgSqlErrorCode = ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED;

/// A row on its way into the table. A trigger function takes and returns it.
pub(crate) struct NewRow {
    tuple: pg_sys::HeapTuple,
    descriptor: pg_sys::TupleDesc,
    positions: Positions,
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
    changes: Changes,
}

/// New values by column number (from 1), as `heap_modify_tuple_by_cols` takes them.
#[derive(Default)]
struct Changes {
    columns: Vec<c_int>,
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

impl NewRow {
    /// The row of a trigger's call.
    ///
    /// # Safety
    /// PostgreSQL made the call.
    unsafe fn of_trigger(call: pg_sys::FunctionCallInfo) -> Self {
        // SAFETY: a call is a trigger's when its context says so, and a trigger BEFORE INSERT FOR EACH ROW has a
        // relation and a tuple of its columns. heap_deform_tuple fills one value per column.
        unsafe {
            if !called_as_trigger(call) {
                raise((PROTOCOL, "outbox.admit() is a trigger function".into(), None, None));
            }
            let trigger = &*(*call).context.cast::<pg_sys::TriggerData>();
            let event = trigger.tg_event;
            if !(trigger_fired_by_insert(event) && trigger_fired_before(event) && trigger_fired_for_row(event)) {
                raise((PROTOCOL, "outbox.admit() is a trigger BEFORE INSERT FOR EACH ROW".into(), None, None));
            }
            let tuple = trigger.tg_trigtuple;
            let descriptor = (*trigger.tg_relation).rd_att;
            let columns = (*descriptor).natts as usize;
            let mut values = vec![pg_sys::Datum::null(); columns];
            let mut nulls = vec![true; columns];
            pg_sys::heap_deform_tuple(tuple, descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
            let positions = positions(trigger.tg_relation);
            NewRow { tuple, descriptor, positions, values, nulls, changes: Changes::default() }
        }
    }

    /// Whether the row has come with a null in the column.
    pub(crate) fn is_null(&self, column: Column) -> bool {
        self.value(column).is_none()
    }

    /// Bytes of a text, bytea or json, uncompressed and without a header, found without unpacking it.
    pub(crate) fn size(&self, column: Column) -> Option<usize> {
        // SAFETY: the callers ask for columns of such a type.
        self.value(column).map(|value| unsafe { raw_size(value) })
    }

    /// The bytes of a text, which need not be UTF-8.
    pub(crate) fn text(&self, column: Column) -> Option<&[u8]> {
        // SAFETY: the callers ask for columns of type text, and the row stays as long as self.
        self.value(column).map(|value| unsafe { bytes(value) })
    }

    /// A timestamptz, in microseconds since 2000.
    pub(crate) fn time(&self, column: Column) -> Option<i64> {
        self.value(column).map(|value| value.value() as i64)
    }

    /// The text of a json, in the database's encoding.
    pub(crate) fn json(&self, column: Column) -> Option<&[u8]> {
        let is_jsonb = self.positions.is_jsonb(column);
        // SAFETY: the callers ask for columns of JSON, and the row stays as long as self.
        self.value(column).map(|value| unsafe { json_text::text(value, is_jsonb) })
    }

    /// Puts a text or a json into the row, in the database's encoding.
    pub(crate) fn set_text(&mut self, column: Column, text: &[u8]) {
        self.set(column, text.into_datum());
    }

    /// Puts a null into the row.
    pub(crate) fn set_null(&mut self, column: Column) {
        self.set(column, None);
    }

    /// The row as it has come, or a changed copy.
    fn into_tuple(mut self) -> pg_sys::HeapTuple {
        if self.changes.columns.is_empty() {
            return self.tuple;
        }
        // SAFETY: the three arrays are of one length, and the columns are some of the tuple's.
        unsafe {
            pg_sys::heap_modify_tuple_by_cols(
                self.tuple,
                self.descriptor,
                self.changes.columns.len() as c_int,
                self.changes.columns.as_mut_ptr(),
                self.changes.values.as_mut_ptr(),
                self.changes.nulls.as_mut_ptr(),
            )
        }
    }

    fn value(&self, column: Column) -> Option<pg_sys::Datum> {
        let index = self.positions.index(column);
        match (self.values.get(index), self.nulls.get(index)) {
            (Some(value), Some(false)) => Some(*value),
            _ => None,
        }
    }

    fn set(&mut self, column: Column, value: Option<pg_sys::Datum>) {
        // SAFETY: the callers give values of the types that positions() has checked for.
        let value = unsafe { self.positions.cast(column, value) };
        self.changes.columns.push(self.positions.index(column) as c_int + 1);
        self.changes.values.push(value.unwrap_or(pg_sys::Datum::null()));
        self.changes.nulls.push(value.is_none());
    }
}

// SAFETY: of_trigger checks that the call is a trigger's.
unsafe impl<'fcx> ArgAbi<'fcx> for NewRow {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the call is PostgreSQL's.
        unsafe { Self::of_trigger(arg.unbox_unchecked()) }
    }

    fn is_virtual_arg() -> bool {
        true // a trigger's row is in the context of the call, not among its arguments
    }
}

// SAFETY: a trigger returns a pointer to a tuple.
unsafe impl BoxRet for NewRow {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        // SAFETY: the tuple is PostgreSQL's, or was allocated in the call's memory context.
        unsafe { fcinfo.return_raw_datum(self.into_tuple().into()) }
    }
}

// SAFETY: no argument in SQL, and the return type of every trigger function.
unsafe impl SqlTranslatable for NewRow {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(NewRow);
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::Skip);
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("trigger")));
}
