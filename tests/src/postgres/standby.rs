//! Physical replication: a standby that follows a server, and failover to it.

use std::process::Command;
use std::{sync::Mutex, time::Duration};

use tokio::sync::OnceCell;

use super::{Postgres, write};
use crate::{
    Connection, Guarded, SOON, eventually,
    guarded::Start,
    places::{give_to_postgres, pg_folder, postgres_user, run_folder, server_folder},
    ports,
};

impl Postgres {
    /// A new server that streams from this one. To `synchronous_standby_names` it is `standby`: never write `*` there,
    /// which counts a relay's walsender as a standby, too.
    pub async fn standby(&self) -> Self {
        let folder = server_folder("standby");
        give_to_postgres(&folder);
        let standby = Self { folder, port: ports::free(), process: Mutex::default(), template: OnceCell::new() };
        standby.follow(self).await;
        standby
    }

    /// A server of its own whose synchronous standby is away. The harness's sessions do not wait for it; a role does
    /// after `ALTER ROLE … SET synchronous_commit = on`.
    pub async fn without_its_standby() -> Self {
        Self::private().set("synchronous_commit", "local").set("synchronous_standby_names", "nobody").start().await
    }

    /// Ends the sessions whose commits wait for the standby. What they have committed counts from then on.
    pub async fn end_waiting_commits(&self) {
        let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        Connection::open(&self.url("postgres")).await.batch_execute(ends).await.expect("the sessions end");
    }

    /// As [`standby`](Self::standby), one that copies this server's failover slots; for PostgreSQL 17 or newer.
    pub async fn standby_with_slots(&self) -> Self {
        let primary = Connection::open(&self.url("postgres")).await;
        let make = "SELECT pg_create_physical_replication_slot('standby', true)";
        primary.batch_execute(make).await.expect("a slot for the standby");
        let folder = server_folder("standby");
        give_to_postgres(&folder);
        let standby = Self { folder, port: ports::free(), process: Mutex::default(), template: OnceCell::new() };
        let copies = "primary_slot_name = 'standby'\nhot_standby_feedback = on\nsync_replication_slots = on\n";
        standby.follow_with(self, copies).await;
        standby
    }

    /// Turns this server, which is stopped or was killed, into a standby of `primary`: its data is replaced by a copy.
    /// The port stays. Returns when it streams.
    pub async fn follow(&self, primary: &Self) {
        self.follow_with(primary, "").await;
    }

    async fn follow_with(&self, primary: &Self, settings: &str) {
        let data = self.folder.join("data");
        let _ = std::fs::remove_dir_all(&data); // there is none before the first time
        let mut command = Command::new(pg_folder("--bindir").join("pg_basebackup"));
        command.args(["--no-sync", "--checkpoint=fast", "--wal-method=stream", "--dbname", &primary.url("postgres")]);
        command.arg("--pgdata").arg(&data).current_dir(&self.folder);
        let log = self.folder.join("pg_basebackup.log");
        let run = run_folder(&self.folder);
        let start = Start { name: "pg_basebackup", run, log: Some(&log), user: postgres_user(), stop: "KILL" };
        let status = Guarded::start(&start, &command).0.exited(Duration::from_secs(120)).await;
        assert!(status.success(), "pg_basebackup: {}", std::fs::read_to_string(log).unwrap_or_default());

        // Of two lines for one setting the later counts.
        let conf = data.join("postgresql.auto.conf");
        let copied = std::fs::read_to_string(&conf).expect("a copy of the primary's settings");
        let own = format!(
            "port = {}\nunix_socket_directories = ''\nsynchronous_standby_names = ''\n\
             primary_conninfo = 'host=127.0.0.1 port={} user=postgres dbname=postgres application_name=standby'\n{settings}",
            self.port, primary.port
        );
        write(&conf, &(copied + &own));
        write(&data.join("standby.signal"), "");
        self.start().await;
        let primary = Connection::open(&primary.url("postgres")).await;
        let sql = "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'standby' AND state = 'streaming'";
        eventually("the standby streams", SOON, async || {
            let count: i64 = primary.query_one(sql, &[]).await.expect("a running primary").get(0);
            if count > 0 { Ok(()) } else { Err(count) }
        })
        .await;
    }

    /// Makes a standby the primary, and waits until it takes writes.
    pub async fn promote(&self) {
        let standby = Connection::open(&self.url("postgres")).await;
        let promoted: bool = standby.query_one("SELECT pg_promote()", &[]).await.expect("a standby").get(0);
        assert!(promoted, "the standby on port {} was not promoted in time:\n{}", self.port, self.log());
    }
}
