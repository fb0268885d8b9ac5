//! The owner of the schema `outbox`. It is read from PostgreSQL's catalogues before any function of the schema is
//! called, because a stranger's function would run with the caller's rights.

use tokio_postgres::{Client, Error, types::Type};

use crate::{
    error::{Kind, RunError},
    legible,
};

/// The functions that the relay, its commands and its dashboard call. A function with one of these names is checked
/// even if the owner has none by that name.
const CALLED: [&str; 23] = [
    "version",
    "pending_page",
    "pending_page_by_bytes",
    "due_page",
    "next_due",
    "key_holders",
    "last_settled",
    "keep_in_doubt",
    "events_in_doubt",
    "flush",
    "settle",
    "ensure_publication",
    "sequence_state",
    "ensure_sequence",
    "health",
    "health_with_codes",
    "failures",
    "open_to_public",
    "replay",
    "replay_many",
    "release",
    "delete_finished",
    "delete_events",
];

/// Owners of the schema and of the table, and the first object that belongs to neither the table's owner nor a
/// superuser: its name, its owner, and the statement that corrects it. Objects that are read or called are checked, and
/// functions with the name of one of the owner's, since functions call each other by name.
const OWNERS: &str = "
    SELECT n.nspowner::pg_catalog.regrole::text, e.relowner::pg_catalog.regrole::text, other.object, other.owner, other.statement
    FROM pg_catalog.pg_namespace AS n
    LEFT JOIN pg_catalog.pg_class AS e ON e.relnamespace = n.oid AND e.relname = 'events' AND e.relkind IN ('r', 'p')
    LEFT JOIN LATERAL (
        SELECT o.object, r.oid::pg_catalog.regrole::text AS owner,
            pg_catalog.format('ALTER %s OWNER TO %s', o.object, e.relowner::pg_catalog.regrole) AS statement
        FROM (
            SELECT 0 AS rank, 'SCHEMA outbox' AS object, n.nspowner AS owner
            UNION ALL
            SELECT 1, pg_catalog.format('ROUTINE %s', p.oid::pg_catalog.regprocedure), p.proowner
            FROM pg_catalog.pg_proc AS p
            WHERE p.pronamespace = n.oid AND (p.proname = ANY ($1::text[]) OR p.proname IN (
                SELECT ours.proname FROM pg_catalog.pg_proc AS ours
                JOIN pg_catalog.pg_roles AS r ON r.oid = ours.proowner
                WHERE ours.pronamespace = n.oid AND (ours.proowner = e.relowner OR r.rolsuper)))
            UNION ALL
            SELECT 2, pg_catalog.format('TABLE %s', c.oid::pg_catalog.regclass), c.relowner
            FROM pg_catalog.pg_class AS c WHERE c.relnamespace = n.oid AND c.relname IN ('failed', 'backlog', 'audit', 'in_doubt')
        ) AS o JOIN pg_catalog.pg_roles AS r ON r.oid = o.owner
        WHERE o.owner <> e.relowner AND NOT r.rolsuper
        ORDER BY o.rank, o.object LIMIT 1
    ) AS other ON true
    WHERE n.nspname = 'outbox' AND (e.oid IS NOT NULL
        OR EXISTS (SELECT FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = n.oid AND p.proname = ANY ($1::text[]))
        OR EXISTS (SELECT FROM pg_catalog.pg_class AS c
                   WHERE c.relnamespace = n.oid AND c.relname IN ('events', 'failed', 'backlog', 'audit', 'in_doubt')))";

/// The ownership of the schema `outbox` and its objects.
#[derive(Debug)]
pub enum Ownership {
    /// The schema does not exist, or contains none of the outbox's objects, as after `DROP EXTENSION`; nothing in it
    /// may be called.
    Nothing,
    /// The schema has no table `events`, but other objects with names of the outbox's.
    NoTable {
        /// Owner of the schema.
        owner: String,
    },
    /// An object belongs to a role that is neither the owner of `outbox.events` nor a superuser.
    Mixed {
        /// The object.
        object: String,
        /// Owner of the object.
        owner: String,
        /// Owner of the table.
        owner_of_table: String,
        /// The statement that gives the object to the table's owner.
        statement: String,
    },
    /// All objects belong to the table's owner, or to superusers.
    Whole {
        /// Owner of the table.
        owner: String,
    },
}

/// Why no function of a schema may be called.
#[derive(Debug)]
pub struct Untrusted {
    /// The kind of the error that ends the relay.
    pub kind: Kind,
    /// What was found.
    pub what: String,
    /// What the operator can do.
    pub to_do: String,
}

impl From<Untrusted> for RunError {
    fn from(Untrusted { kind, what, to_do }: Untrusted) -> Self {
        Self::new(kind, what).hint(to_do)
    }
}

impl Ownership {
    /// Reads the ownership from the catalogues.
    ///
    /// # Errors
    ///
    /// An error of the server or of the connection.
    pub async fn of(client: &Client) -> Result<Self, Error> {
        let Some(row) = client.query_typed(OWNERS, &[(&&CALLED[..], Type::TEXT_ARRAY)]).await?.into_iter().next()
        else {
            return Ok(Self::Nothing);
        };
        let Some(owner_of_table) = row.try_get::<_, Option<String>>(1)? else {
            return Ok(Self::NoTable { owner: row.try_get(0)? });
        };
        Ok(match row.try_get(2)? {
            Some(object) => Self::Mixed { object, owner: row.try_get(3)?, owner_of_table, statement: row.try_get(4)? },
            None => Self::Whole { owner: owner_of_table },
        })
    }

    /// The outbox's owner; empty if there is no outbox.
    pub fn owner(self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::NoTable { owner } | Self::Mixed { owner, .. } | Self::Whole { owner } => owner,
        }
    }

    /// Why no function of the schema may be called; `None`: there is no such reason.
    pub fn untrusted(&self) -> Option<Untrusted> {
        match self {
            Self::Nothing | Self::Whole { .. } => None,
            Self::NoTable { owner } => Some(Untrusted {
                kind: Kind::ExtensionMissing,
                what: format!("the schema outbox, of role {owner}, has no table events: it is not the product's"),
                to_do: "ask that role what the schema is; then DROP SCHEMA outbox CASCADE, and CREATE EXTENSION outbox"
                    .to_owned(),
            }),
            Self::Mixed { object, owner, owner_of_table, statement } => Some(Untrusted {
                kind: Kind::NotPermitted,
                what: format!(
                    "{object} belongs to role {owner}, and outbox.events to {owner_of_table}: nothing there is called"
                ),
                to_do: format!(
                    "drop it if somebody has put it there; if it is the outbox's own, as a superuser: {}",
                    legible::statement(statement)
                ),
            }),
        }
    }
}
