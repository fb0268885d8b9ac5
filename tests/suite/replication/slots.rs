//! Commands about slots, and how each refusal is told apart.

use harness::{Postgres, SOON, eventually};
use pg_replication::Lsn;

use super::{Reader, Source, connect};

#[tokio::test]
async fn a_session_tells_who_the_server_is() {
    let source = Source::new().await;
    let identity = source.session().await.identify_system().await.unwrap();
    let query = "SELECT system_identifier::text, pg_current_wal_flush_lsn()::text FROM pg_control_system()";
    let row = source.db.query_one(query, &[]).await.unwrap();
    assert_eq!(identity.system_id, row.get::<_, &str>(0));
    assert!(Lsn(0) < identity.wal_position && identity.wal_position <= row.get::<_, &str>(1).parse().unwrap());
    assert_eq!(identity.timeline, 1);
}

#[tokio::test]
async fn a_new_slot_streams_from_where_it_was_made() {
    let source = Source::new().await;
    source.insert(1..=1).await;
    let name = format!("{}_later", source.name());
    let mut session = source.session().await;
    let position = session.create_slot(&name).await.unwrap();
    source.insert(2..=2).await;
    let mut reader = Reader::new(session.start(&name, source.name(), position).await.unwrap());
    assert_eq!(reader.ids().await, [2]);
}

#[tokio::test]
async fn names_with_quotes_are_only_names() {
    let source = Source::new().await;
    let name = r#"it's "odd", isn't it"#;
    let quoted = format!("\"{}\"", name.replace('"', "\"\""));
    source.db.batch_execute(&format!("CREATE PUBLICATION {quoted} FOR TABLE t")).await.unwrap();
    source.insert(1..=1).await;
    // Made after the insert, the publication is not known as of the insert: start behind it.
    let mut session = source.session().await;
    let slot = format!("{}_quoted", source.name());
    session.create_slot(&slot).await.unwrap();
    source.insert(2..=2).await;
    let mut reader = Reader::new(session.start(&slot, name, Lsn(0)).await.unwrap());
    assert_eq!(reader.ids().await, [2]);
    let refused = source.session().await.create_slot(name).await.unwrap_err();
    // A slot's name has no such letters, and before PostgreSQL 15 a command has no doubled quotes.
    assert!(["42602", "42601"].contains(&refused.sqlstate().unwrap().code()), "{refused}");
}

#[tokio::test]
async fn a_slot_that_exists_is_told_and_the_session_goes_on() {
    let source = Source::new().await;
    let mut session = source.session().await;
    let error = session.create_slot(source.name()).await.unwrap_err();
    assert!(error.slot_exists(), "{error}");
    source.insert(1..=1).await;
    let stream = session.start(source.name(), source.name(), Lsn(0)).await.unwrap();
    assert_eq!(Reader::new(stream).ids().await, [1]);
}

#[tokio::test]
async fn a_slot_in_use_is_told_and_stopping_frees_it_at_once() {
    let source = Source::new().await;
    let stream = source.stream().await;
    let error = source.session().await.start(source.name(), source.name(), Lsn(0)).await.unwrap_err();
    assert!(error.slot_in_use() && !error.slot_missing() && !error.slot_invalidated(), "{error}");
    stream.stop().await;
    source.stream().await;
}

#[tokio::test]
async fn a_missing_slot_is_told() {
    let source = Source::new().await;
    let error = source.session().await.start("nowhere", source.name(), Lsn(0)).await.unwrap_err();
    assert!(error.slot_missing() && !error.publication_missing(), "{error}");
}

#[tokio::test]
async fn a_slot_whose_wal_is_gone_is_told() {
    let postgres = Postgres::private().set("max_slot_wal_keep_size", "1MB").set("max_wal_size", "32MB").start().await;
    let source = Source::on(&postgres).await;
    eventually("the slot is lost", SOON, async || {
        source.db.batch_execute("SELECT pg_logical_emit_message(false, '', repeat('x', 20 << 20))").await.unwrap();
        source.db.batch_execute("SELECT pg_switch_wal()").await.unwrap();
        source.db.batch_execute("CHECKPOINT").await.unwrap();
        let query = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = $1";
        let status: String = source.db.query_one(query, &[&source.name()]).await.unwrap().get(0);
        if status == "lost" { Ok(()) } else { Err(status) }
    })
    .await;
    let error = source.session().await.start(source.name(), source.name(), Lsn(0)).await.unwrap_err();
    assert!(error.slot_invalidated(), "{error}");
}

#[tokio::test]
async fn whom_a_new_slot_waits_for_can_be_asked() {
    let mut source = Source::new().await;
    let url = source.db.url().to_owned();
    let name = format!("{}_waiting", source.name());
    let observer = source.db.connect().await;
    let older = source.db.transaction().await.unwrap();
    let holder: i32 = older.query_one("SELECT pg_backend_pid(), txid_current()", &[]).await.unwrap().get(0);
    let mut session = connect(&url).await;
    let pid = session.pid();
    let waiting = session.create_slot(&name);
    let ask = async {
        eventually("the walsender waits for the older transaction", SOON, async || {
            let row = observer.query_one("SELECT pg_blocking_pids($1)", &[&pid]).await.unwrap();
            let blockers: Vec<i32> = row.get(0);
            if blockers == [holder] { Ok(()) } else { Err(blockers) }
        })
        .await;
        older.rollback().await.unwrap();
    };
    let (created, ()) = tokio::join!(waiting, ask);
    created.unwrap();
}
