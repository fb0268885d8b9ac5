//! `check`: inspects everything that a relay with these settings needs, changes nothing, and says what to do.

mod database;
mod everybody;
mod others;
mod references;
mod rights;
mod sequence;
mod slot;
mod transactions;

use std::time::Duration;

use outbox_service::error::RunError;
use tokio::time::timeout;

use crate::{
    Config,
    findings::{Report, certificate},
    queries::session::{Grant, Session, silent},
    sink::Sink,
    terminal::{Answer, output::Output, query_args::QueryArgs},
};

/// Check everything that a relay with these settings needs, and say what to do; exit code 1 if a finding is bad, or
/// --timeout ended it
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    args: QueryArgs,
}

pub(crate) async fn run<S: Sink>(console: &Config, Options { args }: Options) -> Result<Answer, RunError> {
    let (config, limit) = (&console.relay, args.timeout);
    let (mut report, mut of_certificate, mut of_broker) = (Report::default(), Report::default(), Report::default());
    let mut is_at_work = false;
    // The checks run concurrently, so that a server that does not answer costs the other checks no time.
    let (database, certificate, broker) = tokio::join!(
        timeout(limit, inspect_database::<S>(console, limit, &mut is_at_work, &mut report)),
        timeout(limit, certificate::inspect_database(config, &mut of_certificate)),
        timeout(limit, S::check_broker(config, &mut of_broker)),
    );
    let out_of_time = [database.is_err(), certificate.is_err(), broker.is_err()].contains(&true).then_some(limit);
    report.join(of_certificate);
    report.join(of_broker);
    if database.is_err() && !report.has("database") {
        report.bad("database", silent(&config.database_url, limit).to_string(), "");
    }
    match (broker, S::address(config)) {
        (Ok(Some(once_known)), _) => once_known(config, is_at_work, &mut report),
        (Err(_elapsed), Some(address)) if !report.has("broker") => {
            report.bad("broker", silent(address, limit).to_string(), "");
        }
        _ => {}
    }
    let report = report.complete(S::CHECKS, out_of_time);
    report.print(&mut Output::new(args.form))?;
    Ok(if report.is_fine() && out_of_time.is_none() { Answer::Yes } else { Answer::No })
}

/// Makes all checks that need a session with the database. Sets `is_at_work` to whether a relay reads the slot.
async fn inspect_database<S: Sink>(console: &Config, limit: Duration, is_at_work: &mut bool, report: &mut Report) {
    let config = &console.relay;
    let session = match Session::connect(config, "check", Grant::Monitor, limit).await {
        Ok(session) => session,
        Err(error) => return report.bad("database", error.to_string(), ""),
    };
    report.ok("database", format!("connected to {}", config.database_url));
    database::inspect(&session, config, report).await;
    let keeps_much = slot::inspect(&session, config, report).await;
    *is_at_work = slot::is_read(&session, config).await.unwrap_or_default();
    transactions::inspect(&session, keeps_much, report).await;
    let is_trusted = rights::inspect(&session, console, report).await;
    references::inspect(&session, report).await;
    if is_trusted {
        everybody::inspect(&session, report).await;
        others::inspect(&session, report).await;
        S::check_routes(config, &session.client, report).await;
    }
}
