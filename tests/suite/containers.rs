//! What docker/ is made of, on private servers: no container runs here.

use std::{
    path::Path,
    process::{Command, Output},
};

use harness::{Postgres, RabbitMq, RelayBuilder, SOON, eventually, places::checkout};

#[tokio::test]
async fn the_first_event_of_the_containers_is_sent_by_the_commands_in_the_head_of_compose_yaml() {
    let (postgres, rabbitmq) = tokio::join!(Postgres::private().start(), RabbitMq::private().start());
    let db = postgres.empty_database().await;

    let mut initdb = bash(&postgres);
    initdb.arg(checkout().join("docker/initdb.sh"));
    initdb
        .env("POSTGRES_USER", "postgres")
        .env("POSTGRES_DB", db.name())
        .env("OUTBOX_RELAY_PASSWORD", "it's \"secret\" \\1");
    said(initdb.output().unwrap());
    let import =
        rabbitmq.ctl(&["import_definitions", checkout().join("docker/definitions.json").to_str().unwrap()]).await;
    assert!(import.contains("Successfully"), "{import}");
    let _relay = RelayBuilder::new()
        .set("database-url", &db.url_as("outbox_relay"))
        .set("amqp-url", &format!("amqp://guest:guest@127.0.0.1:{}/%2f", rabbitmq.amqp_port()))
        .start()
        .await;

    let compose = std::fs::read_to_string(checkout().join("docker/compose.yaml")).unwrap();
    let commands: Vec<&str> =
        compose.lines().filter_map(|line| line.strip_prefix("#   docker compose exec postgres ")).collect();
    let [emit, look] = commands[..] else { panic!("{commands:?}") };
    let run = |command: &str| {
        let command = command.replace("-U postgres app", &format!("-U postgres {}", db.name()));
        said(bash(&postgres).arg("-c").arg(command).output().unwrap())
    };
    run(emit);
    eventually("the event is SENT", SOON, async || {
        let rows = run(look);
        if rows.contains("orders.created | SENT") { Ok(()) } else { Err(rows) }
    })
    .await;
    eventually("the queue has it", SOON, async || {
        let queues = rabbitmq.ctl(&["list_queues", "name", "messages"]).await;
        if queues.lines().any(|line| line.split_whitespace().eq(["events", "1"])) { Ok(()) } else { Err(queues) }
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
