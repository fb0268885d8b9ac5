//! The examples in tests/clients work: each commits an order and its event as a role with the application's grants, and
//! the message arrives. Those that consume are in `consume`, those that bring a schema in `migration_tools`, and the
//! recipes for frameworks, which have tests of their own, in `scripted` and `compiled`.
//!
//! Each language's ordinary client installs the locked dependencies below `target/`, once. Where the toolchain is
//! missing, or the dependencies cannot be had, the test did not run. Rust's tests cannot say that, so it passes, and
//! the last lines of `make test` say which did not run (scripts/not-run). On CI it fails, but for the toolchains that
//! CI's machine does not have (`open_where_present`).

mod compiled;
mod consume;
mod migration_tools;
mod scripted;
mod workshop;

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use harness::{Postgres, SOON, Stack, eventually, places::checkout};
use uuid::Uuid;
use workshop::Workshop;

#[tokio::test]
async fn a_script_emits_with_psql() {
    let mut psql = Postgres::shared().await.program("psql");
    psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
    psql.arg("--file").arg(clients().join("psql/emit.sql"));
    delivers(psql, |psql, url| psql.arg(url)).await;
}

#[tokio::test]
async fn a_python_program_emits_with_psycopg() {
    let Some(workshop) = python().await else {
        return;
    };
    let mut python = workshop.command("venv/bin/python");
    python.arg("emit.py");
    delivers(python, in_environment).await;
}

#[tokio::test]
async fn an_orm_emits_by_inserting_an_object() {
    let install = |workshop: &Workshop| workshop.pip_install();
    let Some(workshop) = Workshop::open("orm", install).await else {
        return;
    };
    let mut python = workshop.command("venv/bin/python");
    python.arg("emit.py");
    delivers(python, in_environment).await;
}

#[tokio::test]
async fn a_node_program_emits_with_pg() {
    let Some(workshop) = node().await else {
        return;
    };
    let mut node = workshop.command("node");
    node.arg("emit.mjs");
    delivers(node, in_environment).await;
}

#[tokio::test]
async fn a_go_program_emits_with_pgx() {
    let Some(workshop) = go().await else {
        return;
    };
    delivers(workshop.command("built/emit"), in_environment).await;
}

#[tokio::test]
async fn a_java_program_emits_with_jdbc() {
    let Some(workshop) = java().await else {
        return;
    };
    let mut java = workshop.command("java");
    java.args(["-cp", "jars/*", "Emit.java"]);
    delivers(java, in_environment).await;
}

/// Runs the example against a database with the business table, and follows its event to the consumer.
async fn delivers(mut example: Command, tell_url: impl FnOnce(&mut Command, String) -> &mut Command) {
    let stack = Stack::new().await;
    let consumer = stack.consumer("orders.*").await;
    let relay = stack.relay().start().await;
    let role = format!("{}_shop", stack.db.name());
    let orders = std::fs::read_to_string(clients().join("orders.sql")).unwrap();
    let setup = format!(
        "{orders} CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT ON orders TO {role}; SELECT outbox.grant_emit('{role}')"
    );
    stack.db.batch_execute(&setup).await.unwrap();

    tell_url(&mut example, stack.db.url_as(&role));
    let output = tokio::task::spawn_blocking(move || example.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let id: Uuid = printed.trim().parse().unwrap_or_else(|_| panic!("not an id: {printed:?}"));

    // Money is text: a JSON number is a double to many a parser.
    let order = "SELECT id, jsonb_build_object('id', id, 'customer', customer, 'total', total::text) FROM orders";
    let (order_id, order): (i64, serde_json::Value) = {
        let row = stack.db.query_one(order, &[]).await.unwrap();
        (row.get(0), row.get(1))
    };
    let got = consumer.wait_for_ids(&[id], SOON).await;
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].routing_key, "orders.created");
    assert_eq!(got[0].key(), Some(("order".to_owned(), order_id.to_string())));
    assert_eq!(got[0].json(), order);
    eventually("the row is SENT", SOON, async || {
        let status = "SELECT status::text FROM outbox.events WHERE id = $1";
        match stack.db.query_one(status, &[&id]).await.unwrap().get(0) {
            "SENT" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
    assert!(relay.stop().await.success());
}

fn in_environment(example: &mut Command, url: String) -> &mut Command {
    example.env("DATABASE_URL", url)
}

async fn python() -> Option<Workshop> {
    Workshop::open("python", Workshop::pip_install).await
}

async fn node() -> Option<Workshop> {
    Workshop::open("node", npm_ci).await
}

fn npm_ci(workshop: &Workshop) -> Result<(), String> {
    workshop.run("npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --cache npm-cache")
}

async fn go() -> Option<Workshop> {
    // Not optimized: that is a third of the time it takes to compile Go's own library.
    let install = |workshop: &Workshop| {
        workshop.run("go build -gcflags=all=-N -o built/ ./...")?;
        workshop.run("go test -c -gcflags=all=-N -o built/ ./gorm")
    };
    Workshop::open("go", install).await
}

async fn java() -> Option<Workshop> {
    maven("java").await
}

async fn maven(name: &str) -> Option<Workshop> {
    Workshop::open(name, copy_jars).await
}

fn copy_jars(workshop: &Workshop) -> Result<(), String> {
    workshop.run(
        "mvn --batch-mode --quiet -Dmaven.repo.local=repository dependency:copy-dependencies -DoutputDirectory=jars",
    )
}

fn clients() -> PathBuf {
    checkout().join("tests/clients")
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}
