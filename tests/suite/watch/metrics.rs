//! `/metrics`.

use harness::{SOON, Stack, get};

use super::{http_port, metric, wait_for_metric};
use crate::relay::{FullQueue, wait_for_counts};

#[tokio::test]
async fn every_event_is_counted_by_what_became_of_it() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer("known.#").await;
    let relay = stack.relay().set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    stack.db.batch_execute("SELECT outbox.emit('known.a', to_jsonb(i)) FROM generate_series(1, 100) i").await.unwrap();
    stack.db.batch_execute("SELECT outbox.emit('unknown', to_jsonb(i)) FROM generate_series(1, 7) i").await.unwrap();
    wait_for_counts(&stack.db, (0, 100, 7), SOON).await;

    for (name, labels, value) in [
        ("outbox_events_received_total", "source=\"stream\"", 107.0),
        ("outbox_events_published_total", "", 107.0),
        ("outbox_answers_total", "outcome=\"delivered\",reason=\"acked\"", 100.0),
        ("outbox_answers_total", "outcome=\"rejected\",reason=\"returned\"", 7.0),
        ("outbox_answers_total", "outcome=\"unavailable\",reason=\"nacked\"", 0.0),
        ("outbox_build_info", "sink=\"rabbitmq\"", 1.0),
        ("outbox_events_sent_total", "", 100.0),
        ("outbox_events_failed_total", "", 7.0),
        ("outbox_commit_to_confirm_seconds_count", "", 100.0),
        ("outbox_in_flight_events", "", 0.0),
        ("outbox_memory_bytes", "", 0.0),
        ("outbox_state", "state=\"streaming\"", 1.0),
        ("outbox_state", "state=\"parked\"", 0.0),
        ("outbox_unsent_events", "state=\"failed\"", 7.0),
        ("outbox_unsent_events", "state=\"pending\"", 0.0),
        ("outbox_slot_active", "", 1.0),
        ("outbox_ready", "", 1.0),
    ] {
        wait_for_metric(port, name, labels, value).await;
    }
    let database = format!("database=\"{}\"", stack.db.name());
    assert_eq!(metric(port, "outbox_alive", &database).await, Some(1.0), "each series names its database");
    let sum = metric(port, "outbox_commit_to_confirm_seconds_sum", "").await.unwrap();
    assert!(sum > 0.0 && sum < 100.0 * SOON.as_secs_f64(), "{sum}");
}

#[tokio::test]
async fn what_rabbitmq_rejects_for_good_is_counted_apart_from_what_a_queue_does_not_take_for_now() {
    let stack = Stack::new().await;
    let full = FullQueue::bind(&stack.vhost, "full").await;
    let _consumer = stack.consumer("known.#").await;
    let relay = stack.relay().set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    stack.db.batch_execute("SELECT outbox.emit('full', '{}')").await.unwrap();
    wait_for_metric(port, "outbox_state", "state=\"unavailable\"", 1.0).await;
    let rejected = "outcome=\"rejected\",reason=\"no_exchange\"";
    assert_eq!(metric(port, "outbox_answers_total", rejected).await, Some(0.0), "a nack passes");
    let nacked = "outcome=\"unavailable\",reason=\"nacked\"";
    assert!(metric(port, "outbox_answers_total", nacked).await >= Some(1.0));
    full.make_room().await;
    stack.db.batch_execute("SELECT outbox.emit('known.a', '{}', exchange => 'missing')").await.unwrap();
    wait_for_metric(port, "outbox_answers_total", rejected, 1.0).await;
    wait_for_counts(&stack.db, (0, 1, 1), SOON).await;
    for former in ["confirmed", "returned", "nacked", "rejected", "refused"] {
        let name = format!("outbox_events_{former}_total");
        assert_eq!(metric(port, &name, "").await, None, "{name}: one thing is counted once");
    }
}

#[tokio::test]
async fn a_scrape_shows_nothing_that_an_emitter_has_written() {
    let stack = Stack::new().await;
    let relay = stack.relay().set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    let sql = "SELECT outbox.emit('sesame', '\"sesame\"', 'sesame', 'sesame', 'sesame', '{\"sesame\": \"sesame\"}')";
    stack.db.batch_execute(sql).await.unwrap();
    wait_for_counts(&stack.db, (0, 0, 1), SOON).await;
    wait_for_metric(port, "outbox_events_failed_total", "", 1.0).await;
    for page in ["/metrics", "/readyz", "/healthz"] {
        let answer = get(port, page).await.unwrap();
        assert!(!answer.body.contains("sesame"), "{page}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_relay_that_cannot_ask_for_the_backlog_goes_on_delivering_and_says_so_in_metrics_and_log() {
    let stack = Stack::new().await;
    let role = format!("blind_{}", stack.db.name());
    let run = async |sql: String| stack.db.batch_execute(&sql).await.unwrap();
    run(format!("CREATE ROLE {role} LOGIN REPLICATION; SELECT outbox.grant_relay('{role}')")).await;
    let relay = stack.relay().set("database-url", &stack.db.url_as(&role)).set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    run(format!("ALTER ROLE {role} CONNECTION LIMIT 0")).await;
    wait_for_metric(port, "outbox_database_up", "", 0.0).await;
    let line = relay.wait_for_log("the database does not say how large the backlog is").await;
    assert!(line.contains("WARN") && line.contains("too many connections"), "{line}");
    wait_for_metric(port, "outbox_state", "state=\"streaming\"", 1.0).await;
    run(format!("ALTER ROLE {role} CONNECTION LIMIT -1")).await;
    wait_for_metric(port, "outbox_database_up", "", 1.0).await;
    drop(relay);
    run(format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_scrape_calls_nothing_that_is_a_strangers() {
    let stack = Stack::new().await;
    let relay = stack.relay().set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    let stranger = format!("stranger_{}", stack.db.name());
    // It matches the call better than the outbox's own.
    let plant = format!(
        "CREATE TABLE called (by text); GRANT INSERT ON called TO PUBLIC;
         CREATE FUNCTION outbox.health(slot text) RETURNS SETOF outbox.backlog LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO public.called VALUES (current_user); RETURN; END $$;
         CREATE ROLE {stranger}; ALTER FUNCTION outbox.health(text) OWNER TO {stranger}"
    );
    stack.db.batch_execute(&plant).await.unwrap();
    wait_for_metric(port, "outbox_database_up", "", 0.0).await;
    let line = relay.wait_for_log("the database does not say how large the backlog is").await;
    assert!(line.contains("outbox.health(text) belongs to role"), "{line}");
    let called: i64 = stack.db.query_one("SELECT count(*) FROM called", &[]).await.unwrap().get(0);
    assert_eq!(called, 0);
    drop(relay);
    stack.db.batch_execute(&format!("DROP OWNED BY {stranger}; DROP ROLE {stranger}")).await.unwrap();
}
