//! What each trouble happens to: servers, a database with the outbox, a relay, a Prometheus.

use std::collections::HashSet;

use harness::{
    Connection, Consumer, Postgres, Prometheus, RabbitMq, Relay, RelayBuilder, SOON, Vhost, eventually, free_port,
    places::pg_config,
};
use uuid::Uuid;

use crate::{orders::Orders, pager::Pager, terminal::Terminal};

/// The roles that the documents recommend: of the application, the relay, and the person on call.
const ROLES: &str = "
    CREATE ROLE shop LOGIN;
    CREATE ROLE relay LOGIN REPLICATION;
    CREATE ROLE operator LOGIN;
    GRANT pg_monitor TO operator;";
const SCHEMA: &str = "
    CREATE EXTENSION outbox;
    SELECT outbox.grant_emit('shop'), outbox.grant_relay('relay'), outbox.grant_operate('operator');";

/// Dropped from top to bottom.
pub(crate) struct Shop {
    pub(crate) terminal: Terminal,
    pub(crate) pager: Pager,
    pub(crate) relay: Relay,
    pub(crate) builder: RelayBuilder,
    /// A superuser's session.
    pub(crate) db: Connection,
    pub(crate) url: String,
    pub(crate) vhost: Vhost,
    pub(crate) rabbitmq: RabbitMq,
    _postgres: Postgres,
}

impl Shop {
    /// Starts everything. The relay has `settings` besides those that every relay needs.
    pub(crate) async fn open(title: &str, rabbitmq: &[(&str, &str)], settings: &[(&str, &str)]) -> Self {
        let broker = rabbitmq.iter().fold(RabbitMq::private(), |broker, (name, value)| broker.set(name, value));
        let (postgres, rabbitmq) = tokio::join!(Postgres::private().start(), broker.start());
        let server = Connection::open(&postgres.url("postgres")).await;
        server.batch_execute(ROLES).await.unwrap_or_else(|e| panic!("{e:?}"));
        server.batch_execute("CREATE DATABASE shop").await.unwrap_or_else(|e| panic!("{e:?}"));
        let url = postgres.url("shop");
        let db = Connection::open(&url).await;
        db.batch_execute(SCHEMA).await.unwrap_or_else(|e| panic!("{e:?}"));
        let vhost = rabbitmq.vhost().await;
        vhost.exchange("outbox").await;

        let http = free_port();
        let amqp_url = vhost.url();
        let own = [
            ("database-url", as_role(&url, "relay")),
            ("amqp-url", amqp_url.clone()),
            ("http-listen", http.to_string()),
        ];
        let builder = RelayBuilder::new();
        let builder = own.iter().fold(builder, |builder, (name, value)| builder.set(name, value));
        let builder = settings.iter().fold(builder, |builder, (name, value)| builder.set(name, value));
        let relay = builder.start().await;
        let prometheus = Prometheus::start(&[http]).await;
        let tools = pg_config().parent().map(|folder| folder.display().to_string()).unwrap_or_default();
        let path = format!("{}:{tools}", std::env::var("PATH").unwrap_or_default());
        let operator = as_role(&url, "operator");
        let relay_url = format!("http://127.0.0.1:{http}");
        let environment = [
            ("PATH", path.as_str()),
            ("USER", "ada"), // stands in the audit
            ("DATABASE_URL", &operator),
            ("OWNER", &url),
            ("AMQP_URL", &amqp_url),
            ("RELAY", &relay_url),
        ];
        let terminal = Terminal::open(title, &environment);
        let pager = Pager::watch(prometheus, terminal.clone());
        Self { terminal, pager, relay, builder, db, url, vhost, rabbitmq, _postgres: postgres }
    }

    /// Asks what is set up wrongly.
    pub(crate) fn checks(&self) {
        self.terminal.types("outbox-relay check | grep -v ^ok");
    }

    /// Looks at what the relay has warned of.
    pub(crate) fn relays_warnings(&self) {
        let log = self.relay.log_lines();
        let warnings: Vec<&str> =
            log.iter().map(String::as_str).filter(|line| line.contains(" WARN ")).take(6).collect();
        self.terminal.shows("journalctl --unit outbox-relay | grep WARN | head -6", &warnings.join("\n"));
    }

    /// The first id in what a command has said.
    ///
    /// # Panics
    /// When there is none.
    pub(crate) fn first_id(said: &str) -> Uuid {
        said.split_whitespace().find_map(|word| Uuid::parse_str(word).ok()).expect("an event's id")
    }

    /// Waits until this is so of the row of `outbox.health()`. The terminal does not show it.
    ///
    /// # Panics
    /// When it is not.
    pub(crate) async fn sees(&self, what: &str, condition: &str) {
        let query = format!("SELECT {condition} FROM outbox.health()");
        eventually(what, 2 * SOON + SOON, async || {
            let holds: bool = self.db.query_one(&query, &[]).await.map_err(|e| e.to_string())?.get(0);
            if holds { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
    }

    /// The application begins to take orders.
    pub(crate) async fn take_orders(&self, topics: &'static [&'static str]) -> Orders {
        Orders::take(Connection::open(&as_role(&self.url, "shop")).await, topics)
    }

    /// A queue of that name and a consumer of it, bound to the relay's exchange.
    pub(crate) async fn consumer(&self, queue: &str, binding: &str) -> Consumer {
        self.vhost.consumer("outbox", binding).queue(queue).without_bodies().start().await
    }

    /// Waits until all these events have arrived at one of the consumers, and says how many and how often.
    ///
    /// # Panics
    /// When one is lost.
    pub(crate) async fn account(&self, events: &[Uuid], consumers: &[&Consumer]) {
        let all = async || {
            let arrived: HashSet<Uuid> = consumers.iter().flat_map(|consumer| consumer.ids()).collect();
            match events.iter().filter(|id| !arrived.contains(id)).count() {
                0 => Ok(()),
                missing => Err(format!("{missing} of {} are missing", events.len())),
            }
        };
        eventually("every event has arrived", SOON, all).await;
        let arrivals: usize = consumers.iter().map(|consumer| consumer.count()).sum();
        let repeated = arrivals - events.len();
        self.terminal.happens(&format!(
            "the account: {} events were committed, all have arrived, {repeated} of them twice",
            events.len()
        ));
    }
}

/// The servers trust local connections; the URL is a superuser's.
pub(crate) fn as_role(url: &str, role: &str) -> String {
    url.replacen("//postgres@", &format!("//{role}@"), 1)
}
