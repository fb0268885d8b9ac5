//! Events whose verdicts are late are not published again, however often relays are killed.

use harness::{SOON, eventually};

use super::{
    Sink, emit, number, pass, private,
    read_back::{assert_once, forget_verdicts, wait_until_sent},
    run, shared, wait_for_counts,
};

/// Waits until the newest verdict is so much later than the `since`, a time of the database; events of another topic
/// keep verdicts coming.
async fn wait_until_verdicts_go_on_for(sink: &Sink<'_>, other: &str, since: &str, how_long: &str) {
    let emit = format!("SELECT outbox.emit('{other}', '0')");
    let goes_on = format!(
        "SELECT coalesce(max(processed_at), '-infinity') > '{since}'::timestamptz + '{how_long}'::interval FROM outbox.events"
    );
    eventually("verdicts go on", SOON, async || {
        run(&sink.db, &emit).await;
        if sink.db.query_one(&goes_on, &[]).await.unwrap().get(0) { Ok(()) } else { Err("they do not") }
    })
    .await;
}

/// A trigger refuses the verdicts of these rows.
async fn refuse_verdicts(sink: &Sink<'_>, rows: &str) {
    let refuse =
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no verdict today'; END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON outbox.events FOR EACH ROW";
    run(&sink.db, &format!("SET outbox.allow_undumped_changes = on; {refuse} WHEN ({rows}) EXECUTE FUNCTION refuse()"))
        .await;
}

/// Every event is SENT.
async fn wait_until_all_are_sent(sink: &Sink<'_>) {
    eventually("all are SENT", 2 * SOON, async || {
        let sql = "SELECT count(*) FROM outbox.events WHERE status <> 'SENT'";
        match sink.db.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) {
            0 => Ok(()),
            others => Err(others),
        }
    })
    .await;
}

async fn now(sink: &Sink<'_>) -> String {
    sink.db.query_one("SELECT clock_timestamp()::text", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn an_event_whose_verdict_cannot_be_written_for_long_is_not_published_again_by_the_next_relay() {
    let Some(kafka) = shared().await else { return };
    let (topic, other) = (kafka.topic(3, &[]).await, kafka.topic(1, &[]).await);
    let sink = Sink::new(kafka).await;
    refuse_verdicts(&sink, "new.payload::text = '7'").await;
    let builder = sink.relay().set("confirm-timeout", "2s");
    let mut relay = builder.start().await;
    relay.pause();
    emit(&sink.db, &topic, 1, 20).await;
    let holder = sink.db.connect().await;
    run(&holder, "BEGIN; SELECT FROM outbox.events WHERE payload::text = '12' FOR UPDATE").await;
    let since = now(&sink).await;
    relay.resume();
    for _ in 0..2 {
        wait_until_verdicts_go_on_for(&sink, &other, &since, "8 s").await; // a relay reads back 7 s
        relay.kill().await;
        relay = builder.start().await;
    }
    run(&holder, "ROLLBACK").await;
    run(&sink.db, "DROP TRIGGER refuse ON outbox.events").await;
    wait_until_all_are_sent(&sink).await;
    assert_once(kafka, &topic, 20).await;
}

#[tokio::test]
async fn a_relay_that_is_killed_again_before_it_has_found_all_costs_no_second_delivery() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(3, &[]).await;
    let sink = Sink::new(kafka).await;
    let builder = sink.relay().set("confirm-timeout", "2s");
    let relay = builder.start().await;
    emit(&sink.db, &topic, 1, 1000).await;
    wait_for_counts(&sink.db, (0, 1000, 0), SOON).await;
    relay.kill().await;
    forget_verdicts(&sink, 401).await;
    pass(&sink.db, "8 s").await; // a relay reads back 7 s
    let relay = builder.clone().set("max-rate", "50").start().await;
    wait_until_sent(&sink, 420).await;
    relay.kill().await;
    let _relay = builder.start().await;
    wait_for_counts(&sink.db, (0, 1000, 0), SOON).await;
    assert_once(kafka, &topic, 1000).await;
}

#[tokio::test]
async fn an_event_behind_one_for_a_frozen_leader_is_not_published_again_by_the_relay_after_the_next() {
    let Some(builder) = private() else { return };
    let kafka = builder.three_nodes().start().await;
    let (awake, frozen) = (kafka.node(1), kafka.node(2));
    let (stuck, other) = (kafka.topic_on(frozen).await, kafka.topic_on(awake).await);
    let sink = Sink::new(&kafka).await;
    refuse_verdicts(&sink, "new.aggregate_id IS NOT NULL").await;
    let builder = sink.relay().set("confirm-timeout", "3s").set("retry-max", "1s");
    let relay = builder.start().await;
    for (topic, number) in [(&stuck, 1), (&other, 2)] {
        let emit = format!("SELECT outbox.emit('{topic}', '{number}', aggregate_type => 'order', aggregate_id => 'k')");
        run(&sink.db, &emit).await;
    }
    let published = async |topic: &str| kafka.records(topic).await.iter().filter(|record| number(record) > 0).count();
    eventually("both are published", SOON, async || match (published(&stuck).await, published(&other).await) {
        (1, 1) => Ok(()),
        others => Err(others),
    })
    .await;
    relay.kill().await;
    // As if it had been killed at once, before it kept any event.
    run(&sink.db, "DELETE FROM outbox.in_doubt; DROP TRIGGER refuse ON outbox.events").await;
    frozen.pause();
    kafka.wait_for_no_leader(&stuck).await;
    let since = now(&sink).await;
    let relay = builder.start().await;
    wait_until_verdicts_go_on_for(&sink, &other, &since, "8 s").await; // a relay reads back 7 s
    relay.kill().await;
    frozen.resume();
    let _relay = builder.start().await;
    wait_until_all_are_sent(&sink).await;
    assert_eq!((published(&stuck).await, published(&other).await), (1, 1), "none is there twice");
}

#[tokio::test]
async fn an_event_in_doubt_that_is_due_while_its_topic_is_in_use_is_found() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(1, &[]).await;
    let sink = Sink::new(kafka).await;
    let builder = sink.relay().set("confirm-timeout", "2s");
    let relay = builder.start().await;
    emit(&sink.db, &topic, 1, 20).await;
    wait_for_counts(&sink.db, (0, 20, 0), SOON).await;
    let since = now(&sink).await;
    relay.kill().await;
    forget_verdicts(&sink, 20).await;
    // As a relay leaves it that did not know what has become of the event and puts it off.
    let put_off = "SELECT outbox.settle(array_agg(id), array_agg('PENDING'::outbox.status), array_agg(NULL::text), array_agg(10000))
        FROM outbox.events WHERE status = 'PENDING';
        SELECT outbox.keep_in_doubt((SELECT min(publisher) FROM outbox.in_doubt), array_agg(id), array_agg(0),
            array_agg(60000000::bigint), array_agg(false), NULL) FROM outbox.events WHERE status = 'PENDING'";
    run(&sink.db, put_off).await;
    let relay = builder.start().await;
    let mut emitted = 20;
    let is_later = format!("SELECT clock_timestamp() > '{since}'::timestamptz + interval '13 s'");
    eventually("the topic is in use for longer than the event is put off", SOON, async || {
        emit(&sink.db, &topic, emitted + 1, 10).await;
        emitted += 10;
        if sink.db.query_one(&is_later, &[]).await.unwrap().get(0) { Ok(()) } else { Err("not yet") }
    })
    .await;
    wait_for_counts(&sink.db, (0, emitted, 0), SOON).await;
    assert_once(kafka, &topic, emitted).await;
    assert!(!relay.log_text().contains("WARN"), "nothing is wrong: {}", relay.log_text());
}
