//! `status`: shows at a glance whether events flow.

use outbox_service::{Config, error::RunError};
use serde::Serialize;

use crate::{
    format::{Tone, age, bytes, count, escaped, fields, seconds, thousands},
    queries::{
        health::{self, Health},
        relays::{self, Relays},
        session::{Grant, Session, within},
    },
    terminal::{Answer, output::Output, query_args::QueryArgs},
};

/// Say whether events flow; exit code 0 if they do and nothing else is wrong
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    args: QueryArgs,
}

/// The result of `outbox.health`, and the connected relays.
#[derive(Debug, Serialize)]
struct Status {
    /// The host that has answered; of several, the one that a relay would use.
    database_host: String,
    #[serde(flatten)]
    health: Health,
    /// The server process of the relay that reads the slot.
    relay_working_pid: Option<i32>,
    /// Standbys; null if this role may not see them.
    relays_standby: Option<usize>,
}

impl Status {
    /// Returns the state in a sentence or two, and its tone.
    fn sentence(&self) -> (String, Tone) {
        let health = &self.health;
        let text = match (health.healthy, &health.reason, &health.unseen) {
            (Some(true), ..) => match health.pending {
                0 => "Events flow: nothing waits.".to_owned(),
                waiting => format!("Events flow: {} on the way.", count(waiting, "event")),
            },
            (_, Some(reason), Some(unseen)) if health.flows() => {
                format!("It is not known whether events flow ({unseen}): {reason}.")
            }
            (_, Some(but), None) if health.flows() => format!("Events flow, but {but}."),
            (_, Some(reason), _) => format!("Something is wrong: {reason}."),
            (_, None, Some(unseen)) => format!("It is not known whether events flow: {unseen}."),
            (_, None, None) => "It is not known whether events flow.".to_owned(),
        };
        let tone = match health.healthy {
            Some(true) => Tone::Good,
            Some(false) => Tone::Bad,
            None => Tone::Warning,
        };
        (escaped(&text), tone)
    }

    fn details(&self) -> Vec<(&'static str, String)> {
        let health = &self.health;
        let unknown = || "unknown".to_owned();
        let number = |number: i64, is_estimate: bool| {
            let about = if is_estimate { "about " } else { "" };
            format!("{about}{}", thousands(number))
        };
        let oldest = |age_seconds: Option<f64>| {
            age_seconds.map(|age_seconds| format!(", the oldest for {}", age(seconds(age_seconds)))).unwrap_or_default()
        };
        let size = |size: Option<i64>| size.map_or_else(unknown, bytes);
        let slot = &health.slot;
        let name = &slot.name;
        let slot = match slot.is_active {
            None => format!("{name}: not there, or not seen"),
            Some(active) => format!(
                "{name}: {}, WAL {}, keeps {}, {} behind{}",
                if active { "active" } else { "not active" },
                slot.wal_status.as_deref().unwrap_or("unknown"),
                size(slot.kept_bytes),
                size(slot.behind_bytes),
                slot.safe_bytes.map(|safe| format!(", {} until it is lost", bytes(safe))).unwrap_or_default(),
            ),
        };
        let working =
            self.relay_working_pid.map_or_else(|| "none at work".to_owned(), |pid| format!("1 at work (pid {pid})"));
        let standby = self.relays_standby.map_or_else(
            || "standby unknown (this role needs pg_monitor to see them)".to_owned(),
            |standby| format!("{standby} on standby"),
        );
        vec![
            ("pending", number(health.pending, health.pending_is_estimate) + &oldest(health.oldest_pending_seconds)),
            (
                "retrying",
                number(health.retrying, health.scheduled_is_estimate) + &oldest(health.oldest_retrying_seconds),
            ),
            ("scheduled", number(health.scheduled, health.scheduled_is_estimate)),
            ("failed", number(health.failed, health.failed_is_estimate)),
            ("keys held", number(health.keys_held, false)),
            ("slot", slot),
            ("database", escaped(&self.database_host)),
            ("relays", format!("{working}, {standby}")),
        ]
    }
}

pub(super) async fn run(config: &Config, Options { args }: Options) -> Result<Answer, RunError> {
    let status = within(args.timeout, config, async {
        let session = Session::open(config, "status", Grant::Monitor, args.timeout).await?;
        let failed = |error| session.failed(error);
        let health = session.client.query_one(&health::with_codes(), &[&config.slot]).await.map_err(failed)?;
        let name = &config.application_name;
        let relays = session.client.query(relays::SESSIONS, &[&config.slot, name]).await.map_err(failed)?;
        let relays = Relays::read(&relays).map_err(failed)?;
        Ok(Status {
            database_host: session.peer.to_string(),
            health: Health::read(&health).map_err(failed)?,
            relay_working_pid: relays.working(),
            relays_standby: relays.standby(name),
        })
    });
    let status = status.await?;
    let mut output = Output::new(args.form);
    if output.json {
        output.object(&status)?;
    } else {
        let (sentence, tone) = status.sentence();
        let text = format!("{}\n\n{}", output.paint(tone, &sentence), fields(&status.details()));
        output.print(&text)?;
    }
    Ok(if status.health.healthy == Some(true) { Answer::Yes } else { Answer::No })
}
