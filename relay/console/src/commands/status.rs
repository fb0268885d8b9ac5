//! `status`: whether events flow, at one glance.

use outbox_service::{Config, error::RunError};
use serde::Serialize;
use tokio_postgres::{Error, Row};

use crate::{
    flow::flow,
    format::{Tone, age, bytes, count, escaped, fields, thousands},
    queries::{
        session::{Grant, Session, within},
        sql,
    },
    terminal::{Answer, output::Output, question::Question},
};

/// Tell at one glance whether events flow; the exit code is 0 if they do and nothing else is wrong
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    question: Question,
}

/// What `outbox.health` says, and who is connected. Ages are seconds.
#[derive(Debug, Serialize)]
struct Status {
    /// The host that has answered: of several, the one that a relay would use.
    database_host: String,
    /// Null: nothing is known to be wrong, and something could not be seen.
    healthy: Option<bool>,
    reason: Option<String>,
    /// A word for each part of the reason.
    codes: Vec<String>,
    unseen: Option<String>,
    pending: Option<i64>,
    pending_is_estimate: Option<bool>,
    oldest_pending_seconds: Option<f64>,
    retrying: Option<i64>,
    oldest_retrying_seconds: Option<f64>,
    scheduled: Option<i64>,
    scheduled_is_estimate: Option<bool>,
    failed: Option<i64>,
    failed_is_estimate: Option<bool>,
    keys_held: Option<i64>,
    slot: String,
    slot_active: Option<bool>,
    slot_wal_status: Option<String>,
    slot_kept_bytes: Option<i64>,
    slot_safe_bytes: Option<i64>,
    slot_behind_bytes: Option<i64>,
    /// The server process of the relay that reads the slot.
    relay_working_pid: Option<i32>,
    /// Relays that wait to take over; null if this role may not see them.
    relays_standby: Option<i64>,
}

impl Status {
    fn read(health: &Row, relays: &Row, slot: &str, host: String) -> Result<Self, Error> {
        let working: Option<i32> = relays.try_get(0)?;
        let (named, elsewhere, sees_all): (i64, i64, bool) =
            (relays.try_get(1)?, relays.try_get(2)?, relays.try_get(3)?);
        // A role sees the names of its own sessions, too. Where no name is seen, nothing is known.
        let standby = Some(named - elsewhere - i64::from(working.is_some())).filter(|_| sees_all || named > 0);
        Ok(Self {
            database_host: host,
            healthy: health.try_get(0)?,
            reason: health.try_get(1)?,
            codes: health.try_get(18)?,
            unseen: health.try_get(2)?,
            pending: health.try_get(3)?,
            pending_is_estimate: health.try_get(4)?,
            oldest_pending_seconds: health.try_get(5)?,
            retrying: health.try_get(6)?,
            oldest_retrying_seconds: health.try_get(7)?,
            scheduled: health.try_get(8)?,
            scheduled_is_estimate: health.try_get(9)?,
            failed: health.try_get(10)?,
            failed_is_estimate: health.try_get(11)?,
            keys_held: health.try_get(12)?,
            slot: slot.to_owned(),
            slot_active: health.try_get(13)?,
            slot_wal_status: health.try_get(14)?,
            slot_kept_bytes: health.try_get(15)?,
            slot_safe_bytes: health.try_get(16)?,
            slot_behind_bytes: health.try_get(17)?,
            relay_working_pid: working,
            relays_standby: standby.map(|relays| relays.max(0)),
        })
    }

    /// The whole of it in a sentence or two, and how it should look.
    fn sentence(&self) -> (String, Tone) {
        let text = match (self.healthy, &self.reason, &self.unseen) {
            (Some(true), ..) => match self.pending.unwrap_or_default() {
                0 => "Events flow: nothing waits.".to_owned(),
                waiting => format!("Events flow: {} on the way.", count(waiting, "event")),
            },
            (_, Some(but), _) if flow(self.codes.iter().map(String::as_str)) => format!("Events flow, but {but}."),
            (_, Some(reason), _) => format!("Something is wrong: {reason}."),
            (_, None, Some(unseen)) => format!("It is not known whether events flow: {unseen}."),
            (_, None, None) => "It is not known whether events flow.".to_owned(),
        };
        let tone = match self.healthy {
            Some(true) => Tone::Good,
            Some(false) => Tone::Bad,
            None => Tone::Warning,
        };
        (escaped(&text), tone)
    }

    fn details(&self) -> Vec<(&'static str, String)> {
        let unknown = || "unknown".to_owned();
        let number = |number: Option<i64>, is_estimate: Option<bool>| {
            let about = if is_estimate == Some(true) { "about " } else { "" };
            number.map_or_else(unknown, |number| format!("{about}{}", thousands(number)))
        };
        let oldest = |seconds: Option<f64>| {
            seconds.map(|seconds| format!(", the oldest for {}", age(seconds))).unwrap_or_default()
        };
        let size = |size: Option<i64>| size.map_or_else(unknown, bytes);
        let slot = match self.slot_active {
            None => format!("{}: not there, or not seen", self.slot),
            Some(active) => format!(
                "{}: {}, WAL {}, keeps {}, {} behind{}",
                self.slot,
                if active { "active" } else { "not active" },
                self.slot_wal_status.as_deref().unwrap_or("unknown"),
                size(self.slot_kept_bytes),
                size(self.slot_behind_bytes),
                self.slot_safe_bytes.map(|safe| format!(", {} until it is lost", bytes(safe))).unwrap_or_default(),
            ),
        };
        let working =
            self.relay_working_pid.map_or_else(|| "none at work".to_owned(), |pid| format!("1 at work (pid {pid})"));
        let standby = self.relays_standby.map_or_else(
            || "standby unknown (GRANT pg_monitor to see them)".to_owned(),
            |standby| format!("{standby} on standby"),
        );
        vec![
            ("pending", number(self.pending, self.pending_is_estimate) + &oldest(self.oldest_pending_seconds)),
            ("retrying", number(self.retrying, self.scheduled_is_estimate) + &oldest(self.oldest_retrying_seconds)),
            ("scheduled", number(self.scheduled, self.scheduled_is_estimate)),
            ("failed", number(self.failed, self.failed_is_estimate)),
            ("keys held", number(self.keys_held, None)),
            ("slot", slot),
            ("database", escaped(&self.database_host)),
            ("relays", format!("{working}, {standby}")),
        ]
    }
}

pub(super) async fn carry_out(config: &Config, Options { question }: Options) -> Result<Answer, RunError> {
    let status = within(question.timeout, config, async {
        let session = Session::open(config, "status", Grant::Monitor, question.timeout).await?;
        let failed = |error| session.failed(error);
        let health = session.client.query_one(sql::HEALTH, &[&config.slot]).await.map_err(failed)?;
        let relays =
            session.client.query_one(sql::RELAYS, &[&config.slot, &config.application_name]).await.map_err(failed)?;
        Status::read(&health, &relays, &config.slot, session.peer.to_string()).map_err(failed)
    });
    let status = status.await?;
    let mut output = Output::new(question.form);
    if output.json {
        output.object(&status)?;
    } else {
        let (sentence, tone) = status.sentence();
        let text = format!("{}\n\n{}", output.paint(tone, &sentence), fields(&status.details()));
        output.print(&text)?;
    }
    Ok(if status.healthy == Some(true) { Answer::Yes } else { Answer::No })
}
