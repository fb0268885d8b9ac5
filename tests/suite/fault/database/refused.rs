//! The database refuses what the relay could do without.

use harness::{Postgres, RabbitMq, RelayBuilder, Stack};

use super::{account::assert_in_order, drop_role, emit, number, relay_role, run, wait_until, wait_until_sent};

/// As many companies have: nobody changes a schema outside of a window.
pub(super) const FREEZE: &str = "CREATE FUNCTION public.no_ddl() RETURNS event_trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'DDL is frozen until Monday'; END $$;
    CREATE EVENT TRIGGER no_ddl ON ddl_command_start EXECUTE FUNCTION public.no_ddl()";
pub(super) const THAW: &str = "DROP EVENT TRIGGER no_ddl";

pub(super) fn watchful_relay(stack: &Stack) -> RelayBuilder {
    super::relay(stack).set("check-interval", "500ms")
}

/// The slot moves beyond what is written now.
pub(super) async fn assert_slot_moves(stack: &Stack) {
    let position: String = stack.db.query_one("SELECT pg_current_wal_insert_lsn()::text", &[]).await.unwrap().get(0);
    run(&stack.db, "INSERT INTO theirs VALUES (1)").await;
    let moved = format!(
        "EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = '{}' AND active AND confirmed_flush_lsn >= '{position}')",
        stack.db.name()
    );
    wait_until(&stack.db, "the slot moves", &moved).await;
}

#[tokio::test]
async fn a_relay_whose_publication_may_not_be_made_delivers_from_the_table_and_streams_once_it_may() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    run(&stack.db, "CREATE TABLE theirs (id int)").await;
    run(&stack.db, FREEZE).await;
    let relay = watchful_relay(&stack).spawn();
    let refused = relay.wait_for_log("the table is read every second instead").await;
    for word in ["DDL is frozen until Monday", "P0001", "CREATE PUBLICATION", "public.no_ddl()", "role=", "outbox"] {
        assert!(refused.contains(word), "{word} is not in {refused}");
    }
    for n in 0..3 {
        emit(&stack.db, "k", n).await;
        wait_until_sent(&stack.db, n + 1).await;
    }
    assert_slot_moves(&stack).await;
    assert_eq!(super::lost_sessions(&relay), 0);

    let open = stack.db.connect().await;
    run(&open, "BEGIN").await;
    emit(&open, "k", 3).await;
    run(&stack.db, THAW).await;
    wait_until(&stack.db, "the publication is made", "EXISTS (SELECT FROM pg_publication WHERE pubname = 'outbox')")
        .await;
    relay.wait_for_log("publishes every event again").await;
    run(&open, "COMMIT").await;
    emit(&stack.db, "k", 4).await;
    relay.wait_for_log("state=streaming").await;
    wait_until_sent(&stack.db, 5).await;
    assert_in_order(&consumer.wait_for(5).await);
}

#[tokio::test]
async fn a_publication_that_is_dropped_damaged_or_replaced_while_its_repair_is_refused_stops_no_delivery() {
    let damages = [
        "ALTER PUBLICATION outbox DROP TABLE outbox.events",
        "ALTER PUBLICATION outbox SET (publish = 'truncate')",
        "DROP PUBLICATION outbox",
        "DROP PUBLICATION outbox; CREATE PUBLICATION outbox FOR TABLE theirs",
    ];
    for damage in damages {
        let stack = Stack::new().await;
        let consumer = stack.consumer("#").await;
        run(&stack.db, "CREATE TABLE theirs (id int)").await;
        let relay = watchful_relay(&stack).start().await;
        emit(&stack.db, "k", 0).await;
        wait_until_sent(&stack.db, 1).await;
        run(&stack.db, &format!("{damage}; {FREEZE}")).await;
        for n in 1..4 {
            emit(&stack.db, "k", n).await;
            wait_until_sent(&stack.db, n + 1).await;
        }
        relay.wait_for_log("its repair was refused").await;
        for n in 4..6 {
            emit(&stack.db, "k", n).await;
            wait_until_sent(&stack.db, n + 1).await;
        }
        assert_slot_moves(&stack).await;
        assert_in_order(&consumer.wait_for(6).await);
        let mark = relay.mark();
        run(&stack.db, &format!("{THAW}; DROP PUBLICATION IF EXISTS outbox")).await;
        relay.wait_for_log_after(mark, "state=streaming").await;
        emit(&stack.db, "k", 6).await;
        wait_until_sent(&stack.db, 7).await;
        assert!(super::lost_sessions(&relay) < 8, "{damage}: {}", relay.log_text());
    }
}

#[tokio::test]
async fn a_role_that_may_not_repair_the_publication_delivers_with_it_and_without_it() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    run(&stack.db, "CREATE TABLE theirs (id int)").await;
    let role = relay_role(&stack.db).await;
    let revoke = format!(
        "SELECT outbox.ensure_publication('outbox');
         REVOKE EXECUTE ON FUNCTION outbox.ensure_publication(text) FROM {role}"
    );
    run(&stack.db, &revoke).await;
    let as_role = || watchful_relay(&stack).set("database-url", &stack.db.url_as(&role));
    let relay = as_role().start().await;
    let told = relay.wait_for_log("may not look after the publication").await;
    assert!(told.contains("42501") && told.contains(&role) && told.contains("grant_relay"), "{told}");
    relay.wait_for_log("state=streaming").await;
    emit(&stack.db, "k", 0).await;
    wait_until_sent(&stack.db, 1).await;

    relay.kill().await;
    run(&stack.db, "ALTER PUBLICATION outbox DROP TABLE outbox.events").await;
    let relay = as_role().spawn();
    relay.wait_for_log("the table is read every second instead").await;
    for n in 1..3 {
        emit(&stack.db, "k", n).await;
        wait_until_sent(&stack.db, n + 1).await;
    }
    assert_slot_moves(&stack).await;
    assert_in_order(&consumer.wait_for(3).await);
    relay.kill().await;
    drop_role(&stack, &role).await;
}

/// Functions of PostgreSQL that a session calls for comfort: to see who is in the way, to set what makes its end
/// noticed.
#[tokio::test]
async fn a_role_to_which_everything_is_refused_that_is_for_comfort_delivers() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let role = relay_role(&stack.db).await;
    let revoke = "DO $$ DECLARE f regprocedure; BEGIN
        FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname IN
            ('set_config', 'pg_lock_status', 'pg_prepared_xact',
             'pg_current_wal_lsn', 'pg_show_all_settings', 'pg_terminate_backend')
        LOOP EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f); END LOOP; END $$";
    run(&stack.db, revoke).await;
    let relay = watchful_relay(&stack).set("database-url", &stack.db.url_as(&role));
    let first = relay.start().await;
    let standby = relay.spawn();
    standby.wait_for_log("state=standby").await;
    // A lock for which a start waits, and whose holder it may not see.
    let open = stack.db.connect().await;
    run(&open, "BEGIN; LOCK TABLE outbox.events IN SHARE UPDATE EXCLUSIVE MODE").await;
    run(&stack.db, "ALTER PUBLICATION outbox SET (publish = 'truncate')").await;
    first.kill().await;
    emit(&stack.db, "k", 0).await;
    let waits = "EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'outbox.events'::regclass)";
    wait_until(&stack.db, "the relay waits for the lock", waits).await;
    run(&open, "COMMIT").await;
    emit(&stack.db, "k", 1).await;
    wait_until_sent(&stack.db, 2).await;
    standby.wait_for_log("state=streaming").await;
    assert_in_order(&consumer.wait_for(2).await);
    assert_eq!(number(&stack.db, "(SELECT count(*) FROM outbox.events WHERE status <> 'SENT')").await, 0);
}
