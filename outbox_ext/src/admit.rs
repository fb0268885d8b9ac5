//! `outbox.admit()`: the trigger that checks and completes every new event, emitted or inserted.
//!
//! `sql/native/plain/admit.sql` has the same rules in PL/pgSQL.

use pgrx::prelude::*;

use crate::emit_error::EmitError;
use crate::limits::{MESSAGE_BYTES, SHORT_STRING_BYTES};
use crate::postgres::{Column, NewRow, SqlFunction, is_replica, transaction_time, utf8};
use crate::{headers, reserved, settings};

/// The function below as PostgreSQL calls it, by the name that `pg_extern` gives it.
pub(crate) const ADDRESS: SqlFunction = admit_wrapper;

#[pg_extern(sql = false)]
pub(crate) fn admit(mut row: NewRow) -> NewRow {
    if let Err(error) = check_and_complete(&mut row) {
        error.raise();
    }
    row
}

fn check_and_complete(row: &mut NewRow) -> Result<(), EmitError> {
    let now = transaction_time();
    // A new row has this transaction's time. Any other row is restored or replicated, and is kept as it was within the
    // limits of every row. Only the owner can write created_at, so nobody else can pretend a restore.
    let is_new = row.time(Column::CreatedAt) == Some(now) && !is_replica();

    check_text(row, Column::Topic)?.ok_or(EmitError::NoTopic)?;
    check_payload(row, is_new)?;
    check_text(row, Column::EventType)?;
    if is_new && row.text(Column::EventType) == Some(reserved::AMQP_1_0) {
        return Err(EmitError::EventTypeReserved);
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
        Some(i64::MAX) => return Err(EmitError::NeverAvailable), // 'infinity'
        Some(time) if is_new && time <= now => row.set_null(Column::AvailableAt),
        _ => {}
    }
    Ok(())
}

/// Checks that a text fits an AMQP short string, and returns its length; `None`: the column is null.
fn check_text(row: &NewRow, column: Column) -> Result<Option<usize>, EmitError> {
    match row.size(column) {
        Some(0) => Err(EmitError::Empty(column)),
        Some(bytes) if bytes > SHORT_STRING_BYTES => Err(EmitError::TooLong(column, bytes)),
        length => match row.text(column).map(utf8) {
            Some(None) => Err(EmitError::NotUtf8(column)),
            Some(Some(sent)) if sent.len() > SHORT_STRING_BYTES => Err(EmitError::TooLong(column, sent.len())),
            _ => Ok(length),
        },
    }
}

/// Checks the payload. Only a new one must keep to the settings, which may have been higher when a restored row was
/// new.
fn check_payload(row: &NewRow, is_new: bool) -> Result<(), EmitError> {
    let (bytes, is_utf8) = match (row.size(Column::Payload), row.size(Column::PayloadBytes)) {
        (None, None) => return Err(EmitError::NoPayload),
        (Some(_), Some(_)) => return Err(EmitError::TwoPayloads),
        (None, Some(bytes)) => (bytes, true),
        (Some(bytes), None) if bytes > MESSAGE_BYTES => (bytes, true), // not even unpacked
        (Some(_), None) => {
            let text = row.json(Column::Payload).unwrap_or_default();
            utf8(text).map_or((text.len(), false), |sent| (sent.len(), true))
        }
    };
    let (limit, limited_by) = settings::payload_limit();
    if is_new && bytes > limit {
        return Err(EmitError::PayloadTooLarge(bytes, limit, limited_by));
    }
    if bytes > MESSAGE_BYTES {
        return Err(EmitError::MessageTooLarge(bytes));
    }
    if is_utf8 { Ok(()) } else { Err(EmitError::NotUtf8(Column::Payload)) }
}

fn check_correlation_id(row: &mut NewRow, is_new: bool) -> Result<(), EmitError> {
    let is_present = check_text(row, Column::CorrelationId)?.is_some();
    if !is_new {
        return Ok(());
    }
    if is_present {
        let is_broken = row.text(Column::CorrelationId).is_some_and(reserved::is_broken_urn);
        return if is_broken { Err(EmitError::CorrelationIdBrokenUrn) } else { Ok(()) };
    }
    let Some(correlation_id) = settings::correlation_id()? else { return Ok(()) };
    if reserved::is_broken_urn(&correlation_id) {
        return Err(EmitError::CorrelationIdBrokenUrn);
    }
    row.set_text(Column::CorrelationId, &correlation_id);
    Ok(())
}

fn check_headers(row: &mut NewRow, is_new: bool) -> Result<(), EmitError> {
    let present = row.json(Column::Headers);
    let has_traceparent = present.map(|present| headers::check(present, is_new)).transpose()?.unwrap_or(false);
    if is_new
        && !has_traceparent
        && let Some(traceparent) = settings::traceparent()?
    {
        let completed = headers::with_traceparent(present, &traceparent);
        headers::check(&completed, is_new)?;
        row.set_text(Column::Headers, &completed);
    }
    Ok(())
}
