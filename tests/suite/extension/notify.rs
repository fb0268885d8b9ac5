//! Applications can follow a status by LISTEN, when the session that writes it has `outbox.notify_status` on.

use harness::{Database, Postgres};

use super::{on_both_installations, run, value};

on_both_installations!(
    a_status_is_notified_on_demand,
    nothing_is_notified_by_default,
    a_setting_that_is_no_boolean_is_off
);

/// What a session that listens is told of what it does itself.
async fn told(db: &Database, sql: &[&str]) -> Vec<String> {
    let mut psql = Postgres::shared().await.program("psql");
    psql.args(["--no-psqlrc", "--quiet", "--dbname", db.name(), "--command", "LISTEN outbox_status"]);
    for statement in sql {
        psql.args(["--command", statement]);
    }
    let output = psql.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let payloads = lines.lines().filter(|line| line.starts_with("Asynchronous notification"));
    payloads.map(|line| line.split('"').nth(3).unwrap().to_owned()).collect()
}

fn settle(id: &str, status: &str) -> String {
    format!("SELECT outbox.settle('{{{id}}}', '{{{status}}}', '{{x}}')")
}

async fn a_status_is_notified_on_demand(db: Database) {
    let id = value(&db, "SELECT outbox.emit('a', '{}')").await;
    let on = "SET outbox.notify_status = on";
    let told_of = told(
        &db,
        &[
            on,
            &settle(&id, "PENDING"),
            &settle(&id, "FAILED"),
            "UPDATE outbox.events SET status = 'PENDING'",
            &settle(&id, "SENT"),
            "BEGIN; UPDATE outbox.events SET status = 'PENDING'; ROLLBACK",
        ],
    )
    .await;
    assert_eq!(told_of, [format!("{id} FAILED"), format!("{id} PENDING"), format!("{id} SENT")]);
}

async fn nothing_is_notified_by_default(db: Database) {
    let id = value(&db, "SELECT outbox.emit('a', '{}')").await;
    assert_eq!(told(&db, &[&settle(&id, "SENT")]).await, [""; 0]);
    run(&db, "UPDATE outbox.events SET status = 'PENDING'").await;
}

async fn a_setting_that_is_no_boolean_is_off(db: Database) {
    // Before the library is loaded PostgreSQL takes any text for it. That must not stop the relay.
    let id = value(&db, "SELECT outbox.emit('a', '{}')").await;
    assert_eq!(told(&db, &["SET outbox.notify_status = 'perhaps'", &settle(&id, "SENT")]).await, [""; 0]);
}
