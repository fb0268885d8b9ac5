//! The setting `outbox.direct_writes`.

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};

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

/// Defines the setting.
pub(crate) fn define_setting() {
    GucRegistry::define_enum_guc(
        c"outbox.direct_writes",
        c"Whether emit() and settle() write past the executor where the table allows it.",
        c"auto: on the major versions of PostgreSQL on which this has been tested. A superuser's.",
        &DIRECT_WRITES,
        GucContext::Suset,
        GucFlags::default(),
    );
}

/// Whether this session may write past the executor.
pub(super) fn is_on() -> bool {
    match DIRECT_WRITES.get() {
        DirectWrites::Off => false,
        DirectWrites::Auto => TESTED_ON.contains(&(pgrx::pg_sys::PG_VERSION_NUM / 10_000)),
        DirectWrites::On => true,
    }
}
