//! An error that `emit()` or `settle()` runs into says all that it says to an INSERT or an UPDATE: which constraint of
//! which table, which column, and where.

use harness::Database;
use tokio_postgres::error::DbError;

use super::{on_both_installations, refusal, run, settle::SETTLE_ALL, value};

on_both_installations!(
    what_an_insert_says_of_an_error_emit_says_too,
    what_an_update_says_of_an_error_settle_says_too,
    an_error_that_was_caught_leaves_nothing_in_the_next,
    the_context_within_is_told,
);

/// All fields but the context, which names the functions on the way, and the place in PostgreSQL's source.
pub(super) fn fields(error: &DbError) -> Vec<Option<String>> {
    let own = |field: Option<&str>| field.map(str::to_owned);
    vec![
        own(Some(error.severity())),
        own(Some(error.code().code())),
        own(Some(error.message())),
        own(error.detail()),
        own(error.hint()),
        own(error.schema()),
        own(error.table()),
        own(error.column()),
        own(error.datatype()),
        own(error.constraint()),
    ]
}

/// What is wrong with the table, and how that is undone.
const OF_INSERT: [(&str, &str); 6] = [
    ("CREATE UNIQUE INDEX once ON outbox.events (correlation_id)", "DROP INDEX outbox.once"),
    ("ALTER TABLE outbox.events ADD COLUMN must int NOT NULL", "ALTER TABLE outbox.events DROP COLUMN must"),
    (
        "ALTER TABLE outbox.events ADD CONSTRAINT never CHECK (topic <> 't')",
        "ALTER TABLE outbox.events DROP CONSTRAINT never",
    ),
    (
        "CREATE DOMAIN small AS int DEFAULT 5 CONSTRAINT is_small CHECK (VALUE < 5);
         ALTER TABLE outbox.events ADD COLUMN size small",
        "ALTER TABLE outbox.events DROP COLUMN size; DROP DOMAIN small",
    ),
    (
        "CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'ZZ001',
             DETAIL = 'd', HINT = 'h', SCHEMA = 's', TABLE = 't', COLUMN = 'c', DATATYPE = 'y', CONSTRAINT = 'n'; END $$;
         CREATE TRIGGER mine BEFORE INSERT OR UPDATE ON outbox.events FOR EACH ROW EXECUTE FUNCTION mine()",
        "DROP FUNCTION mine() CASCADE",
    ),
    (
        "ALTER TABLE outbox.events ALTER seq SET MAXVALUE 100",
        "ALTER TABLE outbox.events ALTER seq SET NO MAXVALUE",
    ),
];

async fn what_an_insert_says_of_an_error_emit_says_too(db: Database) {
    run(&db, "DELETE FROM outbox.events").await;
    for (wrong, undone) in OF_INSERT {
        run(&db, wrong).await;
        if wrong.contains("UNIQUE") {
            run(&db, "SELECT outbox.emit('t', '1', correlation_id => 'c')").await;
        }
        if wrong.contains("MAXVALUE") {
            run(&db, "SELECT setval('outbox.events_seq_seq', 100)").await;
        }
        // The time is the transaction's, and the ids are the only thing that differs.
        let insert = "INSERT INTO outbox.events (topic, payload, correlation_id) VALUES ('t', '1', 'c')";
        run(&db, "SET search_path = pg_catalog").await; // as emit() has it
        let expected = refusal(&db, insert).await;
        run(&db, "RESET search_path").await;
        for emit in ["SELECT outbox.emit('t', '1', correlation_id => 'c')"; 2] {
            let error = refusal(&db, emit).await;
            let (mut error, mut expected) = (fields(&error), fields(&expected));
            let row = |detail: &Option<String>| detail.as_ref().is_some_and(|text| text.starts_with("Failing row"));
            assert_eq!(row(&error[3]), row(&expected[3]), "{wrong}: {error:?}");
            if row(&error[3]) {
                (error[3], expected[3]) = (None, None);
            }
            assert_eq!(error, expected, "{wrong}");
        }
        run(&db, &format!("DELETE FROM outbox.events; {undone}")).await;
    }
}

async fn what_an_update_says_of_an_error_settle_says_too(db: Database) {
    for (wrong, undone) in [
        ("CREATE UNIQUE INDEX once ON outbox.events (processed_at)", "DROP INDEX outbox.once"),
        (
            "ALTER TABLE outbox.events ADD CONSTRAINT never CHECK (attempts < 1)",
            "ALTER TABLE outbox.events DROP CONSTRAINT never",
        ),
        OF_INSERT[4],
    ] {
        run(&db, "DELETE FROM outbox.events; SELECT outbox.emit('t', '1'), outbox.emit('t', '2')").await;
        run(&db, wrong).await;
        let update = "UPDATE outbox.events SET status = 'SENT'";
        let expected = refusal(&db, update).await;
        for _ in 0..2 {
            let error = refusal(&db, SETTLE_ALL).await;
            let (mut error, mut expected) = (fields(&error), fields(&expected));
            let of_now = |detail: &mut Option<String>| *detail = detail.take().map(|text| text[..12].to_owned());
            if !wrong.contains("TRIGGER") {
                of_now(&mut error[3]);
                of_now(&mut expected[3]);
            }
            assert_eq!(error, expected, "{wrong}");
        }
        run(&db, undone).await;
    }
}

async fn an_error_that_was_caught_leaves_nothing_in_the_next(db: Database) {
    run(
        &db,
        "CREATE UNIQUE INDEX once ON outbox.events (correlation_id);
         CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 BEGIN
                     RAISE EXCEPTION 'first' USING CONSTRAINT = 'first', TABLE = 'first';
                 EXCEPTION WHEN OTHERS THEN
                     IF new.topic = 'again' THEN
                         BEGIN
                             RAISE EXCEPTION 'second' USING CONSTRAINT = 'second';
                         EXCEPTION WHEN OTHERS THEN NULL;
                         END;
                         RAISE;
                     END IF;
                 END;
                 RETURN new;
             END $$;
         CREATE TRIGGER mine BEFORE INSERT ON outbox.events FOR EACH ROW EXECUTE FUNCTION mine()",
    )
    .await;
    let error = refusal(&db, "SELECT outbox.emit('', '1')").await;
    assert_eq!((error.message(), error.constraint(), error.table()), ("topic must not be empty", None, None));
    let error = refusal(&db, "SELECT outbox.emit('again', '1')").await;
    assert_eq!(error.message(), "first");
    assert_ne!(error.constraint(), Some("second"));
    // Nor in one of the caller's.
    let caught = "DO $$ BEGIN
            BEGIN PERFORM outbox.emit('again', '1'); EXCEPTION WHEN OTHERS THEN NULL; END;
            RAISE EXCEPTION 'first' USING ERRCODE = 'ZZ002';
        END $$";
    let error = refusal(&db, caught).await;
    assert_eq!((error.message(), error.constraint()), ("first", None));
    assert!(!error.where_().unwrap_or_default().contains("mine"), "{error:?}");
}

async fn the_context_within_is_told(db: Database) {
    run(&db, OF_INSERT[4].0).await;
    for call in ["SELECT outbox.emit('t', '1')", "DO $$ BEGIN PERFORM outbox.emit('t', '1'); END $$"] {
        let error = refusal(&db, call).await;
        let context = error.where_().unwrap_or_default();
        assert!(context.starts_with("PL/pgSQL function public.mine() line 1 at RAISE"), "{context}");
        assert_eq!(context.matches("mine()").count(), 1, "{context}");
        let of_the_caller = context.matches("inline_code_block").count();
        assert_eq!(of_the_caller, usize::from(call.starts_with("DO")), "{context}");
    }
    run(&db, OF_INSERT[4].1).await;
    assert_eq!(value(&db, "SELECT outbox.emit('t', '1') IS NOT NULL").await, "true");
}
