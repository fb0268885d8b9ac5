//! The whole product, where every name that it uses is planted.

use std::{collections::BTreeSet, path::Path};

use harness::{Connection, Postgres, RabbitMq, SOON, Stack, eventually};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    assert_untouched,
    log::{Entry, entries},
    plant::plant,
    used,
};
use crate::{command::ask_as, dashboard::http::ask, watch::http_port};

/// Puts the schema of others before PostgreSQL's own, for every session that does not say otherwise.
fn hostile(database: &str) -> String {
    format!("ALTER DATABASE {database} SET search_path = evil, pg_catalog, public")
}

#[tokio::test]
async fn nothing_that_others_have_planted_is_used_by_a_statement_of_the_product() {
    let postgres = Postgres::private().set("log_statement", "all").set("debug_print_parse", "on");
    let postgres = postgres.set("debug_pretty_print", "off").set("log_parameter_max_length", "0").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let database = stack.db.name().to_owned();
    let logged = |mark: usize| of_product(&entries(&postgres.log()[mark..], &database));

    let roles = Roles::of(&stack).await;
    let tokens = std::env::temp_dir().join(format!("{database}-{}", std::process::id()));
    std::fs::write(&tokens, format!("Grace {TOKEN}\n")).unwrap();

    everything(&stack, &roles, &tokens).await;
    let before = logged(0);
    let planted = plant(&stack.db, &used(&before)).await;
    stack.db.batch_execute(&hostile(&database)).await.unwrap();

    let mark = postgres.log().len();
    everything(&stack, &roles, &tokens).await;
    std::fs::remove_file(&tokens).unwrap();
    let after = logged(mark);
    assert_untouched(&planted, &after);

    // In a session that does not pin its path, the same statements use it.
    let mark = postgres.log().len();
    let url = format!("{}?application_name=control", stack.db.url());
    let control = Connection::open(&url).await;
    let statements: BTreeSet<&str> = after.iter().filter_map(statement).collect();
    for statement in &statements {
        let _ = control.prepare(statement).await; // where it fails, that is because of what is planted
    }
    let control: Vec<Entry> = entries(&postgres.log()[mark..], &database);
    let found = used(&control).oids();
    let reached: Vec<String> = stack
        .db
        .query(
            "SELECT DISTINCT proname::text FROM pg_catalog.pg_proc WHERE oid OPERATOR(pg_catalog.=) ANY ($1)
             UNION SELECT oprname FROM pg_catalog.pg_operator WHERE oid OPERATOR(pg_catalog.=) ANY ($1)",
            &[&found.intersection(&planted.oids).copied().collect::<Vec<u32>>()],
        )
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let bare: BTreeSet<&str> = statements.iter().flat_map(|statement| bare_calls(statement)).collect();
    let (hit, missed): (Vec<&str>, Vec<&str>) = bare
        .into_iter()
        .filter(|name| planted.names.contains(*name))
        .partition(|name| reached.iter().any(|one| one.as_str() == *name));
    println!(
        "{} statements; planted {:?}; reached without a pin {reached:?}; in vain {missed:?}",
        statements.len(),
        planted.names
    );
    assert!(hit.len() > 4 * missed.len(), "planted in vain for the bare names {missed:?}");
    for name in ["concat_ws", "current_setting", "pg_relation_size", "pg_relation_filenode", "="] {
        assert!(reached.iter().any(|one| one.as_str() == name), "{name} was planted in vain: {reached:?}");
    }
    assert!(statements.len() > 40, "{statements:#?}");
}

fn of_product(entries: &[Entry]) -> Vec<Entry> {
    entries.iter().filter(|entry| entry.application.starts_with("outbox-relay")).cloned().collect()
}

/// The text of a statement, if the line tells of one that asks or changes something.
fn statement(entry: &Entry) -> Option<&str> {
    let text = entry.text.strip_prefix("statement: ").or_else(|| {
        let (_, text) = entry.text.strip_prefix("execute ")?.split_once(": ")?;
        Some(text)
    })?;
    let text = text.trim();
    ["SELECT", "WITH", "(", "INSERT", "UPDATE", "DELETE"].iter().any(|word| text.starts_with(word)).then_some(text)
}

/// Names before an opening bracket that no schema stands before.
fn bare_calls(statement: &str) -> Vec<&str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut calls = Vec::new();
    for (at, _) in statement.match_indices('(') {
        let before = &statement[..at];
        let name = &before[before.trim_end_matches(is_of_name).len()..];
        let is_qualified = before[..at - name.len()].ends_with('.');
        if !name.is_empty() && !is_qualified && name.chars().all(|c| !c.is_ascii_uppercase()) {
            calls.push(name);
        }
    }
    calls
}

/// A role of each kind: the relay's, the dashboard's two, and one that may do everything. Made by the first call.
struct Roles {
    relay: String,
    monitor: String,
    operator: String,
    owner: String,
}

impl Roles {
    async fn of(stack: &Stack) -> Self {
        let name = |what| format!("{}_{what}", stack.db.name());
        let roles = Self { relay: name("r"), monitor: name("m"), operator: name("o"), owner: name("s") };
        let Self { relay, monitor, operator, owner } = &roles;
        let make = format!(
            "CREATE ROLE {relay} LOGIN REPLICATION; CREATE ROLE {monitor} LOGIN; CREATE ROLE {operator} LOGIN;
             CREATE ROLE {owner} LOGIN SUPERUSER; GRANT pg_read_all_stats TO {relay};
             SELECT outbox.grant_relay('{relay}'), outbox.grant_maintain('{relay}'), outbox.grant_monitor('{monitor}'),
                    outbox.grant_operate('{operator}')"
        );
        stack.db.batch_execute(&make).await.unwrap();
        roles
    }
}

const TOKEN: &str = "operator-token-0123456789abcdef";

/// Everything that the product does with a database, as far as two relays, a dashboard and a person at a terminal bring
/// it about. Afterwards neither publication nor slot nor events are left.
async fn everything(stack: &Stack, roles: &Roles, tokens: &Path) {
    let db = &stack.db;
    let consumer = stack.consumer("t.#").await;
    ask_as(stack, &roles.relay, &["init"]).await.ended_with(0);
    let relay = stack.relay().set("database-url", &db.url_as(&roles.relay)).set("retention", "1s");
    let relay = relay.set("retention-failed", "1h").set("check-interval", "200ms").set("max-slot-wal", "1GiB");
    let relay =
        relay.set("after-failed", "hold").set("http-listen", "0").set("dashboard-operators", tokens.to_str().unwrap());
    let relay = relay.set("dashboard-database-url", &db.url_as(&roles.monitor));
    let relay = relay.set("dashboard-operator-database-url", &db.url_as(&roles.operator));
    let first = relay.start().await;
    let second = relay.spawn();
    second.wait_for_log("waiting to take over").await;

    let emit = "SELECT outbox.emit('t.many', '{}') FROM pg_catalog.generate_series(1, 300);
        SELECT outbox.emit('t.large', pg_catalog.to_jsonb(pg_catalog.repeat('x', 100000)));
        SELECT outbox.emit('t.later', '{}', available_at => pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) '300 ms'::pg_catalog.interval)";
    db.batch_execute(emit).await.unwrap();
    let failed = emit_for_key(db, "unbound").await;
    emit_for_key(db, "t.behind").await;
    let is_failed =
        format!("SELECT status::pg_catalog.text FROM outbox.events WHERE id OPERATOR(pg_catalog.=) '{failed}'");
    eventually("the unroutable event is FAILED", SOON, async || {
        let status: String = db.query_one(&is_failed, &[]).await.unwrap().get(0);
        if status == "FAILED" { Ok(()) } else { Err(status) }
    })
    .await;
    people(stack, roles, http_port(&first).await, failed).await;
    consumer.wait_for(303).await;
    eventually("retention has deleted what was sent", SOON, async || {
        let left: i64 = db.query_one("SELECT pg_catalog.count(*) FROM outbox.events", &[]).await.unwrap().get(0);
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;

    first.kill().await;
    second.wait_for_log("streaming").await;
    db.batch_execute("SELECT outbox.emit('t.last', '{}')").await.unwrap();
    consumer.wait_for(304).await;
    assert!(second.stop().await.success(), "{}", second.log_text());
    db.batch_execute("DROP PUBLICATION outbox; DELETE FROM outbox.events; TRUNCATE outbox.audit").await.unwrap();
    eventually("the slot is dropped", SOON, async || {
        db.execute("SELECT pg_catalog.pg_drop_replication_slot($1)", &[&db.name()]).await.map_err(|e| e.to_string())
    })
    .await;
}

/// What people ask of the dashboard on this port, and at a terminal. The failed event is given up at the end.
async fn people(stack: &Stack, roles: &Roles, port: u16, failed: Uuid) {
    let token = format!("Bearer {TOKEN}");
    let asked = async |method: &str, path: &str, body: Option<&Value>| {
        let answer = ask(port, method, path, &[("authorization", &token)], body).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    };
    for path in ["session", "history", "events", "failures", "keys", "relays", "audit"] {
        asked("GET", &format!("/api/{path}"), None).await;
    }
    for query in ["status=failed&topic=unbound", "status=pending", "aggregate_type=a&aggregate_id=k", "status=sent"] {
        asked("GET", &format!("/api/events?{query}"), None).await;
    }
    for path in ["", "/contents"] {
        asked("GET", &format!("/api/events/{failed}{path}"), None).await;
    }
    let filter = json!({ "topic": "nowhere", "error": "none", "status": "FAILED" });
    for (path, body) in [
        ("preview", json!({ "action": "replay", "filter": filter })),
        ("act", json!({ "action": "replay", "filter": filter, "events": 1 })),
    ] {
        asked("POST", &format!("/api/{path}"), Some(&body)).await;
    }

    let Roles { relay, monitor, operator, owner } = roles;
    let id = failed.to_string();
    let calls: [(&str, &[&str]); 16] = [
        (relay, &["check"]),
        (monitor, &["status"]),
        (monitor, &["events"]),
        (monitor, &["events", "--status", "FAILED", "--topic", "unbound", "--since", "1h"]),
        (monitor, &["events", "--status", "PENDING", "--oldest", "--json"]),
        (monitor, &["events", "--holding", "--aggregate-id", "k"]),
        (operator, &["events", "--payload", "--error-like", "%NO_ROUTE%"]),
        (operator, &["events", &id]),
        (operator, &["replay", "--all", "--dry-run"]),
        (operator, &["replay", "--topic", "nowhere", "--yes"]),
        (operator, &["release", "--all", "--dry-run"]),
        (operator, &["release", &id, "--yes"]),
        (owner, &["purge", "--older-than", "1h", "--dry-run"]),
        (owner, &["purge", "--older-than", "1h", "--yes"]),
        (owner, &["purge", &id, "--yes"]),
        (monitor, &["tail", "#", "--for", "1s", "--yes"]),
    ];
    for (role, arguments) in calls {
        let asked = ask_as(stack, role, arguments).await;
        println!("{arguments:?}: {asked:?}");
    }
}

async fn emit_for_key(db: &Connection, topic: &str) -> Uuid {
    let emit = format!("SELECT outbox.emit('{topic}', '{{}}', aggregate_type => 'a', aggregate_id => 'k')");
    db.query_one(&emit, &[]).await.unwrap().get(0)
}
