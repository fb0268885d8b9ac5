//! What is wrong at the start is said in one clear line, with an exit code of its own; what is right needs no
//! superuser.

use harness::{Postgres, RabbitMq, RelayBuilder, SOON, Stack};

use super::{emit, wait_for_counts};
use crate::extension::other_version;

/// The relay ends with `code`, and its last line says every one of `words`.
pub(super) async fn refused(relay: RelayBuilder, code: i32, words: &[&str]) {
    let (status, output) = relay.finish().await;
    let last = output.lines().last().unwrap_or_default();
    assert_eq!(status.code(), Some(code), "{output}");
    assert!(last.starts_with("outbox-relay: "), "{output}");
    for word in words {
        assert!(last.contains(word), "{word:?} is not in {last:?}");
    }
    assert!(!output.contains("secret"), "a secret is in {output:?}");
}

#[tokio::test]
async fn a_wrong_password_is_reported_with_the_role_and_never_with_the_password() {
    let postgres = Postgres::private().hba("host all all all scram-sha-256").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    stack
        .db
        .batch_execute("CREATE ROLE relay LOGIN REPLICATION PASSWORD 'right'; SELECT outbox.grant_relay('relay')")
        .await
        .unwrap();
    refused(stack.relay().set("database-url", &stack.db.url_as("relay")), 11, &["relay", "password", "DATABASE_URL"])
        .await;

    let url = stack.db.url_as("relay").replace(":secret@", ":right@");
    assert!(
        stack.relay().set("database-url", &url).start().await.stop().await.success(),
        "SCRAM works on both connections"
    );
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_named() {
    let stack = Stack::new().await;
    let url = stack.db.url().replace(stack.db.name(), "nowhere");
    refused(stack.relay().set("database-url", &url), 12, &["nowhere"]).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_and_not_to_be_waited_for_is_named() {
    let stack = Stack::new().await;
    let relay = || stack.relay().set("no-wait", "true");
    refused(relay().set("database-url", "postgres://u:secret@127.0.0.1:1/d"), 10, &["127.0.0.1:1", "refused"]).await;
    refused(relay().set("amqp-url", "amqp://u:secret@127.0.0.1:1"), 20, &["127.0.0.1:1", "refused"]).await;
    let several = "amqp://u:secret@127.0.0.1:1,127.0.0.1:2,[::1]:3";
    let all = ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3", "refused"];
    refused(relay().set("amqp-url", several), 20, &all).await;
}

#[tokio::test]
async fn a_database_without_the_extension_is_told_to_create_it() {
    let stack = Stack::new().await;
    let empty = Postgres::shared().await.empty_database().await;
    refused(stack.relay().set("database-url", empty.url()), 14, &["CREATE EXTENSION outbox"]).await;
}

#[tokio::test]
async fn an_extension_of_another_version_is_told_from_the_relays_own() {
    let stack = Stack::new().await;
    let upgrade = "ALTER EXTENSION outbox UPDATE";
    // An earlier one is waited for, unless the relay is told not to.
    for (version, relay, to_do) in [
        ("9.8.7", stack.relay(), "install the relay of the schema's version"),
        ("0.0.1", stack.relay().set("no-wait", "true"), upgrade),
    ] {
        stack.db.batch_execute(&other_version(version)).await.unwrap();
        refused(relay, 15, &[version, env!("CARGO_PKG_VERSION"), to_do]).await;
    }
}

#[tokio::test]
async fn a_server_without_logical_wal_is_told_to_change_it() {
    let postgres = Postgres::private().set("wal_level", "replica").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    refused(stack.relay(), 16, &["wal_level", "replica", "logical"]).await;
}

#[tokio::test]
async fn a_role_without_the_rights_is_told_which_it_lacks_and_with_them_it_needs_no_more() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let role = format!("role_{}", stack.db.name());
    let relay = || stack.relay().set("database-url", &stack.db.url_as(&role));
    stack.db.batch_execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'")).await.unwrap();
    refused(relay(), 13, &[&role, "ALTER ROLE", "REPLICATION"]).await;
    stack.db.batch_execute(&format!("ALTER ROLE {role} REPLICATION")).await.unwrap();
    refused(relay(), 13, &[&role, "outbox.grant_relay"]).await;

    stack.db.batch_execute(&format!("SELECT outbox.grant_relay('{role}')")).await.unwrap();
    let relay = relay().start().await;
    emit(&stack.db, "'t', '{}'::jsonb", &[]).await;
    consumer.wait_for(1).await;
    wait_for_counts(&stack.db, (0, 1, 0), SOON).await;
    assert!(relay.stop().await.success());
    stack.db.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn a_role_without_a_grant_is_told_so_also_where_everybody_may_call_the_functions() {
    let stack = Stack::new().await;
    let (role, granted) = (format!("role_{}", stack.db.name()), format!("granted_{}", stack.db.name()));
    let relay = || stack.relay().set("database-url", &stack.db.url_as(&role)).set("no-wait", "true");
    stack
        .db
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN REPLICATION; CREATE ROLE {granted}; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA outbox TO PUBLIC"
        ))
        .await
        .unwrap();
    refused(relay(), 13, &[&role, "outbox.grant_relay"]).await;
    let slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()";
    assert_eq!(stack.db.query_one(slots, &[]).await.unwrap().get::<_, i64>(0), 0);

    // As a member of a role that was granted it before everybody could.
    let member = format!(
        "SET client_min_messages = error; SELECT outbox.grant_relay('{granted}'); GRANT {granted} TO {role};
         GRANT EXECUTE ON ALL ROUTINES IN SCHEMA outbox TO PUBLIC"
    );
    stack.db.batch_execute(&member).await.unwrap();
    let started = relay().start().await;
    emit(&stack.db, "'t', '{}'::jsonb", &[]).await;
    wait_for_counts(&stack.db, (0, 0, 1), SOON).await; // no queue is bound
    assert!(started.stop().await.success());
    stack.db.batch_execute(&format!("DROP OWNED BY {role}, {granted}; DROP ROLE {role}, {granted}")).await.unwrap();
}

#[tokio::test]
async fn functions_of_another_role_are_not_called() {
    let stack = Stack::new().await;
    let name = stack.db.name();
    let (other, stranger) = (format!("other_{name}"), format!("stranger_{name}"));
    let called = "RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''called''; END'";
    let move_all = "DO $$ DECLARE f regprocedure; BEGIN
        FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace LOOP EXECUTE format('ALTER ROUTINE %s OWNER TO {}', f); END LOOP;
        END $$";
    stack.db.batch_execute(&format!("CREATE ROLE {other}; CREATE ROLE {stranger}")).await.unwrap();
    stack.db.batch_execute(&move_all.replace("{}", &other)).await.unwrap();
    refused(stack.relay(), 13, &["outbox.", &other, "outbox.events", "postgres"]).await;
    stack.db.batch_execute(&move_all.replace("{}", "postgres")).await.unwrap();
    // A function beside one of the outbox's, which would be called in its place.
    stack
        .db
        .batch_execute(&format!(
            "CREATE FUNCTION outbox.health(text) {called}; ALTER FUNCTION outbox.health(text) OWNER TO {stranger}"
        ))
        .await
        .unwrap();
    refused(stack.relay(), 13, &["outbox.health(text)", &stranger]).await;
    stack.db.batch_execute("DROP FUNCTION outbox.health(text)").await.unwrap();
    // One that is nobody's in the outbox is its owner's business.
    stack
        .db
        .batch_execute(&format!(
            "CREATE FUNCTION outbox.mine(text) {called}; ALTER FUNCTION outbox.mine(text) OWNER TO {stranger}"
        ))
        .await
        .unwrap();
    assert!(stack.relay().start().await.stop().await.success());
    stack.db.batch_execute(&format!("DROP OWNED BY {other}, {stranger}; DROP ROLE {other}, {stranger}")).await.unwrap();

    // A schema of that name which is no outbox at all.
    let empty = Postgres::shared().await.empty_database().await;
    empty.batch_execute(&format!("CREATE SCHEMA outbox; CREATE FUNCTION outbox.version() {called}")).await.unwrap();
    refused(stack.relay().set("database-url", empty.url()), 14, &["schema outbox", "postgres"]).await;
}

#[tokio::test]
async fn a_broker_that_refuses_the_login_or_the_vhost_is_named() {
    let stack = Stack::new().await;
    refused(stack.relay().set("amqp-url", &stack.vhost.url_as("guest", "secret")), 21, &["127.0.0.1", "guest"]).await;
    let nowhere = stack.vhost.url().replace(stack.vhost.name(), "nowhere");
    refused(stack.relay().set("amqp-url", &nowhere), 21, &["nowhere"]).await;
}

#[tokio::test]
async fn init_makes_publication_and_slot_once_and_says_so_and_run_can_be_told_not_to() {
    let stack = Stack::new().await;
    refused(stack.relay().set("create-slot", "false"), 17, &[stack.db.name(), "outbox-relay init"]).await;

    let init = || stack.relay().arguments(&["init"]);
    let (status, output) = init().finish().await;
    assert!(status.success() && output.contains("created"), "{output}");
    let (status, output) = init().finish().await;
    assert!(status.success() && !output.contains("created"), "{output}");
    let sql = "SELECT string_agg(concat_ws(' ', tablename, pubinsert, pubupdate, pubdelete, pubtruncate), ',')
               FROM pg_publication JOIN pg_publication_tables USING (pubname) WHERE pubname = 'outbox'";
    let publication: String = stack.db.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(publication, "events t f f f", "one table, inserts only");

    let relay = stack.relay().set("create-slot", "false").start().await;
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn a_slot_that_waits_for_an_older_transaction_says_for_which() {
    let stack = Stack::new().await;
    let mut older = stack.db.connect().await;
    let pid: i32 = older.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let open = older.transaction().await.unwrap();
    open.batch_execute("SELECT pg_current_xact_id()").await.unwrap();

    let relay = stack.relay().spawn();
    let line = relay.wait_for_log("waits for an older transaction").await;
    assert!(line.contains(&format!("pid={pid}")), "{line}");
    open.commit().await.unwrap();
    relay.wait_for_log("streaming").await;
}

#[tokio::test]
async fn a_slot_that_waits_for_another_roles_transaction_says_what_it_may_see_and_how_to_see_more() {
    // Not the shared server: another test waits there for the oldest transaction, which is to be its own.
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let role = format!("role_{}", stack.db.name());
    let make = format!("CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'secret'; SELECT outbox.grant_relay('{role}')");
    stack.db.batch_execute(&make).await.unwrap();
    // The role's statements are not to wait for locks: this wait is for one, and longer.
    stack.db.batch_execute(&format!("ALTER ROLE {role} SET lock_timeout = '100ms'")).await.unwrap();
    let older = stack.db.connect().await;
    let pid: i32 = older.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    older.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    let relay = stack.relay().set("database-url", &stack.db.url_as(&role)).spawn();
    let line = relay.wait_for_log("waits for an older transaction").await;
    assert!(line.contains(&format!("pid={pid}")) && line.contains("user="), "{line}");
    assert!(line.contains("GRANT pg_read_all_stats") && !line.contains("application="), "{line}");
    older.batch_execute("COMMIT").await.unwrap();
    relay.wait_for_log("streaming").await;
    assert!(relay.stop().await.success());
    stack.db.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn a_slot_that_waits_for_a_prepared_transaction_names_it() {
    let postgres = Postgres::private().set("max_prepared_transactions", "1").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    stack.db.batch_execute("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'forgotten'").await.unwrap();
    let relay = stack.relay().spawn();
    let line = relay.wait_for_log("waits for an older transaction").await;
    assert!(line.contains("prepared transaction forgotten"), "{line}");
    stack.db.batch_execute("ROLLBACK PREPARED 'forgotten'").await.unwrap();
    relay.wait_for_log("streaming").await;
}

#[tokio::test]
async fn the_log_says_from_where_it_streams() {
    let stack = Stack::new().await;
    let relay = stack.relay().start().await;
    emit(&stack.db, "'t', '{}'::jsonb", &[]).await;
    assert!(relay.stop().await.success());
    let sql = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1";
    let confirmed: String = stack.db.query_one(sql, &[&stack.db.name()]).await.unwrap().get(0);
    let confirmed: pg_replication::lsn::Lsn = confirmed.parse().unwrap();

    let line = stack.relay().start().await.wait_for_log("state=streaming").await;
    let acknowledged = line.split("acknowledged=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(acknowledged.parse::<pg_replication::lsn::Lsn>().unwrap() >= confirmed, "{line}");
}

#[tokio::test]
async fn a_broker_on_which_the_relay_could_never_publish_is_refused_at_the_start_with_what_to_do() {
    let stack = Stack::new().await;
    let user = format!("user_{}", stack.db.name());
    stack.vhost.user(&user, "secret", ".*", "", ".*").await;
    let relay = || stack.relay().set("amqp-url", &stack.vhost.url_as(&user, "secret"));
    refused(relay(), 21, &["outbox", &user, "write permission"]).await;
    refused(stack.relay().set("exchange", "amq.fanout"), 21, &["amq.fanout", "declare_exchange = false"]).await;
    let missing = stack.relay().set("exchange", "nowhere").set("declare-exchange", "false");
    refused(missing, 21, &["nowhere", "with its bindings"]).await;
    let tls = stack.vhost.url().replace("amqp://", "amqps://");
    refused(stack.relay().set("amqp-url", &tls), 20, &["127.0.0.1", "use amqp://"]).await;
    let several = format!("{0},{0}", stack.vhost.url_as("guest", "hunter2"));
    refused(stack.relay().set("amqp-url", &several), 2, &["AMQP_URL", "in one URL"]).await;
    let (_, log) = stack.relay().set("amqp-url", &several).finish().await;
    assert!(!log.contains("hunter2"), "{log}");
}
