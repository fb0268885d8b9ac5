//! A session that runs out of memory gets an ERROR. Where the extension's own allocations failed, the process would
//! abort, and PostgreSQL then ends every session of the server.

use std::process::Command;

use harness::{Postgres, Shutdown};

use super::{run, value};

/// Each is refused in the end, for its size or because there is no memory for it.
const LARGE: [&str; 9] = [
    "SELECT outbox.emit('a', '{}')", // with the settings below
    "SELECT outbox.emit(repeat('x', 100000000), '{}')",
    "SELECT outbox.emit('a', '{}', correlation_id => repeat('x', 100000000))",
    "SELECT outbox.emit('a', to_jsonb(repeat(chr(1), 60000000)))",
    "SELECT outbox.emit('a', to_json(repeat(chr(1), 60000000)))",
    "SELECT outbox.emit('a', convert_to(repeat('x', 100000000), 'UTF8'))",
    "SELECT outbox.emit('a', '{}', headers => jsonb_build_object('a', repeat('x', 60000000)))",
    "SELECT outbox.emit('a', '{}', headers => jsonb_build_object(repeat('x', 60000000), 1))",
    "SELECT outbox.emit('a', (SELECT jsonb_agg(1) FROM generate_series(1, 3000000)))",
];

#[tokio::test]
async fn a_session_without_memory_does_not_end_the_others() {
    let postgres = Postgres::private().start().await;
    let db = postgres.database().await;
    for setting in ["outbox.traceparent", "outbox.correlation_id"] {
        for sql in LARGE {
            let session = db.connect().await;
            // Set before the session knows the settings, and so unchecked.
            run(&session, &format!("SELECT set_config('{setting}', repeat(chr(1), 100000000), false)")).await;
            run(&session, "SELECT outbox.uuid_v7()").await;
            leave_memory(&value(&session, "SELECT pg_backend_pid()").await, 64 << 20);
            let error = session.batch_execute(sql).await.expect_err(sql);
            let code = error.as_db_error().unwrap_or_else(|| panic!("{setting}: {sql}: {error:?}")).code().code();
            assert!(["22001", "22023", "53200", "54000"].contains(&code), "{sql}: {code}");
            assert_eq!(value(&session, "SELECT 1").await, "1");
        }
    }
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "0");
    assert!(!postgres.log().contains("terminated by signal"));
    drop(db);
    postgres.stop(Shutdown::Fast).await;
}

/// Lets a server process have so many bytes more than it has, and no more.
fn leave_memory(pid: &str, bytes: u64) {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let limit = format!("--as={}:", pages * rustix::param::page_size() as u64 + bytes);
    let limited = ["prlimit", "--pid", pid, &limit];
    // Only its own user may, not even root in a container; root's servers run as `postgres`.
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).args(limited);
        command
    } else {
        let mut command = Command::new(limited[0]);
        command.args(&limited[1..]);
        command
    };
    assert!(command.status().unwrap().success(), "{command:?}");
}
