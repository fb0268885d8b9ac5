//! Writing past the executor: the tests that are about that alone (docs/direct-writes.md).
//!
//! A library may be built without it (`make test DIRECT_WRITES=0`). The tests that need it then pass without doing
//! anything, and are named as not run.

mod checked_indexes;
mod index_locks;
mod paths_alike;
mod qualifying_tables;
mod settle_alike;
mod switch;

use harness::Database;

use super::{run, value, with_the_extension};
use crate::not_run::not_run_outside_ci;

/// Whether the server's library is built with direct writes: its setting then has more values than `off`.
async fn has_direct_writes(db: &Database) -> bool {
    run(db, "LOAD 'outbox'").await; // settings are there once the library is loaded
    value(db, "SELECT enumvals <> '{off}' FROM pg_settings WHERE name = 'outbox.direct_writes'").await == "true"
}

/// A database with the extension; `None`: its library is built without direct writes, and the test is named as not run.
async fn with_direct_writes() -> Option<Database> {
    let db = with_the_extension().await;
    let has_them = has_direct_writes(&db).await;
    if !has_them {
        not_run_outside_ci("executor", "the extension is built without direct writes (DIRECT_WRITES=0)");
    }
    has_them.then_some(db)
}

/// How many of one event `settle_sent()` leaves to the statement.
async fn left(db: &Database) -> String {
    let id = value(db, "SELECT outbox.emit('t', '1')").await;
    value(db, &format!("SELECT cardinality(outbox.settle_sent('{{{id}}}'))")).await
}
