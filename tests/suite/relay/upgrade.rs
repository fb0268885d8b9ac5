//! An upgrade from an earlier version while events flow.

use std::path::{Path, PathBuf};

use harness::{Connection, SOON, Stack};
use uuid::Uuid;

use super::{emit, wait_for_counts, wait_for_status};
use crate::{
    extension::{
        other_version,
        upgrade::{EARLIER, offer_the_earlier_extensions},
    },
    not_run::not_run,
};

/// Takes the outbox back to an earlier version; `None` if this checkout has no history.
async fn install_the_earlier(db: &Connection, version: &str) -> Option<()> {
    offer_the_earlier_extensions()?;
    db.batch_execute(&format!("DROP EXTENSION outbox; CREATE EXTENSION outbox VERSION '{version}'")).await.unwrap();
    Some(())
}

async fn emit_many(db: &Connection, events: i32) {
    let sql = "SELECT outbox.emit('t', to_jsonb(n), aggregate_type => 'a', aggregate_id => (n % 7)::text) FROM generate_series(1, $1) AS n";
    db.query(sql, &[&events]).await.unwrap();
}

#[tokio::test]
async fn a_relay_that_finds_an_earlier_schema_says_how_to_upgrade_and_waits_until_that_is_done() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let Some(()) = install_the_earlier(&stack.db, "0.1.0").await else { return };
    let id = emit(&stack.db, "'t', '{}'", &[]).await;
    let relay = stack.relay().spawn();
    let line = relay.wait_for_log("the schema's version does not fit; trying again").await;
    for part in ["the schema outbox is of version 0.1.0", "ALTER EXTENSION outbox UPDATE", "sql/upgrade.sql"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    stack.db.batch_execute("ALTER EXTENSION outbox UPDATE").await.unwrap();
    wait_for_status(&stack.db, id, "SENT").await;
    consumer.wait_for_ids(&[id], SOON).await;
    assert!(relay.stop().await.success());
}

/// As after an upgrade of the schema, or a return to the earlier one.
async fn set_version(db: &Connection, version: &str) {
    db.batch_execute(&other_version(version)).await.unwrap();
}

async fn end_connections(db: &Connection) {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE application_name = 'outbox-relay' AND datname = current_database()";
    db.batch_execute(sql).await.unwrap();
}

#[tokio::test]
async fn a_relay_that_connects_again_to_a_later_schema_asks_for_that_ones_relay_and_goes_on_once_they_fit() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().start().await;
    set_version(&stack.db, "9.8.7").await;
    let before = emit(&stack.db, "'t', '{}'", &[]).await;
    wait_for_status(&stack.db, before, "SENT").await; // the session that has begun goes on

    end_connections(&stack.db).await;
    let line = relay.wait_for_log("the schema's version does not fit; trying again").await;
    assert!(line.contains("9.8.7") && line.contains("install the relay of the schema's version"), "{line}");
    let meanwhile = emit(&stack.db, "'t', '{}'", &[]).await;
    set_version(&stack.db, env!("CARGO_PKG_VERSION")).await;
    wait_for_status(&stack.db, meanwhile, "SENT").await;
    consumer.wait_for_ids(&[before, meanwhile], SOON).await;
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn a_standby_does_not_take_over_a_schema_that_was_upgraded_meanwhile() {
    let stack = Stack::new().await;
    let first = stack.relay().start().await;
    let second = stack.relay().spawn();
    second.wait_for_log("state=standby").await;
    set_version(&stack.db, "9.8.7").await;
    assert!(first.stop().await.success());
    second.wait_for_log("the schema's version does not fit; trying again").await;
    assert!(!second.log_text().contains("state=streaming"), "{}", second.log_text());

    set_version(&stack.db, env!("CARGO_PKG_VERSION")).await;
    second.wait_for_log("state=streaming").await;
    assert!(second.stop().await.success());
}

/// `EARLIER_RELAYS` names a folder with the relays of earlier versions, which `make upgrade` builds from the history.
#[tokio::test]
async fn each_earlier_relay_gives_way_after_the_upgrade_and_this_one_takes_over() {
    let Some(relays) = std::env::var_os("EARLIER_RELAYS").map(PathBuf::from) else {
        return not_run("upgrade", "the relays of earlier versions are not there; make upgrade builds them");
    };
    for version in EARLIER {
        gives_way_and_this_one_takes_over(version, &relays.join(version).join("outbox-relay")).await;
    }
}

async fn gives_way_and_this_one_takes_over(version: &str, earlier: &Path) {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let Some(()) = install_the_earlier(&stack.db, version).await else { return };
    let old = stack.relay().program(earlier).start().await;
    emit_many(&stack.db, 500).await;
    wait_for_counts(&stack.db, (0, 500, 0), SOON).await;
    let new = stack.relay().spawn();
    new.wait_for_log("the schema's version does not fit").await;

    let emitter = stack.db.connect().await;
    let emitting = async {
        for _ in 0..50 {
            emit_many(&emitter, 20).await;
        }
    };
    let (upgraded, ()) = tokio::join!(stack.db.batch_execute("ALTER EXTENSION outbox UPDATE"), emitting);
    upgraded.unwrap();
    // The earlier one cannot read what is emitted now, and is not stopped by anybody.
    emit_many(&stack.db, 500).await;
    wait_for_counts(&stack.db, (0, 2000, 0), SOON).await;
    old.wait_for_log(concat!("of version ", env!("CARGO_PKG_VERSION"))).await;
    assert!(old.stop().await.success());
    emit_many(&stack.db, 500).await;
    wait_for_counts(&stack.db, (0, 2500, 0), SOON).await;
    let ids = stack.db.query("SELECT id FROM outbox.events", &[]).await.unwrap();
    let ids: Vec<Uuid> = ids.iter().map(|row| row.get(0)).collect();
    consumer.wait_for_ids(&ids, SOON).await;
}
