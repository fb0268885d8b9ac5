//! Every message gets its own confirm, whatever becomes of the others.

use std::collections::HashSet;

use amqp_publisher::{AmqpError, ConfirmKind};
use harness::{RabbitMq, SOON};

use super::{
    MAX_MESSAGE_BYTES, Note, Publisher, WINDOW, config, connect, ids, note, notes, publish, returned, small_node,
};

#[tokio::test]
async fn with_every_second_message_unroutable_no_confirm_is_wrong() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "bound").without_bodies().start().await;
    let mut publisher = connect(&vhost.url()).await;
    let notes: Vec<_> = ["bound", "nobody"].into_iter().cycle().take(10_000).map(note).collect();

    let confirms = publish(&mut publisher, &notes, WINDOW).await;

    let wrong = |note: &&Note| {
        let expected = if note.topic == "bound" { ConfirmKind::Acked } else { returned() };
        confirms[&note.id] != expected
    };
    assert_eq!(notes.iter().filter(wrong).count(), 0);
    consumer.wait_for(5_000).await;
    assert_eq!(consumer.ids(), ids(notes.iter().step_by(2)), "each once, in the order of publishing");
}

#[tokio::test]
async fn only_the_events_for_a_missing_exchange_are_closed() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").without_bodies().start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut notes = notes("a", 1_000);
    let bad = [0, 17, 18, 400, 999];
    for place in bad {
        notes[place].exchange = Some("missing");
    }

    let confirms = publish(&mut publisher, &notes, WINDOW).await;

    for (place, note) in notes.iter().enumerate() {
        match &confirms[&note.id] {
            ConfirmKind::Closed { code: 404, text } if bad.contains(&place) => {
                assert!(text.contains("'missing'"), "{text}")
            }
            ConfirmKind::Acked if !bad.contains(&place) => {}
            other => panic!("note {place}: {other:?}"),
        }
    }
    let good: Vec<_> = ids(&notes).into_iter().filter(|id| confirms[id] == ConfirmKind::Acked).collect();
    consumer.wait_for_ids(&good, SOON).await;
    let mut first_arrivals = consumer.ids();
    let mut seen = HashSet::new();
    first_arrivals.retain(|id| seen.insert(*id));
    assert_eq!(first_arrivals, good, "in the order of publishing");
}

#[tokio::test]
async fn a_channel_that_the_broker_closes_in_the_middle_of_a_message_costs_neither_the_message_nor_the_connection() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").without_bodies().start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut notes = notes("a", 5);
    notes[0].exchange = Some("missing");
    notes[3].body = vec![b'x'; 16_000_000].into(); // RabbitMQ 4 takes 16 MiB by default

    let confirms = publish(&mut publisher, &notes, WINDOW).await;

    assert!(matches!(&confirms[&notes[0].id], ConfirmKind::Closed { code: 404, .. }), "{confirms:?}");
    assert!(notes[1..].iter().all(|note| confirms[&note.id] == ConfirmKind::Acked), "{confirms:?}");
    consumer.wait_for_ids(&ids(&notes[1..]), SOON).await;
}

#[tokio::test]
async fn after_one_closed_channel_events_like_it_cost_the_others_no_second_delivery() {
    let vhost = small_node().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").without_bodies().start().await;
    let mut publisher = connect(&vhost.url()).await;
    let is_bad = |place: usize| place < 2 || place % 20 == 7;
    let mut notes = notes("a", 2_000);
    for (place, note) in notes.iter_mut().enumerate().filter(|(place, _)| is_bad(*place)) {
        match (place / 20 + place) % 2 {
            0 => note.exchange = Some("missing"),
            _ => note.body = vec![b'x'; MAX_MESSAGE_BYTES + 1].into(),
        }
    }

    let mut confirms = publish(&mut publisher, &notes[..2], 1).await;
    confirms.extend(publish(&mut publisher, &notes[2..], WINDOW).await);

    let wrong = |(place, note): &(usize, &Note)| (confirms[&note.id] != ConfirmKind::Acked) != is_bad(*place);
    assert_eq!(notes.iter().enumerate().filter(wrong).count(), 0);
    let good: Vec<_> = ids(&notes).into_iter().filter(|id| confirms[id] == ConfirmKind::Acked).collect();
    consumer.wait_for_ids(&good, SOON).await;
    assert_eq!(consumer.ids(), good, "each once, in the order of publishing");

    // Afterwards the exchange is there.
    vhost.exchange("missing").await;
    let later = [notes[0].clone(), note("a")];
    let confirms = publish(&mut publisher, &later, WINDOW).await;
    assert_eq!([&confirms[&later[0].id], &confirms[&later[1].id]], [&returned(), &ConfirmKind::Acked]);
}

#[tokio::test]
async fn only_the_message_that_is_too_large_is_closed() {
    let vhost = small_node().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut notes = notes("a", 100);
    notes[30].body = vec![b'x'; MAX_MESSAGE_BYTES + 1].into();
    notes[31].body = vec![b'x'; MAX_MESSAGE_BYTES].into();

    let confirms = publish(&mut publisher, &notes, WINDOW).await;

    let closed: Vec<_> = ids(&notes).into_iter().filter(|id| confirms[id] != ConfirmKind::Acked).collect();
    assert_eq!(closed, [notes[30].id]);
    assert!(
        matches!(&confirms[&closed[0]], ConfirmKind::Closed { code: 406, text } if text.contains("larger than")),
        "{confirms:?}"
    );
    let good: Vec<_> = ids(&notes).into_iter().filter(|id| !closed.contains(id)).collect();
    let deliveries = consumer.wait_for_ids(&good, SOON).await;
    let largest = deliveries.iter().find(|delivery| delivery.id == notes[31].id).unwrap();
    assert_eq!(largest.body, notes[31].body);
}

#[tokio::test]
async fn a_full_queue_that_rejects_gives_a_nack_to_each_message_it_refuses() {
    let vhost = RabbitMq::shared().await.vhost().await;
    vhost.exchange("outbox").await;
    let path = |kind: &str, rest: &str| format!("/api/{kind}/{}{rest}", vhost.name());
    let arguments =
        serde_json::json!({"durable": true, "arguments": {"x-max-length": 2, "x-overflow": "reject-publish"}});
    vhost.api("PUT", &path("queues", "/full"), Some(&arguments)).await;
    let binding = serde_json::json!({"routing_key": "#"});
    vhost.api("POST", &path("bindings", "/e/outbox/q/full"), Some(&binding)).await;
    let mut publisher = connect(&vhost.url()).await;
    let notes = notes("a", 5);

    let confirms: Vec<_> = {
        let confirms = publish(&mut publisher, &notes, 1).await;
        notes.iter().map(|note| confirms[&note.id].clone()).collect()
    };

    use ConfirmKind::{Acked, Nacked};
    assert_eq!(confirms, [Acked, Acked, Nacked, Nacked, Nacked]);
}

#[tokio::test]
async fn a_forbidden_exchange_is_an_events_fault_only_if_the_event_chose_it() {
    let vhost = RabbitMq::shared().await.vhost().await;
    vhost.exchange("forbidden").await;
    vhost.user("one-exchange", "secret", "^outbox$", "^outbox$", "^$").await;
    vhost.user("no-exchange", "secret", "^outbox$", "^$", "^$").await;
    let _consumer = vhost.consumer("outbox", "#").start().await;
    let chosen = Note { exchange: Some("forbidden"), ..note("a") };
    let notes = [note("a"), chosen, note("a")];

    let mut publisher = connect(&vhost.url_as("one-exchange", "secret")).await;
    let confirms = publish(&mut publisher, &notes, WINDOW).await;
    assert!(matches!(confirms[&notes[1].id], ConfirmKind::Closed { code: 403, .. }), "{confirms:?}");
    assert_eq!(confirms[&notes[2].id], ConfirmKind::Acked);

    let error = Publisher::connect(config(&vhost.url_as("no-exchange", "secret"))).await.unwrap_err();
    assert!(matches!(error.refusal(), Some(AmqpError::MayNotPublish { .. })), "{error:?}");
}
