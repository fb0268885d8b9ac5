//! What the database promises: `outbox.emit`, the rules of the table, and what the relay and operators call.
//!
//! Every promise is checked three times: with the extension, which writes past the executor; with the extension where
//! that is switched off; and with the plain SQL that installs where no extension can be built. They must not differ.

mod altered_table;
mod altered_types;
mod audit;
mod available_at;
mod body;
mod context;
mod default_privileges;
pub(crate) mod dump;
mod emit;
mod encoding;
mod encodings;
mod error_fields;
mod executor;
mod header_numbers;
mod health;
mod health_counts;
mod hold;
mod inbox;
mod inbox_concurrent;
mod insert;
mod install;
mod interrupted;
mod last_settled;
mod limits;
mod lost_rights;
mod memory;
mod notify;
mod other_tables;
mod payload_limit;
mod plans;
mod privileges;
mod publication;
pub(crate) mod replay;
mod replica_role;
mod reserved;
mod retention;
mod rights;
mod scan;
mod search_path;
mod sequence;
mod sequence_concurrent;
mod session_settings;
mod settle;
mod settle_altered;
mod settle_locked;
mod status;
mod stolen;
mod uncounted;
mod undumped;
pub(crate) mod upgrade;
mod upgrade_refused;
mod upgrade_rights;

use std::process::Output;

use harness::{Database, Postgres, SOON, eventually};
use tokio_postgres::{Client, error::DbError};

/// Makes three tests of each function: one for each way to install, and one for each way in which the extension writes.
macro_rules! on_both_installations {
    ($($promise:ident),+ $(,)?) => {
        mod with_the_extension {
            $(#[tokio::test] async fn $promise() { super::$promise(crate::extension::with_the_extension().await).await })+
        }
        mod without_direct_writes {
            $(#[tokio::test] async fn $promise() { super::$promise(crate::extension::without_direct_writes().await).await })+
        }
        mod with_plain_sql {
            $(#[tokio::test] async fn $promise() { super::$promise(crate::extension::with_plain_sql().await).await })+
        }
    };
}
use on_both_installations;

/// The statement after which the schema is of another version, or of its own again.
pub(crate) fn other_version(version: &str) -> String {
    format!("CREATE OR REPLACE FUNCTION outbox.version() RETURNS text LANGUAGE sql AS $$ SELECT '{version}' $$")
}

/// A database with the extension. Its own session may add to the table what `pg_dump` would lose (see [`undumped`]), so
/// that a test of such a table runs on both installations. What it wrote is checked at the end.
async fn with_the_extension() -> Database {
    let db = Postgres::shared().await.database().await.checked_at_the_end();
    run(&db, "SET outbox.allow_undumped_changes = on").await;
    db
}

/// A database with the extension, which writes by statements.
async fn without_direct_writes() -> Database {
    let db = Postgres::shared().await.database().await;
    let off = format!("ALTER DATABASE {} SET outbox.direct_writes = off; SET outbox.direct_writes = off", db.name());
    run(&db, &off).await;
    run(&db, "SET outbox.allow_undumped_changes = on").await;
    db
}

/// A database with the same schema from sql/outbox.sql.
async fn with_plain_sql() -> Database {
    let db = Postgres::shared().await.empty_database().await;
    let output = install_plain_sql(&db).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "psql: {said}");
    db
}

/// Runs sql/outbox.sql, as superuser.
async fn install_plain_sql(db: &Database) -> Output {
    Postgres::shared().await.install_plain_sql(db.name())
}

/// One value as text; `None` for null.
async fn text(client: &Client, sql: &str) -> Option<String> {
    let row = client.query_one(&format!("SELECT ({sql})::text"), &[]).await;
    row.unwrap_or_else(|e| panic!("{sql}: {e:?}")).get(0)
}

/// One value as text that is not null.
async fn value(client: &Client, sql: &str) -> String {
    text(client, sql).await.unwrap_or_else(|| panic!("{sql} is null"))
}

/// A trigger of the user's, which notes the topic of each new event.
const AUDIT: &str = "CREATE TABLE audit (topic text);
     CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS
         'BEGIN INSERT INTO public.audit VALUES (new.topic); RETURN new; END';
     CREATE TRIGGER audit AFTER INSERT ON outbox.events FOR EACH ROW EXECUTE FUNCTION audit()";

/// Runs SQL that must succeed.
async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}

/// Waits until so many sessions of this database wait for a lock.
async fn lock_waits(client: &Client, count: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually(&format!("{count} wait for a lock"), SOON, async || {
        match client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) {
            waiting if waiting == count => Ok(()),
            waiting => Err(waiting),
        }
    })
    .await;
}

/// Runs SQL that must be refused, and returns the error.
async fn refusal(client: &Client, sql: &str) -> DbError {
    match client.batch_execute(sql).await {
        Ok(()) => panic!("not refused: {sql}"),
        Err(e) => e.as_db_error().unwrap_or_else(|| panic!("{sql}: {e:?}")).clone(),
    }
}

/// Makes a role of the test's own; roles are shared by all databases of a server. Its rights go with the database.
async fn role(db: &Database, what: &str) -> String {
    let role = format!("{}_{what}", db.name());
    run(db, &format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN")).await;
    role
}

/// The statement after which `owner` owns everything of the outbox.
pub(crate) fn with_owner(owner: &str) -> String {
    rights::OWN.replace("{}", owner)
}
