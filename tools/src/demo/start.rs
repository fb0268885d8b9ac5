//! Step 1: servers, extension, roles, relay, consumer.

use std::time::Instant;

use harness::Postgres;

use crate::{broker::Broker, demo::Demo, screen::Screen};

/// The least privileges that do: the application emits and cannot read or change an event, the relay cannot see the
/// application's tables.
const SCHEMA: &str = "
    CREATE TABLE orders (id bigint PRIMARY KEY, cents bigint NOT NULL);
    CREATE ROLE shop LOGIN;
    GRANT INSERT, SELECT ON orders TO shop;
    SELECT outbox.grant_emit('shop');
    CREATE ROLE relay LOGIN REPLICATION;
    SELECT outbox.grant_relay('relay');";

/// Starts everything and shows the versions.
pub(crate) async fn start() -> Demo {
    let screen = Screen::new();
    screen.step("The stack comes up: private servers, the extension, the relay, a consumer");
    let (postgres, mut broker) = tokio::join!(start_postgres(&screen), Broker::start(&screen));

    let begin = Instant::now();
    let db = postgres.database().await;
    db.batch_execute(SCHEMA).await.unwrap_or_else(|e| panic!("cannot create the demo's schema: {e:?}"));
    let shop = db.connect_as("shop").await;
    let row = db.query_one("SELECT outbox.version()", &[]).await.expect("the extension has a version");
    let version: &str = row.get(0);
    screen.timed(
        &format!("extension {version}"),
        "CREATE EXTENSION outbox; table orders; roles shop, relay",
        begin.elapsed(),
    );

    broker.consume(&screen).await;

    let builder = broker.relay(&db);
    let (_, version) = builder.clone().arguments(&["--version"]).finish().await;
    let begin = Instant::now();
    let relay = builder.start().await;
    let version = version.split_whitespace().last().unwrap_or("?");
    screen.timed(&format!("relay {version}"), &format!("streaming; process {}", relay.pid()), begin.elapsed());

    Demo {
        screen,
        relay,
        shop,
        broker,
        db,
        postgres,
        committed: Vec::new(),
        rolled_back: Vec::new(),
        peak_rss_bytes: 0,
    }
}

async fn start_postgres(screen: &Screen) -> Postgres {
    let begin = Instant::now();
    let postgres = Postgres::private().start().await;
    let time = begin.elapsed();
    let session = harness::Connection::open(&postgres.url("postgres")).await;
    let row = session.query_one("SHOW server_version", &[]).await.expect("it has a version");
    let version = row.get::<_, &str>(0).split(' ').next().unwrap_or("?");
    screen.timed(&format!("PostgreSQL {version}"), &format!("127.0.0.1:{}", postgres.port()), time);
    postgres
}
