//! Every message gets its own verdict, whatever becomes of the others.

use std::collections::HashSet;

use amqp_publisher::{PublishError, Verdict};
use harness::{RabbitMq, SOON};

use super::{
    MAX_MESSAGE_BYTES, Note, Publisher, WINDOW, config, connect, ids, note, notes, publish, returned, small_node,
};

#[tokio::test]
async fn with_every_second_message_unroutable_no_verdict_is_wrong() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "bound").without_bodies().start().await;
    let mut publisher = connect(&vhost.url()).await;
    let notes: Vec<_> = ["bound", "nobody"].into_iter().cycle().take(10_000).map(note).collect();

    let verdicts = publish(&mut publisher, &notes, WINDOW).await;

    let wrong = |note: &&Note| {
        let expected = if note.topic == "bound" { Verdict::Confirmed } else { returned() };
        verdicts[&note.id] != expected
    };
    assert_eq!(notes.iter().filter(wrong).count(), 0);
    consumer.wait_for(5_000).await;
    assert_eq!(consumer.ids(), ids(notes.iter().step_by(2)), "each once, in the order of publishing");
}

#[tokio::test]
async fn only_the_events_for_a_missing_exchange_are_refused() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").without_bodies().start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut notes = notes("a", 1_000);
    let bad = [0, 17, 18, 400, 999];
    for place in bad {
        notes[place].exchange = Some("missing");
    }

    let verdicts = publish(&mut publisher, &notes, WINDOW).await;

    for (place, note) in notes.iter().enumerate() {
        match &verdicts[&note.id] {
            Verdict::Refused { code: 404, text } if bad.contains(&place) => {
                assert!(text.contains("'missing'"), "{text}")
            }
            Verdict::Confirmed if !bad.contains(&place) => {}
            other => panic!("note {place}: {other:?}"),
        }
    }
    let good: Vec<_> = ids(&notes).into_iter().filter(|id| verdicts[id] == Verdict::Confirmed).collect();
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
    notes[3].body = vec![b'x'; 100_000_000].into();

    let verdicts = publish(&mut publisher, &notes, WINDOW).await;

    assert!(matches!(&verdicts[&notes[0].id], Verdict::Refused { code: 404, .. }), "{verdicts:?}");
    assert!(notes[1..].iter().all(|note| verdicts[&note.id] == Verdict::Confirmed), "{verdicts:?}");
    consumer.wait_for_ids(&ids(&notes[1..]), SOON).await;
}

#[tokio::test]
async fn after_one_refusal_events_like_it_cost_the_others_no_second_delivery() {
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

    let mut verdicts = publish(&mut publisher, &notes[..2], 1).await;
    verdicts.extend(publish(&mut publisher, &notes[2..], WINDOW).await);

    let wrong = |(place, note): &(usize, &Note)| (verdicts[&note.id] != Verdict::Confirmed) != is_bad(*place);
    assert_eq!(notes.iter().enumerate().filter(wrong).count(), 0);
    let good: Vec<_> = ids(&notes).into_iter().filter(|id| verdicts[id] == Verdict::Confirmed).collect();
    consumer.wait_for_ids(&good, SOON).await;
    assert_eq!(consumer.ids(), good, "each once, in the order of publishing");

    // Afterwards the exchange is there.
    vhost.exchange("missing").await;
    let later = [notes[0].clone(), note("a")];
    let verdicts = publish(&mut publisher, &later, WINDOW).await;
    assert_eq!([&verdicts[&later[0].id], &verdicts[&later[1].id]], [&returned(), &Verdict::Confirmed]);
}

#[tokio::test]
async fn only_the_message_that_is_too_large_is_refused() {
    let vhost = small_node().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut notes = notes("a", 100);
    notes[30].body = vec![b'x'; MAX_MESSAGE_BYTES + 1].into();
    notes[31].body = vec![b'x'; MAX_MESSAGE_BYTES].into();

    let verdicts = publish(&mut publisher, &notes, WINDOW).await;

    let refused: Vec<_> = ids(&notes).into_iter().filter(|id| verdicts[id] != Verdict::Confirmed).collect();
    assert_eq!(refused, [notes[30].id]);
    assert!(
        matches!(&verdicts[&refused[0]], Verdict::Refused { code: 406, text } if text.contains("larger than")),
        "{verdicts:?}"
    );
    let good: Vec<_> = ids(&notes).into_iter().filter(|id| !refused.contains(id)).collect();
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

    let verdicts: Vec<_> = {
        let verdicts = publish(&mut publisher, &notes, 1).await;
        notes.iter().map(|note| verdicts[&note.id].clone()).collect()
    };

    use Verdict::{Confirmed, Nacked};
    assert_eq!(verdicts, [Confirmed, Confirmed, Nacked, Nacked, Nacked]);
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
    let verdicts = publish(&mut publisher, &notes, WINDOW).await;
    assert!(matches!(verdicts[&notes[1].id], Verdict::Refused { code: 403, .. }), "{verdicts:?}");
    assert_eq!(verdicts[&notes[2].id], Verdict::Confirmed);

    let error = Publisher::connect(config(&vhost.url_as("no-exchange", "secret"))).await.unwrap_err();
    assert!(matches!(error.refusal(), Some(PublishError::MayNotPublish { .. })), "{error:?}");
}
