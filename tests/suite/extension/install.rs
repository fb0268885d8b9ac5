//! Installing, and starting over.

use harness::{Postgres, Shutdown};

use super::{install_plain_sql, lock_waits, refusal, role, run, value, with_plain_sql, with_the_extension};

#[tokio::test]
async fn the_schemas_version_is_the_extensions_and_the_products() {
    let db = with_the_extension().await;
    assert_eq!(value(&db, "SELECT outbox.version()").await, env!("CARGO_PKG_VERSION"));
    let extension = "SELECT extversion FROM pg_extension WHERE extname = 'outbox'";
    assert_eq!(value(&db, extension).await, env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn both_installations_offer_the_same() {
    let (extension, plain) = (with_the_extension().await, with_plain_sql().await);
    for catalogue in [
        // What plain SQL needs to do the work of the Rust code is its own affair; emit() becomes the owner in its own
        // ways.
        "SELECT string_agg(concat_ws(' ', oid::regprocedure, prorettype::regtype, proretset, pg_get_function_arguments(oid),
             provolatile,
             CASE WHEN proname <> 'emit' THEN concat_ws(' ', prosecdef, proconfig) END, proacl, obj_description(oid)), E'\\n' ORDER BY oid::regprocedure::text)
         FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace
         AND proname NOT IN ('admit', 'refuse', 'check_headers', 'check_reserved', 'check_payload_size', 'payload_limit', 'check_utf8', 'context_correlation_id',
             'context_traceparent', 'header_size', 'utf8_bytes', 'uuid_v7', 'table_makeup', 'table_makeup_of_extension',
             'refuse_undumped_change')",
        "SELECT string_agg(concat_ws(' ', attname, atttypid::regtype, attnotnull, attidentity, attacl,
             pg_get_expr(adbin, adrelid), col_description(attrelid, attnum)), E'\\n' ORDER BY attrelid::regclass::text, attnum)
         FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
         WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'outbox'::regnamespace) AND attnum > 0",
        "SELECT string_agg(pg_get_indexdef(indexrelid), E'\\n' ORDER BY indexrelid::regclass::text)
         FROM pg_index WHERE indrelid = 'outbox.events'::regclass",
        "SELECT string_agg(pg_get_triggerdef(oid), E'\\n' ORDER BY tgname)
         FROM pg_trigger WHERE tgrelid = 'outbox.events'::regclass",
    ] {
        let (extension, plain) = (value(&extension, catalogue).await, value(&plain, catalogue).await);
        for (one, other) in extension.lines().zip(plain.lines()) {
            assert_eq!(one, other);
        }
        assert_eq!(extension.lines().count(), plain.lines().count());
    }
}

#[tokio::test]
async fn everything_has_a_comment() {
    let db = with_plain_sql().await;
    let bare = "SELECT coalesce(string_agg(oid::regprocedure::text, ' '), 'none') FROM pg_proc
        WHERE pronamespace = 'outbox'::regnamespace AND prorettype <> 'trigger'::regtype AND obj_description(oid) IS NULL";
    assert_eq!(value(&db, bare).await, "none");
}

#[tokio::test]
async fn the_extension_can_be_dropped_and_created_again() {
    let db = with_the_extension().await;
    run(
        &db,
        "SELECT outbox.ensure_publication('outbox'); SELECT outbox.emit('before', '{}');
         DROP EXTENSION outbox; CREATE EXTENSION outbox",
    )
    .await;
    // In the same session, whose plan of the INSERT was for the table that is gone.
    run(&db, "SELECT outbox.emit('after', '{}')").await;
    assert_eq!(value(&db, "SELECT string_agg(topic, ' ') FROM outbox.events").await, "after");
    assert_eq!(value(&db, "SELECT outbox.ensure_publication('outbox')").await, "repaired");
}

#[tokio::test]
async fn drop_extension_takes_everything_but_the_empty_schema() {
    let db = with_the_extension().await;
    run(&db, "DROP EXTENSION outbox").await;
    let left = "SELECT count(*) FROM pg_depend WHERE refclassid = 'pg_namespace'::regclass
        AND refobjid = (SELECT oid FROM pg_namespace WHERE nspname = 'outbox')";
    assert_eq!(value(&db, left).await, "0");
    run(&db, "DROP SCHEMA outbox; CREATE EXTENSION outbox").await;
}

#[tokio::test]
async fn dropping_it_beside_sessions_that_emit_is_no_deadlock() {
    for (db, drop) in
        [(with_the_extension().await, "DROP EXTENSION outbox"), (with_plain_sql().await, "DROP SCHEMA outbox CASCADE")]
    {
        let emit = "BEGIN; SELECT outbox.emit('t', '{}'); COMMIT";
        let (first, dropping, second) = (db.connect().await, db.connect().await, db.connect().await);
        run(&db, emit).await;
        run(&first, "BEGIN; SELECT outbox.emit('t', '{}')").await;
        let in_turn = async {
            lock_waits(&db, 1).await;
            let commit_first = async {
                lock_waits(&db, 2).await;
                run(&first, "COMMIT").await;
            };
            tokio::join!(second.batch_execute(emit), commit_first).0
        };
        let (dropped, emitted) = tokio::join!(dropping.batch_execute(drop), in_turn);
        dropped.unwrap();
        // 42P01: the table is gone; 3F000, 42883: so was the function by the time that it was looked for.
        let refused = emitted.expect_err("the outbox is gone").as_db_error().unwrap().code().code().to_owned();
        assert!(["42P01", "3F000", "42883"].contains(&refused.as_str()), "{refused}");
    }
}

#[tokio::test]
async fn a_schema_of_somebody_elses_is_not_adopted() {
    let db = Postgres::shared().await.empty_database().await;
    let other = role(&db, "other").await;
    run(&db, &format!("CREATE SCHEMA outbox AUTHORIZATION {other}")).await;
    let error = refusal(&db, "CREATE EXTENSION outbox").await;
    assert_eq!(error.code().code(), "55000");
    assert_eq!(error.message(), format!("schema outbox belongs to role {other}, who could drop it with all events"));
    assert_eq!(
        error.hint(),
        Some("DROP SCHEMA outbox; or, if it is meant for this: ALTER SCHEMA outbox OWNER TO postgres;")
    );
    run(&db, "ALTER SCHEMA outbox OWNER TO postgres; CREATE EXTENSION outbox").await;
    let drop = refusal(&*db.connect_as(&other).await, "DROP SCHEMA outbox CASCADE").await;
    assert_eq!(drop.code().code(), "42501");
}

#[tokio::test]
async fn a_schema_in_which_others_may_create_objects_is_not_adopted() {
    let db = Postgres::shared().await.empty_database().await;
    let other = role(&db, "other").await;
    run(&db, "CREATE SCHEMA outbox").await;
    for (grantee, told) in [(&*other, &*other), ("PUBLIC", "PUBLIC")] {
        run(&db, &format!("GRANT USAGE, CREATE ON SCHEMA outbox TO {grantee}")).await;
        let error = refusal(&db, "CREATE EXTENSION outbox").await;
        assert_eq!(error.code().code(), "55000");
        assert_eq!(error.message(), format!("others may create objects in schema outbox: {told}"));
        run(&db, error.hint().unwrap()).await;
    }
    run(&db, "CREATE EXTENSION outbox").await;
}

#[tokio::test]
async fn a_schema_with_something_of_somebody_elses_in_it_is_not_adopted() {
    let db = Postgres::shared().await.empty_database().await;
    let other = role(&db, "other").await;
    run(&db, &format!("CREATE SCHEMA outbox; GRANT USAGE, CREATE ON SCHEMA outbox TO {other}")).await;
    // Looked up first while the extension's script runs, as the superuser who creates it.
    run(
        &*db.connect_as(&other).await,
        "CREATE FUNCTION outbox.set_config(text, text, bool) RETURNS text LANGUAGE plpgsql AS
             'BEGIN EXECUTE ''ALTER ROLE ' || current_user || ' SUPERUSER''; RETURN $1; END';
         CREATE FUNCTION outbox.same(name, text) RETURNS bool LANGUAGE plpgsql AS
             'BEGIN ALTER ROLE ' || current_user || ' SUPERUSER; RETURN $1 OPERATOR(pg_catalog.=) $2; END'"
            .replace("' || current_user || '", &other)
            .as_str(),
    )
    .await;
    run(
        &*db.connect_as(&other).await,
        "CREATE OPERATOR outbox.= (LEFTARG = name, RIGHTARG = text, FUNCTION = outbox.same)",
    )
    .await;
    run(&db, &format!("REVOKE CREATE ON SCHEMA outbox FROM {other}")).await;
    let error = refusal(&db, "CREATE EXTENSION outbox").await;
    assert_eq!(error.code().code(), "55000");
    assert_eq!(error.message(), "schema outbox holds objects that belong to others");
    assert!(error.detail().unwrap().contains(&format!("operator outbox.=(name,text) of role {other}")), "{error:?}");
    assert_eq!(value(&db, &format!("SELECT rolsuper FROM pg_roles WHERE rolname = '{other}'")).await, "false");
    run(&db, &format!("DROP OWNED BY {other}; CREATE EXTENSION outbox")).await;
}

#[tokio::test]
async fn a_schema_of_a_superusers_is_adopted_with_what_is_in_it() {
    let db = Postgres::shared().await.empty_database().await;
    let other = format!("{}_root", db.name());
    run(
        &db,
        &format!(
            "CREATE ROLE {other} SUPERUSER; CREATE SCHEMA outbox AUTHORIZATION {other}; CREATE VIEW outbox.mine AS SELECT 1;
             GRANT USAGE ON SCHEMA outbox TO PUBLIC; CREATE EXTENSION outbox; SELECT outbox.emit('a', '{{}}')"
        ),
    )
    .await;
    run(&db, &format!("REASSIGN OWNED BY {other} TO postgres; DROP OWNED BY {other}; DROP ROLE {other}")).await;
}

#[tokio::test]
async fn settings_are_known_and_a_misspelt_one_is_refused() {
    let db = with_the_extension().await;
    run(&db, "SELECT outbox.uuid_v7()").await; // loads the library
    assert_eq!(value(&db, "SELECT current_setting('outbox.max_payload_bytes')").await, "1MB");
    let settings = "SELECT string_agg(name, ' ' ORDER BY name) FROM pg_settings WHERE name LIKE 'outbox.%'";
    assert_eq!(
        value(&db, settings).await,
        "outbox.allow_undumped_changes outbox.correlation_id outbox.direct_writes outbox.max_payload_bytes \
         outbox.notify_status outbox.operator outbox.payload_limit outbox.traceparent"
    );
    assert_eq!(refusal(&db, "SET outbox.notify_status = 'perhaps'").await.code().code(), "22023");
    if value(&db, "SELECT current_setting('server_version_num')::int >= 150000").await == "true" {
        assert_eq!(refusal(&db, "SET LOCAL outbox.corelation_id = 'x'").await.code().code(), "42602");
    }
}

#[tokio::test]
async fn a_plain_installation_is_everything_or_nothing() {
    let db = Postgres::shared().await.empty_database().await;
    run(&db, "CREATE SCHEMA outbox").await;
    let output = install_plain_sql(&db).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("ERROR:  schema \"outbox\" already exists\nDETAIL:  "), "{said}");
    run(&db, "DROP SCHEMA outbox").await; // which is empty
    let last =
        "CREATE FUNCTION public.outbox() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
        CREATE EVENT TRIGGER outbox ON ddl_command_end WHEN TAG IN ('CREATE VIEW') EXECUTE FUNCTION outbox()";
    run(&db, last).await;
    assert!(!install_plain_sql(&db).await.status.success());
    assert_eq!(value(&db, "SELECT to_regnamespace('outbox') IS NULL").await, "true");
}

#[tokio::test]
async fn nobody_is_advised_to_call_a_function_of_a_strangers_schema() {
    let db = Postgres::shared().await.empty_database().await;
    let stranger = role(&db, "stranger").await;
    run(&db, &format!("CREATE SCHEMA outbox AUTHORIZATION {stranger}")).await;
    let output = install_plain_sql(&db).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("It belongs to role {stranger}")) && !said.contains("outbox.version"), "{said}");
}

#[tokio::test]
async fn a_server_without_logical_wal_is_warned_about() {
    let postgres = Postgres::private().set("wal_level", "replica").start().await;
    let db = postgres.empty_database().await;
    let output = postgres
        .program("psql")
        .args(["--no-psqlrc", "--dbname", db.name(), "--command", "CREATE EXTENSION outbox"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("WARNING:  wal_level is replica, the relay needs logical"), "{said}");
    assert!(said.contains("ALTER SYSTEM SET wal_level = logical"), "{said}");
    // Events can be emitted and replayed all the same.
    run(&db, "SELECT outbox.emit('a', '{}'); UPDATE outbox.events SET status = 'SENT'; UPDATE outbox.events SET status = 'PENDING'").await;
    drop(db);
    postgres.stop(Shutdown::Fast).await;
}
