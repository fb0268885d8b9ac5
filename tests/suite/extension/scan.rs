//! `outbox.pending_page`, `outbox.pending_page_by_bytes`, `outbox.due_page`, `outbox.next_due`: how the relay finds
//! pending events.

use harness::Database;

use super::{on_both_installations, run, text, value};

on_both_installations!(
    pages_lead_through_what_is_pending_in_order,
    pending_leaves_out_what_is_finished_or_scheduled,
    pending_leaves_out_the_keys_it_is_told_to_skip,
    rows_that_were_moved_to_an_archive_below_the_table_are_not_taken_for_others,
    a_page_is_cut_by_bytes_but_never_empty,
    a_compressed_payload_counts_uncompressed,
    a_page_by_rows_has_what_a_page_by_bytes_has,
    a_page_by_rows_says_where_bytes_have_to_be_counted_and_where_it_ends,
    a_column_that_is_added_later_breaks_no_scan_of_a_session_that_has_scanned_before,
    due_pages_by_time_then_by_order,
    next_due_is_the_time_to_the_next_in_milliseconds,
    the_backlog_says_what_is_not_sent,
    the_failed_are_listed_with_their_reason,
);

const PENDING: &str = "SELECT string_agg(payload::text, ' ') FROM outbox.pending_page_by_bytes";

async fn pages_lead_through_what_is_pending_in_order(db: Database) {
    run(&db, "SELECT outbox.emit('a', to_jsonb(n)) FROM generate_series(1, 5) AS n").await;
    let all = i64::MAX;
    assert_eq!(value(&db, &format!("{PENDING}(0, 2, {all})")).await, "1 2");
    assert_eq!(value(&db, &format!("{PENDING}(2, 2, {all})")).await, "3 4");
    assert_eq!(value(&db, &format!("{PENDING}(4, 2, {all})")).await, "5");
    assert_eq!(text(&db, &format!("{PENDING}(5, 2, {all})")).await, None);
}

async fn pending_leaves_out_what_is_finished_or_scheduled(db: Database) {
    run(
        &db,
        "SELECT outbox.emit('a', to_jsonb(n), available_at => CASE WHEN n = 4 THEN now() + interval '1 hour' END)
         FROM generate_series(1, 5) AS n;
         UPDATE outbox.events SET status = 'SENT' WHERE payload::text = '2';
         UPDATE outbox.events SET status = 'FAILED' WHERE payload::text = '3'",
    )
    .await;
    assert_eq!(value(&db, &format!("{PENDING}(0, 100, 1000000)")).await, "1 5");
}

async fn pending_leaves_out_the_keys_it_is_told_to_skip(db: Database) {
    run(
        &db,
        "SELECT outbox.emit('a', to_jsonb(n), aggregate_type => t, aggregate_id => i)
         FROM (VALUES (1, 'order', '1'), (2, 'order', '2'), (3, NULL, '1'), (4, 'order', NULL), (5, NULL, NULL),
             (6, 'invoice', '1')) AS v (n, t, i) ORDER BY n",
    )
    .await;
    for (types, ids, left) in [
        ("{}", "{}", "1 2 3 4 5 6"),
        ("{order}", "{1}", "2 3 4 5 6"),
        ("{NULL}", "{1}", "1 2 4 5 6"),
        ("{order,invoice,none}", "{2,1,1}", "1 3 4 5"),
    ] {
        let pending = format!("{PENDING}(0, 10, 1000000, '{types}', '{ids}')");
        assert_eq!(value(&db, &pending).await, left, "{types} {ids}");
    }
}

async fn rows_that_were_moved_to_an_archive_below_the_table_are_not_taken_for_others(db: Database) {
    run(&db, "SELECT outbox.emit('a', to_jsonb(n)) FROM generate_series(1, 3) AS n").await;
    run(&db, "UPDATE outbox.events SET status = 'SENT'; CREATE TABLE archive () INHERITS (outbox.events)").await;
    run(
        &db,
        "WITH moved AS (DELETE FROM ONLY outbox.events RETURNING *)
         INSERT INTO archive OVERRIDING SYSTEM VALUE SELECT * FROM moved",
    )
    .await;
    run(&db, "VACUUM outbox.events").await;
    run(&db, "SELECT outbox.emit('a', to_jsonb(n)) FROM generate_series(4, 5) AS n").await;
    assert_eq!(value(&db, &format!("{PENDING}(0, 100, 1000000)")).await, "4 5");
}

async fn a_page_is_cut_by_bytes_but_never_empty(db: Database) {
    run(&db, "SELECT outbox.emit('a', decode(repeat('00', 1000), 'hex')) FROM generate_series(1, 5)").await;
    for (bytes, rows) in [(0, "1"), (1, "1"), (1000, "1"), (1001, "2"), (2000, "2"), (2500, "3"), (1_000_000, "5")] {
        let page = format!("SELECT count(*) FROM outbox.pending_page_by_bytes(0, 100, {bytes})");
        assert_eq!(value(&db, &page).await, rows, "{bytes} bytes");
    }
}

async fn a_compressed_payload_counts_uncompressed(db: Database) {
    run(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 500000))) FROM generate_series(1, 3)").await;
    assert_eq!(value(&db, "SELECT max(pg_column_size(payload)) < 50000 FROM outbox.events").await, "true");
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.pending_page_by_bytes(0, 100, 600000)").await, "2");
}

async fn a_page_by_rows_has_what_a_page_by_bytes_has(db: Database) {
    run(
        &db,
        "SELECT outbox.emit('a', to_jsonb(n), aggregate_type => nullif('type' || n % 3, 'type0'),
                            aggregate_id => nullif((n % 40)::text, '0'), headers => '{\"h\": 1}',
                            available_at => CASE WHEN n % 11 = 0 THEN now() + interval '1 hour' END)
         FROM generate_series(1, 1000) AS n;
         SELECT outbox.emit('a', decode(repeat('00', n), 'hex'), content_type => 'b') FROM generate_series(1, 10) AS n;
         UPDATE outbox.events SET status = 'SENT' WHERE seq % 5 = 0;
         UPDATE outbox.events SET status = 'FAILED', holds_key = true WHERE seq % 97 = 0 AND status = 'PENDING';
         SELECT outbox.settle(array_agg(id), array_fill('PENDING'::outbox.status, ARRAY[count(*)::int]),
                              array_fill('nack'::text, ARRAY[count(*)::int]), array_fill(60000, ARRAY[count(*)::int]),
                              array_fill(true, ARRAY[count(*)::int]))
         FROM outbox.events WHERE seq % 89 = 0 AND status = 'PENDING'",
    )
    .await;
    let columns =
        "id, seq, created_at, status, attempts, replays, holds_key, topic, exchange, event_type, aggregate_type, aggregate_id,
        payload, payload_bytes, content_type, headers, correlation_id, available_at, last_error, first_attempted_at";
    let rows =
        |call: &str| format!("SELECT md5(string_agg((page)::text, ' ')) FROM (SELECT {columns} FROM {call}) AS page");
    for (types, ids) in [("{}", "{}"), ("{type1,NULL,type2}", "{1,3,5}")] {
        for after in [0, 500] {
            for (older_than, respects) in [("NULL", true), ("NULL", false), ("0", true)] {
                let rest = format!("'{types}', '{ids}', {older_than}, {respects}");
                let pending =
                    text(&db, &rows(&format!("outbox.pending_page_by_bytes({after}, 300, 100000000, {rest})"))).await;
                let by_rows = rows(&format!("outbox.pending_page({after}, 300, {rest}) WHERE is_old AND NOT is_large"));
                assert_eq!(text(&db, &by_rows).await, pending, "{after} {rest}");
                assert_eq!(pending.is_none(), older_than == "0", "{after} {rest}");
            }
        }
    }
}

async fn a_page_by_rows_says_where_bytes_have_to_be_counted_and_where_it_ends(db: Database) {
    run(&db, "SELECT outbox.emit('a', '1')").await;
    run(&db, "SET outbox.max_payload_bytes = '2MB'; SELECT outbox.emit('a', repeat('x', 2000000)::bytea)").await;
    run(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 900000))); SELECT outbox.emit('a', decode(repeat('00', 16000), 'hex'))")
        .await;
    let now = value(&db, "SELECT txid_snapshot_xmax(txid_current_snapshot())").await;
    run(&db, "SELECT outbox.emit('a', '6')").await;
    let page = format!(
        "SELECT string_agg(concat_ws('/', coalesce(left(payload::text, 5), octet_length(payload_bytes)::text, '-'), is_large, is_old), ' ')
         FROM outbox.pending_page(0, 10, '{{}}', '{{}}', {now})"
    );
    assert_eq!(value(&db, &page).await, "1/f/t -/t/t -/t/t 16000/f/t 6/f/f");
}

async fn a_column_that_is_added_later_breaks_no_scan_of_a_session_that_has_scanned_before(db: Database) {
    let scans = [
        "outbox.pending_page(0, 10)",
        "outbox.pending_page_by_bytes(0, 10, 1000)",
        "outbox.due_page(10, 1000, NULL, NULL)",
    ];
    let mut prepared = Vec::new();
    for scan in scans {
        let scan = db.prepare(&format!("SELECT string_agg(payload::text, ' ') FROM {scan}")).await.unwrap();
        db.query_one(&scan, &[]).await.unwrap();
        prepared.push(scan);
    }
    run(&db, "SET outbox.allow_undumped_changes = on; ALTER TABLE outbox.events ADD COLUMN note text").await;
    run(&db, "SELECT outbox.emit('a', '1'), outbox.emit('a', '2', available_at => now() + interval '1 microsecond')")
        .await;
    for ((scan, prepared), found) in scans.iter().zip(&prepared).zip(["1", "1", "2"]) {
        let payloads: &str = &db.query_one(prepared, &[]).await.unwrap().get::<_, String>(0);
        assert_eq!(payloads, found, "{scan}");
    }
}

async fn due_pages_by_time_then_by_order(db: Database) {
    // Their time comes within the statement: it is after the transaction's, and before clock_timestamp().
    run(
        &db,
        "BEGIN;
         SELECT outbox.emit('a', '1', available_at => now() + interval '2 microseconds');
         SELECT outbox.emit('a', '2', available_at => now() + interval '1 microsecond');
         SELECT outbox.emit('a', '3', available_at => now() + interval '1 microsecond');
         SELECT outbox.emit('a', '4', available_at => now() + interval '1 hour');
         SELECT outbox.emit('a', '5');
         COMMIT",
    )
    .await;
    let due = "SELECT string_agg(payload::text, ' ') FROM outbox.due_page";
    assert_eq!(value(&db, &format!("{due}(100, 100000, NULL, NULL)")).await, "2 3 1");
    assert_eq!(value(&db, &format!("{due}(2, 100000, NULL, NULL)")).await, "2 3");
    assert_eq!(value(&db, &format!("{due}(100, 1, '-infinity', 0)")).await, "2");
    let last = "SELECT quote_literal(available_at) || ', ' || seq FROM outbox.events WHERE payload::text = ";
    let after_two = value(&db, &format!("{last}'2'")).await;
    assert_eq!(value(&db, &format!("{due}(100, 100000, {after_two})")).await, "3 1");
    let after_all = value(&db, &format!("{last}'1'")).await;
    assert_eq!(text(&db, &format!("{due}(100, 100000, {after_all})")).await, None);
    run(&db, "UPDATE outbox.events SET status = 'SENT' WHERE payload::text = '3'").await;
    assert_eq!(value(&db, &format!("{due}(100, 100000, NULL, NULL)")).await, "2 1");
}

async fn next_due_is_the_time_to_the_next_in_milliseconds(db: Database) {
    assert_eq!(text(&db, "SELECT outbox.next_due()").await, None);
    run(
        &db,
        "BEGIN;
         SELECT outbox.emit('a', '1', available_at => now() + interval '1 microsecond');
         SELECT outbox.emit('a', '2', available_at => now() + interval '2 hours');
         SELECT outbox.emit('a', '3', available_at => now() + interval '1 hour');
         COMMIT",
    )
    .await;
    let about_an_hour = "SELECT outbox.next_due() BETWEEN 3500000 AND 3600000";
    assert_eq!(value(&db, about_an_hour).await, "true");
    run(&db, "UPDATE outbox.events SET status = 'FAILED' WHERE payload::text = '3'").await;
    assert_eq!(value(&db, "SELECT outbox.next_due() BETWEEN 7100000 AND 7200000").await, "true");
}

async fn the_backlog_says_what_is_not_sent(db: Database) {
    run(
        &db,
        "SELECT outbox.emit('a', to_jsonb(n)) FROM generate_series(1, 4) AS n;
         SELECT outbox.emit('b', '5', available_at => now() + interval '1 hour');
         UPDATE outbox.events SET status = 'SENT' WHERE payload::text = '1';
         UPDATE outbox.events SET status = 'FAILED' WHERE payload::text = '2'",
    )
    .await;
    let backlog = "SELECT string_agg(concat_ws(' ', topic, pending, scheduled, failed,
        coalesce((oldest_pending BETWEEN '0' AND '1 minute')::text, '-')), ', ' ORDER BY topic) FROM outbox.backlog";
    assert_eq!(value(&db, backlog).await, "a 2 0 1 true, b 0 1 0 -");
}

async fn the_failed_are_listed_with_their_reason(db: Database) {
    run(
        &db,
        "SELECT outbox.emit('a', to_jsonb(n)) FROM generate_series(1, 3) AS n;
         UPDATE outbox.events SET status = 'FAILED', last_error = 'reason ' || payload::text WHERE payload::text <> '2'",
    )
    .await;
    let failed = "SELECT string_agg(last_error, ', ') FROM outbox.failed";
    assert_eq!(value(&db, failed).await, "reason 1, reason 3");
}
