//! The harness keeps its own promises.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
};

use harness::{Postgres, RabbitMq, SOON, Shutdown, eventually, places::program};

#[tokio::test]
async fn every_test_has_a_database_of_its_own_with_the_extension() {
    let postgres = Postgres::shared().await;
    let (one, other) = (postgres.database().await, postgres.database().await);

    let version = "SELECT extversion FROM pg_extension WHERE extname = 'outbox'";
    assert_eq!(one.query_one(version, &[]).await.unwrap().get::<_, &str>(0), env!("CARGO_PKG_VERSION"));

    one.batch_execute("CREATE TABLE here (id int)").await.unwrap();
    assert!(other.batch_execute("SELECT * FROM here").await.is_err());
}

#[tokio::test]
async fn a_database_takes_its_slots_with_it_when_it_goes() {
    let postgres = Postgres::shared().await;
    let observer = postgres.empty_database().await;

    let db = postgres.empty_database().await;
    let name = db.name().to_owned();
    let slot = format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')");
    db.batch_execute(&slot).await.unwrap();
    drop(db);

    let left = "SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1)
                     + (SELECT count(*) FROM pg_database WHERE datname = $1)";
    assert_eq!(observer.query_one(left, &[&name]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test]
async fn every_test_has_a_vhost_of_its_own() {
    let rabbitmq = RabbitMq::shared().await;
    let (one, other) = (rabbitmq.vhost().await, rabbitmq.vhost().await);
    one.exchange("here").await;

    let exchanges = |name: &str| format!("/api/exchanges/{name}");
    let here = async |vhost: &harness::Vhost| {
        let list = vhost.api("GET", &exchanges(vhost.name()), None).await;
        list.as_array().unwrap().iter().any(|exchange| exchange["name"] == "here")
    };
    assert!(here(&one).await);
    assert!(!here(&other).await);
}

#[tokio::test]
async fn a_consumer_sees_what_is_published_in_order() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("outbox", "a.*").start().await;
    for number in 0..3 {
        let message = serde_json::json!({
            "routing_key": "a.b", "payload": number.to_string(), "payload_encoding": "string", "properties": {}
        });
        vhost.api("POST", &format!("/api/exchanges/{}/outbox/publish", vhost.name()), Some(&message)).await;
    }
    let bodies: Vec<_> = consumer.wait_for(3).await.into_iter().map(|delivery| delivery.body).collect();
    assert_eq!(bodies, [b"0", b"1", b"2"]);
}

#[tokio::test]
async fn a_private_postgres_keeps_its_data_and_port_through_stop_kill_and_freeze() {
    let postgres = Postgres::private().set("work_mem", "5MB").start().await;
    let db = postgres.empty_database().await;
    db.batch_execute("CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)").await.unwrap();
    let reads = async || db.connect().await.query_one("SELECT count(*) FROM kept", &[]).await.unwrap().get::<_, i64>(0);

    postgres.stop(Shutdown::Fast).await;
    assert!(harness::Connection::try_open(db.url()).await.is_err());
    postgres.start().await;
    assert_eq!(reads().await, 1);

    postgres.kill().await;
    postgres.start().await;
    assert_eq!(reads().await, 1);

    postgres.pause();
    let paused = tokio::time::timeout(std::time::Duration::from_millis(200), reads()).await;
    assert!(paused.is_err(), "a frozen server answered");
    postgres.resume();
    assert_eq!(reads().await, 1);

    let work_mem = db.connect().await.query_one("SHOW work_mem", &[]).await.unwrap();
    assert_eq!(work_mem.get::<_, &str>(0), "5MB");
}

#[tokio::test]
async fn a_private_rabbitmq_keeps_its_topology_and_ports_through_stop_and_kill() {
    let rabbitmq = RabbitMq::private().start().await;
    let vhost = rabbitmq.vhost().await;
    vhost.exchange("kept").await;
    let kept = format!("/api/exchanges/{}/kept", vhost.name());

    rabbitmq.stop().await;
    rabbitmq.start().await;
    rabbitmq.api("GET", &kept, None).await;

    rabbitmq.kill().await;
    rabbitmq.start().await;
    rabbitmq.api("GET", &kept, None).await;
    assert!(rabbitmq.ctl(&["list_vhosts"]).await.contains(vhost.name()));
}

#[tokio::test]
async fn nothing_is_left_when_the_process_that_owns_the_servers_is_killed() {
    let mut owner =
        Command::new(program("outbox-servers", "OUTBOX_SERVERS_PROGRAM")).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines().map_while(Result::ok);
    let folder = lines.find_map(|line| line.strip_prefix("Files: ").map(str::to_owned)).unwrap();
    assert!(!processes_of(&folder).is_empty());

    owner.kill().unwrap(); // SIGKILL: it has no say in what follows
    assert_eq!(owner.wait().unwrap().signal(), Some(9));

    eventually("its servers have ended and their files are gone", SOON, async || {
        let left = (processes_of(&folder), Path::new(&folder).exists());
        if left == (Vec::new(), false) { Ok(()) } else { Err(left) }
    })
    .await;
}

/// Ids of the processes that work in `folder` or name it on their command line; epmd names it nowhere but in its
/// environment.
fn processes_of(folder: &str) -> Vec<String> {
    let has = |path: String| std::fs::read(path).is_ok_and(|text| String::from_utf8_lossy(&text).contains(folder));
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().into_string().ok());
    ids.filter(|id| id.parse::<u32>().is_ok())
        .filter(|id| {
            std::fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
                || has(format!("/proc/{id}/cmdline"))
                || has(format!("/proc/{id}/environ"))
        })
        .collect()
}
