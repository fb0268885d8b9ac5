//! What a request sets once, its events carry: `outbox.correlation_id` and `outbox.traceparent`.

use harness::Database;

use super::{on_both_installations, refusal, run, value};

on_both_installations!(
    the_context_fills_what_a_call_leaves_out,
    the_context_fills_what_an_insert_leaves_out,
    what_a_call_gives_wins_over_the_context,
    the_context_ends_with_its_transaction,
    a_traceparent_of_any_version_is_a_header_as_it_is,
    what_is_no_traceparent_is_refused,
    an_over_long_context_is_refused_by_name,
    a_bad_setting_harms_only_events_that_would_carry_it,
);

const SET: &str = "BEGIN; SET LOCAL outbox.correlation_id = 'request-1'; SET LOCAL outbox.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'";
const ROWS: &str = "SELECT string_agg(coalesce(correlation_id, '-') || coalesce(headers::text, '-'), ' ' ORDER BY seq)
    FROM outbox.events";

async fn the_context_fills_what_a_call_leaves_out(db: Database) {
    // Set before this session has loaded the library, and after.
    run(&db, &format!("{SET}; SELECT outbox.emit('a', '{{}}'); SELECT outbox.emit('a', '\\x00'::bytea); COMMIT")).await;
    run(&db, &format!("{SET}; SELECT outbox.emit('a', '{{}}', headers => '{{\"x\": 1}}'); COMMIT")).await;
    let once = r#"request-1{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}"#;
    assert_eq!(
        value(&db, ROWS).await,
        format!(
            r#"{once} {once} request-1{{"x": 1, "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}"#
        )
    );
}

async fn the_context_fills_what_an_insert_leaves_out(db: Database) {
    run(
        &db,
        &format!(
            "{SET}; INSERT INTO outbox.events (topic, payload) VALUES ('a', '{{}}');
             INSERT INTO outbox.events (topic, payload, correlation_id, headers) VALUES ('a', '{{}}', NULL, NULL); COMMIT"
        ),
    )
    .await;
    let once = r#"request-1{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}"#;
    assert_eq!(value(&db, ROWS).await, format!("{once} {once}"));
}

async fn what_a_call_gives_wins_over_the_context(db: Database) {
    run(
        &db,
        &format!(
            "{SET}; SELECT outbox.emit('a', '{{}}', correlation_id => 'mine', headers => '{{\"traceparent\": \"mine\"}}');
             SELECT outbox.emit('a', '{{}}', correlation_id => 'mine', headers => '{{\"traceparent\": null}}');
             SELECT outbox.emit('a', '{{}}', correlation_id => 'mine', headers => '{{\"in\": {{\"traceparent\": 1}}}}'); COMMIT"
        ),
    )
    .await;
    assert_eq!(
        value(&db, ROWS).await,
        r#"mine{"traceparent": "mine"} mine{"traceparent": null} mine{"in": {"traceparent": 1}, "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}"#
    );
}

async fn the_context_ends_with_its_transaction(db: Database) {
    run(&db, &format!("{SET}; SELECT outbox.emit('a', '{{}}'); ROLLBACK; SELECT outbox.emit('a', '{{}}')")).await;
    run(&db, &format!("{SET}; COMMIT; SELECT outbox.emit('a', '{{}}')")).await;
    assert_eq!(value(&db, ROWS).await, "-- --");
}

async fn a_traceparent_of_any_version_is_a_header_as_it_is(db: Database) {
    // A later version may add fields behind those of today (W3C Trace Context, section 3.2.4).
    for (number, traceparent) in [
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what the future \"will\\be like",
    ]
    .iter()
    .enumerate()
    {
        db.query("SELECT set_config('outbox.traceparent', $1, false)", &[traceparent]).await.unwrap();
        run(&db, &format!("SELECT outbox.emit('{number}', '{{}}')")).await;
        let header = format!("SELECT headers ->> 'traceparent' FROM outbox.events WHERE topic = '{number}'");
        assert_eq!(value(&db, &header).await, *traceparent);
    }
}

async fn what_is_no_traceparent_is_refused(db: Database) {
    let ids = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
    for bad in [
        "x".to_owned(),
        "00-4bf9-00f0-01".into(),
        format!("00-{ids}-0"),
        format!("00-{ids}-01 "),
        format!("00-{ids}-01-"),
        format!("00-{ids}-01-02"), // today's version has no more fields
        format!("cc-{ids}-0102"),
        format!("cc-{ids}-01-ü"),
        format!("cc-{ids}-01-\t"),
        format!("cc-{ids}-01-{}", "x".repeat(200)), // 256 bytes
        format!("ff-{ids}-01"),
        format!("00-{}-01", ids.to_uppercase()),
        format!("00-{}-01", ids.replacen('-', "_", 1)),
    ] {
        for sql in ["SELECT outbox.emit('a', '{}')", "INSERT INTO outbox.events (topic, payload) VALUES ('a', '{}')"] {
            // Set before the session knows the setting.
            let session = db.connect().await;
            session.query("SELECT set_config('outbox.traceparent', $1, false)", &[&bad]).await.unwrap();
            let error = refusal(&session, sql).await;
            assert_eq!(error.code().code(), "22023", "{bad}");
            assert_eq!(error.message(), "the setting outbox.traceparent is not a traceparent");
            assert!(error.hint().is_some());
            run(&session, "RESET outbox.traceparent").await;
            run(&session, sql).await;
            // And after: the extension refuses it at once, plain SQL at the next event.
            let set = format!("SELECT set_config('outbox.traceparent', '{bad}', false)");
            let error = refusal(&session, &format!("{set}; {sql}")).await;
            assert_eq!(error.code().code(), "22023", "{bad}");
            assert_eq!(error.message(), "the setting outbox.traceparent is not a traceparent");
        }
    }
}

async fn an_over_long_context_is_refused_by_name(db: Database) {
    let set = "SELECT set_config('outbox.correlation_id', repeat('x', 256), false)";
    run(&db, set).await;
    for sql in ["SELECT outbox.emit('a', '{}')", "INSERT INTO outbox.events (topic, payload) VALUES ('a', '{}')"] {
        let at_the_event = refusal(&db, sql).await;
        let once_known = refusal(&db, &format!("{set}; {sql}")).await;
        for error in [at_the_event, once_known] {
            assert_eq!(error.code().code(), "22001");
            assert_eq!(error.message(), "correlation_id is 256 bytes long, the limit is 255");
            assert!(error.detail().unwrap().contains("outbox.correlation_id"));
            assert!(error.hint().is_some());
        }
    }
    run(&db, "SELECT outbox.emit('a', '{}', correlation_id => 'short')").await;
}

async fn a_bad_setting_harms_only_events_that_would_carry_it(db: Database) {
    run(&db, "SET outbox.traceparent = 'x'; SET outbox.correlation_id = 'c'").await;
    run(&db, r#"SELECT outbox.emit('a', '{}', headers => '{"traceparent": "mine"}')"#).await;
    // Workers of a parallel query take the session's settings over.
    run(
        &db,
        "SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
         SELECT count(*) FROM pg_class",
    )
    .await;
    assert_eq!(refusal(&db, "SELECT outbox.emit('a', '{}')").await.code().code(), "22023");
}
