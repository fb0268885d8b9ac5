//! From settings to a session, with a clear error for everything that is missing.

mod checks;
mod predecessor;
mod publication;
mod slot;
mod start_position;
mod stream_session;
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
use self::{predecessor::Predecessor, publication::Publication, takeover::Takeover};
use crate::{
    config::Config,
    database::{errors::connect_error, postgres},
    error::{Kind, RunError},
    observe::{Observed, Phase},
    peer::ServerPeer,
    repeats::Repeats,
    session::{Session, SessionError, Source},
    sink::{Connect, Sink, link::Link},
    store::{Store, sql},
    time::age,
};

/// Pause before a standby connects again after a transient error.
const STANDBY_PAUSE: Duration = Duration::from_secs(1);

/// Pause before a standby connects again after a refusal, which an operator must resolve first.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

/// The publication and the slot that `init` found or created.
#[derive(Debug)]
pub struct InitReport {
    /// Name of the publication, and what `outbox.ensure_publication` did.
    pub publication: (String, String),
    /// Name of the slot, and what `init` did to it.
    pub slot: (String, SlotState),
}

/// Creates the publication and the slot, if they are missing.
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

/// What the next session must do because of the way the last one ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing in particular.
    #[default]
    Usual,
    /// The slot cannot be read any further and must be created again.
    SlotUseless,
    /// The server cannot send the next part of the WAL, so the stream must begin behind it.
    NotStreamable,
    /// The publication was incomplete and is complete again, so the stream must begin behind the incomplete part.
    PublishedAgain,
    /// The database sent a row larger than any event, so the table must be read row by row.
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

    /// Whether the stream leaves out a part of the WAL.
    fn passes_over(self) -> bool {
        matches!(self, Self::NotStreamable | Self::PublishedAgain)
    }
}

/// What a session inherits from the session before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inherited {
    /// How the session before ended.
    pub(crate) after: After,
    /// The server process of the last session's stream, which may not have noticed yet that the stream has ended.
    pub(crate) walsender: Option<i32>,
}

/// The database's part of a session: this relay has the slot, and its stream has started or the slot is being created.
pub(crate) struct Database {
    store: Store,
    connection: JoinSet<Result<(), tokio_postgres::Error>>,
    source: Source,
    publication: Publication,
    /// After this time without a message from the relay, the server ends the stream.
    silence: Duration,
    confirmed: Lsn,
    passed_over: Option<Snapshot>,
    row_by_row: bool,
    predecessor: Option<Predecessor>,
}

/// Connects to the database, waits for the slot and starts the stream. `reads_back`: whether the sink does.
pub(crate) async fn take_over(
    config: &Config,
    inherited: Inherited,
    reads_back: bool,
    observed: &Observed,
) -> Result<Database, RunError> {
    let Inherited { after, walsender } = inherited;
    let mut slot_is_useless = after == After::SlotUseless;
    let mut takeover = Takeover::new(walsender);
    let (mut away, mut lost_at) = (Repeats::default(), None);
    let (client, connection, (source, publication), database, system) = loop {
        let taken = async {
            let Connected { client, connection, server, mut replication, database } = connect(config).await?;
            observed.connected(database.clone());
            if slot_is_useless && config.create_slot {
                slot::discard(config, &client).await?;
                slot_is_useless = false;
            }
            (away, lost_at) = (Repeats::default(), None);
            let system = if reads_back { predecessor::system(config, &client, &mut replication).await? } else { None };
            let from = if after.passes_over() { start_position::behind_the_log(&client, after).await? } else { Lsn(0) };
            let taken = takeover::take(config, &client, &server, replication, from, &mut takeover, observed).await?;
            Ok::<_, RunError>((client, connection, taken, database, system))
        };
        match taken.await {
            // A standby outlives a restart of the database, after which it may have to take over.
            Err(error) if takeover.is_standby() => {
                observed.enters(Phase::Disconnected { error: Some(error.to_string()) });
                let since: Instant = *lost_at.get_or_insert_with(Instant::now);
                if let (true, tries) = away.count(&error.to_string()) {
                    log_retry(&error, tries, since.elapsed());
                }
                tokio::time::sleep(if error.is_transient() { STANDBY_PAUSE } else { REFUSED_PAUSE }).await;
            }
            taken => break taken?,
        }
    };
    let silence = stream_session::silence(config, &client).await?;
    let confirmed = start_position::confirmed(config, &client).await?;
    let mut store = Store::prepare(client, &config.publication).await.map_err(|error| {
        checks::store_error(error, "cannot prepare the relay's statements")
            .hint("check that the extension and the relay are of the same version")
    })?;
    let cannot = |error| checks::store_error(error, "cannot look after the sequence of outbox.events.seq");
    store.ensure_sequence_at_start().await.map_err(cannot)?;
    let mut passed_over = None;
    if after.passes_over() {
        let cannot = |error| checks::store_error(error, "cannot learn which transactions run");
        passed_over = Some(store.snapshot_of_all().await.map_err(cannot)?);
    }
    let predecessor = match system {
        Some(system) => Some(predecessor::learn(config, &mut store, &system).await?),
        None => None,
    };
    info!(target: "relay", state = %"connected", slot = config.slot, host = database.description, "connected to {}", config.database_url);
    let row_by_row = after == After::RowTooLarge;
    Ok(Database { store, connection, source, publication, silence, confirmed, passed_over, row_by_row, predecessor })
}

/// Logs an error after which the relay tries again; `lasted` is the time since the first attempt.
pub(super) fn log_retry(error: &RunError, tries: u32, lasted: Duration) {
    if error.kind() == Kind::ExtensionVersion {
        warn!(target: "relay", %error, tries, for = age(lasted), "the schema's version does not fit; trying again");
    } else {
        warn!(target: "relay", %error, tries, for = age(lasted), "no connection to the database; trying again");
    }
}

/// Begins a session between the two servers; the broker may be away.
pub(crate) fn begin<C: Connect>(
    config: &Config,
    database: Database,
    mut sink: Link<C>,
    observed: &Arc<Observed>,
) -> Session<Link<C>> {
    let Database { store, connection, source, publication, silence, confirmed, passed_over, row_by_row, predecessor } =
        database;
    let (last_settled_us, floor_us, in_doubt) = predecessor.map_or_else(Default::default, |predecessor| {
        let Predecessor { name, last_settled_us, floor_us, in_doubt } = predecessor;
        sink.begin(name);
        (last_settled_us, floor_us, in_doubt)
    });
    let start = Start {
        confirmed: outbox_core::Lsn(confirmed.0),
        broker_away_since: sink.away_since(),
        abilities: sink.abilities(),
        last_settled_us,
        floor_us,
        in_doubt,
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

/// The SQL session and the replication session with the database, with the task that drives the SQL session.
struct Connected {
    client: Client,
    connection: JoinSet<Result<(), tokio_postgres::Error>>,
    /// The address and the login of both sessions.
    server: ConnInfo,
    replication: Replication,
    /// The host of the SQL session.
    database: ServerPeer,
}

/// Opens both sessions and checks all requirements, so that a standby reports a missing one before it has to take over.
async fn connect(config: &Config) -> Result<Connected, RunError> {
    let database = &config.database_url;
    let server = database.now()?;
    let (client, driver, peer) =
        postgres::connect(&server, &config.application_name).await.map_err(|error| connect_error(error, database))?;
    let mut connection = JoinSet::new();
    connection.spawn(driver);
    for comfort in [sql::NOTICE_A_LOST_RELAY, sql::WAIT_FOR_NO_STANDBY, sql::NOTICE_A_DEAD_RELAY] {
        waiting::for_comfort(&client, comfort).await;
    }
    // A relay that is frozen in the middle of a pass must not delay vacuum for longer than a standby's takeover takes.
    let bound = sql::bound_idle_transactions(config.takeover_after);
    waiting::for_comfort(&client, &bound).await;
    checks::server(&client, config).await?;
    let replication = stream_session::connect(config, &server, &client).await?;
    checks::extension(&client, database).await?;
    Ok(Connected { client, connection, server, replication, database: ServerPeer::with_database(&peer) })
}
