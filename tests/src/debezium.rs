//! A private Debezium Server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    Database, Guarded, Kafka, Listener, Vhost, eventually,
    guarded::Start,
    places::{run_folder, server_folder},
};

/// How long a JVM may take to start beside other tests.
const STARTED: Duration = Duration::from_secs(120);

/// Debezium Server, which publishes what is inserted into the table `outboxevent`, as its outbox event router makes it.
/// Dropping it ends it; its slot stays.
#[derive(Debug)]
pub struct Debezium {
    slot: String,
    log: PathBuf,
    process: Guarded,
}

/// Where Debezium Server publishes to.
#[derive(Clone, Copy, Debug)]
pub enum DebeziumSink<'a> {
    /// The exchange `outbox`, with the topic as routing key.
    RabbitMq(&'a Vhost),
    /// The topic, as text.
    Kafka(&'a Kafka),
}

impl Debezium {
    /// The folder of Debezium Server, which the variable `DEBEZIUM_SERVER` names; `scripts/debezium` fetches one.
    pub fn home() -> Option<PathBuf> {
        std::env::var_os("DEBEZIUM_SERVER").map(PathBuf::from)
    }

    /// The one in this folder, run by the program `JAVA` (or `java`), with these settings beside the usual ones.
    ///
    /// # Panics
    /// When it does not stream after two minutes.
    pub async fn start(home: &Path, db: &Database, sink: DebeziumSink<'_>, settings: &[(&str, &str)]) -> Self {
        let folder = server_folder("debezium");
        let slot = format!("{}_debezium", db.name());
        let (file, log) = (folder.join("application.properties"), folder.join("log"));
        let others: String = settings.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        let text = properties(db, &slot, &folder.join("offsets")) + &sink.properties() + &others;
        fs::write(&file, text).expect("the settings are written");
        let mut command = Command::new(std::env::var_os("JAVA").unwrap_or("java".into()));
        command
            .current_dir(home)
            .arg("--add-opens=java.base/java.lang=ALL-UNNAMED")
            .arg(format!("-Dquarkus.config.locations={}", file.display()))
            .args(["-cp", &format!("{}:lib/*", runner(home)), "io.debezium.server.Main"]);
        let start =
            Start { name: "Debezium Server", run: run_folder(&folder), log: Some(&log), user: None, stop: "KILL" };
        let (process, _) = Guarded::start(&start, &command);
        let debezium = Self { slot, log, process };
        eventually("Debezium streams", STARTED, async || {
            let sql = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1 AND active";
            if let Some(status) = debezium.process.try_exit() {
                panic!("Debezium Server ended with {status}:\n{}", debezium.last_words());
            }
            let slots: i64 = db.query_one(sql, &[&debezium.slot]).await.expect("the slots").get(0);
            if slots == 1 { Ok(()) } else { Err(debezium.last_words()) }
        })
        .await;
        debezium
    }

    /// Its replication slot.
    pub fn slot(&self) -> &str {
        &self.slot
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Freezes it.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Undoes [`pause`](Self::pause).
    pub fn resume(&self) {
        self.process.resume();
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

impl DebeziumSink<'_> {
    fn properties(self) -> String {
        match self {
            Self::RabbitMq(vhost) => format!(
                "debezium.sink.type=rabbitmq
debezium.sink.rabbitmq.connection.host=127.0.0.1
debezium.sink.rabbitmq.connection.port={}
debezium.sink.rabbitmq.connection.virtual.host={}
debezium.sink.rabbitmq.connection.username=guest
debezium.sink.rabbitmq.connection.password=guest
debezium.sink.rabbitmq.exchange=outbox
debezium.sink.rabbitmq.routingKey.source=topic
",
                vhost.port(),
                vhost.name(),
            ),
            Self::Kafka(kafka) => format!(
                "debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers={}
debezium.sink.kafka.producer.key.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.value.serializer=org.apache.kafka.common.serialization.StringSerializer
",
                kafka.addresses(Listener::Plain),
            ),
        }
    }
}

/// Of <https://debezium.io/documentation/reference/stable/operations/debezium-server.html>.
fn properties(db: &Database, slot: &str, offsets: &Path) -> String {
    format!(
        "quarkus.http.port=0
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
debezium.format.schemas.enable=false
",
        offsets.display(),
        db.port(),
        db.name(),
    )
}
