//! Where a table has the columns that the trigger reads, and whether they have the types that the trigger expects.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::ptr::null_mut;

use pgrx::PgSqlErrorCode::{self, ERRCODE_DATATYPE_MISMATCH, ERRCODE_UNDEFINED_COLUMN};
use pgrx::pg_sys;

use super::changes::on_table_change;
use super::columns::{CHECKED, Column};
use super::raise::raise;

thread_local! {
    /// How often any table has changed since the first look at this count.
    static CHANGES: Cell<u64> = {
        on_table_change(|_| CHANGES.set(CHANGES.get() + 1));
        Cell::new(0)
    };
}

/// Where a table has the columns, from 0.
#[derive(Clone, Copy)]
pub(super) struct Positions {
    table: pg_sys::Oid,
    /// [`CHANGES`] before the columns were looked up.
    changes: u64,
    indexes: [usize; CHECKED.len()],
    types: [Type; CHECKED.len()],
}

/// A column's type, which may be a domain over the expected one, or a varchar of a certain length.
#[derive(Clone, Copy)]
struct Type {
    oid: pg_sys::Oid,
    modifier: c_int,
}

impl Positions {
    /// Where the column is, from 0.
    pub(super) fn index(&self, column: Column) -> usize {
        self.indexes.get(column as usize).copied().unwrap_or(usize::MAX)
    }

    /// Whether the column is a jsonb. JSON columns of a schema before 0.3.0 are.
    pub(super) fn is_jsonb(&self, column: Column) -> bool {
        self.types.get(column as usize).is_some_and(|of| of.oid == pg_sys::JSONBOID)
    }

    /// Casts a value for the column as an assignment does, by way of its text. A domain or a length may raise an error.
    ///
    /// # Safety
    /// The value is of the type that the trigger expects there.
    pub(super) unsafe fn cast(&self, column: Column, value: Option<pg_sys::Datum>) -> Option<pg_sys::Datum> {
        let (Some(of), Some((_, expected))) = (self.types.get(column as usize), CHECKED.get(column as usize)) else {
            return value;
        };
        if of.oid == *expected && of.modifier == -1 {
            return value;
        }
        // SAFETY: every type has these functions.
        unsafe {
            let (mut print, mut read, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid, pg_sys::InvalidOid);
            let mut is_varlena = false;
            pg_sys::getTypeOutputInfo(*expected, &raw mut print, &raw mut is_varlena);
            pg_sys::getTypeInputInfo(of.oid, &raw mut read, &raw mut parameter);
            let text = value.map_or(null_mut(), |value| pg_sys::OidOutputFunctionCall(print, value));
            let cast = pg_sys::OidInputFunctionCall(read, text, parameter, of.modifier);
            value.map(|_| cast)
        }
    }
}

/// The positions in this table, kept from row to row until a table changes. They are looked up by name, because a
/// partition may have its columns in another order.
///
/// # Safety
/// The table is open.
pub(super) unsafe fn positions(table: pg_sys::Relation) -> Positions {
    thread_local! {
        static LAST: Cell<Option<Positions>> = const { Cell::new(None) };
    }
    // SAFETY: by this function's contract.
    let oid = unsafe { (*table).rd_id };
    let is_of_now = |last: &Positions| last.table == oid && last.changes == CHANGES.get();
    if let Some(last) = LAST.get().filter(is_of_now) {
        return last;
    }
    let changes = CHANGES.get();
    // SAFETY: by this function's contract.
    let found = unsafe { look_up(table) };
    let found = Positions { table: oid, changes, indexes: found.map(|of| of.0), types: found.map(|of| of.1) };
    LAST.set(Some(found));
    found
}

unsafe fn look_up(table: pg_sys::Relation) -> [(usize, Type); CHECKED.len()] {
    CHECKED.map(|(name, expected)| {
        // SAFETY: the table is open. Despite their names the functions need no SPI.
        unsafe {
            let number = pg_sys::SPI_fnumber((*table).rd_att, name.as_ptr());
            if number < 1 {
                let what = format!("column {} of table {} does not exist", to_text(name), table_name(table));
                raise_wrong_column(ERRCODE_UNDEFINED_COLUMN, what, "Give the column its name back.");
            }
            let oid = pg_sys::SPI_gettypeid((*table).rd_att, number);
            let is_earlier_schema = expected == pg_sys::JSONOID && oid == pg_sys::JSONBOID;
            // A domain is stored as its type, and a varchar as a text.
            if !is_earlier_schema && !pg_sys::IsBinaryCoercible(pg_sys::getBaseType(oid), expected) {
                let (found, expected) = (pg_sys::format_type_be(oid), pg_sys::format_type_be(expected));
                let what = format!(
                    "column {} of table {} is of type {}, but an event has {} there",
                    to_text(name),
                    table_name(table),
                    to_text(CStr::from_ptr(found)),
                    to_text(CStr::from_ptr(expected)),
                );
                let hint = "After an upgrade: connect anew, this session has the library of the earlier version. \
                            Otherwise give the column its type back.";
                raise_wrong_column(ERRCODE_DATATYPE_MISMATCH, what, hint);
            }
            (number as usize - 1, Type { oid, modifier: modifier(table, number) })
        }
    })
}

/// The modifier of a column's type, such as a length; `-1`: none.
unsafe fn modifier(table: pg_sys::Relation, number: c_int) -> c_int {
    let (mut oid, mut modifier, mut collation) = (pg_sys::InvalidOid, -1, pg_sys::InvalidOid);
    // SAFETY: the table has a column of this number.
    unsafe {
        let number = number as pg_sys::AttrNumber;
        pg_sys::get_atttypetypmodcoll((*table).rd_id, number, &raw mut oid, &raw mut modifier, &raw mut collation);
    }
    modifier
}

unsafe fn table_name(table: pg_sys::Relation) -> String {
    // SAFETY: the table is open.
    unsafe { to_text(CStr::from_ptr((*(*table).rd_rel).relname.data.as_ptr())) }
}

fn to_text(text: &CStr) -> String {
    text.to_string_lossy().into_owned()
}

fn raise_wrong_column(sqlstate: PgSqlErrorCode, message: String, hint: &'static str) -> ! {
    let detail = "outbox.admit() checks every new row of the table.".into();
    raise((sqlstate, message, Some(detail), Some(hint)))
}
