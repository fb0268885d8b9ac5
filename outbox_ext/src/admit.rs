//! `outbox.admit()`: the trigger that checks and completes every new event, emitted or inserted.
//!
//! Its rules stand in PL/pgSQL in `sql/native/plain/admit.sql`.

use pgrx::prelude::*;

use crate::postgres::{Column, NewRow, SqlFunction, is_replica, transaction_time, utf8};
use crate::refusal::{MESSAGE_BYTES, Refusal, SHORT_STRING_BYTES};
use crate::{headers, reserved, settings};

/// Where PostgreSQL finds the function below, by the name that `pg_extern` gives it.
pub(crate) const ADDRESS: SqlFunction = admit_wrapper;

#[pg_extern(sql = false)]
pub(crate) fn admit(mut row: NewRow) -> NewRow {
    if let Err(refusal) = check_and_complete(&mut row) {
        refusal.raise();
    }
    row
}

fn check_and_complete(row: &mut NewRow) -> Result<(), Refusal> {
    let now = transaction_time();
    // A row that is new has this transaction's time. Any other row is being restored: it is kept as it was, but for the
    // limits that no row may break. Only the owner can give created_at, so nobody else can pass for a restore. Rows that
    // logical replication brings are kept as they were, too.
    let is_new = row.time(Column::CreatedAt) == Some(now) && !is_replica();

    check_text(row, Column::Topic)?.ok_or(Refusal::NoTopic)?;
    check_payload(row, is_new)?;
    check_text(row, Column::EventType)?;
    if is_new && row.text(Column::EventType) == Some(reserved::AMQP_1_0) {
        return Err(Refusal::EventTypeReserved);
    }
    check_text(row, Column::AggregateType)?;
    check_text(row, Column::AggregateId)?;
    check_headers(row, is_new)?;
    check_correlation_id(row, is_new)?;
    check_text(row, Column::Exchange)?;
    if check_text(row, Column::ContentType)?.is_none() && !row.is_null(Column::PayloadBytes) {
        row.set_text(Column::ContentType, b"application/octet-stream");
    }
    match row.time(Column::AvailableAt) {
        Some(i64::MAX) => return Err(Refusal::NeverAvailable), // 'infinity'
        Some(time) if is_new && time <= now => row.set_null(Column::AvailableAt),
        _ => {}
    }
    Ok(())
}

/// The length of a text that is there and fits an AMQP short string.
fn check_text(row: &NewRow, column: Column) -> Result<Option<usize>, Refusal> {
    match row.size(column) {
        Some(0) => Err(Refusal::Empty(column)),
        Some(bytes) if bytes > SHORT_STRING_BYTES => Err(Refusal::TooLong(column, bytes)),
        length => match row.text(column).map(utf8) {
            Some(None) => Err(Refusal::NotUtf8(column)),
            Some(Some(sent)) if sent.len() > SHORT_STRING_BYTES => Err(Refusal::TooLong(column, sent.len())),
            _ => Ok(length),
        },
    }
}

/// The limits on a new payload are settings, which may have been higher when a restored row was new.
fn check_payload(row: &NewRow, is_new: bool) -> Result<(), Refusal> {
    let (bytes, is_utf8) = match (row.size(Column::Payload), row.size(Column::PayloadBytes)) {
        (None, None) => return Err(Refusal::NoPayload),
        (Some(_), Some(_)) => return Err(Refusal::TwoPayloads),
        (None, Some(bytes)) => (bytes, true),
        (Some(bytes), None) if bytes > MESSAGE_BYTES => (bytes, true), // is not even unpacked
        (Some(_), None) => {
            let text = row.json(Column::Payload).unwrap_or_default();
            utf8(text).map_or((text.len(), false), |sent| (sent.len(), true))
        }
    };
    let (limit, limited_by) = settings::payload_limit();
    if is_new && bytes > limit {
        return Err(Refusal::PayloadTooLarge(bytes, limit, limited_by));
    }
    if bytes > MESSAGE_BYTES {
        return Err(Refusal::MessageTooLarge(bytes));
    }
    if is_utf8 { Ok(()) } else { Err(Refusal::NotUtf8(Column::Payload)) }
}

fn check_correlation_id(row: &mut NewRow, is_new: bool) -> Result<(), Refusal> {
    let given = check_text(row, Column::CorrelationId)?.is_some();
    if !is_new {
        return Ok(());
    }
    if given {
        let is_broken = row.text(Column::CorrelationId).is_some_and(reserved::is_broken_urn);
        return if is_broken { Err(Refusal::CorrelationIdBrokenUrn) } else { Ok(()) };
    }
    let Some(correlation_id) = settings::correlation_id()? else { return Ok(()) };
    if reserved::is_broken_urn(&correlation_id) {
        return Err(Refusal::CorrelationIdBrokenUrn);
    }
    row.set_text(Column::CorrelationId, &correlation_id);
    Ok(())
}

fn check_headers(row: &mut NewRow, is_new: bool) -> Result<(), Refusal> {
    let given = row.json(Column::Headers);
    let traced = given.map(|given| headers::check(given, is_new)).transpose()?.unwrap_or(false);
    if is_new
        && !traced
        && let Some(traceparent) = settings::traceparent()?
    {
        let completed = headers::with_traceparent(given, &traceparent);
        headers::check(&completed, is_new)?;
        row.set_text(Column::Headers, &completed);
    }
    Ok(())
}
