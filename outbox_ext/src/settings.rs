//! The settings `outbox.*` of a session. They exist once the library is loaded; what was set before is taken over then.

use std::{cell::Cell, ffi::CStr, ops::Range, str::from_utf8};

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};

use crate::postgres::{
    Check, Report, Setting, are_sent_unchanged, check_from_now_on, define_checked, is_given, read_setting, utf8,
};
use crate::refusal::{MESSAGE_BYTES, Refusal, SHORT_STRING_BYTES};

/// Largest body an event may have, in bytes. 1 MiB by default: a broker keeps messages in memory, copies them to every
/// queue, and slows down for all when they are large. It is a guard against accidents, so any role may raise it, as far as
/// [`PAYLOAD_LIMIT`] lets it.
static MAX_PAYLOAD_BYTES: GucSetting<i32> = GucSetting::<i32>::new(1024 * 1024);

/// Largest body of all sessions, in bytes: the owner's, which bounds the relay's memory. 0, the default: [`USUAL_PAYLOAD_LIMIT`].
static PAYLOAD_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(0);

/// As much as RabbitMQ takes from 4.0 on.
const USUAL_PAYLOAD_LIMIT: usize = 16 * 1024 * 1024;

thread_local! {
    /// The session had a value for [`PAYLOAD_LIMIT`] before the library was loaded, and may not set one. The value has taken the place of the
    /// owner's, which is not known then.
    static HIDES_LIMIT: Cell<bool> = const { Cell::new(false) };
}

const LIMIT_NAME: &CStr = c"outbox.payload_limit";

/// Who has limited a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitedBy {
    /// `outbox.max_payload_bytes`.
    Session,
    /// `outbox.payload_limit`.
    Owner,
    /// The session itself, which began with a value for `outbox.payload_limit` that it may not set: it emits nothing.
    Hidden,
}

/// The largest body that this session may emit, in bytes, and who says so.
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

/// `correlation_id` of events that name none.
static CORRELATION_ID: Setting = Setting::new(None);

/// Header `traceparent` of events that have none (W3C Trace Context).
static TRACEPARENT: Setting = Setting::new(None);

// Read in SQL only; defined so that PostgreSQL checks and lists them.
pub(crate) static NOTIFY_STATUS: GucSetting<bool> = GucSetting::<bool>::new(false);
static ALLOW_UNDUMPED_CHANGES: GucSetting<bool> = GucSetting::<bool>::new(false);
static OPERATOR: Setting = Setting::new(None);
static RUNG_IN: Setting = Setting::new(None);

/// Whether `emit()` and `settle()` write past the executor.
#[derive(Clone, Copy, PostgresGucEnum)]
enum DirectWrites {
    #[name = c"off"]
    Off,
    #[name = c"auto"]
    Auto,
    #[name = c"on"]
    On,
}

static DIRECT_WRITES: GucSetting<DirectWrites> = GucSetting::<DirectWrites>::new(DirectWrites::Auto);

/// The major versions of PostgreSQL on which the whole suite has run, on both paths.
const TESTED_ON: [u32; 3] = [15, 17, 18];

/// Whether this session may write past the executor: see docs/direct-writes.md.
pub(crate) fn writes_directly() -> bool {
    match DIRECT_WRITES.get() {
        DirectWrites::Off => false,
        DirectWrites::Auto => TESTED_ON.contains(&(pgrx::pg_sys::PG_VERSION_NUM / 10_000)),
        DirectWrites::On => true,
    }
}

/// Defines the settings. To be called once, when the library is loaded.
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
    let is_given = is_given(LIMIT_NAME);
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
    // PostgreSQL has taken over what the session may set, and else the default.
    HIDES_LIMIT.set(is_given && PAYLOAD_LIMIT.get() == 0);
    define_checked::<CorrelationId>(
        c"outbox.correlation_id",
        c"The correlation_id of events emitted without one.",
        c"Meant for SET LOCAL, at the start of a request's transaction.",
        &CORRELATION_ID,
    );
    define_checked::<Traceparent>(
        c"outbox.traceparent",
        c"The header traceparent of events emitted without one.",
        c"Meant for SET LOCAL, at the start of a request's transaction. W3C Trace Context.",
        &TRACEPARENT,
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
    GucRegistry::define_string_guc(
        c"outbox.rung_in",
        c"The transaction that has told the relay of its replays. Internal.",
        c"Set by outbox.ring().",
        &RUNG_IN,
        GucContext::Userset,
        GucFlags::NO_SHOW_ALL | GucFlags::DISALLOW_IN_FILE,
    );
    GucRegistry::define_enum_guc(
        c"outbox.direct_writes",
        c"Whether emit() and settle() write past the executor where the table allows it.",
        c"auto: on the major versions of PostgreSQL on which this has been tested. A superuser's.",
        &DIRECT_WRITES,
        GucContext::Suset,
        GucFlags::default(),
    );
    crate::postgres::reserve_prefix(c"outbox");
}

/// The setting `outbox.correlation_id`, if there is one, in the database's encoding.
pub(crate) fn correlation_id() -> Result<Option<Vec<u8>>, Refusal> {
    let checked = |value: &[u8]| -> Result<Vec<u8>, Refusal> {
        check_length(value.len())?;
        check_length(utf8(value).ok_or(Refusal::CorrelationIdNotUtf8)?.len())?;
        Ok(value.to_vec())
    };
    read_setting(&CORRELATION_ID, checked).transpose()
}

/// The setting `outbox.traceparent`, if there is one.
pub(crate) fn traceparent() -> Result<Option<String>, Refusal> {
    read_setting(&TRACEPARENT, |value| check_traceparent(value).map(str::to_owned)).transpose()
}

struct CorrelationId;

impl Check for CorrelationId {
    fn refuses(value: &[u8]) -> Option<Report> {
        let refusal = check_length(value.len()).err();
        // A setting can be set where there is no transaction, in which alone PostgreSQL converts texts: emit() looks again.
        let is_text = !are_sent_unchanged() || from_utf8(value).is_ok();
        refusal.or((!is_text).then_some(Refusal::CorrelationIdNotUtf8)).map(Refusal::report)
    }
}

struct Traceparent;

impl Check for Traceparent {
    fn refuses(value: &[u8]) -> Option<Report> {
        check_traceparent(value).err().map(Refusal::report)
    }
}

/// Whether AMQP can carry a text of this size.
fn check_length(bytes: usize) -> Result<(), Refusal> {
    if bytes > SHORT_STRING_BYTES { Err(Refusal::CorrelationIdTooLong(bytes)) } else { Ok(()) }
}

/// Version, trace id, parent id and flags, neither id being all zeros. A later version than today's may have more behind them (W3C Trace
/// Context, sections 3.2.2 and 3.2.4).
fn check_traceparent(value: &[u8]) -> Result<&str, Refusal> {
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
        _ => Err(Refusal::NotTraceparent),
    }
}
