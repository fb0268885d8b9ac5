//! Past the executor or by a statement: the same rows, the same in the log that is decoded, and the same errors.

use harness::{Database, seed};

use super::with_direct_writes;
use crate::extension::{error_fields::fields, refusal, run, settle::SETTLE_ALL, text, value, without_direct_writes};

const ROUNDS: usize = 25;

/// Row by row: a statement for all would take them as they lie in the table, and where a new version finds room depends
/// on when a page was last pruned, which is each path's own affair.
const REPLAY_SOME: &str = "DO $$ DECLARE one bigint; BEGIN
    FOR one IN SELECT seq FROM outbox.events WHERE seq % 2 = 0 AND status <> 'PENDING' ORDER BY seq LOOP
        UPDATE outbox.events SET status = 'PENDING' WHERE seq = one;
    END LOOP;
END $$";

/// One database on each path; `None`: the library has only one.
async fn both() -> Option<[Database; 2]> {
    Some([with_direct_writes().await?, without_direct_writes().await])
}

#[tokio::test]
async fn random_events_and_verdicts_leave_the_same_rows_and_the_same_log() {
    let mut rng = seed::rng("paths_alike");
    let Some(dbs) = both().await else { return };
    for db in &dbs {
        let slot = format!("SELECT pg_create_logical_replication_slot('{}', 'test_decoding')", db.name());
        run(db, &slot).await;
    }
    let mut decoded = 0;
    for round in 0..ROUNDS {
        let (change, work) = (change(&mut rng), work(&mut rng));
        let mut outcomes = [Vec::new(), Vec::new()];
        for (db, outcomes) in dbs.iter().zip(&mut outcomes) {
            for sql in std::iter::once(&change).chain(&work) {
                // A refusal is an outcome, too: of a unique index on values that are there twice, for one.
                if let Err(error) = db.batch_execute(sql).await {
                    let mut fields = error.as_db_error().map(fields);
                    // Which of several values that are there twice it names depends on where its sort begins.
                    if let Some(fields) = &mut fields
                        && fields[2].as_ref().is_some_and(|said| said.starts_with("could not create unique index"))
                    {
                        fields[3] = None;
                    }
                    outcomes.push(format!("{fields:?}"));
                    run(db, "ROLLBACK").await;
                }
            }
            let (rows, log) = (rows(db).await, log(db).await);
            decoded += log.as_ref().map_or(0, |log| log.lines().count());
            outcomes.push(format!("{rows:?}"));
            outcomes.push(format!("{log:?}"));
        }
        assert_eq!(outcomes[0], outcomes[1], "round {round}: {change}; {work:?}");
    }
    assert!(decoded > ROUNDS, "{decoded} changes decoded");
}

/// Something that a DBA does.
fn change(rng: &mut fastrand::Rng) -> String {
    let changes = [
        "SELECT",
        "ALTER TABLE outbox.events ADD COLUMN IF NOT EXISTS region text DEFAULT 'eu'",
        "ALTER TABLE outbox.events ADD COLUMN IF NOT EXISTS region text DEFAULT 'us'; ALTER TABLE outbox.events ALTER region SET DEFAULT 'us'",
        "ALTER TABLE outbox.events DROP COLUMN IF EXISTS nothing; ALTER TABLE outbox.events ADD COLUMN nothing int",
        "CREATE INDEX IF NOT EXISTS mine ON outbox.events (processed_at, topic)",
        "DROP INDEX IF EXISTS outbox.mine",
        "ALTER TABLE outbox.events REPLICA IDENTITY FULL",
        "ALTER TABLE outbox.events REPLICA IDENTITY DEFAULT",
        "ALTER TABLE outbox.events SET (fillfactor = 50)",
        "CREATE UNIQUE INDEX IF NOT EXISTS once ON outbox.events (correlation_id)",
        "DROP INDEX IF EXISTS outbox.once",
        "ALTER TABLE outbox.events ALTER payload SET STORAGE EXTERNAL",
        "VACUUM FULL outbox.events",
        "TRUNCATE outbox.events",
    ];
    changes[rng.usize(..changes.len())].to_owned()
}

/// What applications and the relay do, a transaction each.
fn work(rng: &mut fastrand::Rng) -> Vec<String> {
    (0..rng.usize(1..6))
        .map(|_| match rng.u8(0..8) {
            0 => SETTLE_ALL.to_owned(),
            1 => format!("BEGIN; SAVEPOINT s; {}; ROLLBACK TO s; {}; COMMIT", emit(rng), emit(rng)),
            2 => format!("BEGIN; {}; {SETTLE_ALL}; COMMIT", emit(rng)),
            3 => REPLAY_SOME.to_owned(),
            4 => format!("BEGIN; {}; {SETTLE_ALL}; ROLLBACK", emit(rng)),
            _ => emit(rng),
        })
        .collect()
}

fn emit(rng: &mut fastrand::Rng) -> String {
    let payload = match rng.u8(0..4) {
        0 => "'{\"n\": 12345678901234567890.10}'::jsonb",
        1 => "to_jsonb(repeat('x', 300000))",
        2 => "'\\x0001'::bytea",
        _ => "(SELECT jsonb_agg(md5(i::text)) FROM generate_series(1, 300) AS i)",
    };
    let topic = if rng.u8(0..20) == 0 { "''" } else { "'t'" };
    let mut arguments = vec![topic.to_owned(), payload.to_owned()];
    for (name, value) in [
        ("event_type", "'T'"),
        ("aggregate_type", "'order'"),
        ("aggregate_id", "n::text"),
        ("headers", "jsonb_build_object('h', n)"),
        ("correlation_id", "'c' || n"),
        ("exchange", "'x'"),
        ("available_at", "'2999-01-01Z'::timestamptz"),
    ] {
        if rng.u8(0..4) == 0 {
            arguments.push(format!("{name} => {value}"));
        }
    }
    format!("SELECT outbox.emit({}) FROM generate_series(1, {}) AS n", arguments.join(", "), rng.usize(1..5))
}

/// All of each row but what is made up: ids, and times of now.
async fn rows(db: &Database) -> Option<String> {
    let rows = "SELECT string_agg(concat_ws(' ', seq,
            to_jsonb(e) - '{id,seq,created_at,last_attempted_at,processed_at,payload}'::text[], md5(payload::text),
            last_attempted_at IS NULL, last_attempted_at = processed_at, processed_at IS NULL), chr(10) ORDER BY seq)
        FROM outbox.events AS e";
    text(db, rows).await
}

/// What a reader of the WAL is told, with a word in the place of an id or a time of now, and without the rest of long
/// texts.
async fn log(db: &Database) -> Option<String> {
    let log = format!(
        "SELECT string_agg(regexp_replace(regexp_replace(regexp_replace(data,
                 '[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}', 'ID', 'g'),
                 $$'20[0-9][0-9]-[-0-9:. +]+'$$, 'NOW', 'g'), $$'([^']{{200}})[^']*'$$, '\\1', 'g'), chr(10))
         FROM pg_logical_slot_get_changes('{}', NULL, NULL, 'include-xids', '0') WHERE data LIKE 'table outbox.events:%'",
        db.name()
    );
    text(db, &log).await
}

#[tokio::test]
async fn each_message_of_pgoutput_has_the_same_kind_and_length() {
    let Some(dbs) = both().await else { return };
    let mut told = Vec::new();
    for db in dbs {
        run(&db, &format!("SELECT pg_create_logical_replication_slot('{}', 'pgoutput')", db.name())).await;
        run(&db, "CREATE PUBLICATION p FOR TABLE outbox.events").await;
        let emit = "SELECT outbox.emit('t', to_jsonb(n), 'T', 'a', n::text, '{\"h\": 1}', 'c', 'x') FROM generate_series(1, 20) AS n";
        run(&db, emit).await;
        run(&db, SETTLE_ALL).await;
        // A time of now is printed without its final zeros.
        let messages = format!(
            "SELECT string_agg(chr(get_byte(data, 0)) || ' ' ||
                 length(regexp_replace(encode(data, 'escape'), '20[0-9][0-9]-[0-9]{{2}}-[0-9]{{2}} [0-9:]+([.][0-9]+)?', 'NOW', 'g')), ', ')
             FROM pg_logical_slot_get_binary_changes('{}', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')
             WHERE chr(get_byte(data, 0)) IN ('I', 'U')",
            db.name()
        );
        told.push(value(&db, &messages).await);
    }
    assert_eq!(told[0].matches(", ").count(), 39, "20 inserts, 20 updates: {}", told[0]);
    assert_eq!(told[0], told[1]);
}

#[tokio::test]
async fn errors_are_the_same_field_by_field() {
    let Some(dbs) = both().await else { return };
    let emit = "SELECT outbox.emit('t', '1')";
    let twice = "SELECT outbox.emit('t', '1', correlation_id => 'c'), outbox.emit('t', '1', correlation_id => 'c')";
    for (wrong, call, undone) in [
        ("CREATE UNIQUE INDEX once ON outbox.events (correlation_id)", twice, "DROP INDEX outbox.once"),
        (
            "ALTER TABLE outbox.events ALTER aggregate_id SET NOT NULL",
            emit,
            "ALTER TABLE outbox.events ALTER aggregate_id DROP NOT NULL",
        ),
        (
            "SELECT outbox.emit('t', '1'); UPDATE outbox.events SET status = 'FAILED', last_error = 'x';
             UPDATE outbox.events SET status = 'PENDING'; ALTER TABLE outbox.events ALTER last_error SET NOT NULL",
            SETTLE_ALL,
            "ALTER TABLE outbox.events ALTER last_error DROP NOT NULL",
        ),
        ("SELECT", "SELECT outbox.emit('', '1')", "SELECT"),
        ("SELECT", "SELECT outbox.emit(NULL, '1')", "SELECT"),
        ("SET default_transaction_read_only = on", emit, "RESET default_transaction_read_only"),
        ("SET default_transaction_read_only = on", SETTLE_ALL, "RESET default_transaction_read_only"),
        (
            "SELECT setval('outbox.events_seq_seq', 9223372036854775807)",
            emit,
            "SELECT setval('outbox.events_seq_seq', 1)",
        ),
        ("ALTER TABLE outbox.events RENAME TO other", emit, "ALTER TABLE outbox.other RENAME TO events"),
    ] {
        let mut errors = Vec::new();
        for db in &dbs {
            run(db, wrong).await;
            let mut error = fields(&refusal(db, call).await);
            // The whole row, with its id and times.
            error[3] = error[3].take().map(|detail| detail.split('(').next().unwrap_or_default().to_owned());
            errors.push(error);
            run(db, undone).await;
        }
        assert_eq!(errors[0], errors[1], "{wrong}; {call}");
    }
}
