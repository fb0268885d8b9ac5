//! `check`: looks at everything that a relay with these settings needs, changes nothing, and says what to do.

mod broker;
mod certificate;
mod database;
mod everybody;
mod finding;
mod references;
mod rights;
mod routes;
mod slot;
mod transactions;

use self::finding::Report;
use super::{
    Answer,
    output::Output,
    question::Question,
    session::{Grant, Session},
};
use crate::{config::Config, error::RunError};

/// Look at everything that a relay with these settings needs, change nothing, and say what to do; exit code 1 if something is bad
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    question: Question,
}

pub(super) async fn carry_out(config: &Config, Options { question }: Options) -> Result<Answer, RunError> {
    let mut report = Report::default();
    let mut is_at_work = false;
    match Session::open(config, "check", Grant::Monitor, question.timeout).await {
        Ok(session) => {
            report.ok("database", format!("connected to {}", config.database_url));
            database::look(&session, config, &mut report).await;
            let keeps_much = slot::look(&session, config, &mut report).await;
            is_at_work = slot::is_read(&session, config).await.unwrap_or_default();
            transactions::look(&session, keeps_much, &mut report).await;
            rights::look(&session, config, &mut report).await;
            everybody::look(&session, &mut report).await;
            references::look(&session, &mut report).await;
            routes::look(&session, &mut report).await;
        }
        Err(error) => report.bad("database", error.to_string(), ""),
    }
    certificate::look_at_database(config, &mut report).await;
    broker::look(config, is_at_work, &mut report).await;
    let report = report.complete();
    report.tell(&mut Output::new(question.form))?;
    Ok(if report.is_fine() { Answer::Yes } else { Answer::No })
}
