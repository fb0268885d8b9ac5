//! The largest events that may be emitted, and the memory that the relay takes for them: docs/delivery.md, promise 8,
//! has the numbers.

use harness::{Consumer, Postgres, RabbitMq, Relay, Stack, places::checkout};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::{LONG, count, ledger, wait_until_none_is_pending};

const MIB: u64 = 1 << 20;

/// What a relay takes with the default `max_bytes` (32 MiB), where payloads may have up to so many bytes.
const fn most_memory(largest_payload: u64) -> u64 {
    (160 + 32) * MIB + 4 * largest_payload
}

/// With the default limit: what packaging/helm and docs/run/sizing.md say.
const DEFAULT: u64 = most_memory(16 * MIB);
const _: () = assert!(DEFAULT == 256 * MIB, "the chart's limit, without Kafka");

async fn stack(rabbitmq: &RabbitMq) -> Stack {
    Stack::on(Postgres::shared().await, rabbitmq).await
}

async fn rabbitmq() -> RabbitMq {
    // From RabbitMQ 4.0 on, 16 MiB is the default.
    RabbitMq::private().set("max_message_size", "134217728").start().await
}

/// Starts the relay, which cannot get more memory than that.
async fn start(stack: &Stack, most: u64) -> Relay {
    let relay = stack.relay().spawn();
    let pid = Pid::from_raw(i32::try_from(relay.pid()).unwrap());
    prlimit(pid, Resource::Data, Rlimit { current: Some(most), maximum: Some(most) }).unwrap();
    relay.wait_for_log("streaming").await;
    relay
}

fn assert_took_at_most(relay: &Relay, most: u64) {
    let peak = relay.usage().peak_rss_bytes;
    println!("peak of {} MiB, of {} MiB", peak / MIB, most / MIB);
    assert!(peak < most, "{peak} bytes");
}

/// Each kind of payload: one that compresses to nothing, one that does not, JSON as large, and JSON that prints as
/// large from a few hundred bytes.
fn payloads(bytes: u64) -> [String; 4] {
    let random =
        format!("(SELECT decode(string_agg(md5(i::text), ''), 'hex') FROM generate_series(1, {}) AS i)", bytes / 16);
    let numbers = bytes / 131_074;
    [
        format!("convert_to(repeat('x', {bytes}), 'UTF8')"),
        random,
        format!("to_jsonb(repeat('x', {}))", bytes - 2),
        format!("('[' || repeat('1e131071,', {}) || '0]')::jsonb", numbers - 1),
    ]
}

async fn emit_each(stack: &Stack, bytes: u64, times: usize) {
    for _ in 0..times {
        for payload in payloads(bytes) {
            stack.db.batch_execute(&format!("SELECT outbox.emit('largest', {payload})")).await.unwrap();
        }
    }
}

async fn all_arrive(stack: &Stack, consumer: &Consumer, events: i64) {
    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT'").await, events);
    ledger::wait_for_all(&stack.db, || consumer.ids()).await;
}

/// As a backlog, over the stream, and after a kill in the midst of each.
#[tokio::test]
async fn the_largest_events_that_anybody_may_emit_fit_into_the_memory_of_the_manifest() {
    let rabbitmq = rabbitmq().await;
    let stack = stack(&rabbitmq).await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    stack.db.batch_execute("SET outbox.max_payload_bytes = '128MB'").await.unwrap();
    emit_each(&stack, 16 * MIB, 4).await;
    let relay = start(&stack, DEFAULT).await;
    consumer.wait_for_within(2, LONG).await;
    assert_took_at_most(&relay, DEFAULT);
    relay.kill().await;
    let relay = start(&stack, DEFAULT).await;
    all_arrive(&stack, &consumer, 16).await;
    assert_took_at_most(&relay, DEFAULT);

    emit_each(&stack, 16 * MIB, 4).await;
    relay.kill().await;
    let relay = start(&stack, DEFAULT).await;
    emit_each(&stack, 16 * MIB, 4).await;
    all_arrive(&stack, &consumer, 48).await;
    assert_took_at_most(&relay, DEFAULT);
}

/// Where the owner has raised the limit as far as it goes.
#[tokio::test]
async fn the_largest_events_that_an_owner_can_permit_take_four_times_their_size() {
    const MOST: u64 = most_memory(128 * MIB);
    let rabbitmq = rabbitmq().await;
    let stack = stack(&rabbitmq).await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    stack.db.batch_execute("SELECT outbox.limit_payloads('128MB'); SELECT outbox.uuid_v7()").await.unwrap();
    let emitter = stack.db.connect().await;
    emitter.batch_execute("SET outbox.max_payload_bytes = '128MB'").await.unwrap();
    let emit = async |bytes: u64| {
        for payload in payloads(bytes) {
            emitter.batch_execute(&format!("SELECT outbox.emit('largest', {payload})")).await.unwrap();
        }
    };
    emit(100_000_000).await;
    let relay = start(&stack, MOST).await;
    emit(128 * MIB).await;
    all_arrive(&stack, &consumer, 8).await;
    assert_took_at_most(&relay, MOST);
}

#[test]
fn the_chart_the_sizing_and_the_promise_say_one_number() {
    for (file, words) in [
        ("packaging/helm/values.yaml", "# Memory: 256 MiB for the default max_bytes and payloads of at most 16 MiB"),
        ("packaging/helm/values.yaml", "limits: { memory: 466Mi }"), // with what Kafka adds
        ("docs/run/sizing.md", "Give it 256 MiB"),
        ("docs/run/sizing.md", "up to 210 MiB"),
        ("docs/delivery.md", "With the defaults (32 MiB and 16 MiB) that is 256 MiB"),
    ] {
        let text = std::fs::read_to_string(checkout().join(file)).unwrap();
        assert!(text.contains(words), "{file}: {words}");
    }
}
