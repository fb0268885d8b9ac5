//! How long the dashboard's pages, `/metrics` and the functions behind them take on a table of ten million events, while the
//! broker is away.

use std::time::Instant;

use harness::{Database, eventually, free_port, get};

use crate::{bench::Bench, report::Report};

const SECTION: &str = "pages";
/// Events that were sent.
const SENT: u64 = 8_900_000;
/// Events that have failed; every hundredth holds its key.
const FAILED: u64 = 1_000_000;
/// Events that wait.
const PENDING: u64 = 100_000;
/// How often each page is asked for.
const TIMES: u32 = 10;

/// Where the pages look, by what a person would call it.
const PAGES: [(&str, &str); 13] = [
    ("events, the newest", "/api/events"),
    ("events that wait", "/api/events?status=pending"),
    ("events that failed", "/api/events?status=failed"),
    ("events of a topic that none has", "/api/events?topic=none"),
    ("failed events of a topic that none has", "/api/events?status=failed&topic=none"),
    ("events of a correlation id that none has", "/api/events?correlation_id=none"),
    ("events of a time without any", "/api/events?from=2020-01-01T00:00:00.000Z&to=2020-01-02T00:00:00.000Z"),
    ("failures", "/api/failures"),
    ("keys", "/api/keys"),
    ("relays", "/api/relays"),
    ("audit", "/api/audit"),
    ("charts", "/api/history"),
    ("/metrics", "/metrics"),
];

const FUNCTIONS: [&str; 2] = ["SELECT FROM outbox.health()", "SELECT FROM outbox.failures()"];

/// Everything of this section.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    let stack = bench.stack().await;
    fill(bench, &stack.db).await;
    let port = free_port();
    let nobody = format!("amqp://guest:guest@127.0.0.1:{}/", free_port());
    let _relay = stack
        .relay()
        .set("amqp-url", &nobody)
        .set("http-listen", &format!("127.0.0.1:{port}"))
        .set("dashboard-database-url", &stack.monitor_url().await)
        .spawn();
    eventually("the dashboard answers", harness::SOON, async || match get(port, "/api/keys").await {
        Ok(answer) if answer.status == 200 => Ok(()),
        other => Err(other.map(|answer| answer.status)),
    })
    .await;
    let one: uuid::Uuid =
        stack.db.query_one("SELECT id FROM outbox.events LIMIT 1", &[]).await.expect("an event").get(0);
    let one = ("one event", format!("/api/events/{one}"));
    for (name, path) in PAGES.map(|(name, path)| (name, path.to_owned())).into_iter().chain([one]) {
        measure_answers(report, name, async || {
            let answer = get(port, &path).await.expect("an answer");
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
        })
        .await;
    }
    for function in FUNCTIONS {
        measure_answers(report, function.trim_start_matches("SELECT FROM "), async || {
            stack.db.batch_execute(function).await.expect("a row");
        })
        .await;
    }
}

async fn measure_answers(report: &mut Report, case: &str, ask: impl AsyncFn()) {
    let mut slowest: f64 = 0.0;
    for _ in 0..TIMES {
        let asked = Instant::now();
        ask().await;
        let took = asked.elapsed().as_secs_f64() * 1e3;
        report.add(SECTION, case, "answer", "ms", took);
        slowest = slowest.max(took);
    }
    report.add(SECTION, case, "slowest", "ms", slowest);
}

/// Only the table's owner may insert what is finished, as when a dump is restored.
async fn fill(bench: &Bench, db: &Database) {
    let [sent, failed, pending] = [SENT, FAILED, PENDING].map(|events| bench.amount(events));
    println!("  filling the table with {} events", sent + failed + pending);
    let insert = |status: &str, events: u64, columns: &str, values: &str| {
        format!(
            "INSERT INTO outbox.events (status, topic, event_type, aggregate_type, aggregate_id, payload, content_type{columns})
             SELECT '{status}', 'order.moved', 'OrderMoved', 'order', (i % 100000)::text,
                    jsonb_build_object('n', i, 'text', repeat(md5(i::text), 6)), 'application/json'{values}
             FROM generate_series(1, {events}) AS i;"
        )
    };
    let answered = ", attempts, last_attempted_at, processed_at";
    let sent = insert("SENT", sent, answered, ", 1, now(), now()");
    let columns = format!("{answered}, last_error, holds_key");
    let refused = ", 1, now(), now(), (ARRAY['312 NO_ROUTE', '403 ACCESS_REFUSED', 'nack'])[1 + i % 3], i % 100 = 0";
    let failed = insert("FAILED", failed, &columns, refused);
    let pending = insert("PENDING", pending, "", "");
    for statement in [
        "ALTER TABLE outbox.events DISABLE TRIGGER USER",
        &sent,
        &failed,
        &pending,
        "ALTER TABLE outbox.events ENABLE TRIGGER USER",
        "VACUUM ANALYZE outbox.events",
    ] {
        db.batch_execute(statement).await.expect("events");
    }
}
