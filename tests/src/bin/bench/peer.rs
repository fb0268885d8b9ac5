//! The npm package `pg-transactional-outbox`, which follows the log of PostgreSQL too; `tests/peers/` has it set up as its
//! documentation says, publishing with `amqplib`.
//!
//! It marks each event in a transaction of its own, twenty at a time here; its default is one.
//!
//! It can lose events: the log brings a commit before other sessions see its rows, and what it does not find in the table
//! when it looks it takes for deleted, and acknowledges ("cannot be processed: MESSAGE_NOT_FOUND").

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use harness::{Connection, Stack, places::checkout};

use crate::report::folder;

/// In the report.
pub(crate) const NAME: &str = "pg-transactional-outbox";
/// Events that it has in work at once.
const PARALLEL: &str = "20";
/// One event (200 B); the parameter is its number.
pub(crate) const INSERT_ONE: &str = "
    INSERT INTO outbox (id, aggregate_type, aggregate_id, message_type, payload, metadata)
    VALUES (gen_random_uuid(), 'order', ($1::int % 1000)::text, 'OrderMoved',
            jsonb_build_object('order', $1::int, 'text', repeat('x', 170)), '{\"routingKey\": \"order.moved\"}')
    RETURNING id";

/// So many events at once.
pub(crate) async fn insert(db: &Connection, events: u64) {
    let sql = format!(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, message_type, payload, metadata)
         SELECT gen_random_uuid(), 'order', (i % 1000)::text, 'OrderMoved',
                jsonb_build_object('order', i, 'text', repeat('x', 170)), '{{\"routingKey\": \"order.moved\"}}'
         FROM generate_series(1, {events}) AS i;"
    );
    db.batch_execute(&sql).await.expect("a backlog");
    db.batch_execute("ANALYZE outbox").await.expect("ANALYZE");
}

/// Where it is, with what it depends on.
pub(crate) struct Installed {
    folder: PathBuf,
}

/// Installs it with `npm ci` into `target/bench/peers`, in the versions that the lock file names. `None` where that cannot be
/// done: then it is left out.
pub(crate) fn install() -> Option<Installed> {
    let from = checkout().join("tests/peers").join(NAME);
    let to = folder().join("peers").join(NAME);
    fs::create_dir_all(&to).expect("target/ is writable");
    let lock = "package-lock.json";
    let is_there = to.join("node_modules").is_dir() && fs::read(from.join(lock)).ok() == fs::read(to.join(lock)).ok();
    for file in fs::read_dir(&from).expect("tests/peers").flatten().filter(|file| file.path().is_file()) {
        fs::copy(file.path(), to.join(file.file_name())).expect("target/ is writable");
    }
    if !is_there {
        let npm = Command::new("npm").args(["ci", "--omit=dev", "--ignore-scripts"]).current_dir(&to).output();
        let failure = match npm {
            Ok(npm) if npm.status.success() => None,
            Ok(npm) => Some(String::from_utf8_lossy(&npm.stderr).into_owned()),
            Err(e) => Some(e.to_string()),
        };
        if let Some(failure) = failure {
            let _ = fs::remove_dir_all(to.join("node_modules")); // or half of it would count as all
            println!("{NAME} is left out, npm cannot install it: {failure}");
            return None;
        }
    }
    Some(Installed { folder: to })
}

impl Installed {
    /// Table, publication and slot.
    pub(crate) async fn set_up(&self, stack: &Stack) {
        let setup = self.node("setup.mjs").output().expect("node, as npm is there");
        assert!(setup.status.success(), "setup.mjs: {}", String::from_utf8_lossy(&setup.stderr));
        let sql = String::from_utf8(setup.stdout).expect("SQL is text");
        stack.db.batch_execute(&sql).await.expect("its table and publication");
        let slot = "SELECT pg_create_logical_replication_slot($1::text::name, 'pgoutput')";
        stack.db.execute(slot, &[&stack.db.name()]).await.expect("its slot");
    }

    fn node(&self, script: &str) -> Command {
        let mut node = Command::new("node");
        node.arg(script).current_dir(&self.folder);
        node
    }
}

/// A program that relays, until it is dropped.
pub(crate) struct Peer(Child);

impl Peer {
    /// Starts the package, and waits until it says that it is connected to the broker.
    pub(crate) fn start(installed: &Installed, stack: &Stack) -> Self {
        let mut command = installed.node("relay.mjs");
        command.env("SLOT", stack.db.name()).env("PARALLEL", PARALLEL);
        Self::spawn(NAME, command, stack)
    }

    /// Starts a program that is told where the servers are, says `ready` when it is connected to them, and ends with its standard input.
    pub(crate) fn spawn(name: &str, mut command: Command, stack: &Stack) -> Self {
        command.env("DATABASE_URL", stack.db.url()).env("AMQP_URL", stack.vhost.url());
        // It ends with its standard input, and so with us, however we end.
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|e| panic!("{name} does not start: {e}"));
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("its output");
        assert_eq!(line, "ready\n", "{name} has ended at once");
        Self(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }
}
