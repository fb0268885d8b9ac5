//! The search path of a session: PostgreSQL's own objects, and nothing else.
//!
//! Otherwise a role that may create objects in `public`, or in a schema that `ALTER ROLE … SET search_path` names,
//! could add a function of the same name as one that a statement calls, and PostgreSQL would run the better match as
//! this session's role. An option of the start-up message outranks such settings, and is in force before the first
//! statement.

use tokio_postgres::error::SqlState;

/// The first statement of every session, because a pooler may have dropped the option. `pg_temp` is named as the last
/// schema: unnamed, it would come first.
pub const PIN_SEARCH_PATH: &str = "SET search_path = pg_catalog, pg_temp";

/// The start-up message's `options`: those of the connection string, and behind them the search path, which therefore
/// counts.
pub(crate) fn option(given: Option<&str>) -> String {
    let given = given.map(|given| format!("{given} ")).unwrap_or_default();
    format!("{given}-c search_path=pg_catalog,pg_temp")
}

/// Whether the login failed as poolers refuse options: PgBouncer with `08P01`, RDS Proxy with `0A000`.
pub(crate) fn refuses_options(state: &SqlState) -> bool {
    [SqlState::PROTOCOL_VIOLATION, SqlState::FEATURE_NOT_SUPPORTED].contains(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_path_stands_behind_the_options_of_the_connection_string() {
        assert_eq!(option(None), "-c search_path=pg_catalog,pg_temp");
        assert_eq!(
            option(Some("-c search_path=mine -c geqo=off")),
            "-c search_path=mine -c geqo=off -c search_path=pg_catalog,pg_temp"
        );
    }
}
