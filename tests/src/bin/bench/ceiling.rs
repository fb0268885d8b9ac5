//! What the two servers can do by themselves: RabbitMQ taking messages from a client that costs nothing, PostgreSQL decoding
//! and settling.

use std::time::Duration;

use harness::Vhost;

use crate::{
    bench::Bench,
    cpu,
    emitted::Emitted,
    load::Payload,
    report::Report,
    socket::{Acks, Consumer, Link, Queue, QueueType, Says, publish},
};

mod postgres;

pub(crate) use postgres::quiet;

/// The most messages that are unconfirmed at a time: the fastest of these, over both types of queues (200 B, RabbitMQ 3.10,
/// 2 cores, one run of 100,000 each):
///
/// | window | classic | quorum |
/// |---|---|---|
/// | 500 | 11,100/s | 26,300/s |
/// | 1,000 | 12,700/s | 28,400/s |
/// | 2,000 | 13,100/s | 31,800/s |
/// | 5,000 | 13,200/s | 24,600/s |
/// | 20,000 | 12,900/s | 25,600/s |
const WINDOW: u64 = 2000;

/// Messages that say less than the relay's.
const SAYING_LESS: [(&str, Says); 13] = {
    const ALL: Says = Says::ALL;
    const NO_HEADERS: Says = Says { seq: false, aggregate: false, ..ALL };
    const ID: Says = Says { content_type: false, timestamp: false, kind: false, app_id: false, ..NO_HEADERS };
    [
        ("all", ALL),
        ("x-outbox-seq alone in headers", Says { aggregate: false, ..ALL }),
        ("no headers", NO_HEADERS),
        ("no type", Says { kind: false, ..ALL }),
        ("no timestamp", Says { timestamp: false, ..ALL }),
        ("no app_id", Says { app_id: false, ..ALL }),
        ("no content_type", Says { content_type: false, ..ALL }),
        ("not mandatory", Says { mandatory: false, ..ALL }),
        ("id and content_type", Says { content_type: true, ..ID }),
        ("id, content_type and timestamp", Says { content_type: true, timestamp: true, ..ID }),
        ("id, content_type and type", Says { content_type: true, kind: true, ..ID }),
        ("id and x-outbox-seq", Says { seq: true, ..ID }),
        ("id alone", ID),
    ]
};

/// The most messages that a consumer has not acknowledged, where there is one.
const CONSUMED_AHEAD: u16 = 2000;

/// How fast the broker takes messages, and what it costs, per message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceiling {
    /// Confirmed messages per second.
    pub(crate) rate: f64,
    broker_cpu_us: f64,
    client_cpu_us: f64,
}

impl Ceiling {
    fn add_to(self, report: &mut Report, case: &str) {
        report.add("ceiling", case, "rate", "/s", self.rate);
        report.add("ceiling", case, "broker CPU", "µs", self.broker_cpu_us);
        report.add("ceiling", case, "client CPU", "µs", self.client_cpu_us);
    }
}

/// Everything of this section.
pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let vhost = bench.rabbitmq.vhost().await;
    for run in 0..=bench.runs {
        for kind in [QueueType::Classic, QueueType::Quorum] {
            for payload in Payload::ALL {
                let case = format!("{kind}, {payload}");
                if !bench.wants(&case) {
                    continue;
                }
                let ceiling = Broker::of(kind, payload).takes(bench, &vhost, bench.amount(messages(payload))).await;
                if run > 0 {
                    ceiling.add_to(report, &case);
                }
            }
            if !bench.wants("consumed") {
                continue;
            }
            let consumer = Some(Acks::Prefetch(CONSUMED_AHEAD));
            let broker = Broker { consumer, ..Broker::of(kind, Payload::B200) };
            let consumed = broker.takes(bench, &vhost, bench.amount(messages(Payload::B200))).await;
            if run > 0 {
                consumed.add_to(report, &format!("{kind}, 200 B, consumed"));
            }
        }
    }
    for _ in 0..bench.runs {
        for (what, says) in SAYING_LESS {
            for kind in [QueueType::Classic, QueueType::Quorum] {
                let case = format!("{kind}, 200 B, {what}");
                if bench.wants(&case) {
                    let broker = Broker { says, ..Broker::of(kind, Payload::B200) };
                    print!("  {what}:");
                    broker.takes(bench, &vhost, bench.amount(60_000)).await.add_to(report, &case);
                }
            }
        }
        if bench.wants("decode") {
            postgres::decode(bench, report).await;
        }
        if bench.wants("settle") {
            postgres::settle(bench, report).await;
        }
    }
}

/// How many take 2 to 4 s.
pub(crate) fn messages(payload: Payload) -> u64 {
    match payload {
        Payload::B200 | Payload::Kb1 => 40_000,
        Payload::Kb10 => 15_000,
    }
}

/// The broker alone: messages to a durable queue.
///
/// Without a consumer they stay in the queue. A classic queue that passes them straight on to a consumer that need not acknowledge takes three
/// times as many a second, but then it never writes them down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broker {
    kind: QueueType,
    payload: Payload,
    says: Says,
    consumer: Option<Acks>,
    /// The most messages that are unconfirmed at a time.
    window: u64,
}

impl Broker {
    /// With the window that it is fastest with, and without a consumer.
    pub(crate) fn of(kind: QueueType, payload: Payload) -> Self {
        Self { kind, payload, says: Says::ALL, consumer: None, window: WINDOW }
    }

    /// As it is for one who waits for each confirm before the next message of a key, as `ordering = strict` has it.
    pub(crate) fn one_in_flight_a_key(self, keys: u64) -> Self {
        Self { window: self.window.min(keys), ..self }
    }

    /// Publishes, and waits for the last confirm.
    pub(crate) async fn takes(self, bench: &Bench, vhost: &Vhost, messages: u64) -> Ceiling {
        self.takes_as_emitted(bench, vhost, Emitted::all(messages)).await
    }

    /// Publishes a message for each event that is emitted, as a relay would that costs nothing and takes no time.
    pub(crate) async fn takes_as_emitted(self, bench: &Bench, vhost: &Vhost, emitted: Emitted) -> Ceiling {
        let Self { kind, payload, says, consumer, window } = self;
        let queue = Queue { name: "ceiling".to_owned(), exchange: "ceiling".to_owned(), ..Queue::of_relay(kind) };
        let (url, broker) = (vhost.url(), bench.rabbitmq.pid());
        let (published, broker_cpu) = on_own_thread(move || {
            let mut link = Link::open(&url);
            link.declare(&queue);
            let _consumer = consumer.map(|acks| Consumer::start(&url, &queue, acks, |_| ()));
            let before = cpu::used_by(broker);
            let published = publish(&mut link, &queue.exchange, payload.bytes(), says, &emitted, window);
            let broker_cpu = cpu::used_by(broker).saturating_sub(before);
            link.delete(&queue);
            (published, broker_cpu)
        })
        .await;
        let ceiling = Ceiling {
            rate: rate(published.messages, published.took),
            broker_cpu_us: cpu::us_per_event(broker_cpu, published.messages),
            client_cpu_us: cpu::us_per_event(published.cpu, published.messages),
        };
        let consumed = if consumer.is_some() { ", consumed" } else { "" };
        let in_flight = if window == WINDOW { String::new() } else { format!(", {window} in flight") };
        println!(
            "  broker alone, {kind}, {payload}{consumed}{in_flight}: {:.0}/s, broker {:.1} µs, client {:.2} µs",
            ceiling.rate, ceiling.broker_cpu_us, ceiling.client_cpu_us
        );
        ceiling
    }
}

/// Runs what blocks.
pub(crate) async fn on_own_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// Events per second.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn rate(events: u64, took: Duration) -> f64 {
    events as f64 / took.as_secs_f64()
}
