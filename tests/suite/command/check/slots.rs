//! What `check` says of a slot that is not the relay's, and of a server that lets no relay read its WAL.

use harness::{Connection, Postgres, RabbitMq, Stack};
use serde_json::Value;

use super::{Asked, RELAY, ask_as, check, command, findings, finish, forget, role};

fn finding(asked: &Asked, check: &str) -> (String, String, String) {
    let finding = &findings(asked)[check];
    let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    assert!(finding["level"] == "ok" || !text("to_do").is_empty(), "{finding}");
    (text("level"), text("found"), text("to_do"))
}

async fn drop_slot(db: &Connection, slot: &str) {
    db.batch_execute(&format!("SELECT pg_drop_replication_slot('{slot}')")).await.unwrap();
}

#[tokio::test]
async fn a_slot_of_another_database_is_left_alone_and_another_name_advised() {
    let stack = Stack::new().await;
    let other = Postgres::shared().await.database().await;
    let slot = stack.db.name();
    let make = format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')");
    other.batch_execute(&make).await.unwrap();
    let asked = check(&stack, &[]).await.ended_with(1);
    let (level, found, to_do) = finding(&asked, "slot");
    assert_eq!(level, "bad");
    assert_eq!(found, format!("the slot {slot:?} belongs to the database {:?}", other.name()));
    assert!(to_do.contains("choose another name") && to_do.contains("leave that one alone"), "{to_do}");
    let (status, told) = stack.relay().set("no-wait", "true").finish().await;
    assert_eq!(status.code(), Some(17), "{told}");
    assert!(told.contains("belongs to the database") && told.contains("leave that one alone"), "{told}");
    assert!(!told.contains("drop"), "{told}");
    drop_slot(&other, slot).await;
}

#[tokio::test]
async fn a_temporary_slot_of_somebodys_session_is_no_relay_that_reads() {
    let stack = Stack::new().await;
    let session = stack.db.connect().await;
    let slot = stack.db.name();
    let make = format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput', temporary => true)");
    session.batch_execute(&make).await.unwrap();
    let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let asked = check(&stack, &[]).await.ended_with(1);
    let (level, found, to_do) = finding(&asked, "slot");
    assert_eq!(level, "bad");
    assert!(found.contains(&format!("a temporary one, of the server process {pid}")), "{found}");
    assert!(to_do.contains(&format!("pg_terminate_backend({pid})")), "{to_do}");
    let status = finish(command(&stack, stack.db.url(), &["status", "--json"])).await.ended_with(1).object();
    assert_eq!(status["relay_working_pid"], Value::Null, "{status}");
    assert!(status["reason"].as_str().unwrap().contains("no replication slot"), "{status}");
    let (code, told) = stack.relay().set("no-wait", "true").finish().await;
    assert_eq!(code.code(), Some(17), "{told}");
    assert!(told.contains("a temporary one"), "{told}");
    drop(session);
}

#[tokio::test]
async fn a_slot_for_another_plugin_may_be_dropped_if_nobody_reads_it() {
    let stack = Stack::new().await;
    let slot = stack.db.name();
    let make = format!("SELECT pg_create_physical_replication_slot('{slot}')");
    stack.db.batch_execute(&make).await.unwrap();
    let (level, found, to_do) = finding(&check(&stack, &[]).await.ended_with(1), "slot");
    assert!(level == "bad" && found.contains("a physical one") && !to_do.contains("drop"), "{found}: {to_do}");
    drop_slot(&stack.db, slot).await;
}

/// Servers of the minor releases of November 2026 and later have a list of the plugins that may read their WAL. Its
/// value and the error that it leads to have the code of a role that may not replicate.
#[tokio::test]
async fn a_server_that_does_not_let_pgoutput_read_its_wal_is_told_from_a_role_without_the_right_to_replicate() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let known = "SELECT current_setting('output_plugin_libraries', true) IS NOT NULL";
    if !stack.db.query_one(known, &[]).await.unwrap().get::<_, bool>(0) {
        let (level, found, _) = finding(&check(&stack, &[]).await, "output_plugin");
        assert!(level == "ok" && found.contains("every plugin"), "{found}");
        return;
    }
    assert_eq!(finding(&check(&stack, &[]).await, "output_plugin").0, "ok");
    let role = role(&stack.db, "relay", RELAY).await;
    let forbid = format!("ALTER DATABASE {} SET output_plugin_libraries = test_decoding", stack.db.name());
    stack.db.batch_execute(&forbid).await.unwrap();
    let (level, found, to_do) = finding(&check(&stack, &[]).await.ended_with(1), "output_plugin");
    assert_eq!((level.as_str(), found.contains("test_decoding")), ("bad", true), "{found}");
    assert!(to_do.contains("ALTER SYSTEM SET output_plugin_libraries"), "{to_do}");
    let asked = ask_as(&stack, &role, &["check", "--json"]).await;
    let (level, _, to_do) = finding(&asked, "output_plugin");
    assert!(level == "unknown" && to_do.contains("pg_read_all_settings"), "{asked:?}");

    for url in [stack.db.url().to_owned(), stack.db.url_as(&role)] {
        for command in ["run", "init"] {
            let relay = stack.relay().set("database-url", &url).set("no-wait", "true").arguments(&[command]);
            let (status, told) = relay.finish().await;
            assert_eq!(status.code(), Some(17), "{told}");
            assert!(
                told.contains("output_plugin_libraries does not name it") && told.contains("ALTER SYSTEM"),
                "{told}"
            );
            assert!(!told.contains("REPLICATION right") && !told.contains("ALTER ROLE"), "{told}");
        }
    }
    stack.db.batch_execute(&format!("ALTER DATABASE {} RESET output_plugin_libraries", stack.db.name())).await.unwrap();
    let relay = stack.relay().set("database-url", &stack.db.url_as(&role)).start().await;
    assert_eq!(finding(&ask_as(&stack, &role, &["check", "--json"]).await, "output_plugin").0, "ok");
    assert!(relay.stop().await.success());
    forget(&stack.db, &role).await;
}
