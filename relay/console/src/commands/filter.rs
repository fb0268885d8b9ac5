//! Filters of events, which `events`, `replay` and `release` share. Their names are those of `outbox.replay_many`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use outbox_service::error::{Kind, RunError};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::{
    format::{is_moment, parse_age},
    queries::{session::Session, sql},
};

/// The filters.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Filter {
    /// Only events with this topic
    #[arg(long, value_name = "TOPIC")]
    pub(super) topic: Option<String>,
    /// Only events whose topic is like this pattern (% stands for any text, _ for one character)
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(super) topic_like: Option<String>,
    /// Only events whose key has this first half
    #[arg(long, value_name = "TYPE")]
    pub(super) aggregate_type: Option<String>,
    /// Only events whose key has this second half
    #[arg(long, value_name = "ID")]
    pub(super) aggregate_id: Option<String>,
    /// Only events with this correlation id
    #[arg(long, value_name = "ID")]
    pub(super) correlation_id: Option<String>,
    /// Only events made at this time or later: 10m, 2h or 7d ago, or a time such as 2026-01-31T08:00Z (UTC unless it
    /// says otherwise)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(super) since: Option<String>,
    /// Only events made before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(super) until: Option<String>,
    /// Only events whose last error is like this pattern
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(super) error_like: Option<String>,
}

impl Filter {
    /// Whether all events pass the filters.
    pub(super) fn is_empty(&self) -> bool {
        self.texts().iter().all(|text| text.is_none()) && self.since.is_none() && self.until.is_none()
    }

    fn texts(&self) -> [&Option<String>; 6] {
        [
            &self.topic,
            &self.topic_like,
            &self.aggregate_type,
            &self.aggregate_id,
            &self.correlation_id,
            &self.error_like,
        ]
    }

    /// Turns relative times into absolute ones, so that preview and change see the same events.
    pub(super) async fn fix(mut self, session: &Session) -> Result<Self, RunError> {
        for (name, time) in [("since", &mut self.since), ("until", &mut self.until)] {
            if let Some(text) = time {
                *text = fixed(session, name, text).await?;
            }
        }
        Ok(self)
    }
}

async fn fixed(session: &Session, name: &str, text: &str) -> Result<String, RunError> {
    let ago = parse_age(text).and_then(|seconds| i64::try_from(seconds).ok());
    let time = if ago.is_some() { "now" } else { text };
    let row = session.client.query_one(&sql::fixed_time(), &[&time, &ago.unwrap_or_default()]).await;
    match row {
        Ok(row) => row.try_get(0).map_err(|error| session.failed(error)),
        Err(error) if error.as_db_error().is_some() => {
            Err(RunError::new(Kind::Usage, format!("--{name} {}: no such time", text.escape_debug())).hint(A_TIME))
        }
        Err(error) => Err(session.failed(error)),
    }
}

impl Filter {
    /// Returns the values in the order of the parameters of `FITS` and [`sql::REPLAY`].
    pub(super) fn values(&self) -> [&(dyn ToSql + Sync); 8] {
        let Self { topic, topic_like, aggregate_type, aggregate_id, correlation_id, since, until, error_like } = self;
        [topic, topic_like, aggregate_type, aggregate_id, correlation_id, since, until, error_like]
    }
}

/// The parameters of the statements that use `FITS`.
pub(super) struct Parameters<'a> {
    pub(super) filter: &'a Filter,
    pub(super) status: Option<&'a str>,
    pub(super) ids: Option<&'a [Uuid]>,
    pub(super) limit: i64,
}

impl Parameters<'_> {
    pub(super) fn list(&self) -> [&(dyn ToSql + Sync); 11] {
        let [topic, topic_like, aggregate_type, aggregate_id, correlation_id, since, until, error_like] =
            self.filter.values();
        let (status, ids, limit) = (&self.status, &self.ids, &self.limit);
        [topic, topic_like, aggregate_type, aggregate_id, correlation_id, since, until, error_like, status, ids, limit]
    }
}

/// Parses an option that is one word of a list, in any case.
pub(super) fn word(words: &'static [&'static str]) -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(words).map(|word| word.to_uppercase())
}

/// Parses a LIKE pattern. The server would report an invalid pattern only when it compares the first event with it.
fn pattern(text: &str) -> Result<String, String> {
    let backslashes = text.len() - text.trim_end_matches('\\').len();
    if backslashes.is_multiple_of(2) {
        Ok(text.to_owned())
    } else {
        Err(r"the \ at its end escapes nothing; write \\ for a backslash itself".to_owned())
    }
}

const A_TIME: &str = "say how long ago, as in 10m, 2h or 7d, or a time such as 2026-01-31T08:00Z";

/// Parses a time: how long ago, or when.
fn moment(text: &str) -> Result<String, String> {
    if parse_age(text).is_some() || is_moment(text) { Ok(text.to_owned()) } else { Err(A_TIME.to_owned()) }
}
