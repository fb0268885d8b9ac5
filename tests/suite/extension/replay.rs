//! Replay: finished events are delivered again, and the relay is told once.

use harness::Database;

use super::{on_both_installations, refusal, run, value};

on_both_installations!(
    one_event_is_replayed_by_its_id,
    many_are_replayed_by_filter_and_counted,
    filters_combine,
    sent_events_are_replayed_on_demand_only,
    a_replay_of_many_needs_a_filter,
    a_replay_of_many_is_oldest_first_and_can_be_limited,
    the_relay_is_woken_once_per_transaction,
    the_relay_is_woken_by_a_plain_update,
    a_replay_rolled_back_does_not_wake_the_relay,
    a_savepoint_rolled_back_does_not_keep_the_relay_asleep,
    a_verdict_does_not_wake_the_relay,
);

/// Ten events; those with even numbers have failed, those that 4 divides for want of a queue, the others are sent.
pub(crate) const HISTORY: &str =
    "SELECT outbox.emit('topic.' || n % 3, to_jsonb(n), aggregate_type => 'order', aggregate_id => (n % 5)::text,
                        correlation_id => 'c' || n)
     FROM generate_series(1, 10) AS n;
     UPDATE outbox.events SET
         status = CASE WHEN payload::text::int % 2 = 0 THEN 'FAILED' ELSE 'SENT' END::outbox.status,
         last_error = CASE WHEN payload::text::int % 4 = 0 THEN '312 NO_ROUTE' ELSE 'nack' END";

async fn history(db: &Database) {
    run(db, HISTORY).await;
}

const PENDING: &str = "SELECT string_agg(payload::text, ' ' ORDER BY seq) FROM outbox.events WHERE status = 'PENDING'";

async fn replayed(db: &Database, arguments: &str) -> String {
    value(db, &format!("SELECT outbox.replay_many({arguments})")).await
}

async fn one_event_is_replayed_by_its_id(db: Database) {
    history(&db).await;
    for number in [2, 3] {
        let replay = format!("SELECT outbox.replay(id) FROM outbox.events WHERE payload::text = '{number}'");
        assert_eq!(value(&db, &replay).await, "true");
        assert_eq!(value(&db, &replay).await, "false", "it is PENDING already");
    }
    assert_eq!(value(&db, PENDING).await, "2 3");
    assert_eq!(value(&db, "SELECT outbox.replay('0190163d-8694-739b-aea5-966c26f8ad91')").await, "false");
}

async fn many_are_replayed_by_filter_and_counted(db: Database) {
    for (filter, count, pending) in [
        ("topic => 'topic.1'", "2", "4 10"),
        ("aggregate_type => 'order'", "5", "2 4 6 8 10"),
        ("aggregate_id => '3'", "1", "8"),
        ("error_like => '%NO_ROUTE%'", "2", "4 8"),
        ("created_from => '2000-01-01', created_to => '2999-01-01'", "5", "2 4 6 8 10"),
        ("topic_like => '%.1'", "2", "4 10"),
        ("correlation_id => 'c8'", "1", "8"),
        ("ids => ARRAY(SELECT id FROM outbox.events WHERE payload::text::int IN (1, 2, 6))", "2", "2 6"),
    ] {
        run(&db, "DELETE FROM outbox.events").await;
        history(&db).await;
        assert_eq!(replayed(&db, filter).await, count, "{filter}");
        assert_eq!(value(&db, PENDING).await, pending, "{filter}");
    }
    for filter in [
        "topic => 'topic.'",
        "aggregate_id => '9'",
        "created_to => '2000-01-01'",
        "created_from => '2999-01-01'",
        "correlation_id => 'c7'",
        "ids => '{}'",
    ] {
        assert_eq!(replayed(&db, filter).await, "0", "{filter}");
    }
}

async fn filters_combine(db: Database) {
    history(&db).await;
    assert_eq!(replayed(&db, "topic => 'topic.1', error_like => 'nack'").await, "1");
    assert_eq!(value(&db, PENDING).await, "10");
}

async fn sent_events_are_replayed_on_demand_only(db: Database) {
    history(&db).await;
    assert_eq!(replayed(&db, "topic => 'topic.1', status => 'SENT'").await, "2");
    assert_eq!(value(&db, PENDING).await, "1 7");
}

async fn a_replay_of_many_needs_a_filter(db: Database) {
    history(&db).await;
    for arguments in ["", "status => 'SENT'", "max_events => 5", "topic => NULL"] {
        let error = refusal(&db, &format!("SELECT outbox.replay_many({arguments})")).await;
        assert_eq!(error.code().code(), "22023", "{arguments}");
        assert!(error.hint().unwrap().contains("created_to => now()"));
    }
    let error = refusal(&db, "SELECT outbox.replay_many(topic => 'a', status => 'PENDING')").await;
    assert_eq!((error.code().code(), error.message()), ("22023", "status must be FAILED or SENT"));
}

async fn a_replay_of_many_is_oldest_first_and_can_be_limited(db: Database) {
    history(&db).await;
    assert_eq!(replayed(&db, "aggregate_type => 'order', max_events => 2").await, "2");
    assert_eq!(value(&db, PENDING).await, "2 4");
    assert_eq!(replayed(&db, "aggregate_type => 'order', max_events => 2").await, "2");
    assert_eq!(value(&db, PENDING).await, "2 4 6 8");
}

/// A slot that sees what the relay would; its name is the database's, so it goes with it.
async fn listen(db: &Database) {
    run(db, "SELECT outbox.ensure_publication('outbox')").await;
    run(db, &format!("SELECT pg_create_logical_replication_slot('{}', 'pgoutput')", db.name())).await;
}

/// Messages of the prefix outbox since the last call, with their content, as the relay gets them.
async fn wake_messages(db: &Database) -> Vec<String> {
    let changes = format!(
        "SELECT data FROM pg_logical_slot_get_binary_changes('{}', NULL, NULL,
            'proto_version', '1', 'publication_names', 'outbox', 'messages', 'true')",
        db.name()
    );
    let rows = db.query(&changes, &[]).await.unwrap();
    let messages = rows.iter().map(|row| row.get::<_, Vec<u8>>(0)).filter(|data| data[0] == b'M');
    messages
        .map(|data| {
            assert_eq!(data[1], 1, "transactional");
            // M, flags (1), LSN (8), prefix and a zero, length (4), content
            let prefix_end = 10 + data[10..].iter().position(|byte| *byte == 0).unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            format!("{}:{}", text(&data[10..prefix_end]), text(&data[prefix_end + 5..]))
        })
        .collect()
}

async fn the_relay_is_woken_once_per_transaction(db: Database) {
    history(&db).await;
    listen(&db).await;
    assert_eq!(replayed(&db, "aggregate_type => 'order'").await, "5");
    assert_eq!(wake_messages(&db).await, ["outbox:replay"]);
    run(
        &db,
        "UPDATE outbox.events SET status = 'FAILED' WHERE status = 'PENDING';
         BEGIN; SELECT outbox.replay(id) FROM outbox.events WHERE status = 'FAILED';
         SELECT outbox.replay_many(topic => 'topic.1', status => 'SENT'); COMMIT",
    )
    .await;
    assert_eq!(wake_messages(&db).await, ["outbox:replay"]);
}

async fn the_relay_is_woken_by_a_plain_update(db: Database) {
    history(&db).await;
    listen(&db).await;
    run(&db, "UPDATE outbox.events SET status = 'PENDING'").await;
    assert_eq!(wake_messages(&db).await, ["outbox:replay"]);
}

async fn a_replay_rolled_back_does_not_wake_the_relay(db: Database) {
    history(&db).await;
    listen(&db).await;
    run(&db, "BEGIN; UPDATE outbox.events SET status = 'PENDING'; ROLLBACK").await;
    assert_eq!(wake_messages(&db).await, [""; 0]);
}

async fn a_savepoint_rolled_back_does_not_keep_the_relay_asleep(db: Database) {
    history(&db).await;
    listen(&db).await;
    run(
        &db,
        "BEGIN;
         SAVEPOINT s; UPDATE outbox.events SET status = 'PENDING'; ROLLBACK TO s;
         UPDATE outbox.events SET status = 'PENDING' WHERE payload::text = '1';
         COMMIT",
    )
    .await;
    assert_eq!(wake_messages(&db).await, ["outbox:replay"]);
}

async fn a_verdict_does_not_wake_the_relay(db: Database) {
    let id = value(&db, "SELECT outbox.emit('a', '{}')").await;
    listen(&db).await;
    run(&db, &format!("SELECT outbox.settle('{{{id}}}', '{{PENDING}}', '{{nack}}')")).await;
    run(&db, &format!("SELECT outbox.settle('{{{id}}}', '{{SENT}}', '{{NULL}}')")).await;
    assert_eq!(wake_messages(&db).await, [""; 0]);
}
