//! One message ends the connection: it fails alone, and the others go on.

use std::time::Duration;

use harness::{Ending, Proxy, Relay, SOON, Stack, eventually};
use uuid::Uuid;

use super::{DRAINED, check, count, load::Emitted, relay, wait_for_rows};

/// Keys of the good events, one of which is the bad one's, too.
const KEYS: i32 = 5;

/// connection.close, as a broker says it.
fn connection_close(code: u16, text: &str) -> Ending {
    let mut method = vec![0, 10, 0, 50];
    method.extend(code.to_be_bytes());
    method.push(u8::try_from(text.len()).unwrap());
    method.extend(text.as_bytes());
    method.extend([0, 60, 0, 40]); // over basic.publish
    let mut frame = vec![1, 0, 0];
    frame.extend(u32::try_from(method.len()).unwrap().to_be_bytes());
    frame.extend(method);
    frame.push(0xce);
    Ending::Says(frame)
}

/// A relay that reaches the broker through a proxy.
async fn start(stack: &Stack) -> (Proxy, Relay) {
    let proxy = Proxy::to(stack.vhost.port()).await;
    let relay = relay(stack).set("amqp-url", &stack.vhost.url_at(proxy.port())).start().await;
    (proxy, relay)
}

/// Emits 21 events in one transaction, of which the `bad`th has another topic. Returns the others, and its id.
async fn emit(stack: &Stack, bad: i32) -> (Vec<Emitted>, Uuid) {
    let sql = "SELECT outbox.emit(CASE WHEN n = $1 THEN 'poisonous' ELSE 'wholesome' END, to_jsonb(n),
                                  aggregate_type => 'load', aggregate_id => (n % $2)::text)
               FROM generate_series(0, 20) n";
    let rows = stack.db.query(sql, &[&bad, &KEYS]).await.unwrap();
    let mut all: Vec<Emitted> =
        (0..).zip(&rows).map(|(n, row)| Emitted { id: row.get(0), key: (n % KEYS).to_string(), n }).collect();
    let bad = all.remove(usize::try_from(bad).unwrap()).id;
    (all, bad)
}

async fn fails_alone(bad: i32, ending: Ending, words: &str) {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let (proxy, relay) = start(&stack).await;
    proxy.end_over("poisonous", ending);
    let (good, bad) = emit(&stack, bad).await;
    wait_for_rows(&stack, "status = 'SENT'", 20).await;
    check(&stack, &consumer, &good, 2 * good.len()).await;
    let sql = "SELECT status::text, attempts, last_error FROM outbox.events WHERE id = $1";
    let row = stack.db.query_one(sql, &[&bad]).await.unwrap();
    let (status, attempts, error) = (row.get::<_, String>(0), row.get::<_, i32>(1), row.get::<_, String>(2));
    assert_eq!((status.as_str(), attempts), ("FAILED", 1), "{error}");
    assert!(error.contains(words), "{error}");
    relay.wait_for_log(&format!("event={bad}")).await;
    assert!(proxy.opened() < 12, "{} connections", proxy.opened());
}

#[tokio::test]
async fn a_message_over_which_the_broker_ends_the_connection_fails_alone_with_the_brokers_words() {
    fails_alone(7, connection_close(541, "INTERNAL_ERROR"), "541 INTERNAL_ERROR").await;
}

#[tokio::test]
async fn the_last_message_of_all_fails_alone_although_nothing_follows_that_shows_that_the_broker_takes_others() {
    fails_alone(20, connection_close(541, "INTERNAL_ERROR"), "541 INTERNAL_ERROR").await;
}

#[tokio::test]
async fn a_message_over_which_the_connection_is_reset_fails_alone() {
    fails_alone(0, Ending::Reset, "the connection broke").await;
}

#[tokio::test]
async fn a_message_over_which_the_broker_sends_a_broken_frame_fails_alone() {
    fails_alone(7, Ending::Says(vec![9; 20]), "a frame").await;
}

#[tokio::test]
async fn many_messages_that_end_the_connection_fail_one_after_the_other_and_the_others_go_on_meanwhile() {
    const BAD: i64 = 10;
    let stack = Stack::new().await;
    let _consumer = stack.consumer("#").await;
    let (proxy, _relay) = start(&stack).await;
    proxy.end_over("poisonous", connection_close(541, "INTERNAL_ERROR"));
    let sql = "SELECT count(outbox.emit('poisonous', '{}', aggregate_type => 'bad', aggregate_id => n::text))
               FROM generate_series(1, $1::bigint) n";
    stack.db.execute(sql, &[&BAD]).await.unwrap();
    let mut sent = 0;
    while count(&stack, "status = 'FAILED'").await < BAD {
        stack.db.execute("SELECT outbox.emit('wholesome', '{}')", &[]).await.unwrap();
        sent += 1;
        wait_for_rows(&stack, "status = 'SENT'", sent).await;
    }
    assert_eq!(count(&stack, "status = 'FAILED' AND topic <> 'poisonous'").await, 0);
    // Each bad one ends four connections over it alone, and the others have a second between two such endings.
    let waits = "SELECT max(processed_at - created_at)::text, percentile_disc(0.9) WITHIN GROUP (ORDER BY processed_at - created_at)::text
                 FROM outbox.events WHERE status = 'SENT'";
    let row = stack.db.query_one(waits, &[]).await.unwrap();
    println!(
        "{sent} others meanwhile; they waited {:?} at most, nine of ten {:?}",
        row.get::<_, String>(0),
        row.get::<_, String>(1)
    );
    assert!(sent > 20 * BAD, "{sent} others meanwhile");
}

#[tokio::test]
async fn a_broker_that_ends_the_connection_over_every_message_fails_none_and_all_leave_when_it_takes_them_again() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let (proxy, _relay) = start(&stack).await;
    for topic in ["wholesome", "poisonous"] {
        proxy.end_over(topic, connection_close(541, "INTERNAL_ERROR"));
    }
    let (mut all, bad) = emit(&stack, 7).await;
    all.push(Emitted { id: bad, key: "2".to_owned(), n: 7 });
    all.sort_by_key(|event| event.n);
    eventually("many connections have ended", DRAINED, async || match proxy.opened() {
        12.. => Ok(()),
        opened => Err(opened),
    })
    .await;
    assert_eq!(count(&stack, "status = 'PENDING' AND attempts = 0 AND last_error IS NULL").await, 21);
    proxy.end_no_more();
    check(&stack, &consumer, &all, 0).await;
}

#[tokio::test]
async fn an_operator_who_closes_the_connection_again_and_again_fails_nobody() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let (proxy, _relay) = start(&stack).await;
    proxy.end_over("poisonous", connection_close(320, "CONNECTION_FORCED - Closed via management plugin"));
    let (mut all, bad) = emit(&stack, 7).await;
    all.push(Emitted { id: bad, key: "2".to_owned(), n: 7 });
    all.sort_by_key(|event| event.n);
    eventually("many connections have ended", DRAINED, async || match proxy.opened() {
        12.. => Ok(()),
        opened => Err(opened),
    })
    .await;
    assert_eq!(count(&stack, "attempts > 0 AND status <> 'SENT'").await, 0);
    proxy.end_no_more();
    check(&stack, &consumer, &all, all.len()).await;
}

#[tokio::test]
async fn a_user_with_one_channel_gets_another_after_the_broker_has_counted_the_closed_one_off() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let user = format!("{}_one", stack.vhost.name());
    stack.vhost.user(&user, "secret", ".*", ".*", ".*").await;
    let limit = serde_json::json!({ "value": 1 });
    stack.vhost.api("PUT", &format!("/api/user-limits/{user}/max-channels"), Some(&limit)).await;
    let relay = relay(&stack).set("amqp-url", &stack.vhost.url_as(&user, "secret")).start().await;
    let sql = "SELECT outbox.emit('good', to_jsonb(n), exchange => CASE n WHEN 7 THEN 'missing' END,
                                  aggregate_type => 'load', aggregate_id => n::text)
               FROM generate_series(0, 20) n";
    for round in 1..=10 {
        let rows = stack.db.query(sql, &[]).await.unwrap();
        let good: Vec<Emitted> = (0..)
            .zip(&rows)
            .filter(|(n, _)| *n != 7)
            .map(|(n, row)| Emitted { id: row.get(0), key: format!("{round}-{n}"), n })
            .collect();
        eventually("all have their verdicts", SOON, async || match count(&stack, "status = 'PENDING'").await {
            0 => Ok(()),
            pending => Err(pending),
        })
        .await;
        let ids: Vec<Uuid> = good.iter().map(|event| event.id).collect();
        let sent = "SELECT count(*) FROM outbox.events WHERE id = ANY($1) AND status = 'SENT' AND attempts = 1";
        let sent: i64 = stack.db.query_one(sent, &[&ids]).await.unwrap().get(0);
        assert_eq!(sent, 20);
        consumer.wait_for_ids(&ids, Duration::from_secs(10)).await;
    }
    assert_eq!(count(&stack, "status = 'FAILED' AND attempts = 1 AND last_error LIKE '404 NOT_FOUND%'").await, 10);
    assert!(consumer.count() < 2 * 200, "{} messages of 200 events", consumer.count());
    drop(relay);
}
