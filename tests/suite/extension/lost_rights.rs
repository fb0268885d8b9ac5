//! Ways in which rights get lost: whatever PUBLIC may do afterwards, a role without any grant gets at nothing, and the
//! next grant makes the rights whole.

use harness::{Connection, Database, Postgres};
use tokio_postgres::Client;

use super::{on_both_installations, refusal, role, run, upgrade::Outbox, value, with_plain_sql};

on_both_installations!(
    a_function_that_everybody_may_call_answers_only_those_who_were_granted_it,
    a_restore_where_a_granted_role_is_missing_opens_nothing,
    a_restore_without_rights_opens_nothing_and_each_grant_makes_them_whole,
    a_restore_by_another_owner_opens_nothing,
    another_owner_opens_nothing,
    a_copy_of_the_database_opens_nothing,
    what_everybody_was_granted_is_found_and_taken_back_by_the_next_grant,
    only_the_owner_makes_rights_whole,
    a_grant_lets_a_role_use_the_schema_where_not_everybody_may,
);

/// What a role without any grant would like to do.
const HARM: [&str; 13] = [
    "SELECT payload FROM outbox.pending_page_by_bytes(0, 10, 100000, respect_holds => false)",
    "SELECT payload FROM outbox.pending_page(0, 10)",
    "SELECT payload FROM outbox.due_page(10, 100000, NULL, NULL)",
    "SELECT payload FROM outbox.events",
    "SELECT outbox.settle(ARRAY[id], '{SENT}', '{NULL}') FROM outbox.pending_page_by_bytes(0, 10, 100000)",
    "SELECT outbox.settle('{}', '{}', '{}')",
    "SELECT outbox.replay_many(created_to => now(), status => 'SENT')",
    "SELECT outbox.delete_pages(now(), now(), 0, 100)",
    "SELECT outbox.ensure_publication('mine')",
    "SELECT outbox.ensure_sequence()",
    "SELECT outbox.sequence_state()",
    "SELECT * FROM outbox.health()",
    "INSERT INTO outbox.events (topic, payload) VALUES ('forged', '{}')",
];

/// What PUBLIC may do beyond the rights that it is meant to have.
const OPEN: &str = "SELECT coalesce(string_agg(object || ' ' || privilege, ', ' ORDER BY object, privilege), '') FROM outbox.open_to_public()";

async fn nobody_gets_at_anything(db: &Database) {
    let nobody = role(db, "nobody").await;
    gets_at_nothing(&*db.connect_as(&nobody).await).await;
}

async fn gets_at_nothing(session: &Client) {
    for harm in HARM {
        assert_eq!(refusal(session, harm).await.code().code(), "42501", "{harm}");
    }
}

/// Emitter, relay and operator with what they were granted.
async fn granted(db: &Database) -> [String; 3] {
    let [app, relay, operator] = [role(db, "app").await, role(db, "relay").await, role(db, "operator").await];
    grant(db, "emit", &app).await;
    grant(db, "relay", &relay).await;
    grant(db, "operate", &operator).await;
    run(db, "SELECT outbox.emit('a', '\"secret\"'::jsonb)").await;
    [app, relay, operator]
}

/// As the owner. What it says about the role or closes is not looked at.
async fn grant(db: &Database, what: &str, role: &str) {
    run(
        db,
        &format!("SET client_min_messages = error; SELECT outbox.grant_{what}('{role}'); RESET client_min_messages"),
    )
    .await;
}

/// Dumps `db`, and restores it as `owner` into a new database after `meanwhile`. What the restore says is not looked
/// at: it goes on after an error.
async fn restored(db: &Database, owner: &str, flags: &[&str], meanwhile: impl AsyncFnOnce()) -> Database {
    let postgres = Postgres::shared().await;
    let file = std::env::temp_dir().join(format!("{}-{}.dump", db.name(), std::process::id()));
    let dump =
        postgres.program("pg_dump").args(["--format=custom", "--dbname", db.name(), "--file"]).arg(&file).output();
    assert!(dump.as_ref().unwrap().status.success(), "{dump:?}");
    meanwhile().await;
    let copy = postgres.empty_database().await;
    run(&copy, &format!("GRANT CREATE ON DATABASE {} TO {owner}", copy.name())).await;
    let mut restore = postgres.program("pg_restore");
    restore.env("PGUSER", owner).args(flags).args(["--dbname", copy.name()]).arg(&file);
    let output = restore.output().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(value(&copy, "SELECT count(*) FROM outbox.events").await, "1", "{output:?}");
    copy
}

async fn forget(db: &Database, role: &str) {
    run(db, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

async fn a_function_that_everybody_may_call_answers_only_those_who_were_granted_it(db: Database) {
    let [_, relay, operator] = granted(&db).await;
    run(&db, "GRANT EXECUTE ON ALL ROUTINES IN SCHEMA outbox TO PUBLIC").await;
    nobody_gets_at_anything(&db).await;

    // Each function with the owner's rights, called by somebody with the wrong grant.
    let calls = "SELECT format('SELECT outbox.%I(%s)', p.proname,
                     (SELECT string_agg(format('NULL::%s', format_type(type, NULL)), ', ' ORDER BY n)
                      FROM unnest(p.proargtypes) WITH ORDINALITY AS u (type, n)))
                 FROM pg_proc AS p
                 WHERE p.pronamespace = 'outbox'::regnamespace AND p.prosecdef AND p.prorettype <> 'trigger'::regtype";
    let calls: Vec<String> = db.query(calls, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(calls.len() > 12, "{calls:?}");
    let session = db.connect_as(&role(&db, "other").await).await;
    for call in calls {
        let error = refusal(&session, &call).await;
        assert_eq!(error.code().code(), "42501", "{call}: {error}");
        assert!(error.message().starts_with("permission denied for function outbox."), "{call}: {error}");
        assert!(error.hint().unwrap().contains("outbox.grant_"), "{call}: {error:?}");
    }

    // Who was granted it, a member of that role, and the owner.
    let member = role(&db, "member").await;
    run(&db, &format!("GRANT {relay} TO {member}")).await;
    for role in [&*relay, &*member, "postgres"] {
        let session = db.connect_as(role).await;
        assert_eq!(
            value(&session, "SELECT payload FROM outbox.pending_page_by_bytes(0, 10, 1000)").await,
            "\"secret\"",
            "{role}"
        );
    }
    run(&*db.connect_as(&operator).await, "SELECT outbox.replay_many(topic => 'a')").await;
    assert_eq!(refusal(&*db.connect_as(&operator).await, HARM[0]).await.code().code(), "42501");
    // Whoever acts as another role is the one who has logged in.
    run(&session, "BEGIN; SET LOCAL role = none").await;
    assert_eq!(refusal(&session, HARM[0]).await.code().code(), "42501");
}

async fn a_restore_where_a_granted_role_is_missing_opens_nothing(db: Database) {
    let [app, relay, operator] = granted(&db).await;
    for missing in [&app, &relay, &operator] {
        let copy = restored(&db, "postgres", &[], async || forget(&db, missing).await).await;
        nobody_gets_at_anything(&copy).await;
        let nobody = format!("{}_nobody", copy.name());
        let session = copy.connect_as(&nobody).await;
        run(&copy, &format!("CREATE ROLE {missing} LOGIN")).await;
        for (role, what) in [(&app, "emit"), (&relay, "relay"), (&operator, "operate")] {
            grant(&copy, what, role).await;
        }
        assert_eq!(value(&copy, OPEN).await, "", "{missing}");
        nobody_gets_at_anything(&copy).await;
        assert_eq!(refusal(&session, "SELECT outbox.emit('forged', '{}')").await.code().code(), "42501");
        run(&*copy.connect_as(&app).await, "SELECT outbox.emit('a', '{}')").await;
        run(
            &*copy.connect_as(&relay).await,
            "SELECT outbox.settle(ARRAY[id], '{SENT}', '{NULL}') FROM outbox.pending_page_by_bytes(0, 10, 1000)",
        )
        .await;
        run(&*copy.connect_as(&operator).await, "SELECT outbox.replay_many(topic => 'a', status => 'SENT')").await;
        for (role, what) in [(&app, "emit"), (&relay, "relay"), (&operator, "operate")] {
            grant(&db, what, role).await;
        }
    }
}

async fn a_restore_without_rights_opens_nothing_and_each_grant_makes_them_whole(db: Database) {
    let [app, relay, operator] = granted(&db).await;
    let monitor = role(&db, "monitor").await;
    for (what, whom, then) in [
        ("emit", &app, "SELECT outbox.emit('a', '{}')"),
        ("relay", &relay, "SELECT payload FROM outbox.pending_page_by_bytes(0, 10, 1000)"),
        ("operate", &operator, "SELECT outbox.replay_many(topic => 'a')"),
        ("monitor", &monitor, "SELECT healthy FROM outbox.health()"),
        ("maintain", &monitor, "CALL outbox.maintain('1 day')"),
    ] {
        let copy = restored(&db, "postgres", &["--no-acl"], async || ()).await;
        // What a person may do who reads "permission denied for schema outbox".
        run(&copy, "GRANT USAGE ON SCHEMA outbox TO PUBLIC").await;
        nobody_gets_at_anything(&copy).await;
        let session = copy.connect_as(&format!("{}_nobody", copy.name())).await;
        assert_eq!(refusal(&session, "SELECT outbox.emit('forged', '{}'::jsonb)").await.code().code(), "42501");
        grant(&copy, what, whom).await;
        assert_eq!(value(&copy, OPEN).await, "", "{what}");
        nobody_gets_at_anything(&copy).await;
        run(&*copy.connect_as(whom).await, then).await;
    }
}

async fn a_restore_by_another_owner_opens_nothing(db: Database) {
    let [app, ..] = granted(&db).await;
    let is_extension = value(&db, "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'outbox')").await == "true";
    // Only a superuser can create the extension.
    let owner = if is_extension { "postgres".to_owned() } else { role(&db, "owner").await };
    for flags in [&["--no-owner"][..], &["--no-owner", "--no-acl"]] {
        let copy = restored(&db, &owner, flags, async || ()).await;
        nobody_gets_at_anything(&copy).await;
        let session = copy.connect_as(&owner).await;
        run(&session, &format!("SELECT outbox.emit('a', '{{}}'), outbox.grant_emit('{app}')")).await; // the owner needs no grant
        assert_eq!(value(&copy, OPEN).await, "", "{flags:?}");
        run(&*copy.connect_as(&app).await, "SELECT outbox.emit('a', '{}')").await;
    }
}

async fn another_owner_opens_nothing(db: Database) {
    let [app, relay, _] = granted(&db).await;
    let (first, second) = (role(&db, "first").await, role(&db, "second").await);
    run(&db, &super::with_owner(&first)).await;
    nobody_gets_at_anything(&db).await;
    run(&db, &format!("GRANT CREATE ON DATABASE {} TO {second}; REASSIGN OWNED BY {first} TO {second}", db.name()))
        .await;
    assert_eq!(value(&db, OPEN).await, "");
    nobody_gets_at_anything(&db).await;
    assert_eq!(refusal(&*db.connect_as(&first).await, HARM[0]).await.code().code(), "42501");
    run(&*db.connect_as(&app).await, "SELECT outbox.emit('a', '{}')").await;
    run(&*db.connect_as(&relay).await, HARM[0]).await;
}

async fn a_copy_of_the_database_opens_nothing(db: Database) {
    let [app, relay, _] = granted(&db).await;
    let nobody = role(&db, "nobody").await;
    let postgres = Postgres::shared().await;
    let maintenance = Connection::open(&postgres.url("postgres")).await;
    let (name, copy) = (db.name(), format!("{}_copy", db.name()));
    // Nobody may use a database that is copied.
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname =";
    run(&maintenance, &format!("DROP DATABASE IF EXISTS {copy}")).await;
    run(&maintenance, &format!("{end} '{name}'")).await;
    run(&maintenance, &format!("CREATE DATABASE {copy} TEMPLATE {name}")).await;
    {
        let as_role = async |role: &str| {
            Connection::open(&postgres.url(&copy).replacen("//postgres@", &format!("//{role}@"), 1)).await
        };
        gets_at_nothing(&*as_role(&nobody).await).await;
        assert_eq!(value(&*as_role("postgres").await, OPEN).await, "");
        run(&*as_role(&app).await, "SELECT outbox.emit('a', '{}')").await;
        run(&*as_role(&relay).await, HARM[0]).await;
    }
    run(&maintenance, &format!("DROP DATABASE {copy} WITH (FORCE)")).await;
}

async fn what_everybody_was_granted_is_found_and_taken_back_by_the_next_grant(db: Database) {
    let [app, ..] = granted(&db).await;
    assert_eq!(value(&db, OPEN).await, "");
    run(
        &db,
        "GRANT SELECT ON outbox.events TO PUBLIC; GRANT UPDATE (status) ON outbox.events TO PUBLIC; GRANT USAGE ON SEQUENCE outbox.events_seq_seq TO PUBLIC;
         GRANT SELECT ON outbox.failed TO PUBLIC; GRANT CREATE ON SCHEMA outbox TO PUBLIC; GRANT EXECUTE ON PROCEDURE outbox.maintain TO PUBLIC;
         ALTER DEFAULT PRIVILEGES IN SCHEMA outbox GRANT SELECT ON TABLES TO PUBLIC",
    )
    .await;
    assert_eq!(
        value(&db, OPEN).await,
        "column status of outbox.events UPDATE, function outbox.maintain(interval,interval) EXECUTE, schema outbox CREATE, \
         sequence outbox.events_seq_seq USAGE, table outbox.events SELECT, tables to come of role postgres in schema outbox SELECT, \
         view outbox.failed SELECT"
    );
    // Each is closed by the statement that is named.
    let statements = "SELECT string_agg(closing, '; ') FROM outbox.open_to_public()";
    let statements = value(&db, statements).await;
    run(&db, &format!("BEGIN; {statements}")).await;
    assert_eq!(value(&db, OPEN).await, "", "{statements}");
    run(&db, "ROLLBACK").await;
    grant(&db, "emit", &app).await;
    assert_eq!(value(&db, OPEN).await, "");
}

async fn only_the_owner_makes_rights_whole(db: Database) {
    granted(&db).await;
    run(&db, "GRANT EXECUTE ON ALL ROUTINES IN SCHEMA outbox TO PUBLIC").await;
    let nobody = role(&db, "nobody").await;
    let session = db.connect_as(&nobody).await;
    for what in ["emit", "relay", "operate", "monitor", "maintain"] {
        let error = refusal(&session, &format!("SELECT outbox.grant_{what}('{nobody}')")).await;
        assert_eq!(error.code().code(), "42501", "{what}: {error}");
        assert!(error.message().contains("owner"), "{what}: {error}");
    }
    nobody_gets_at_anything(&db).await;
}

async fn a_grant_lets_a_role_use_the_schema_where_not_everybody_may(db: Database) {
    let app = role(&db, "app").await;
    run(&db, "REVOKE USAGE ON SCHEMA outbox FROM PUBLIC").await;
    let session = db.connect_as(&app).await;
    assert_eq!(refusal(&session, "SELECT outbox.version()").await.code().code(), "42501");
    grant(&db, "emit", &app).await;
    run(&session, "SELECT outbox.emit('a', '{}')").await;
    assert_eq!(value(&db, "SELECT has_schema_privilege('public', 'outbox', 'USAGE')").await, "false");
}

#[tokio::test]
async fn an_upgrade_closes_what_a_restore_has_opened() {
    let Some(old) = Outbox::plain("0.2.0").await else { return };
    let app = role(&old.db, "app").await;
    run(
        &old.db,
        &format!(
            "SELECT outbox.grant_emit('{app}'); GRANT EXECUTE ON ALL ROUTINES IN SCHEMA outbox TO PUBLIC;
             GRANT SELECT ON outbox.events, outbox.failed TO PUBLIC; GRANT SELECT (payload) ON outbox.events TO PUBLIC"
        ),
    )
    .await;
    old.upgrade().await.unwrap();
    assert_eq!(value(&old.db, OPEN).await, "");
    nobody_gets_at_anything(&old.db).await;
    run(&*old.db.connect_as(&app).await, "SELECT outbox.emit('a', '{}')").await;
}

#[tokio::test]
async fn default_privileges_for_everybody_open_nothing_of_what_is_installed() {
    let db = Postgres::shared().await.empty_database().await;
    run(
        &db,
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC; ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO PUBLIC",
    )
    .await;
    assert!(super::install_plain_sql(&db).await.status.success());
    let open = "SELECT string_agg(object, ', ' ORDER BY object) FROM outbox.open_to_public()";
    assert_eq!(value(&db, open).await, "sequences to come of role postgres, tables to come of role postgres");
    nobody_gets_at_anything(&db).await;
}

#[tokio::test]
async fn the_inbox_is_closed_after_every_restore_and_each_grant_makes_its_rights_whole() {
    let db = with_plain_sql().await;
    let inbox = harness::places::checkout().join("sql/inbox.sql");
    let mut psql = Postgres::shared().await.program("psql");
    assert!(
        psql.args(["--quiet", "--no-psqlrc", "--dbname", db.name(), "--file"]).arg(inbox).status().unwrap().success()
    );
    let consumer = role(&db, "consumer").await;
    run(&db, &format!("SELECT inbox.grant_receive('{consumer}'); SELECT outbox.emit('a', '{{}}')")).await;
    let receive = "SELECT inbox.receive('billing', '0190163d-8694-739b-aea5-966c26f8ad91')";
    for (flags, is_missing) in [(&["--no-acl"][..], false), (&[], true)] {
        let copy = restored(&db, "postgres", flags, async || {
            if is_missing {
                forget(&db, &consumer).await;
            }
        })
        .await;
        let nobody = role(&copy, "nobody").await;
        let session = copy.connect_as(&nobody).await;
        assert_eq!(refusal(&session, receive).await.code().code(), "42501");
        if is_missing {
            run(&copy, &format!("CREATE ROLE {consumer} LOGIN")).await;
        }
        assert_ne!(value(&copy, &OPEN.replace("()", "('inbox')")).await, "");
        run(&copy, "GRANT SELECT ON inbox.received TO PUBLIC; GRANT USAGE ON SCHEMA inbox TO PUBLIC").await;
        run(&copy, &format!("SELECT inbox.grant_receive('{consumer}')")).await;
        assert_eq!(value(&copy, &OPEN.replace("()", "('inbox')")).await, "");
        assert_eq!(refusal(&session, receive).await.code().code(), "42501");
        run(&*copy.connect_as(&consumer).await, receive).await;
    }
}

#[tokio::test]
async fn an_inbox_that_everybody_may_call_answers_only_those_who_were_granted_it() {
    let db = super::inbox::with_inbox().await;
    let [consumer, nobody, member] =
        [role(&db, "consumer").await, role(&db, "nobody").await, role(&db, "member").await];
    run(
        &db,
        &format!(
            "SELECT inbox.grant_receive('{consumer}'); GRANT {consumer} TO {member};
             GRANT USAGE ON SCHEMA inbox TO PUBLIC; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA inbox TO PUBLIC"
        ),
    )
    .await;
    let receive = super::inbox::receive(super::inbox::MESSAGE);
    let session = db.connect_as(&nobody).await;
    for call in [&*receive, &format!("SELECT inbox.grant_receive('{nobody}')"), "CALL inbox.forget('1 second')"] {
        let error = refusal(&session, call).await;
        assert_eq!(error.code().code(), "42501", "{call}: {error}");
    }
    let error = refusal(&session, &receive).await;
    assert_eq!(error.message(), "permission denied for function inbox.receive(text,uuid,integer)");
    assert!(error.hint().unwrap().contains("inbox.grant_receive("), "{error:?}");
    assert_eq!(value(&db, "SELECT count(*) FROM inbox.received").await, "0");
    for (role, is_new) in [(&*consumer, "true"), (&*member, "false"), ("postgres", "false")] {
        assert_eq!(value(&*db.connect_as(role).await, &receive).await, is_new, "{role}");
    }
    // A grant to that role closes it.
    run(&db, &format!("SELECT inbox.grant_receive('{consumer}')")).await;
    assert_eq!(refusal(&session, &receive).await.message(), "permission denied for schema inbox");
}
