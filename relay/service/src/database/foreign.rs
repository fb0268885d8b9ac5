//! Slots with the name of the relay's slot that belong to somebody else. Slot names are shared by the whole server.

/// A slot as the server lists it.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// The slot's name.
    pub name: &'a str,
    /// The output plugin; empty while a logical slot is being created, `None` for a physical slot.
    pub plugin: Option<&'a str>,
    /// The slot's database; `None`: a physical slot.
    pub database: Option<&'a str>,
    /// Whether the slot belongs to this database.
    pub is_here: bool,
    /// Whether the slot is dropped with the session that has created it.
    pub is_temporary: bool,
    /// The server process that reads the slot, or creates it.
    pub pid: Option<i32>,
}

impl Listed<'_> {
    /// Why no relay of this database can read the slot, and what to do; `None`: a relay can read it.
    pub fn refused(&self) -> Option<(String, String)> {
        let Self { name, .. } = self;
        let (what, and) = match (self.database, self.plugin) {
            (None, _) | (_, None) => {
                (format!("the slot {name:?} is a physical one, as a standby reads it"), String::new())
            }
            (Some(database), _) if !self.is_here => {
                let and = format!("; leave that one alone: a relay of {database:?} may read it");
                (format!("the slot {name:?} belongs to the database {database:?}"), and)
            }
            _ if self.is_temporary => {
                let pid = self.pid.unwrap_or_default();
                let what = format!(
                    "the slot {name:?} is a temporary one, of the server process {pid}, and goes with that session"
                );
                (
                    what,
                    format!(
                        "; or let that session end, as by SELECT pg_terminate_backend({pid}): the relay then makes the slot"
                    ),
                )
            }
            (_, Some("pgoutput")) => return None,
            (_, Some("")) if self.pid.is_some() => return None,
            (_, Some(plugin)) => {
                let and = format!("; or drop that one, if nobody reads it: SELECT pg_drop_replication_slot('{name}')");
                (format!("the slot {name:?} is for the plugin {plugin:?}, and the relay needs pgoutput"), and)
            }
        };
        Some((what, format!("choose another name for this relay's slot, by the setting slot (--slot){and}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Listed<'_> = Listed {
        name: "outbox",
        plugin: Some("pgoutput"),
        database: Some("shop"),
        is_here: true,
        is_temporary: false,
        pid: None,
    };

    #[test]
    fn a_slot_of_this_database_for_pgoutput_is_the_relays_even_while_it_is_being_made() {
        assert_eq!(OURS.refused(), None);
        assert_eq!(Listed { plugin: Some(""), pid: Some(7), ..OURS }.refused(), None);
    }

    #[test]
    fn only_a_slot_that_is_surely_nobody_elses_is_said_to_be_dropped() {
        for (slot, what, to_do) in [
            (Listed { plugin: None, database: None, is_here: false, ..OURS }, "a physical one", "choose another name"),
            (Listed { is_here: false, ..OURS }, "belongs to the database \"shop\"", "leave that one alone"),
            (
                Listed { is_temporary: true, pid: Some(7), ..OURS },
                "a temporary one, of the server process 7",
                "pg_terminate_backend(7)",
            ),
            (
                Listed { plugin: Some("test_decoding"), ..OURS },
                "the plugin \"test_decoding\"",
                "pg_drop_replication_slot('outbox')",
            ),
        ] {
            let (found, hint) = slot.refused().unwrap();
            assert!(
                found.contains(what) && hint.contains(to_do) && hint.contains("choose another name"),
                "{found}: {hint}"
            );
            assert_eq!(hint.contains("drop"), slot.plugin == Some("test_decoding"), "{hint}");
        }
    }
}
