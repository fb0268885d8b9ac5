//! Filters of events, which `events`, `replay` and `release` share. Their names are those of `outbox.replay_many`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use outbox_service::{error::RunError, time};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::queries::session::Session;

/// The filters.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Filter {
    /// Only events with this topic
    #[arg(long, value_name = "TOPIC")]
    pub(super) topic: Option<String>,
    /// Only events whose topic matches this LIKE pattern (% for any text, _ for one character)
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(super) topic_like: Option<String>,
    /// Only events whose key has this aggregate_type
    #[arg(long, value_name = "TYPE")]
    pub(super) aggregate_type: Option<String>,
    /// Only events whose key has this aggregate_id
    #[arg(long, value_name = "ID")]
    pub(super) aggregate_id: Option<String>,
    /// Only events with this correlation id
    #[arg(long, value_name = "ID")]
    pub(super) correlation_id: Option<String>,
    /// Only events made at this time or later: 10m, 2h or 7d ago, or a time such as 2026-01-31T08:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(super) since: Option<String>,
    /// Only events made before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(super) until: Option<String>,
    /// Only events whose last error matches this LIKE pattern
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
        for text in [&mut self.since, &mut self.until].into_iter().flatten() {
            if let Some(ago) = time::parse(text) {
                *text = session.time_ago(ago).await?;
            }
        }
        Ok(self)
    }

    /// Returns the values in the order of the parameters of `FITS` and `REPLAY`.
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

/// Parses a time: how long ago, which stays as it is, or when, in the form that SQL reads.
fn moment(text: &str) -> Result<String, String> {
    let at = time::parse(text).map(|_| text.to_owned()).or_else(|| Some(time::moment(text)?.to_string()));
    at.ok_or_else(|| "say how long ago, as in 10m, 2h or 7d, or a time such as 2026-01-31T08:00Z".to_owned())
}
