//! A poller in Go, as good as we could make it: `tests/peers/go-poller/`, which says how it works.
//!
//! Its table has a `bigint` key and one partial index, of what is not sent.

use std::{
    path::{self, PathBuf},
    process::Command,
};

use harness::{Stack, places::checkout};

use crate::{peer::Peer, report::folder};

/// In the report.
pub(crate) const NAME: &str = "poller in Go";

/// Its table's name.
pub(crate) const TABLE_NAME: &str = "bench.go_outbox";

/// Its table.
pub(crate) const TABLE: &str = "
    CREATE SCHEMA bench;
    CREATE TABLE bench.go_outbox (
        id             bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
        created_at     timestamptz NOT NULL DEFAULT now(),
        topic          text        NOT NULL,
        event_type     text        NOT NULL,
        aggregate_type text        NOT NULL,
        aggregate_id   text        NOT NULL,
        payload        json        NOT NULL,
        sent_at        timestamptz
    );
    CREATE INDEX ON bench.go_outbox (id) WHERE sent_at IS NULL;
";

/// What is left to be sent, the newest first.
pub(crate) const UNSENT: &str = "SELECT FROM bench.go_outbox WHERE sent_at IS NULL ORDER BY id DESC LIMIT 1";

/// The program.
pub(crate) struct Built(PathBuf);

/// Builds it, from the versions that `go.sum` names. `None` where that cannot be done: then it is left out.
pub(crate) fn build() -> Option<Built> {
    let program = path::absolute(folder().join("peers/go-poller")).expect("there is a working directory");
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-o"]).arg(&program).current_dir(checkout().join("tests/peers/go-poller"));
    let failure = match go.output() {
        Ok(go) if go.status.success() => return Some(Built(program)),
        Ok(go) => String::from_utf8_lossy(&go.stderr).into_owned(),
        Err(e) => e.to_string(),
    };
    println!("{NAME} is left out, Go cannot build it: {failure}");
    None
}

impl Built {
    /// Starts it, and waits until it is connected.
    pub(crate) fn start(&self, stack: &Stack) -> Peer {
        Peer::spawn(NAME, Command::new(&self.0), stack)
    }
}
