//! The relay's own AMQP publisher beside lapin, the client that Rust programs use: the same messages to the same queue.
//!
//! Two questions: what does a message cost the client, and does each verdict belong to its message? For the second,
//! every other message has a routing key that no queue is bound for. The broker returns it and then confirms it, as it
//! confirms the others, so "confirmed" means "delivered" only to a client that knows which return belongs to which
//! confirm.
//!
//! Both run as the relay does, on a thread with a runtime of its own, and keep as many messages unconfirmed as the
//! relay does by default. Making each message from its number is part of what is measured.

mod kafka;
mod lapin;
mod ours;

use std::time::{Duration, Instant};

use harness::Vhost;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

use super::ceiling::Broker;
use crate::{
    bench::{Bench, rate},
    broker::{Queue, QueueType, on_own_thread},
    cpu,
    load::Payload,
    report::Report,
};

/// Messages of a run: some 3 s.
const MESSAGES: u64 = 40_000;
/// The most that are unconfirmed at a time; the default of the relay's setting `in_flight`.
const IN_FLIGHT: u64 = 1000;
/// Handed to the client together.
const BATCH: u64 = 250;

const EXCHANGE: &str = "publisher";
/// The queue is bound for this.
const ROUTED: &str = "order.moved";
/// No queue is bound for this.
const UNROUTABLE: &str = "nowhere";
const _: () = assert!(MESSAGES.is_multiple_of(2 * BATCH) && IN_FLIGHT.is_multiple_of(BATCH));

/// Who publishes.
#[derive(Clone, Copy, Debug)]
enum Client {
    Lapin,
    Ours,
}

/// What is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Routing {
    /// Every message has a queue.
    All,
    /// Every other message has none.
    EveryOther,
}

impl Routing {
    /// The routing key of a message.
    fn key(self, number: u64) -> &'static str {
        if self.is_routed(number) { ROUTED } else { UNROUTABLE }
    }

    fn is_routed(self, number: u64) -> bool {
        self == Self::All || number.is_multiple_of(2)
    }
}

/// What a client says of the messages of a run.
#[derive(Debug, Default)]
struct Verdicts {
    /// Messages that it says were returned.
    returned: u64,
    /// Confirms that carried the return of another message.
    of_another: u64,
    /// Messages without a queue that it says were confirmed, and not returned.
    looked_delivered: u64,
}

impl Verdicts {
    fn delivered(&mut self, is_routed: bool) {
        self.looked_delivered += u64::from(!is_routed);
    }

    fn returned(&mut self, is_of_another: bool) {
        self.returned += 1;
        self.of_another += u64::from(is_of_another);
    }
}

/// All cases, of RabbitMQ and of Kafka.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    if bench.wants("kafka") {
        kafka::measure(bench, report).await;
    }
    if bench.wants("rabbitmq") {
        rabbitmq(bench, report).await;
    }
}

/// The two clients of RabbitMQ in turn.
async fn rabbitmq(bench: &Bench, report: &mut Report) {
    let vhost = bench.rabbitmq.vhost().await;
    let messages = bench.amount(MESSAGES).next_multiple_of(2 * BATCH);
    let mut clients = [Client::Lapin, Client::Ours];
    for run in 0..=bench.runs {
        for queue in QueueType::ALL {
            let alone = Broker::of(queue, Payload::B200).takes(bench, &vhost, messages).await.rate;
            for routing in [Routing::All, Routing::EveryOther] {
                for client in clients {
                    let done = client.publishes(&vhost, queue, routing, messages).await;
                    if run > 0 {
                        done.add_to(report, alone);
                    }
                }
            }
        }
        clients.reverse(); // neither always comes first, while the broker still deletes what came before
    }
}

/// A run.
struct Done {
    case: String,
    routing: Routing,
    messages: u64,
    took: Duration,
    cpu: Duration,
    verdicts: Verdicts,
}

impl Client {
    /// Publishes to a fresh queue, and waits for the last verdict.
    async fn publishes(self, vhost: &Vhost, kind: QueueType, routing: Routing, messages: u64) -> Done {
        let queue = Queue { name: EXCHANGE, kind, exchange: EXCHANGE, binding: ROUTED };
        queue.declare(vhost).await;
        let url = vhost.url();
        let (took, cpu, verdicts) = on_own_thread(move || {
            let runtime = runtime();
            let (start, before) = (Instant::now(), cpu_of_this_process());
            let verdicts = runtime.block_on(async {
                match self {
                    Self::Lapin => lapin::publish(&url, routing, messages).await,
                    Self::Ours => ours::publish(&url, routing, messages).await,
                }
            });
            (start.elapsed(), cpu_of_this_process().saturating_sub(before), verdicts)
        })
        .await;
        queue.delete(vhost).await;
        let client = if matches!(self, Self::Lapin) { "lapin" } else { "outbox" };
        let what = if routing == Routing::All { "all routed" } else { "every other unroutable" };
        Done { case: format!("{kind}, {what}, {client}"), routing, messages, took, cpu, verdicts }
    }
}

impl Done {
    /// `alone`: messages a second that the broker takes from a client that costs nothing.
    fn add_to(&self, report: &mut Report, alone: f64) {
        let Verdicts { returned, of_another, looked_delivered } = self.verdicts;
        let rate = rate(self.messages, self.took);
        let mut measured = vec![("rate", "/s", rate), ("client CPU", "µs", cpu::us_per_event(self.cpu, self.messages))];
        if self.routing == Routing::All {
            assert_eq!(returned, 0, "{}: every message has a queue", self.case);
            measured.push(("of the broker alone", "×", rate / alone));
        } else {
            let unroutable = self.messages / 2;
            for (measure, count) in
                [("returns with another's confirm", of_another), ("unroutable, looked delivered", looked_delivered)]
            {
                measured.push((measure, "of 10,000", of_10_000(count, unroutable)));
            }
        }
        print!("  {}:", self.case);
        for (measure, unit, value) in measured {
            report.add("publisher", &self.case, measure, unit, value);
            print!(" {measure} {value:.2} {unit};");
        }
        println!();
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn of_10_000(count: u64, of: u64) -> f64 {
    count as f64 * 10_000.0 / of as f64
}

/// As the relay's.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// All threads of the benchmark, also those that have ended: lapin has threads of its own. The others are idle
/// meanwhile.
fn cpu_of_this_process() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}
