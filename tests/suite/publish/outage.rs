//! The broker is away, and that is no message's fault.

use std::{sync::Arc, time::Duration};

use amqp_publisher::{AmqpError, ConfirmKind, News, PublishConfig};
use harness::{RabbitMq, SOON, Vhost, eventually};
use tokio::time::timeout;

use super::{Publisher, WINDOW, config, connect, ids, lost, notes, publish, small_node};

#[tokio::test]
async fn while_the_broker_is_out_of_memory_events_wait_and_then_leave() {
    let node = small_node().await;
    let vhost = node.vhost().await;
    let consumer = vhost.consumer("outbox", "#").start().await;
    let config = PublishConfig { confirm_timeout: Duration::from_secs(2), ..config(&vhost.url()) };
    let mut publisher = Publisher::connect(config).await.unwrap();
    let notes = notes("a", 100);

    node.ctl(&["set_vm_memory_high_watermark", "0"]).await;
    publisher.publish(notes.iter().cloned().map(Arc::new).collect());
    match timeout(SOON, publisher.next()).await.unwrap() {
        News::Blocked { reason } => assert!(reason.contains("memory"), "{reason}"),
        other => panic!("{other:?}"),
    }
    // Longer than the confirm timeout, which must not count now.
    assert!(timeout(Duration::from_secs(3), publisher.next()).await.is_err());

    node.ctl(&["set_vm_memory_high_watermark", "0.6"]).await;
    let (mut unblocked, mut confirmed) = (false, 0);
    while !unblocked || confirmed < notes.len() {
        match timeout(SOON, publisher.next()).await.unwrap() {
            News::Unblocked => unblocked = true,
            News::Confirms(confirms) => {
                assert!(confirms.iter().all(|confirm| confirm.kind == ConfirmKind::Acked), "{confirms:?}");
                confirmed += confirms.len();
            }
            other => panic!("{other:?}"),
        }
    }
    consumer.wait_for(100).await;
    assert_eq!(consumer.ids(), ids(&notes), "each once");
}

#[tokio::test]
async fn a_broker_that_freezes_or_dies_is_lost_and_nobody_is_blamed() {
    let node = RabbitMq::private().start().await;
    let vhost = node.vhost().await;
    let _consumer = vhost.consumer("outbox", "#").without_bodies().start().await;
    let connect_with = async |parameters: &str, confirm_timeout| {
        let url = format!("{}?{parameters}", vhost.url());
        let config = PublishConfig { confirm_timeout, ..config(&url) };
        Publisher::connect(config).await.unwrap()
    };
    let mut with_heartbeat = connect_with("heartbeat=1", SOON).await;
    let mut without = connect_with("heartbeat=0", Duration::from_millis(300)).await;
    let mut big = notes("a", WINDOW);
    for note in &mut big {
        note.body = vec![b'x'; 100_000].into(); // more than the sockets' buffers hold
    }
    let batch = || big.iter().cloned().map(Arc::new).collect::<Vec<_>>();

    node.pause();
    with_heartbeat.publish(batch());
    without.publish(batch());
    let (silent, unconfirmed) = tokio::join!(lost(&mut with_heartbeat), lost(&mut without));
    assert!(matches!(silent, AmqpError::HeartbeatMissed(_)), "{silent:?}");
    assert!(matches!(unconfirmed, AmqpError::ConfirmTimeout { .. }), "{unconfirmed:?}");
    node.resume();

    let mut publisher = connect_with("heartbeat=10", SOON).await;
    publisher.publish(batch());
    node.kill().await;
    let error = lost(&mut publisher).await;
    assert!(matches!(error, AmqpError::Disconnected(_)), "{error:?}");
    assert!(!error.is_refusal());
    let error = Publisher::connect(config(&vhost.url())).await.unwrap_err();
    assert!(matches!(error.failures[0].cause, AmqpError::Connect(_)) && error.is_transient(), "{error:?}");

    node.start().await;
    let mut publisher = connect_with("heartbeat=10", SOON).await;
    node.stop().await;
    let error = lost(&mut publisher).await;
    assert!(matches!(error, AmqpError::ConnectionClosed { code: 320, .. }), "{error:?}");
}

#[tokio::test]
async fn an_idle_connection_lives_on_by_heartbeats() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let _consumer = vhost.consumer("outbox", "#").start().await;
    let mut publisher = connect(&format!("{}?heartbeat=1", vhost.url())).await;
    // RabbitMQ gives up after two intervals, and so does the publisher.
    assert!(timeout(Duration::from_secs(4), publisher.next()).await.is_err());
    let confirms = publish(&mut publisher, &notes("a", 1), 1).await;
    assert!(confirms.values().all(|kind| *kind == ConfirmKind::Acked));
}

#[tokio::test]
async fn when_the_relays_own_exchange_is_deleted_no_event_is_to_blame() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let mut publisher = connect(&vhost.url()).await;
    vhost.api("DELETE", &format!("/api/exchanges/{}/outbox", vhost.name()), None).await;
    publisher.publish(notes("a", 10).into_iter().map(Arc::new).collect());
    let error = lost(&mut publisher).await;
    assert!(matches!(error, AmqpError::ExchangeMissing { .. }), "{error:?}");
}

#[tokio::test]
async fn a_publisher_that_is_closed_or_dropped_leaves_no_connection_behind() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let (closed, dropped) = (connect(&vhost.url()).await, connect(&vhost.url()).await);
    there_are(2, &vhost).await;
    closed.close().await;
    drop(dropped);
    there_are(0, &vhost).await;
}

async fn there_are(expected: usize, vhost: &Vhost) {
    let listed = async || match vhost.connections().await.len() {
        count if count == expected => Ok(()),
        count => Err(count),
    };
    eventually(&format!("the broker lists {expected} connections"), SOON, listed).await;
}

#[tokio::test]
async fn handing_over_more_than_the_window_allows_ends_the_connection_instead_of_losing_an_event() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let config = PublishConfig { window: 1, ..config(&vhost.url()) };
    let mut publisher = Publisher::connect(config).await.unwrap();
    // One more than the window has room, for a side channel.
    for note in notes("a", 3) {
        publisher.publish(vec![Arc::new(note)]);
    }
    let error = lost(&mut publisher).await;
    assert!(matches!(error, AmqpError::Protocol(_)), "{error:?}");
}
