//! A private Debezium Server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    Guarded, Stack, eventually,
    guarded::Start,
    places::{run_folder, server_folder},
};

/// How long a JVM may take to start beside other tests.
const STARTED: Duration = Duration::from_secs(120);

/// Debezium Server, which publishes what is inserted into the table `outboxevent` to the exchange `outbox`, as its
/// outbox event router makes it. Dropping it ends it; its slot stays.
#[derive(Debug)]
pub struct Debezium {
    slot: String,
    log: PathBuf,
    _process: Guarded,
}

impl Debezium {
    /// The one that the variable `DEBEZIUM_SERVER` names, a folder, run by the program `JAVA` (or `java`).
    ///
    /// # Panics
    /// When it does not stream after two minutes.
    pub async fn start(home: &Path, stack: &Stack) -> Self {
        let folder = server_folder("debezium");
        let slot = format!("{}_debezium", stack.db.name());
        let (settings, log) = (folder.join("application.properties"), folder.join("log"));
        fs::write(&settings, properties(stack, &slot, &folder.join("offsets"))).expect("the settings are written");
        let mut command = Command::new(std::env::var_os("JAVA").unwrap_or("java".into()));
        command
            .current_dir(home)
            .arg("--add-opens=java.base/java.lang=ALL-UNNAMED")
            .arg(format!("-Dquarkus.config.locations={}", settings.display()))
            .args(["-cp", &format!("{}:lib/*", runner(home)), "io.debezium.server.Main"]);
        let start =
            Start { name: "Debezium Server", run: run_folder(&folder), log: Some(&log), user: None, stop: "KILL" };
        let (process, _) = Guarded::start(&start, &command);
        let debezium = Self { slot, log, _process: process };
        eventually("Debezium streams", STARTED, async || {
            let sql = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1 AND active";
            let slots: i64 = stack.db.query_one(sql, &[&debezium.slot]).await.expect("the slots").get(0);
            if slots == 1 { Ok(()) } else { Err(debezium.last_words()) }
        })
        .await;
        debezium
    }

    /// Its replication slot.
    pub fn slot(&self) -> &str {
        &self.slot
    }

    /// The last lines of its log.
    pub fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
    }
}

fn runner(home: &Path) -> String {
    let files = fs::read_dir(home).unwrap_or_else(|error| panic!("DEBEZIUM_SERVER={}: {error}", home.display()));
    let mut names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.find(|name| name.ends_with("-runner.jar")).expect("the folder has Debezium's -runner.jar")
}

/// Of <https://debezium.io/documentation/reference/stable/operations/debezium-server.html>.
fn properties(stack: &Stack, slot: &str, offsets: &Path) -> String {
    let (db, vhost) = (&stack.db, &stack.vhost);
    format!(
        "quarkus.http.port=0
debezium.sink.type=rabbitmq
debezium.sink.rabbitmq.connection.host=127.0.0.1
debezium.sink.rabbitmq.connection.port={}
debezium.sink.rabbitmq.connection.virtual.host={}
debezium.sink.rabbitmq.connection.username=guest
debezium.sink.rabbitmq.connection.password=guest
debezium.sink.rabbitmq.exchange=outbox
debezium.sink.rabbitmq.routingKey.source=topic
debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector
debezium.source.offset.storage.file.filename={}
debezium.source.offset.flush.interval.ms=200
debezium.source.database.hostname=127.0.0.1
debezium.source.database.port={}
debezium.source.database.user=postgres
debezium.source.database.password=none
debezium.source.database.dbname={}
debezium.source.topic.prefix=app
debezium.source.plugin.name=pgoutput
debezium.source.slot.name={slot}
debezium.source.publication.name=debezium
debezium.source.publication.autocreate.mode=filtered
debezium.source.table.include.list=public.outboxevent
debezium.source.snapshot.mode=no_data
debezium.transforms=outbox
debezium.transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
debezium.transforms.outbox.table.expand.json.payload=true
debezium.format.value=json
debezium.format.value.schemas.enable=false
",
        vhost.port(),
        vhost.name(),
        offsets.display(),
        db.port(),
        db.name(),
    )
}
