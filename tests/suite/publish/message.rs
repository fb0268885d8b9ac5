//! What a message looks like.

use amqp_publisher::ConfirmKind;
use harness::RabbitMq;

use super::{WINDOW, connect, notes, publish};

#[tokio::test]
async fn a_large_body_arrives_whole_among_small_ones() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut notes = notes("a", 9);
    for (number, note) in notes.iter_mut().enumerate().filter(|(number, _)| number % 2 == 1) {
        note.body = (0..number * 1_000_000).map(|byte| byte as u8).collect::<Vec<_>>().into();
    }

    let confirms = publish(&mut publisher, &notes, WINDOW).await;

    assert!(confirms.values().all(|kind| *kind == ConfirmKind::Acked));
    for (delivery, note) in consumer.wait_for(9).await.iter().zip(&notes) {
        assert_eq!(delivery.id, note.id);
        assert!(delivery.body == note.body, "{} bytes differ", note.body.len());
    }
}

#[tokio::test]
async fn what_is_no_amqp_message_is_refused_without_a_word_to_the_broker() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = connect(&vhost.url()).await;
    let mut notes = notes("a", 4);
    notes[0].kind = Some("x".repeat(256));
    notes[2].headers = Some(format!(r#"{{"a":"{}"}}"#, "x".repeat(200_000)));

    let confirms = publish(&mut publisher, &notes, WINDOW).await;

    let kind = |place: usize| &confirms[&notes[place].id];
    assert!(matches!(kind(0), ConfirmKind::Closed { code: 502, .. }), "{:?}", kind(0));
    assert!(matches!(kind(2), ConfirmKind::Closed { code: 311, .. }), "{:?}", kind(2));
    assert_eq!((kind(1), kind(3)), (&ConfirmKind::Acked, &ConfirmKind::Acked));
    consumer.wait_for(2).await;
    assert_eq!(consumer.ids(), [notes[1].id, notes[3].id]);
}
