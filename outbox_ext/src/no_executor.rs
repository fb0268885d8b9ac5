//! Stands in for `executor` in a library that is built without the feature `direct-writes`: each write is a statement.

use pgrx::Uuid;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};

use crate::postgres::{EmitArguments, SqlFunction};

/// The only value of `outbox.direct_writes` here.
#[derive(Clone, Copy, PostgresGucEnum)]
enum DirectWrites {
    #[name = c"off"]
    Off,
}

static DIRECT_WRITES: GucSetting<DirectWrites> = GucSetting::<DirectWrites>::new(DirectWrites::Off);

/// Defines `outbox.direct_writes`, which shows `off` and takes no other value.
pub(crate) fn define_setting() {
    GucRegistry::define_enum_guc(
        c"outbox.direct_writes",
        c"Whether emit() and settle() write past the executor where the table allows it.",
        c"off: this library is built without that.",
        &DIRECT_WRITES,
        GucContext::Suset,
        GucFlags::default(),
    );
}

/// Inserts nothing: the caller uses a statement.
pub(crate) fn insert(_id: &Uuid, _arguments: &EmitArguments, _admit: SqlFunction) -> bool {
    false
}

/// Writes no verdict, and returns every id: the caller uses a statement.
pub(crate) fn settle_sent(ids: Vec<Uuid>) -> Vec<Uuid> {
    ids
}
