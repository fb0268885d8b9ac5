//! From settings to connected parts, with a clear answer to whatever is missing.

mod checks;
mod lock;
mod slot;

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_postgres::Client;
use tracing::{debug, info, warn};

pub use self::slot::SlotState;
use crate::{
    config::Config,
    error::{Kind, RunError},
    postgres::Database,
    publish::{PublishConfig, Publisher},
    session::Parts,
    store::Store,
};

/// Makes the server notice within some 15 s that the relay's machine is gone, and so free the lock for a standby; its
/// own default is more than two hours. Without effect on a Unix socket
/// (<https://www.postgresql.org/docs/current/runtime-config-connection.html#RUNTIME-CONFIG-TCP-SETTINGS>).
const NOTICE_A_LOST_RELAY: &str = "SET tcp_keepalives_idle = '5s'; SET tcp_keepalives_interval = '3s';
                                   SET tcp_keepalives_count = 3; SET tcp_user_timeout = '15s'";

/// Makes the server notice that a relay has died while a statement of its session waits, for a lock or for the transactions
/// that a new slot waits for. Otherwise the session, and the lock it holds, live until the statement ends. Servers on
/// platforms that cannot tell refuse it (<https://www.postgresql.org/docs/current/runtime-config-connection.html>).
pub(crate) const NOTICE_A_DEAD_RELAY: &str = "SET client_connection_check_interval = '500ms'";

/// Pause before a waiting relay connects again.
const STANDBY_PAUSE: Duration = Duration::from_secs(1);

/// What `init` found or made.
#[derive(Debug)]
pub struct InitReport {
    /// Name of the publication, and what `outbox.ensure_publication` did.
    pub publication: (String, String),
    /// Name of the slot, and what became of it.
    pub slot: (String, SlotState),
}

/// Makes publication and slot.
pub async fn init(config: &Config) -> Result<InitReport, RunError> {
    let database = database(config)?;
    let (client, mut connection) = connect(config, &database).await?;
    let report = prepare(config, &database, &client).await?;
    drop(client);
    connection.shutdown().await;
    Ok(report)
}

/// What a session inherits from the one before.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// A connection to the broker that it can start with.
    pub(crate) publisher: Option<Publisher>,
    /// The slot cannot be read on: it must be made anew.
    pub(crate) slot_is_useless: bool,
    /// It met a row that is larger than any event.
    pub(crate) careful: bool,
}

/// Connects to both servers, takes the lock and starts the stream.
pub(crate) async fn connect_all(config: &Config, inherited: Inherited) -> Result<Parts, RunError> {
    let publish = publish_config(config)?;
    let database = database(config)?;
    let (client, connection) = connect_and_lock(config, &database).await?;
    if config.create_slot {
        if inherited.slot_is_useless {
            slot::discard(config, &client).await?;
        }
        prepare(config, &database, &client).await?;
    } else {
        slot::require(config, &client).await?;
    }
    // The server ends a replication connection that is silent for that long: a third leaves room for two late updates.
    let timeout =
        wal_sender_timeout(&client).await?.map_or(config.takeover_after, |own| own.min(config.takeover_after));
    let status_interval = config.status_interval.min(timeout / 3);
    let stream = loop {
        match slot::stream(config, &database, timeout).await? {
            Some(stream) => break stream,
            // A relay that died while it made the slot has taken it along.
            None if config.create_slot => slot::ensure(config, &database, &client).await?,
            None => slot::require(config, &client).await.map(|()| SlotState::Exists)?,
        };
    };
    let store = Store::prepare(client).await.map_err(|error| {
        RunError::new(Kind::Database, "cannot prepare the relay's statements")
            .hint("check that the extension and the relay are of the same version")
            .source(error)
    })?;
    info!(target: "relay", state = "connected", slot = config.slot, "connected to {database}");
    let publisher = inherited.publisher;
    Ok(Parts {
        stream,
        store,
        connection,
        publish,
        publisher,
        status_interval,
        stands_still_after: timeout / 2,
        careful: inherited.careful,
    })
}

/// Connects to the broker once, so that a wrong address or password is reported at the start.
pub(crate) async fn connect_broker(config: &Config) -> Result<Publisher, RunError> {
    let publish = publish_config(config)?;
    let url = publish.url.clone();
    Publisher::connect(publish).await.map_err(|error| checks::broker_error(error, &url))
}

async fn connect(config: &Config, database: &Database) -> Result<Connected, RunError> {
    let (client, driver) =
        database.connect(&config.application_name).await.map_err(|error| checks::connect_error(error, database))?;
    let mut connection = JoinSet::new();
    connection.spawn(driver);
    client.batch_execute(NOTICE_A_LOST_RELAY).await.map_err(checks::sql_error)?;
    if let Err(error) = client.batch_execute(NOTICE_A_DEAD_RELAY).await {
        debug!(target: "relay", %error, "the server cannot tell whether this relay lives while a statement waits");
    }
    checks::server(&client, database).await?;
    Ok((client, connection))
}

type Connected = (Client, JoinSet<Result<(), tokio_postgres::Error>>);

/// A relay that waits for its turn outlives a restart of the database: that is when it may be needed.
async fn connect_and_lock(config: &Config, database: &Database) -> Result<Connected, RunError> {
    let mut is_standby = false;
    loop {
        let connected = async {
            let (client, connection) = connect(config, database).await?;
            lock::take(config, &client, &mut is_standby).await?;
            Ok((client, connection))
        };
        match connected.await {
            Err(error) if is_standby => {
                warn!(target: "relay", %error, "lost the database while waiting; connecting again");
                tokio::time::sleep(STANDBY_PAUSE).await;
            }
            connected => return connected,
        }
    }
}

async fn prepare(config: &Config, database: &Database, client: &Client) -> Result<InitReport, RunError> {
    let publication: String = client
        .query_one("SELECT outbox.ensure_publication($1)", &[&config.publication])
        .await
        .and_then(|row| row.try_get(0))
        .map_err(checks::sql_error)?;
    let slot = slot::ensure(config, database, client).await?;
    Ok(InitReport { publication: (config.publication.clone(), publication), slot: (config.slot.clone(), slot) })
}

/// `None` if the server has it switched off.
async fn wal_sender_timeout(client: &Client) -> Result<Option<Duration>, RunError> {
    let millis: i32 = client
        .query_one("SELECT setting::int FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'", &[])
        .await
        .and_then(|row| row.try_get(0))
        .map_err(checks::sql_error)?;
    Ok(u64::try_from(millis).ok().filter(|millis| *millis > 0).map(Duration::from_millis))
}

fn database(config: &Config) -> Result<Database, RunError> {
    Database::parse(config.database_url.expose()).map_err(|error| {
        RunError::new(Kind::Usage, "database-url (DATABASE_URL)").hint("see docs/configuration.md").source(error)
    })
}

fn publish_config(config: &Config) -> Result<PublishConfig, RunError> {
    config.publish().map_err(|error| {
        RunError::new(Kind::Usage, "amqp-url (AMQP_URL)").hint("see docs/configuration.md").source(error)
    })
}
