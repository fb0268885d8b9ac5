//! Checks of certificates that expire soon: after that no connection succeeds.

use std::time::{Duration, SystemTime};

use client_socket::{Expiry, Socket};
use outbox_service::{Config, error::chain, peer::EXPIRES_SOON};

use super::Report;
use crate::format::{count, rfc3339};

const DAY: Duration = Duration::from_hours(24);

const EXPIRES_VERY_SOON: Duration = Duration::from_hours(3 * 24);

/// The certificates of a connection.
enum Seen {
    NotEncrypted,
    Unreadable,
    /// Expiry of the server's certificate, and of the relay's own if it has one.
    GoodUntil(SystemTime, Option<SystemTime>),
}

impl Seen {
    fn of(socket: &Socket) -> Self {
        let Expiry { server, client } = socket.expiry();
        match (socket.peer_certificate(), server) {
            (None, _) => Self::NotEncrypted,
            (Some(_), None) => Self::Unreadable,
            (Some(_), Some(until)) => Self::GoodUntil(until, client),
        }
    }
}

/// Checks the database's certificate, without logging in.
pub(crate) async fn inspect_database(config: &Config, report: &mut Report) {
    let server = match config.database_url.now() {
        Ok(server) => server,
        Err(bad) => return report.unknown("database_certificate", format!("no connection: {bad}"), ""),
    };
    match server.open(|socket| async move { Ok(Seen::of(&socket)) }).await {
        Ok((seen, _)) => report_expiry("database_certificate", &seen, report),
        Err(error) => report.unknown("database_certificate", format!("no connection: {}", chain(&error)), ""),
    }
}

/// Checks the certificates of a connection; `check` is the name of the check.
pub(crate) fn inspect_socket(check: &'static str, socket: &Socket, report: &mut Report) {
    report_expiry(check, &Seen::of(socket), report);
}

fn report_expiry(check: &'static str, seen: &Seen, report: &mut Report) {
    let (server, client) = match seen {
        Seen::NotEncrypted => return report.ok(check, "the connection is not encrypted: there is no certificate"),
        Seen::Unreadable => return report.unknown(check, "the certificate's end cannot be read", ""),
        Seen::GoodUntil(server, client) => (*server, *client),
    };
    let now = SystemTime::now();
    let (mut least, mut found) = left(server, now);
    let mut to_do = "renew it, and have the server load it; the relay sees the new one when it connects again";
    if let Some(client) = client {
        let (own, found_own) = left(client, now);
        found = format!("{found}; the relay's own is {found_own}");
        if own < least {
            (least, to_do) = (own, "renew the relay's own; the relay reads it each time it connects");
        }
    }
    if least < EXPIRES_VERY_SOON {
        report.bad(check, found, to_do);
    } else if least < EXPIRES_SOON {
        report.warning(check, found, to_do);
    } else {
        report.ok(check, found);
    }
}

/// Returns how long a certificate is still valid, and the same in words.
fn left(until: SystemTime, now: SystemTime) -> (Duration, String) {
    let left = until.duration_since(now).unwrap_or_default();
    let days = i64::try_from(left.as_secs() / DAY.as_secs()).unwrap_or(i64::MAX);
    (left, format!("good for {}, until {}", count(days, "day"), rfc3339(until)))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn days_left_are_whole_ones_and_never_negative() {
        let until = UNIX_EPOCH + 100 * DAY;
        let (time, found) = left(until, UNIX_EPOCH + 90 * DAY + DAY / 2);
        assert_eq!((time, found.as_str()), (9 * DAY + DAY / 2, "good for 9 days, until 1970-04-11T00:00:00.000Z"));
        assert_eq!(left(until, UNIX_EPOCH + 101 * DAY).0, Duration::ZERO);
    }
}
