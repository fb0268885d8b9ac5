//! The settings `outbox.*` of a session. They exist once the library is loaded; what was set before is taken over then.

use std::ffi::CString;

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};

/// Largest body an event may have, in bytes. 1 MiB by default: a broker keeps messages in memory, copies them to every
/// queue, and slows down for all when they are large. It is a guard against accidents, so any role may raise it.
pub(crate) static MAX_PAYLOAD_BYTES: GucSetting<i32> = GucSetting::<i32>::new(1024 * 1024);

/// `correlation_id` of events that name none.
pub(crate) static CORRELATION_ID: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);

/// Header `traceparent` of events that have none (W3C Trace Context).
pub(crate) static TRACEPARENT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);

// Read in SQL only; defined so that PostgreSQL checks and lists them.
pub(crate) static NOTIFY_STATUS: GucSetting<bool> = GucSetting::<bool>::new(false);
static ALLOW_UNDUMPED_CHANGES: GucSetting<bool> = GucSetting::<bool>::new(false);
static RUNG_IN: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);

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
const TESTED_ON: [u32; 1] = [15];

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
        c"Counted as PostgreSQL stores it, uncompressed. The broker keeps messages in memory and copies them to queues: \
          emit a reference to what is larger. RabbitMQ itself refuses more than 16 MB (before 4.0: 128 MB).",
        &MAX_PAYLOAD_BYTES,
        1,
        128 * 1024 * 1024, // the most any RabbitMQ takes by default
        GucContext::Userset,
        GucFlags::UNIT_BYTE,
    );
    GucRegistry::define_string_guc(
        c"outbox.correlation_id",
        c"The correlation_id of events emitted without one.",
        c"Meant for SET LOCAL, at the start of a request's transaction.",
        &CORRELATION_ID,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"outbox.traceparent",
        c"The header traceparent of events emitted without one.",
        c"Meant for SET LOCAL, at the start of a request's transaction. W3C Trace Context.",
        &TRACEPARENT,
        GucContext::Userset,
        GucFlags::default(),
    );
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

/// The text of a setting; empty counts as not set, for that is what SET LOCAL leaves behind.
pub(crate) fn text(setting: &'static GucSetting<Option<CString>>) -> Option<String> {
    let value = setting.get()?.into_string().ok()?;
    (!value.is_empty()).then_some(value)
}
