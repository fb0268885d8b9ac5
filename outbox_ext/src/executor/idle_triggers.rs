//! The triggers that have nothing to do for a verdict `SENT`.

use pgrx::{IntoDatum, pg_sys};

use crate::postgres::varlena::bytes;

/// The triggers of `sql/triggers/status.sql` and `sql/triggers/notify.sql`, as every version of PostgreSQL prints them
/// (`pg_get_triggerdef`). Every character counts, because another expression could differ in parentheses alone.
///
/// The condition of the first is false for a row that is written in full. That of the second is false while
/// `outbox.notify_status` is off, which the caller has checked.
const IDLE: [&str; 2] = [
    "CREATE TRIGGER status_moves BEFORE UPDATE OF status, attempts, replays, holds_key, available_at, last_error, \
     first_attempted_at, last_attempted_at, processed_at ON outbox.events FOR EACH ROW \
     WHEN ((((old.status = 'PENDING'::outbox.status) \
     AND (new.attempts = (old.attempts + 1)) AND (new.replays = old.replays) AND (new.last_attempted_at = now()) AND\n\
     \x20       CASE\n\
     \x20           WHEN ((new.status = 'PENDING'::outbox.status) AND (old.first_attempted_at IS NULL)) \
     THEN (new.first_attempted_at = now())\n\
     \x20           ELSE (NOT (new.first_attempted_at IS DISTINCT FROM old.first_attempted_at))\n\
     \x20       END AND\n\
     \x20       CASE new.status\n\
     \x20           WHEN 'PENDING'::outbox.status THEN (new.processed_at IS NULL)\n\
     \x20           WHEN 'FAILED'::outbox.status THEN (new.processed_at = now())\n\
     \x20           ELSE ((new.processed_at = now()) AND (new.last_error IS NULL) AND (NOT new.holds_key))\n\
     \x20       END) IS NOT TRUE)) EXECUTE FUNCTION outbox.move_status()",
    "CREATE TRIGGER notify_status AFTER UPDATE OF status ON outbox.events FOR EACH ROW WHEN \
     (((lower(current_setting('outbox.notify_status'::text, true)) = ANY (ARRAY['on'::text, 'true'::text, 'yes'::text, \
     '1'::text])) AND (new.status <> old.status))) EXECUTE FUNCTION outbox.notify_status()",
];

/// Whether an UPDATE of these columns, counted from 0, calls no function of the trigger.
pub(super) fn is_idle(trigger: &pg_sys::Trigger, written: &[usize]) -> bool {
    let columns = match trigger.tgnattr {
        0 => None, // any column
        // SAFETY: the trigger has `tgnattr` columns.
        count => Some(unsafe { std::slice::from_raw_parts(trigger.tgattr, count as usize) }),
    };
    let is_called = trigger.tgtype & pg_sys::TRIGGER_TYPE_UPDATE as i16 != 0
        && columns.is_none_or(|columns| columns.iter().any(|number| written.contains(&(*number as usize - 1))));
    !is_called || {
        // SAFETY: a function of one argument, the OID of a trigger, which lives while the table is locked. It returns a
        // text in the database's encoding.
        let definition = unsafe {
            pgrx::direct_function_call_as_datum(pg_sys::pg_get_triggerdef, &[trigger.tgoid.into_datum()])
                .map(|definition| bytes(definition))
        };
        definition.is_some_and(|definition| IDLE.iter().any(|idle| idle.as_bytes() == definition))
    }
}
