//! The sequence of `seq` is behind the rows, or gives numbers in another order: the relay mends it by itself.

use harness::{Postgres, Proxy, Relay, Stack};

use super::{
    account::assert_in_order,
    drop_role, emit,
    refused::{FREEZE, THAW, assert_slot_moves, watchful_relay},
    relay_role, run, wait_until, wait_until_sent,
};
use crate::extension::dump::copy_rows;

const MENDED: &str = "was not as it should be, and is mended";
const REFUSED: &str = "could not be looked after";
/// Logged once the start's own look at the sequence is over.
const STARTED: &str = "state=connected";

/// A relay whose broker is away until it is let through: all that is emitted until then leaves in the order of the
/// table.
async fn without_broker(stack: &Stack) -> (Proxy, Relay) {
    let proxy = Proxy::to(stack.vhost.port()).await;
    proxy.refuse();
    let relay = watchful_relay(stack).set("amqp-url", &stack.vhost.url_at(proxy.port())).spawn();
    (proxy, relay)
}

/// Emits the events of a key from `from` to `to`, and one of another key after each.
async fn emit_some(stack: &Stack, from: i64, to: i64) {
    for n in from..to {
        emit(&stack.db, "k", n).await;
        emit(&stack.db, "other", n).await;
    }
}

/// Emits to a database of its own, as that of a blue server.
async fn blue(stack: &Stack) -> harness::Database {
    let blue = Postgres::shared().await.database().await;
    for n in 0..3 {
        emit(&blue, "k", n).await;
        emit(&blue, "other", n).await;
    }
    assert_eq!(super::number(&stack.db, "(SELECT count(*) FROM outbox.events)").await, 0);
    blue
}

async fn what_is_emitted_after_the_start_leaves_after_what_was_copied(stack: &Stack) {
    let consumer = stack.consumer("#").await;
    let (proxy, relay) = without_broker(stack).await;
    let line = relay.wait_for_log(MENDED).await;
    assert!(line.contains("get the number 1,") && line.contains("there is one with 6"), "{line}");
    emit_some(stack, 3, 6).await;
    proxy.accept();
    wait_until_sent(&stack.db, 12).await;
    assert_in_order(&consumer.wait_for(12).await);
}

#[tokio::test]
async fn after_a_restore_of_the_rows_alone_the_start_moves_the_sequence_beyond_them() {
    let stack = Stack::new().await;
    let blue = blue(&stack).await;
    copy_rows(&blue, &stack.db).await;
    what_is_emitted_after_the_start_leaves_after_what_was_copied(&stack).await;
}

#[tokio::test]
async fn after_logical_replication_from_another_server_the_start_moves_the_sequence_beyond_its_rows() {
    let stack = Stack::new().await;
    let blue = blue(&stack).await;
    let (slot, port, name) = (stack.db.name(), blue.port(), blue.name());
    let of_subscription = format!("{slot}_of_blue");
    run(&blue, "CREATE PUBLICATION p FOR TABLE outbox.events").await;
    // Made here, for a server that would make it for a subscriber of its own waits for itself.
    run(&blue, &format!("SELECT pg_create_logical_replication_slot('{of_subscription}', 'pgoutput')")).await;
    let subscribe = format!(
        "CREATE SUBSCRIPTION {of_subscription} CONNECTION 'host=127.0.0.1 port={port} dbname={name} user=postgres' PUBLICATION p
         WITH (create_slot = false, slot_name = '{of_subscription}')"
    );
    run(&stack.db, &subscribe).await;
    wait_until(&stack.db, "the rows are there", "(SELECT count(*) FROM outbox.events) = 6").await;
    run(&stack.db, &format!("DROP SUBSCRIPTION {of_subscription}")).await;
    what_is_emitted_after_the_start_leaves_after_what_was_copied(&stack).await;
}

#[tokio::test]
async fn a_sequence_that_is_set_back_while_the_relay_runs_is_found_and_moved_up() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let (proxy, relay) = without_broker(&stack).await;
    relay.wait_for_log(STARTED).await;
    emit_some(&stack, 0, 3).await;
    run(&stack.db, "SELECT setval('outbox.events_seq_seq', 1)").await;
    let line = relay.wait_for_log(MENDED).await;
    assert!(line.contains("get the number 2,") && line.contains("there is one with 6"), "{line}");
    emit_some(&stack, 3, 6).await;
    proxy.accept();
    wait_until_sent(&stack.db, 12).await;
    assert_in_order(&consumer.wait_for(12).await);
    assert_eq!(relay.log_lines().iter().filter(|line| line.contains(MENDED)).count(), 1, "{}", relay.log_text());
}

#[tokio::test]
async fn numbers_that_sessions_take_in_advance_are_found_while_the_relay_runs_and_given_up() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let other = stack.db.connect().await;
    let (proxy, relay) = without_broker(&stack).await;
    relay.wait_for_log(STARTED).await;
    // Both sessions have taken some, of other keys.
    run(&stack.db, "ALTER SEQUENCE outbox.events_seq_seq CACHE 10").await;
    emit(&stack.db, "a", 0).await;
    emit(&other, "b", 0).await;
    let line = relay.wait_for_log(MENDED).await;
    assert!(line.contains("CACHE is 10"), "{line}");
    for n in 0..6 {
        emit(if n % 2 == 0 { &other } else { &stack.db }, "k", n).await;
    }
    proxy.accept();
    wait_until_sent(&stack.db, 8).await;
    assert_in_order(&consumer.wait_for(8).await);
}

#[tokio::test]
async fn a_mending_that_is_refused_stops_no_delivery_and_follows_once_it_may() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    run(&stack.db, "CREATE TABLE theirs (id int); SELECT outbox.ensure_publication('outbox')").await;
    run(&stack.db, &format!("ALTER SEQUENCE outbox.events_seq_seq CYCLE; {FREEZE}")).await;
    let relay = watchful_relay(&stack).start().await;
    let line = relay.wait_for_log(REFUSED).await;
    for word in ["DDL is frozen until Monday", "P0001", "ALTER SEQUENCE", "SELECT outbox.ensure_sequence()"] {
        assert!(line.contains(word), "{word} is not in {line}");
    }
    for n in 0..4 {
        emit(&stack.db, "k", n).await;
        wait_until_sent(&stack.db, n + 1).await;
    }
    let mark = relay.mark();
    relay.wait_for_log_after(mark, REFUSED).await;
    emit(&stack.db, "k", 4).await;
    wait_until_sent(&stack.db, 5).await;
    assert_slot_moves(&stack).await;
    assert_in_order(&consumer.wait_for(5).await);
    run(&stack.db, THAW).await;
    let line = relay.wait_for_log(MENDED).await;
    assert!(line.contains("it has CYCLE"), "{line}");
    assert_eq!(super::lost_sessions(&relay), 0, "{}", relay.log_text());
}

#[tokio::test]
async fn a_role_that_may_not_mend_it_delivers_and_says_so() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let role = relay_role(&stack.db).await;
    run(&stack.db, &format!("REVOKE EXECUTE ON FUNCTION outbox.ensure_sequence() FROM {role}")).await;
    let relay = watchful_relay(&stack).set("database-url", &stack.db.url_as(&role)).start().await;
    let line = relay.wait_for_log(REFUSED).await;
    assert!(line.contains("42501") && line.contains("grant_relay"), "{line}");
    for n in 0..3 {
        emit(&stack.db, "k", n).await;
        wait_until_sent(&stack.db, n + 1).await;
    }
    assert_in_order(&consumer.wait_for(3).await);
    assert_eq!(super::lost_sessions(&relay), 0, "{}", relay.log_text());
    relay.kill().await;
    drop_role(&stack, &role).await;
}

#[tokio::test]
async fn a_look_that_fails_for_damage_or_takes_too_long_stops_no_delivery() {
    let failures = [
        ("RAISE EXCEPTION 'invalid page in block 7' USING ERRCODE = 'data_corrupted'", "XX001"),
        ("PERFORM pg_sleep(60); RETURN 'in order'", "57014"),
        ("RAISE EXCEPTION 'could not read block 7' USING ERRCODE = 'io_error'", "58030"),
    ];
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let mut sent = 0;
    for (body, code) in failures {
        let function = format!(
            "CREATE OR REPLACE FUNCTION outbox.ensure_sequence() RETURNS text LANGUAGE plpgsql SECURITY DEFINER
             SET search_path = pg_catalog, pg_temp AS $$ BEGIN {body}; END $$"
        );
        run(&stack.db, &function).await;
        let relay = watchful_relay(&stack).start().await;
        for _ in 0..2 {
            let mark = relay.mark();
            emit(&stack.db, "k", sent).await;
            sent += 1;
            wait_until_sent(&stack.db, sent).await;
            let line = relay.wait_for_log_after(mark, REFUSED).await;
            assert!(line.contains(code), "{line}");
        }
        assert_eq!(super::lost_sessions(&relay), 0, "{}", relay.log_text());
        relay.kill().await;
    }
    assert_in_order(&consumer.wait_for(6).await);
}
