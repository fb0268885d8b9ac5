//! What the two servers can do by themselves: RabbitMQ taking messages from a client that costs nothing, PostgreSQL
//! decoding and settling.

use harness::Vhost;

use crate::{
    bench::{Bench, rate},
    broker::{Link, Queue, QueueType, on_own_thread, publish},
    cpu,
    emitted::Emitted,
    load::Payload,
    report::Report,
};

mod postgres;

/// The most messages that are unconfirmed at a time: the fastest of these, over both types of queues (200 B, RabbitMQ
/// 3.10, 2 cores, one run of 100,000 each):
///
/// | window | classic | quorum |
/// |---|---|---|
/// | 500 | 11,100/s | 26,300/s |
/// | 1,000 | 12,700/s | 28,400/s |
/// | 2,000 | 13,100/s | 31,800/s |
/// | 5,000 | 13,200/s | 24,600/s |
/// | 20,000 | 12,900/s | 25,600/s |
const WINDOW: u64 = 2000;

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
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    let vhost = bench.rabbitmq.vhost().await;
    // The first run finds files to be made; it does not count.
    for run in 0..=bench.runs {
        let unreported = &mut Report::default();
        let report = if run > 0 { &mut *report } else { unreported };
        for kind in QueueType::ALL {
            for payload in Payload::ALL {
                let case = format!("{kind}, {payload}");
                if bench.wants(&case) {
                    let ceiling = Broker::of(kind, payload).takes(bench, &vhost, bench.amount(messages(payload))).await;
                    ceiling.add_to(report, &case);
                }
            }
            let case = format!("{kind}, 200 B, key_headers = false");
            if bench.wants(&case) {
                let broker = Broker { key_headers: false, ..Broker::of(kind, Payload::B200) };
                broker.takes(bench, &vhost, bench.amount(60_000)).await.add_to(report, &case);
            }
        }
    }
    for _ in 0..bench.runs {
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

/// The broker alone: messages to a durable queue that nobody consumes, so that they stay in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broker {
    kind: QueueType,
    payload: Payload,
    key_headers: bool,
    /// The most messages that are unconfirmed at a time.
    window: u64,
}

impl Broker {
    /// With the window that it is fastest with.
    pub(crate) fn of(kind: QueueType, payload: Payload) -> Self {
        Self { kind, payload, key_headers: true, window: WINDOW }
    }

    /// As for a client that waits for each confirm before it sends the key's next message, as `ordering = strict` does.
    pub(crate) fn one_in_flight_a_key(self, keys: u64) -> Self {
        Self { window: self.window.min(keys), ..self }
    }

    /// Publishes, and waits for the last confirm.
    pub(crate) async fn takes(self, bench: &Bench, vhost: &Vhost, messages: u64) -> Ceiling {
        self.takes_as_emitted(bench, vhost, Emitted::all(messages)).await
    }

    /// Publishes a message for each event that is emitted, as a relay would that costs nothing and takes no time.
    pub(crate) async fn takes_as_emitted(self, bench: &Bench, vhost: &Vhost, emitted: Emitted) -> Ceiling {
        let Self { kind, payload, key_headers, window } = self;
        let queue = Queue { name: "ceiling", exchange: "ceiling", ..Queue::of_relay(kind) };
        queue.declare(vhost).await;
        let (mut link, broker) = (Link::open(vhost, queue.exchange).await, bench.rabbitmq.pid());
        let (published, broker_cpu) = on_own_thread(move || {
            let before = cpu::used_by(broker);
            let published = publish(&mut link, queue.exchange, payload.bytes(), key_headers, &emitted, window);
            (published, cpu::used_by(broker).saturating_sub(before))
        })
        .await;
        queue.delete(vhost).await;
        let ceiling = Ceiling {
            rate: rate(published.messages, published.took),
            broker_cpu_us: cpu::us_per_event(broker_cpu, published.messages),
            client_cpu_us: cpu::us_per_event(published.cpu, published.messages),
        };
        let headers = if key_headers { "" } else { ", key_headers = false" };
        let in_flight = if window == WINDOW { String::new() } else { format!(", {window} in flight") };
        println!(
            "  broker alone, {kind}, {payload}{headers}{in_flight}: {:.0}/s, broker {:.1} µs, client {:.2} µs",
            ceiling.rate, ceiling.broker_cpu_us, ceiling.client_cpu_us
        );
        ceiling
    }
}
