//! The commands beside `run`, as a person or a script calls them.

mod check;
mod events;
mod fields;
mod purge;
mod replay;
mod status;
mod tail;
mod terminal;

use std::process::Stdio;

use harness::{Connection, Stack, places::program};
use serde_json::Value;
use tokio::process::Command;

/// How a command has ended.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Asked {
    /// What it has printed as JSON, a value for each line.
    fn json(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {self:?}"))).collect()
    }

    /// The one value that it has printed.
    fn object(&self) -> Value {
        let mut all = self.json();
        assert_eq!(all.len(), 1, "{self:?}");
        all.remove(0)
    }

    /// The exit code was as expected.
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// `outbox-relay` with these arguments, and the settings of the stack's relay but for the database's URL.
fn command(stack: &Stack, url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program("outbox-relay", "OUTBOX_RELAY_PROGRAM"));
    command.args(arguments).env_clear().kill_on_drop(true).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("DATABASE_URL", url).env("AMQP_URL", stack.vhost.url()).env("OUTBOX_RELAY_SLOT", stack.db.name());
    command
}

async fn finish(mut command: Command) -> Asked {
    let output = command.output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Asked { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Calls the command as a superuser.
pub(crate) async fn ask(stack: &Stack, arguments: &[&str]) -> Asked {
    finish(command(stack, stack.db.url(), arguments)).await
}

/// Calls the command as another role.
pub(crate) async fn ask_as(stack: &Stack, role: &str, arguments: &[&str]) -> Asked {
    finish(command(stack, &stack.db.url_as(role), arguments)).await
}

/// A role of the test's own, with what `grant` says of `{}`. It goes with the server.
async fn role(db: &Connection, name: &str, grant: &str) -> String {
    let database: String = db.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
    let role = format!("{name}_{database}");
    db.batch_execute(&format!("CREATE ROLE {role} LOGIN; {}", grant.replace("{}", &role))).await.unwrap();
    role
}

const OPERATOR: &str = "SELECT outbox.grant_operate('{}')";
const MONITOR: &str = "SELECT outbox.grant_monitor('{}')";
const RELAY: &str = "ALTER ROLE {} REPLICATION; SELECT outbox.grant_relay('{}')";

/// Everything that the test has done for its role, before its database is dropped.
async fn forget(db: &Connection, role: &str) {
    db.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// The one value of a query, as text.
async fn value(db: &Connection, sql: &str) -> String {
    let rows = db.simple_query(sql).await.unwrap();
    rows.iter()
        .find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        })
        .unwrap()
}

/// Ten events, no relay.
async fn history(stack: &Stack) {
    stack.db.batch_execute(crate::extension::replay::HISTORY).await.unwrap();
}

/// The payloads of events with a status, in the order in which they were made.
async fn payloads(stack: &Stack, status: &str) -> String {
    let sql = format!(
        "SELECT coalesce(string_agg(payload::text, ' ' ORDER BY seq), '') FROM outbox.events WHERE status = '{status}'"
    );
    value(&stack.db, &sql).await
}
