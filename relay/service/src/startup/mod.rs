//! From settings to a session, with a clear answer to whatever is missing.

mod checks;
mod publication;
mod slot;
mod takeover;
mod waiting;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use outbox_core::{Core, Snapshot, Start};
use pg_replication::{ConnInfo, Lsn, Replication};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use tracing::{info, warn};

pub use self::slot::SlotState;
use self::{publication::Publication, takeover::Turn};
use crate::{
    config::Config,
    contact::Contact,
    database::{errors::connect_error, postgres},
    error::{Kind, RunError},
    observe::{Observed, Phase},
    repeats::Repeats,
    session::{Session, SessionError, Source},
    sink::{
        link::{FirstConnection, Link},
        rabbitmq::{RabbitMq, RabbitMqBroker, Spans},
    },
    store::{Store, sql},
    traces::Traces,
};

/// Pause before a waiting relay connects again.
const STANDBY_PAUSE: Duration = Duration::from_secs(1);

/// The same after a refusal, which somebody must change first.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

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
    let Connected { client, mut connection, mut replication, .. } = connect(config).await?;
    let publication = publication::ensure(config, &client).await?;
    let slot = slot::ensure(config, &client, &mut replication).await?;
    let report =
        InitReport { publication: (config.publication.clone(), publication), slot: (config.slot.clone(), slot) };
    drop(replication);
    drop(client);
    connection.shutdown().await;
    Ok(report)
}

/// What the end of a session asks of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing.
    #[default]
    Usual,
    /// The slot cannot be read on: it must be created again.
    SlotUseless,
    /// The server cannot send what comes next in the WAL: the stream must begin behind it.
    NotStreamable,
    /// The publication publishes every event again: the stream must begin behind the time when it did not.
    PublishedAgain,
    /// It met a row that is larger than any event.
    RowTooLarge,
}

impl After {
    pub(crate) fn of(end: &SessionError) -> Self {
        match end {
            SessionError::Stream(error) if error.publication_missing() => Self::SlotUseless,
            SessionError::Stream(error) if error.not_streamable() => Self::NotStreamable,
            SessionError::PublishedAgain => Self::PublishedAgain,
            SessionError::RowTooLarge(_) => Self::RowTooLarge,
            _ => Self::Usual,
        }
    }

    /// Whether a part of the WAL is passed over.
    fn passes_over(self) -> bool {
        matches!(self, Self::NotStreamable | Self::PublishedAgain)
    }
}

/// What a session inherits from the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inherited {
    /// How it ended.
    pub(crate) after: After,
    /// The server process of its stream, which may not have noticed yet that the stream has ended.
    pub(crate) walsender: Option<i32>,
}

/// The database's part of a session: the slot is this relay's, and its stream has started.
pub(crate) struct Database {
    store: Store,
    connection: JoinSet<Result<(), tokio_postgres::Error>>,
    source: Source,
    publication: Publication,
    /// How long the server bears silence.
    silence: Duration,
    confirmed: Lsn,
    passed_over: Option<Snapshot>,
    row_by_row: bool,
}

/// Connects to the database, waits for the slot and starts the stream.
pub(crate) async fn take_over(
    config: &Config,
    inherited: Inherited,
    observed: &Observed,
) -> Result<Database, RunError> {
    let Inherited { after, walsender } = inherited;
    let mut slot_is_useless = after == After::SlotUseless;
    let mut turn = Turn::new(walsender);
    let (mut away, mut lost_at) = (Repeats::default(), None);
    let (client, connection, (source, publication), database) = loop {
        let taken = async {
            let Connected { client, connection, server, replication, database } = connect(config).await?;
            observed.connected(database.clone());
            if slot_is_useless && config.create_slot {
                slot::discard(config, &client).await?;
                slot_is_useless = false;
            }
            (away, lost_at) = (Repeats::default(), None);
            let from = if after.passes_over() { slot::behind_the_log(&client, after).await? } else { Lsn(0) };
            let taken = takeover::take(config, &client, &server, replication, from, &mut turn, observed).await?;
            Ok::<_, RunError>((client, connection, taken, database))
        };
        match taken.await {
            // A relay that waits for its turn outlives a restart of the database: that is when it may be needed.
            Err(error) if turn.is_standby() => {
                observed.enters(Phase::Disconnected { error: Some(error.to_string()) });
                let since: Instant = *lost_at.get_or_insert_with(Instant::now);
                if let (true, tries) = away.count(&error.to_string()) {
                    tell(&error, tries, since.elapsed());
                }
                tokio::time::sleep(if error.is_transient() { STANDBY_PAUSE } else { REFUSED_PAUSE }).await;
            }
            taken => break taken?,
        }
    };
    let silence = slot::silence(config, &client).await?;
    let confirmed = slot::confirmed(config, &client).await?;
    let store = Store::prepare(client, &config.publication).await.map_err(|error| {
        checks::store_error(error, "cannot prepare the relay's statements")
            .hint("check that the extension and the relay are of the same version")
    })?;
    let cannot = |error| checks::store_error(error, "cannot look after the sequence of outbox.events.seq");
    store.ensure_sequence_at_start().await.map_err(cannot)?;
    let mut passed_over = None;
    if after.passes_over() {
        let cannot = |error| checks::store_error(error, "cannot learn which transactions run");
        passed_over = Some(store.current_snapshot().await.map_err(cannot)?);
    }
    info!(target: "relay", state = %"connected", slot = config.slot, host = database.peer, "connected to {}", config.database_url);
    let row_by_row = after == After::RowTooLarge;
    Ok(Database { store, connection, source, publication, silence, confirmed, passed_over, row_by_row })
}

/// Tells what keeps the relay from a session, for so long.
pub(super) fn tell(error: &RunError, tries: u32, lasted: Duration) {
    if error.kind() == Kind::ExtensionVersion {
        warn!(target: "relay", %error, tries, for = ?lasted, "the schema's version does not fit; trying again");
    } else {
        warn!(target: "relay", %error, tries, for = ?lasted, "no connection to the database; trying again");
    }
}

/// A session between the two servers. The broker may be away.
pub(crate) fn begin(
    config: &Config,
    database: Database,
    sink: RabbitMq,
    observed: &Arc<Observed>,
) -> Session<RabbitMq> {
    let Database { store, connection, source, publication, silence, confirmed, passed_over, row_by_row } = database;
    let start = Start {
        confirmed: outbox_core::Lsn(confirmed.0),
        broker_away_since: sink.away_since(),
        passed_over,
        without_stream: matches!(source, Source::Making(_)),
        is_unpublished: matches!(publication, Publication::Useless(_)),
        row_by_row,
        seed: fastrand::u64(..),
    };
    let mut rules = config.core(silence);
    rules.repairs_publication &= !matches!(publication, Publication::Whole { is_repairable: false });
    let core = Core::new(rules, start, Instant::now());
    let refused = match publication {
        Publication::Useless(refused) => Some(refused),
        Publication::Whole { .. } => None,
    };
    let slot = (config.slot.clone(), config.max_slot_wal);
    let (publication, observed) = (config.publication.clone(), Arc::clone(observed));
    Session::new(core, source, store, connection, sink, publication, slot, observed).without_publication(refused)
}

/// The broker's part of a session.
pub(crate) fn sink(config: &Config, first: Arc<FirstConnection>, traces: &Traces) -> Result<RabbitMq, RunError> {
    let missing = || RunError::new(Kind::Usage, "amqp-url (AMQP_URL) is not set").hint("see docs/configuration.md");
    let address = config.amqp_url.clone().ok_or_else(missing)?;
    let url = match address.latest() {
        Some(url) => url,
        None => address.now()?,
    };
    let spans = Spans::new(traces, "rabbitmq");
    let broker = RabbitMqBroker::new(address, config.publish(url), config.unroutable, config.key_headers, spans);
    Ok(Link::new(broker, first))
}

/// Both kinds of session with the database, the task that drives the one for SQL, and the host of that one.
struct Connected {
    client: Client,
    connection: JoinSet<Result<(), tokio_postgres::Error>>,
    /// The server of both, and who has logged in.
    server: ConnInfo,
    replication: Replication,
    database: Contact,
}

/// Connects in both ways, and checks that all is there: a relay that waits must not learn it when its turn has come.
async fn connect(config: &Config) -> Result<Connected, RunError> {
    let database = &config.database_url;
    let server = database.now()?;
    let (client, driver, peer) =
        postgres::connect(&server, &config.application_name).await.map_err(|error| connect_error(error, database))?;
    let mut connection = JoinSet::new();
    connection.spawn(driver);
    for comfort in [sql::NOTICE_A_LOST_RELAY, sql::OWN_SETTINGS, sql::NOTICE_A_DEAD_RELAY] {
        waiting::for_comfort(&client, comfort).await;
    }
    // One that stands still in the middle of a pass keeps no row from vacuum for longer than another waits to take over.
    let bound = sql::bound_idle_transactions(config.takeover_after);
    waiting::for_comfort(&client, &bound).await;
    checks::server(&client, config).await?;
    let replication = slot::connect(config, &server, &client).await?;
    checks::extension(&client, database).await?;
    Ok(Connected { client, connection, server, replication, database: Contact::with_database(&peer) })
}
