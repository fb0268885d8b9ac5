//! Time limits that the settings of a role or a database put on its sessions. They are meant for applications: one too
//! short for a batch of verdicts would end each attempt to write it, and one on idle sessions would end a relay's.

/// The time limits that every session lifts, as a server with this `server_version` (`17.2`, `18beta1`) knows them. A
/// session that needs a limit sets its own.
///
/// They are lifted by `SET`, for which nobody needs a right, rather than by `set_config()`, which an administrator may
/// revoke. `transaction_timeout` came with PostgreSQL 17
/// (<https://www.postgresql.org/docs/17/release-17.html>), and an older server would log an error about it.
pub fn time_limits(server_version: Option<&str>) -> &'static [&'static str] {
    const SINCE_14: &[&str] = &["statement_timeout", "idle_session_timeout"];
    const SINCE_17: &[&str] = &["statement_timeout", "idle_session_timeout", "transaction_timeout"];
    let major = server_version.and_then(|version| version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    if major.is_some_and(|major: u32| major >= 17) { SINCE_17 } else { SINCE_14 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_on_transactions_is_lifted_where_the_server_knows_it() {
        for version in ["17.2 (Debian 17.2-1.pgdg120+1)", "17", "18beta1", "18devel", "100.1"] {
            assert!(time_limits(Some(version)).contains(&"transaction_timeout"), "{version}");
        }
        for version in [Some("14.23"), Some("16.14 (Ubuntu)"), Some("bouncer"), Some(""), None] {
            assert_eq!(time_limits(version), ["statement_timeout", "idle_session_timeout"], "{version:?}");
        }
    }
}
