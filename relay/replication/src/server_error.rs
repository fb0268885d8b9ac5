//! The server's errors and notices.

use std::fmt;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{ErrorFields, ErrorResponseBody, NoticeResponseBody};
use tokio_postgres::error::{DbError, SqlState};

/// An error or a notice of the server
/// (<https://www.postgresql.org/docs/current/protocol-error-fields.html>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// `ERROR`, `FATAL`, `PANIC`; for notices `WARNING`, `NOTICE` and so on.
    pub severity: String,
    /// The kind of error. Branch on this: the text is translated, and changes between versions.
    pub sqlstate: SqlState,
    /// The message.
    pub message: String,
    /// The detail.
    pub detail: Option<String>,
    /// The hint.
    pub hint: Option<String>,
    /// The function in the server's source that reports it. Unlike the message, it is never translated.
    pub routine: Option<String>,
}

impl ServerError {
    /// Whether the server is going or not ready yet, or lost its client. A later attempt may succeed.
    pub fn is_outage(&self) -> bool {
        let going = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
        going.contains(&self.sqlstate) || self.sqlstate.code().starts_with("08")
    }

    /// Whether the server ends the session with the error (`FATAL`, `PANIC`).
    pub fn ends_the_session(&self) -> bool {
        self.severity != "ERROR"
    }

    /// Whether the error may go away by itself (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
    pub fn is_transient(&self) -> bool {
        match self.sqlstate.code() {
            "25006" => true,            // read-only: during a failover, the old primary
            "53400" | "57P04" => false, // a limit of the configuration (no slot left); the database was dropped
            "55006" | "55P03" => true,  // in use; locked
            // Connections; rolled back (deadlocks); out of connections, memory or disk; starting, stopping, cancelled;
            // I/O.
            code => matches!(code.get(..2), Some("08" | "40" | "53" | "57" | "58")),
        }
    }

    /// Whether it reports that a publication does not exist at this place of the WAL, so that its changes are not in
    /// the stream. (Servers before PostgreSQL 18 end the stream.)
    ///
    /// A standby that `synchronized_standby_slots` names and that lags behind gives the same SQLSTATE, but then the
    /// stream only waits (`StandbySlotsHaveCaughtup` in `src/backend/replication/slot.c`).
    pub fn publication_skipped(&self) -> bool {
        self.sqlstate == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
            && self.routine.as_deref() != Some("StandbySlotsHaveCaughtup")
    }

    pub(crate) fn from_error(body: &ErrorResponseBody) -> Self {
        Self::from_fields(body.fields())
    }

    pub(crate) fn from_notice(body: &NoticeResponseBody) -> Self {
        Self::from_fields(body.fields())
    }

    /// Logs a warning as a warning, and any other notice at debug level.
    pub(crate) fn log_notice(body: &NoticeResponseBody) {
        let notice = Self::from_notice(body);
        if notice.severity == "WARNING" {
            tracing::warn!(%notice, "warning from the server");
        } else {
            tracing::debug!(%notice, "notice from the server");
        }
    }

    /// Takes the readable fields: half an error says more than a complaint about its form.
    fn from_fields(mut fields: ErrorFields<'_>) -> Self {
        let mut error = Self {
            severity: String::new(),
            sqlstate: SqlState::INTERNAL_ERROR,
            message: String::new(),
            detail: None,
            hint: None,
            routine: None,
        };
        while let Ok(Some(field)) = fields.next() {
            let text = String::from_utf8_lossy(field.value_bytes());
            match field.type_() {
                // 'V' is never translated. It comes after 'S', and from servers of version 9.6 and newer.
                b'S' | b'V' => error.severity = text.into_owned(),
                b'C' => error.sqlstate = SqlState::from_code(&text),
                b'M' => error.message = text.into_owned(),
                b'D' => error.detail = Some(text.into_owned()),
                b'H' => error.hint = Some(text.into_owned()),
                b'R' => error.routine = Some(text.into_owned()),
                _ => {}
            }
        }
        error
    }
}

impl From<&DbError> for ServerError {
    fn from(error: &DbError) -> Self {
        Self {
            severity: error
                .parsed_severity()
                .map_or_else(|| error.severity().to_owned(), |never_translated| never_translated.to_string()),
            sqlstate: error.code().clone(),
            message: error.message().to_owned(),
            detail: error.detail().map(str::to_owned),
            hint: error.hint().map(str::to_owned),
            routine: error.routine().map(str::to_owned),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.sqlstate.code())?;
        for more in [&self.detail, &self.hint].into_iter().flatten() {
            write!(f, "; {more}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ServerError {}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use postgres_protocol::message::backend::Message;

    use super::*;

    fn parse(fields: &[u8]) -> ServerError {
        let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
        let mut message = BytesMut::from(&[b"E", &length[..], fields].concat()[..]);
        let Ok(Some(Message::ErrorResponse(body))) = Message::parse(&mut message) else { panic!("not an error") };
        ServerError::from_error(&body)
    }

    #[test]
    fn an_error_reads_in_one_line_with_its_sqlstate() {
        let error = parse(b"SFEHLER\0VERROR\0C55006\0Mslot is active\0Dfor PID 7\0Fslot.c\0\0");
        assert_eq!(error.severity, "ERROR");
        assert_eq!(error.sqlstate, SqlState::OBJECT_IN_USE);
        assert_eq!(error.to_string(), "slot is active (SQLSTATE 55006); for PID 7");
    }

    #[test]
    fn a_standby_that_is_waited_for_is_no_publication_that_is_skipped() {
        let skipped = parse(b"SWARNING\0C55000\0Mskipped loading publication \"a\"\0RLoadPublications\0\0");
        assert!(skipped.publication_skipped());
        let waiting = parse(b"SWARNING\0C55000\0Mslot \"a\" does not have active_pid\0RStandbySlotsHaveCaughtup\0\0");
        assert!(!waiting.publication_skipped());
    }

    #[test]
    fn transient_errors_are_told_from_those_that_an_operator_must_repair() {
        let is_transient = |code: &str| parse(format!("C{code}\0\0").as_bytes()).is_transient();
        for code in
            ["57P03", "57P01", "53300", "53100", "53200", "08006", "08P01", "40P01", "57014", "58030", "25006", "55P03"]
        {
            assert!(is_transient(code), "{code}");
        }
        for code in
            ["28P01", "28000", "3D000", "42501", "42883", "3F000", "0A000", "22023", "53400", "55000", "57P04", "XX000"]
        {
            assert!(!is_transient(code), "{code}");
        }
    }

    #[test]
    fn an_error_cut_short_or_not_in_utf8_is_still_told() {
        assert_eq!(parse(b"C57P01\0Mbye \xff\0Dunfini").message, "bye \u{fffd}");
        assert_eq!(parse(b"").sqlstate, SqlState::INTERNAL_ERROR);
    }
}
