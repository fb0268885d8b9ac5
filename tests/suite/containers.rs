//! What docker/ is made of, on private servers: no container runs here.

use std::{
    path::Path,
    process::{Command, Output},
};

use harness::{Database, Kafka, Listener, Postgres, RabbitMq, RelayBuilder, SOON, eventually, places::checkout};

use crate::{dashboard::http::ask, not_run::not_run_outside_ci, watch::http_port};

#[tokio::test]
async fn the_first_event_of_the_containers_is_sent_by_the_commands_in_the_head_of_compose_yaml() {
    let (postgres, rabbitmq) = tokio::join!(Postgres::private().start(), RabbitMq::private().start());
    let db = initialized(&postgres).await;
    let import =
        rabbitmq.ctl(&["import_definitions", checkout().join("docker/definitions.json").to_str().unwrap()]).await;
    assert!(import.contains("Successfully"), "{import}");
    let readers = checkout().join("docker/dashboard_readers");
    let relay = RelayBuilder::new()
        .set("database-url", &db.url_as("outbox_relay"))
        .set("amqp-url", &format!("amqp://guest:guest@127.0.0.1:{}/%2f", rabbitmq.amqp_port()))
        .set("http-listen", "0")
        .set("dashboard-database-url", &db.url_as("dashboard"))
        .set("dashboard-readers", readers.to_str().unwrap())
        .start()
        .await;

    first_event(&postgres, &db, &file("compose.yaml"), "orders.created | SENT").await;
    eventually("the queue has it", SOON, async || {
        let queues = rabbitmq.ctl(&["list_queues", "name", "messages"]).await;
        if queues.lines().any(|line| line.split_whitespace().eq(["events", "1"])) { Ok(()) } else { Err(queues) }
    })
    .await;
    let port = http_port(&relay).await;
    assert_eq!(ask(port, "GET", "/api/events", &[], None).await.status, 401);
    let tokens = std::fs::read_to_string(readers).unwrap();
    let bearer = format!("Bearer {}", tokens.lines().last().unwrap().split_once(' ').unwrap().1);
    let answer = ask(port, "GET", "/api/events", &[("authorization", &bearer)], None).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn the_first_event_of_the_containers_reaches_kafka_by_the_commands_in_the_head_of_compose_kafka_yaml() {
    if let Some(why) = Kafka::missing() {
        return not_run_outside_ci("kafka", why);
    }
    let compose = file("compose.kafka.yaml");
    // The tests may run another version than the one that is fetched by default.
    let script = std::fs::read_to_string(checkout().join("scripts/kafka")).unwrap();
    let (_, version) = script.split_once("${KAFKA_VERSION:-").unwrap();
    let image = format!("docker.io/apache/kafka:{}\n", version.split('}').next().unwrap());
    assert_eq!(compose.matches(&image).count(), 2, "{image}");
    // Where it listens, and with whom, is the harness's.
    let own = ["LISTENER", "NODE_ID", "PROCESS_ROLES", "VOTERS", "LOG_DIRS"];
    let settings = compose.lines().filter_map(|line| line.strip_prefix("      KAFKA_")?.split_once(": "));
    let kafka = settings.filter(|(name, _)| !own.iter().any(|own| name.contains(own)));
    let kafka = kafka.fold(Kafka::private(), |kafka, (name, value)| {
        let value = value.split(" #").next().unwrap_or_default().trim_matches('"');
        kafka.set(&name.to_lowercase().replace('_', "."), value)
    });
    let (postgres, kafka) = tokio::join!(Postgres::private().start(), kafka.start());
    let db = initialized(&postgres).await;
    let (_, topic) = compose.split_once(r#""--topic", ""#).unwrap();
    let (topic, partitions) = topic.split_once(r#"", "--partitions", ""#).unwrap();
    kafka.create_topic(topic, partitions.split_once('"').unwrap().0.parse().unwrap(), &[]).await;
    let _relay = RelayBuilder::new()
        .set("database-url", &db.url_as("outbox_relay"))
        .set("kafka-url", &format!("kafka://{}", kafka.addresses(Listener::Plain)))
        .start()
        .await;

    first_event(&postgres, &db, &compose, "orders | SENT").await;
    assert!(compose.contains(&format!("--topic {topic} --from-beginning --max-messages 1")));
    kafka.consumer(topic).wait_for(1).await;
}

fn file(name: &str) -> String {
    std::fs::read_to_string(checkout().join("docker").join(name)).unwrap()
}

/// A database as the image's entry point leaves it.
async fn initialized(postgres: &Postgres) -> Database {
    let db = postgres.empty_database().await;
    let mut initdb = bash(postgres);
    initdb.arg(checkout().join("docker/initdb.sh"));
    initdb
        .env("POSTGRES_USER", "postgres")
        .env("POSTGRES_DB", db.name())
        .env("OUTBOX_RELAY_PASSWORD", "it's \"secret\" \\1")
        .env("OUTBOX_DASHBOARD_PASSWORD", "secret");
    said(initdb.output().unwrap());
    db
}

/// Runs the two commands for PostgreSQL in the head of a compose file, until the second says `wanted`.
async fn first_event(postgres: &Postgres, db: &Database, compose: &str, wanted: &str) {
    let commands: Vec<&str> =
        compose.lines().filter_map(|line| line.strip_prefix("#   docker compose exec postgres ")).collect();
    let [emit, look] = commands[..] else { panic!("{commands:?}") };
    let run = |command: &str| {
        let command = command.replace("-U postgres app", &format!("-U postgres {}", db.name()));
        said(bash(postgres).arg("-c").arg(command).output().unwrap())
    };
    run(emit);
    eventually("the event is SENT", SOON, async || {
        let rows = run(look);
        if rows.contains(wanted) { Ok(()) } else { Err(rows) }
    })
    .await;
}

/// A shell that finds the server and its psql.
fn bash(postgres: &Postgres) -> Command {
    let psql = postgres.program("psql");
    let folder = Path::new(psql.get_program()).parent().unwrap();
    let mut bash = Command::new("bash");
    bash.envs(psql.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bash.env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
    bash
}

fn said(output: Output) -> String {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
    assert!(output.status.success(), "{text}");
    text
}
