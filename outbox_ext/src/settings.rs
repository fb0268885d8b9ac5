//! The settings `outbox.*` of a session. They exist once the library is loaded, and take over what was set before.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::str::from_utf8;

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

use crate::emit_error::EmitError;
use crate::limits::{LimitedBy, MESSAGE_BYTES, SHORT_STRING_BYTES};
use crate::postgres::{Check, Report, TextSetting, are_sent_unchanged, check_from_now_on, is_set, utf8};

/// Largest body that an event may have, in bytes: by default 1 MiB, because a broker keeps messages in memory and
/// copies them to every queue. It guards against accidents, so any role may raise it as far as [`PAYLOAD_LIMIT`] lets
/// it.
static MAX_PAYLOAD_BYTES: GucSetting<i32> = GucSetting::<i32>::new(1024 * 1024);

/// Largest body in all sessions, in bytes, by which the owner bounds the relay's memory. 0 stands for
/// [`USUAL_PAYLOAD_LIMIT`].
static PAYLOAD_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(0);

/// Largest message that RabbitMQ takes by default from 4.0 on, in bytes.
const USUAL_PAYLOAD_LIMIT: usize = 16 * 1024 * 1024;

thread_local! {
    /// Whether the session had a value for [`PAYLOAD_LIMIT`] before the library was loaded, and may not set one. That
    /// value has displaced the owner's, which this session therefore does not know.
    static HIDES_LIMIT: Cell<bool> = const { Cell::new(false) };
}

const LIMIT_NAME: &CStr = c"outbox.payload_limit";

/// The largest body that this session may emit, in bytes, and who has set that limit.
pub(crate) fn payload_limit() -> (usize, LimitedBy) {
    let [session, owner] =
        [&MAX_PAYLOAD_BYTES, &PAYLOAD_LIMIT].map(|setting| usize::try_from(setting.get()).unwrap_or_default());
    let owner = match owner {
        0 if HIDES_LIMIT.get() => return (0, LimitedBy::Hidden),
        0 => USUAL_PAYLOAD_LIMIT,
        owner => owner,
    };
    if owner < session { (owner, LimitedBy::Owner) } else { (session, LimitedBy::Session) }
}

/// The `correlation_id` of events that are emitted without one.
static CORRELATION_ID: TextSetting = TextSetting::new();

/// The header `traceparent` of events that are emitted without one (W3C Trace Context).
static TRACEPARENT: TextSetting = TextSetting::new();

/// Whether each verdict is announced by `NOTIFY`. A trigger does that, and reads the setting in SQL.
pub(crate) static NOTIFY_STATUS: GucSetting<bool> = GucSetting::<bool>::new(false);

// Only SQL reads these. They are defined so that PostgreSQL checks and lists them.
static ALLOW_UNDUMPED_CHANGES: GucSetting<bool> = GucSetting::<bool>::new(false);
static OPERATOR: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static RELAY_WOKEN_IN: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);

/// Defines the settings, once, when the library is loaded.
pub(crate) fn define() {
    GucRegistry::define_int_guc(
        c"outbox.max_payload_bytes",
        c"Largest payload an event may have.",
        c"Counted as it is sent: JSON as text. The broker keeps messages in memory and copies them to queues: \
          emit a reference to what is larger. RabbitMQ itself refuses more than 16 MB (before 4.0: 128 MB).",
        &MAX_PAYLOAD_BYTES,
        1,
        MESSAGE_BYTES as i32,
        GucContext::Userset,
        GucFlags::UNIT_BYTE,
    );
    let was_set = is_set(LIMIT_NAME);
    GucRegistry::define_int_guc(
        LIMIT_NAME,
        c"Largest payload of all sessions, whatever outbox.max_payload_bytes says; 0 is 16MB.",
        c"A superuser's; outbox.limit_payloads() sets it for the database. The relay's memory follows from it.",
        &PAYLOAD_LIMIT,
        0,
        MESSAGE_BYTES as i32,
        GucContext::Suset,
        GucFlags::UNIT_BYTE,
    );
    // PostgreSQL has taken over a value that the session may set. Otherwise the setting has its default, 0.
    HIDES_LIMIT.set(was_set && PAYLOAD_LIMIT.get() == 0);
    CORRELATION_ID.define::<CorrelationId>(
        c"outbox.correlation_id",
        c"The correlation_id of events emitted without one.",
        c"Meant for SET LOCAL, at the start of a request's transaction.",
    );
    TRACEPARENT.define::<Traceparent>(
        c"outbox.traceparent",
        c"The header traceparent of events emitted without one.",
        c"Meant for SET LOCAL, at the start of a request's transaction. W3C Trace Context.",
    );
    check_from_now_on();
    GucRegistry::define_bool_guc(
        c"outbox.notify_status",
        c"Whether this session notifies channel outbox_status of each status it writes.",
        c"Set it for the relay's role. NOTIFY takes a lock of the whole cluster at commit.",
        &NOTIFY_STATUS,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"outbox.allow_undumped_changes",
        c"Whether outbox.events may be given columns, indexes, triggers and constraints that pg_dump loses.",
        c"Read by an event trigger. Make them again by hand before rows are restored.",
        &ALLOW_UNDUMPED_CHANGES,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"outbox.operator",
        c"For whom this session replays and releases events.",
        c"Written into outbox.audit, beside the role and the application_name.",
        &OPERATOR,
        GucContext::Userset,
        GucFlags::default(),
    );
    // It has the name of 0.2.0, since schema and library of different versions meet until everybody has connected anew,
    // and a library refuses settings of this prefix that it does not know.
    GucRegistry::define_string_guc(
        c"outbox.rung_in",
        c"The transaction that has woken the relay. Internal.",
        c"Set by outbox.wake_relay().",
        &RELAY_WOKEN_IN,
        GucContext::Userset,
        GucFlags::NO_SHOW_ALL | GucFlags::DISALLOW_IN_FILE,
    );
}

/// The setting `outbox.correlation_id`, if there is one, in the database's encoding.
pub(crate) fn correlation_id() -> Result<Option<Vec<u8>>, EmitError> {
    let checked = |value: &[u8]| -> Result<Vec<u8>, EmitError> {
        check_length(value.len())?;
        check_length(utf8(value).ok_or(EmitError::CorrelationIdNotUtf8)?.len())?;
        Ok(value.to_vec())
    };
    CORRELATION_ID.read(checked).transpose()
}

/// The setting `outbox.traceparent`, if there is one.
pub(crate) fn traceparent() -> Result<Option<String>, EmitError> {
    TRACEPARENT.read(|value| check_traceparent(value).map(str::to_owned)).transpose()
}

struct CorrelationId;

impl Check for CorrelationId {
    fn error_for(value: &[u8]) -> Option<Report> {
        let error = check_length(value.len()).err();
        // PostgreSQL converts texts in a transaction only, and a setting can be set outside of one: emit() checks
        // again.
        let is_text = !are_sent_unchanged() || from_utf8(value).is_ok();
        error.or((!is_text).then_some(EmitError::CorrelationIdNotUtf8)).map(EmitError::report)
    }
}

struct Traceparent;

impl Check for Traceparent {
    fn error_for(value: &[u8]) -> Option<Report> {
        check_traceparent(value).err().map(EmitError::report)
    }
}

/// Whether AMQP can carry a text of this size.
fn check_length(bytes: usize) -> Result<(), EmitError> {
    if bytes > SHORT_STRING_BYTES { Err(EmitError::CorrelationIdTooLong(bytes)) } else { Ok(()) }
}

/// Checks for version, trace id, parent id and flags, neither id being all zeros. Only a version after today's, 00, may
/// have more behind the flags (W3C Trace Context, sections 3.2.2 and 3.2.4).
fn check_traceparent(value: &[u8]) -> Result<&str, EmitError> {
    const FORM: &[u8] = b"xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    const TRACE_ID: Range<usize> = 3..35;
    const PARENT_ID: Range<usize> = 36..52;
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'x' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        dash => byte == dash,
    };
    let is_form = value.len() >= FORM.len() && value.iter().zip(FORM).all(fits);
    let more = value.get(FORM.len()..).unwrap_or_default();
    let is_more = match (value, more) {
        ([b'f', b'f', ..], _) => false, // is no version
        (_, []) => true,
        ([b'0', b'0', ..], _) => false,
        (_, [b'-', rest @ ..]) => {
            value.len() <= SHORT_STRING_BYTES && rest.iter().all(|byte| matches!(byte, b' '..=b'~'))
        }
        _ => false,
    };
    let is_zero = |id: Range<usize>| value.get(id).is_some_and(|id| id.iter().all(|byte| *byte == b'0'));
    match from_utf8(value) {
        Ok(text) if is_form && is_more && !is_zero(TRACE_ID) && !is_zero(PARENT_ID) => Ok(text),
        _ => Err(EmitError::NotTraceparent),
    }
}
