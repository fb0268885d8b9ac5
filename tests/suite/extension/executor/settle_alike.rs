//! The extension writes the verdict `SENT` without a statement, the plain SQL with one: nothing else may differ.

use harness::{Database, seed};

use crate::extension::{run, text, with_plain_sql, with_the_extension};

const ROUNDS: usize = 30;
const EVENTS: usize = 40;

#[tokio::test]
async fn random_verdicts_on_events_in_any_state_leave_the_same_rows_and_return_the_same() {
    let mut rng = seed::rng("settle_alike");
    let (extension, plain) = (with_the_extension().await, with_plain_sql().await);
    let others = [extension.connect().await, plain.connect().await];
    for round in 0..ROUNDS {
        let (events, lock, settle) = (events(&mut rng), lock(&mut rng), settle(&mut rng));
        let mut outcomes = Vec::new();
        for (db, other) in [&extension, &plain].into_iter().zip(&others) {
            run(db, &events).await;
            run(other, &lock).await;
            let returned = text(db, &settle).await;
            run(other, "COMMIT").await;
            outcomes.push((returned, rows(db).await));
        }
        assert_eq!(outcomes[0], outcomes[1], "round {round}: {settle}; locked: {lock}; of {events}");
    }
}

fn id(number: usize) -> String {
    format!("0190163d-8694-739b-aea5-{number:012}")
}

/// Fresh rows, some of them with a past.
fn events(rng: &mut fastrand::Rng) -> String {
    let mut sql = "TRUNCATE outbox.events;".to_owned();
    for number in 0..EVENTS {
        let id = id(number);
        sql += &format!(
            "INSERT INTO outbox.events (id, topic, payload, aggregate_type, aggregate_id) VALUES ('{id}', 't', '{number}', 'a', '{}');",
            rng.usize(0..4)
        );
        let update = "UPDATE outbox.events SET status =";
        sql += &match rng.u8(0..10) {
            0 => format!("{update} 'SENT' WHERE id = '{id}';"),
            1 => format!("{update} 'FAILED', last_error = 'past' WHERE id = '{id}';"),
            2 => format!("SELECT outbox.settle('{{{id}}}', '{{PENDING}}', '{{past}}', '{{5000}}', '{{true}}');"),
            3 => format!("{update} 'SENT' WHERE id = '{id}'; {update} 'PENDING' WHERE id = '{id}';"),
            _ => String::new(),
        };
    }
    sql
}

/// Someone else has up to three rows.
fn lock(rng: &mut fastrand::Rng) -> String {
    let locked: Vec<_> = (0..rng.usize(0..4)).map(|_| format!("'{}'", id(rng.usize(0..EVENTS)))).collect();
    let condition = if locked.is_empty() { "false".to_owned() } else { format!("id IN ({})", locked.join(", ")) };
    let strength = if rng.bool() { "FOR UPDATE" } else { "FOR KEY SHARE" };
    format!("BEGIN; SELECT FROM outbox.events WHERE {condition} {strength}")
}

/// A batch, mostly of `SENT`, of events that may be named twice or not be there.
fn settle(rng: &mut fastrand::Rng) -> String {
    let only_sent = rng.u8(0..3) > 0;
    let count = rng.usize(0..EVENTS);
    let verdicts: Vec<_> = (0..count)
        .map(|_| {
            let status = if only_sent { "SENT" } else { ["SENT", "FAILED", "PENDING"][rng.usize(0..3)] };
            format!(
                "('{}'::uuid, '{status}'::outbox.status, 'now', 1000, {})",
                id(rng.usize(0..EVENTS + 2)),
                rng.bool()
            )
        })
        .chain(["(NULL::uuid, NULL::outbox.status, NULL::text, NULL::integer, NULL::boolean)".to_owned()])
        .collect();
    // Someone else's locks are held until this has returned.
    format!(
        "SELECT string_agg(returned.id || ' ' || coalesce(returned.status::text, '-'), ', ' ORDER BY returned.id)
         FROM (SELECT coalesce(array_agg(id), '{{}}') AS ids, coalesce(array_agg(status), '{{}}') AS statuses,
                   coalesce(array_agg(error), '{{}}') AS errors, array_agg(retry_ms) AS retry_ms, array_agg(holds) AS holds
               FROM (VALUES {}) AS v (id, status, error, retry_ms, holds) WHERE id IS NOT NULL) AS batch,
             LATERAL outbox.settle(ids, statuses, errors, retry_ms, holds, skip_locked => true) AS returned",
        verdicts.join(", ")
    )
}

async fn rows(db: &Database) -> Option<String> {
    let rows = "SELECT string_agg(concat_ws(' ', payload, status, attempts, holds_key, coalesce(last_error, '-'),
            last_attempted_at IS NULL, last_attempted_at = processed_at, processed_at IS NULL, available_at IS NULL), ', ' ORDER BY id)
        FROM outbox.events";
    text(db, rows).await
}
