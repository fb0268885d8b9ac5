//! Writing past the executor can be switched off, by a superuser only. The setting says whether the library can do it
//! at all.

use super::index_locks::UNLOCKED;
use super::{has_direct_writes, left, with_direct_writes};
use crate::extension::{refusal, role, run, value, with_the_extension, without_direct_writes};

/// Holds for either build: a library without direct writes says so, and writes by statements.
#[tokio::test]
async fn the_setting_has_the_values_that_the_library_can_take() {
    let db = with_the_extension().await;
    let values = "SELECT enumvals FROM pg_settings WHERE name = 'outbox.direct_writes'";
    if has_direct_writes(&db).await {
        assert_eq!(value(&db, values).await, "{off,auto,on}");
        return;
    }
    assert_eq!(value(&db, values).await, "{off}");
    assert_eq!(value(&db, "SELECT current_setting('outbox.direct_writes')").await, "off");
    for setting in ["on", "auto"] {
        let error = refusal(&db, &format!("SET outbox.direct_writes = {setting}")).await;
        assert_eq!((error.code().code(), error.hint()), ("22023", Some("Available values: off.")));
    }
    run(&db, "SET outbox.direct_writes = off").await;
    assert_eq!(left(&db).await, "1");
    run(&db, "BEGIN; SELECT outbox.emit('t', '1')").await;
    assert_ne!(value(&db, UNLOCKED).await, "0", "an INSERT gives the locks of its indexes back");
    run(&db, "COMMIT").await;
    // A session that has not loaded the library checks no value.
    let other = db.connect().await;
    run(&other, &format!("ALTER DATABASE {} SET outbox.direct_writes = on", db.name())).await;
    let session = db.connect().await;
    run(&session, "LOAD 'outbox'").await;
    assert_eq!(value(&session, "SELECT current_setting('outbox.direct_writes')").await, "off");
    assert_eq!(left(&db).await, "1");
}

#[tokio::test]
async fn a_superuser_switches_it_off_and_on_at_once() {
    let Some(db) = with_direct_writes().await else { return };
    let tested = "SELECT current_setting('server_version_num')::int / 10000 IN (15, 17, 18)";
    let auto = if value(&db, tested).await == "true" { "0" } else { "1" };
    assert_eq!(left(&db).await, auto);
    for (setting, expected) in [("off", "1"), ("on", "0"), ("auto", auto), ("off", "1")] {
        run(&db, &format!("SET outbox.direct_writes = {setting}")).await;
        assert_eq!(left(&db).await, expected, "{setting}");
    }
    run(&db, "RESET outbox.direct_writes").await;
    assert_eq!(value(&db, "SELECT current_setting('outbox.direct_writes')").await, "auto");
    assert_eq!(refusal(&db, "SET outbox.direct_writes = maybe").await.code().code(), "22023");
}

#[tokio::test]
async fn nobody_else_switches_it() {
    let db = with_the_extension().await;
    let app = role(&db, "app").await;
    run(&db, &format!("SELECT outbox.grant_emit('{app}')")).await;
    let session = db.connect_as(&app).await;
    // Before the library is loaded nobody knows the setting; what was said then counts for nothing.
    run(&session, "SET outbox.direct_writes = off; SELECT outbox.emit('t', '1')").await;
    let default = if has_direct_writes(&db).await { "auto" } else { "off" };
    assert_eq!(value(&session, "SELECT current_setting('outbox.direct_writes')").await, default);
    assert_eq!(refusal(&session, "SET outbox.direct_writes = off").await.code().code(), "42501");
}

#[tokio::test]
async fn a_database_may_have_it_off_for_all() {
    let db = without_direct_writes().await;
    let app = role(&db, "app").await;
    run(&db, &format!("SELECT outbox.grant_emit('{app}')")).await;
    let session = db.connect_as(&app).await;
    run(&session, "SELECT outbox.emit('t', '1')").await;
    assert_eq!(value(&session, "SELECT current_setting('outbox.direct_writes')").await, "off");
    assert_eq!(left(&db).await, "1");
}
