//! The INSERT of `emit`, on a plan that is made once in a backend.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use pgrx::{Uuid, pg_sys};

use super::{BytesValue, JsonbValue, TextValue, TimeValue};

const INSERT: &CStr = c"INSERT INTO outbox.events (id, topic, payload, payload_bytes, content_type, event_type, \
    aggregate_type, aggregate_id, headers, correlation_id, exchange, available_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const PARAMETERS: usize = 12;

/// What a call of `emit` was given, but for the id.
pub(crate) struct Given {
    pub(crate) topic: Option<TextValue>,
    pub(crate) payload: Option<JsonbValue>,
    pub(crate) payload_bytes: Option<BytesValue>,
    pub(crate) content_type: Option<TextValue>,
    pub(crate) event_type: Option<TextValue>,
    pub(crate) aggregate_type: Option<TextValue>,
    pub(crate) aggregate_id: Option<TextValue>,
    pub(crate) headers: Option<JsonbValue>,
    pub(crate) correlation_id: Option<TextValue>,
    pub(crate) exchange: Option<TextValue>,
    pub(crate) available_at: Option<TimeValue>,
}

/// How many rows an INSERT made.
pub(crate) struct InsertedRows(pub(crate) u64);

/// Inserts one event. An error of the INSERT ends the statement.
pub(crate) fn insert_event(id: &Uuid, given: Given) -> InsertedRows {
    let values: [Option<pg_sys::Datum>; PARAMETERS] = [
        Some(id.as_bytes().as_ptr().into()),
        given.topic.map(|value| value.datum()),
        given.payload.map(|value| value.datum()),
        given.payload_bytes.map(|value| value.datum()),
        given.content_type.map(|value| value.datum()),
        given.event_type.map(|value| value.datum()),
        given.aggregate_type.map(|value| value.datum()),
        given.aggregate_id.map(|value| value.datum()),
        given.headers.map(|value| value.datum()),
        given.correlation_id.map(|value| value.datum()),
        given.exchange.map(|value| value.datum()),
        given.available_at.map(|value| value.datum()),
    ];
    let mut datums = values.map(|value| value.unwrap_or(pg_sys::Datum::null()));
    // SPI's way to say null: 'n' for null, a blank for a value.
    let nulls = values.map(|value| if value.is_none() { b'n' } else { b' ' } as c_char);

    // SAFETY: the arrays have as many elements as the plan has parameters, of its types in its order; id is borrowed
    // until the call returns. Raw SPI, because pgrx's client allocates for every argument.
    unsafe {
        check(pg_sys::SPI_connect());
        let status = pg_sys::SPI_execute_plan(kept_plan(), datums.as_mut_ptr(), nulls.as_ptr(), false, 0);
        check(status);
        let inserted = InsertedRows(pg_sys::SPI_processed);
        check(pg_sys::SPI_finish());
        inserted
    }
}

/// The backend's plan. It survives what happens to the table: PostgreSQL makes it anew from its text when need be.
fn kept_plan() -> pg_sys::SPIPlanPtr {
    thread_local! {
        static PLAN: Cell<pg_sys::SPIPlanPtr> = const { Cell::new(ptr::null_mut()) };
    }
    if PLAN.get().is_null() {
        use pg_sys::{BYTEAOID as BYTEA, JSONBOID as JSONB, TEXTOID as TEXT, TIMESTAMPTZOID as TIME, UUIDOID as UUID};
        let mut types: [pg_sys::Oid; PARAMETERS] =
            [UUID, TEXT, JSONB, BYTEA, TEXT, TEXT, TEXT, TEXT, JSONB, TEXT, TEXT, TIME];
        // SAFETY: the arrays have the lengths given; SPI is connected, as `insert_event` has seen to. The plan is kept only
        // when it was made. A generic plan from the first call: there is but one way to insert a row of parameters.
        unsafe {
            let options = pg_sys::CURSOR_OPT_GENERIC_PLAN as c_int;
            let plan = pg_sys::SPI_prepare_cursor(INSERT.as_ptr(), PARAMETERS as c_int, types.as_mut_ptr(), options);
            if plan.is_null() {
                check(pg_sys::SPI_result);
            }
            check(pg_sys::SPI_keepplan(plan));
            PLAN.set(plan);
        }
    }
    PLAN.get()
}

/// SPI's results below zero are errors that it has not raised itself.
fn check(status: c_int) {
    if status < 0 {
        pgrx::error!("SPI failed in outbox.emit: {status}");
    }
}
