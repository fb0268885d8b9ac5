//! What a server must offer.

/// The oldest server with logical messages and binary values in pgoutput
/// (<https://www.postgresql.org/docs/14/release-14.html>).
pub const OLDEST_SERVER: i32 = 140_000;

/// The first server that raises `wal_level` by itself when the first logical slot is made
/// (<https://www.postgresql.org/docs/devel/logicaldecoding-explanation.html>).
const RAISES_WAL_LEVEL: i32 = 190_000;

/// The first server with slots that standbys copy (<https://www.postgresql.org/docs/17/release-17.html>).
const COPIES_SLOTS: i32 = 170_000;

/// What stands in the way of the setting `failover_slot` on a server of this version, and what to do.
pub fn failover_slot_refused(is_wanted: bool, version: i32) -> Option<(String, &'static str)> {
    (is_wanted && version < COPIES_SLOTS).then(|| {
        let what =
            format!("failover_slot needs PostgreSQL 17 or newer, and this server is PostgreSQL {}", version / 10_000);
        (what, "leave it out: after a failover the relay creates its slot again, and no event is lost")
    })
}

/// Whether a server of this version streams events at this `wal_level`.
pub fn wal_level_suffices(wal_level: &str, version: i32) -> bool {
    wal_level == "logical" || (wal_level == "replica" && version >= RAISES_WAL_LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wal_level_replica_is_enough_where_the_server_raises_it() {
        for (wal_level, version, enough) in [
            ("logical", 140_000, true),
            ("replica", 180_006, false),
            ("replica", 190_000, true),
            ("minimal", 190_000, false),
        ] {
            assert_eq!(wal_level_suffices(wal_level, version), enough, "{wal_level} on {version}");
        }
    }
}
