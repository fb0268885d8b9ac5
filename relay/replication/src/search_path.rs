//! Where our sessions look names up: among PostgreSQL's own objects, and nowhere else.
//!
//! Whoever may create objects in `public`, or in a schema that `ALTER DATABASE` or `ALTER ROLE … SET search_path` names, could otherwise
//! put a function beside one that a statement calls by its bare name. PostgreSQL takes the better match, and runs it as our role. An
//! option of the start-up message outranks those settings, and is in force before the first statement.

use tokio_postgres::error::SqlState;

/// The first statement of every session: a pooler may have dropped the option. `pg_temp` stands last; if it were not named, temporary
/// tables and types would be found first.
pub const PIN_SEARCH_PATH: &str = "SET search_path = pg_catalog, pg_temp";

/// The start-up message's `options`, with the search path behind what the connection string asks for: the last one counts.
pub(crate) fn option(given: Option<&str>) -> String {
    let given = given.map(|given| format!("{given} ")).unwrap_or_default();
    format!("{given}-c search_path=pg_catalog,pg_temp")
}

/// Whether a login was refused as poolers refuse options: `08P01` by PgBouncer, `0A000` by RDS Proxy.
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
