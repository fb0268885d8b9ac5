//! Checks of the extension, the triggers of its table, the publication, and the rights of this role.

use std::collections::HashMap;

use outbox_service::{
    Config,
    database::{
        compatibility::mismatch,
        errors::replication_connect_error,
        ownership::{Ownership, Untrusted},
        platform::Platform,
    },
    error::chain,
    legible,
    store::sql,
};
use tokio_postgres::{Error, error::SqlState};

use super::{sequence, slot};
use crate::findings::Report;
use crate::queries::{finished::RETENTION_FUNCTIONS, session::Session};

/// The table's own triggers, each of which must be `ENABLE ALWAYS`.
const TRIGGERS: [&str; 4] = ["admit", "envelope_is_final", "status_moves", "deletion_ends_hold"];

/// Whether this role may read events, a right that operators need and a relay does not.
const MAY_READ_EVENTS: &str = "SELECT has_any_column_privilege('outbox.events', 'SELECT')";

/// The table's triggers, and when each fires.
const MODES_OF_TRIGGERS: &str = "SELECT tgname::text AS name, tgenabled::text AS mode FROM pg_trigger
    WHERE tgrelid = to_regclass('outbox.events') AND NOT tgisinternal";

/// Whether the publication has inserts and the table, whether it has only a part of the table, and whether the server
/// supports publications of schemas.
const PUBLICATION: &str = "SELECT p.pubinsert AS inserts, p.puballtables OR r.oid IS NOT NULL AS has_table,
        coalesce(to_jsonb(r) ->> 'prattrs' IS NOT NULL OR to_jsonb(r) ->> 'prqual' IS NOT NULL, false) AS is_partial,
        to_regclass('pg_catalog.pg_publication_namespace') IS NOT NULL AS knows_schemas
    FROM pg_publication AS p
    LEFT JOIN pg_publication_rel AS r ON r.prpubid = p.oid AND r.prrelid = to_regclass('outbox.events')
    WHERE p.pubname = $1";

/// The role that would create the publication, if it lacks the right to, and the statement that grants it.
const MAY_NOT_PUBLISH: &str = "
    SELECT c.relowner::regrole::text AS owner,
        format('GRANT CREATE ON DATABASE %I TO %s', current_database(), c.relowner::regrole) AS statement
    FROM pg_class AS c
    WHERE c.oid = to_regclass('outbox.events') AND NOT has_database_privilege(c.relowner, current_database(), 'CREATE')";

/// Whether the publication has the table's schema (since PostgreSQL 15).
const PUBLISHES_SCHEMA: &str = "SELECT EXISTS (SELECT FROM pg_publication AS p
    JOIN pg_publication_namespace AS n ON n.pnpubid = p.oid
    WHERE p.pubname = $1 AND n.pnnspid = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('outbox.events')))";

/// Makes the checks. Returns whether the schema exists and its functions may safely be called.
pub(super) async fn inspect(session: &Session, console: &crate::Config, report: &mut Report) -> bool {
    let config = &console.relay;
    let owner = match Ownership::of(&session.client).await {
        Ok(Ownership::Nothing) => {
            not_installed(report);
            replication(session, config, report).await;
            return false;
        }
        Ok(ownership) => {
            if let Some(Untrusted { what, to_do, .. }) = ownership.untrusted() {
                report.bad("extension", what, to_do);
                replication(session, config, report).await;
                return false;
            }
            ownership.owner()
        }
        Err(error) => {
            report.unknown("extension", chain(&error), "");
            return false;
        }
    };
    let is_installed = extension(session, &config.database_url.user(), &owner, report).await;
    if is_installed {
        unknown_if_failed("triggers", triggers(session, report).await, report);
        unknown_if_failed("publication", publication(session, config, report).await, report);
        unknown_if_failed("sequence", sequence::inspect(session, report).await, report);
        if let Some(found) = not_the_relays(session, config).await.unwrap_or_default() {
            for check in ["grants", "replication_right"] {
                report.unknown(check, found.clone(), "check with the relay's own DATABASE_URL");
            }
            return true;
        }
        unknown_if_failed("grants", grants(session, console, report).await, report);
    }
    replication(session, config, report).await;
    is_installed
}

/// Returns why this role cannot be the relay's, if it cannot: the rights that it lacks then say nothing about the
/// relay's.
async fn not_the_relays(session: &Session, config: &Config) -> Result<Option<String>, Error> {
    if session.client.query_one(sql::MAY_CALL, &[&sql::RELAYING]).await?.try_get(0)? {
        return Ok(None);
    }
    let role = config.database_url.user();
    if slot::is_read(session, config).await? {
        return Ok(Some(format!("a relay is at work, and not as the role {role:?}")));
    }
    let reads_events: bool = session.client.query_one(MAY_READ_EVENTS, &[]).await?.try_get(0)?;
    Ok(reads_events.then(|| format!("the role {role:?} has the rights of those who look at events, and not a relay's")))
}

fn unknown_if_failed(check: &'static str, answer: Result<(), Error>, report: &mut Report) {
    if let Err(error) = answer {
        report.unknown(check, chain(&error), "");
    }
}

/// Checks that the extension is installed, in a version that fits. Returns whether the other checks can be made.
async fn extension(session: &Session, role: &str, owner: &str, report: &mut Report) -> bool {
    match session.client.query_one(sql::VERSION, &[]).await.and_then(|row| row.try_get::<_, String>(0)) {
        Ok(version) => match mismatch(&version) {
            None => report.ok("extension", format!("version {version}, of role {owner}")),
            Some(mismatch) => report.bad("extension", mismatch.what, mismatch.hint),
        },
        Err(error) if matches!(error.code(), Some(&SqlState::INVALID_SCHEMA_NAME | &SqlState::UNDEFINED_FUNCTION)) => {
            not_installed(report);
            return false;
        }
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            let to_do = format!(
                "as the extension's owner: SELECT outbox.grant_relay({}) if this is the relay's role",
                legible::role_argument(role)
            );
            report.bad("grants", format!("the role {role:?} may not use the schema outbox"), to_do);
            report.unknown("extension", chain(&error), "");
            return false;
        }
        Err(error) => {
            report.unknown("extension", chain(&error), "");
            return false;
        }
    }
    true
}

fn not_installed(report: &mut Report) {
    let to_do = "CREATE EXTENSION outbox, in the database that DATABASE_URL names";
    report.bad("extension", "the extension outbox is not installed in this database", to_do);
}

async fn triggers(session: &Session, report: &mut Report) -> Result<(), Error> {
    let rows = session.client.query(MODES_OF_TRIGGERS, &[]).await?;
    let modes: HashMap<String, String> =
        rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("mode")?))).collect::<Result<_, Error>>()?;
    let wrong: Vec<&str> =
        TRIGGERS.into_iter().filter(|name| modes.get(*name).map(String::as_str) != Some("A")).collect();
    if wrong.is_empty() {
        report.ok("triggers", "the table's triggers are ENABLE ALWAYS");
    } else {
        let enable: Vec<String> = wrong.iter().map(|name| format!("ENABLE ALWAYS TRIGGER {name}")).collect();
        let found = format!("not ENABLE ALWAYS: {}; events could come in past the checks", wrong.join(", "));
        report.bad("triggers", found, format!("ALTER TABLE outbox.events {}", enable.join(", ")));
    }
    Ok(())
}

async fn publication(session: &Session, config: &Config, report: &mut Report) -> Result<(), Error> {
    let name = &config.publication;
    let Some(row) = session.client.query_opt(PUBLICATION, &[name]).await? else {
        let found = format!("there is no publication {name:?} yet");
        if let Some(row) = session.client.query_opt(MAY_NOT_PUBLISH, &[]).await? {
            let (owner, statement): (String, String) = (row.try_get("owner")?, row.try_get("statement")?);
            let found = format!("{found}, and the owner of outbox.events, {owner}, may not make one");
            report.bad(
                "publication",
                found,
                format!("as the owner of the database: {}", legible::statement(&statement)),
            );
            return Ok(());
        }
        if config.create_slot {
            report.warning("publication", found, "the relay makes it at its start, or run `outbox-relay init`");
        } else {
            report.bad("publication", found, "run `outbox-relay init`");
        }
        return Ok(());
    };
    let (inserts, mut has_table): (bool, bool) = (row.try_get("inserts")?, row.try_get("has_table")?);
    let is_partial: bool = row.try_get("is_partial")?;
    if !has_table && row.try_get("knows_schemas")? {
        has_table = session.client.query_one(PUBLISHES_SCHEMA, &[name]).await?.try_get(0)?;
    }
    let wrong = match (has_table, inserts, is_partial) {
        (true, true, false) => {
            report.ok("publication", format!("{name:?} publishes the inserts of outbox.events"));
            return Ok(());
        }
        (false, ..) => "does not publish outbox.events",
        (_, false, _) => "does not publish inserts",
        (_, _, true) => "has a list of columns or a row filter for outbox.events",
    };
    let to_do = if config.create_slot {
        "the relay repairs it within check_interval, if it may; or run `outbox-relay init`"
    } else {
        "run `outbox-relay init`"
    };
    report.bad("publication", format!("{name:?} {wrong}"), to_do);
    Ok(())
}

async fn grants(session: &Session, console: &crate::Config, report: &mut Report) -> Result<(), Error> {
    let role = console.relay.database_url.user();
    if session.client.query_one(sql::MAY_CALL, &[&sql::RELAYING]).await?.try_get(0)? {
        if console.retention.deletes()
            && !session.client.query_one(sql::MAY_CALL, &[&RETENTION_FUNCTIONS]).await?.try_get::<_, bool>(0)?
        {
            let found = format!("retention is set, and the role {role:?} may not delete old events");
            report.bad(
                "grants",
                found,
                format!("as the extension's owner: SELECT outbox.grant_maintain({})", legible::role_argument(&role)),
            );
            return Ok(());
        }
        let missing = session.client.query(sql::MISSING_BEYOND_GRANTS, &[]).await?;
        let missing: Vec<&str> = missing.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        if missing.is_empty() {
            report.ok("grants", format!("the role {role:?} may run the relay's functions"));
        } else {
            let found = format!(
                "the role {role:?} lacks a right that PostgreSQL gives everybody, and that somebody has revoked"
            );
            report.bad("grants", found, format!("as a superuser: {}", legible::statement(&missing.join("; "))));
        }
    } else {
        let to_do = format!(
            "if this is the relay's role, as the extension's owner: SELECT outbox.grant_relay({}); else check as that role",
            legible::role_argument(&role)
        );
        report.bad("grants", format!("the role {role:?} may not run the relay's functions"), to_do);
    }
    Ok(())
}

/// Asks the server whether the role may replicate: on some platforms that right comes from membership in a role.
async fn replication(session: &Session, config: &Config, report: &mut Report) {
    let database = &config.database_url;
    let server = match database.now() {
        Ok(server) => server,
        Err(bad) => return report.unknown("replication_right", format!("no connection: {bad}"), ""),
    };
    match server.connect_replication(&format!("{} check", config.application_name)).await {
        Ok(connection) => {
            drop(connection);
            report.ok("replication_right", format!("the role {:?} may replicate", database.user()));
        }
        Err(error) => {
            let platform = Platform::of(&session.client).await;
            report.bad("replication_right", replication_connect_error(error, database, platform).to_string(), "");
        }
    }
}
