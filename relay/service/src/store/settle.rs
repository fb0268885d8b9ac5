//! Verdicts are written.

use std::borrow::Cow;

use outbox_core::{Batch, Failure, NotWritten, Remedy, Verdict};
use uuid::Uuid;

use super::{Store, StoreError, sql};

impl Store {
    /// Writes all verdicts except the returned ones; after an error, none.
    pub(super) async fn settle(&self, batch: &Batch) -> Result<NotWritten, StoreError> {
        let verdicts = &batch.verdicts;
        let ids: Vec<Uuid> = verdicts.iter().map(|verdict| verdict.id).collect();
        let statuses: Vec<&str> = verdicts.iter().map(|verdict| verdict.status.as_str()).collect();
        let storable: Vec<Option<Cow<'_, str>>> =
            verdicts.iter().map(|verdict| verdict.error.as_deref().map(|error| self.storable(error))).collect();
        let errors: Vec<Option<&str>> = storable.iter().map(Option::as_deref).collect();
        let has_retries = verdicts.iter().any(|verdict| verdict.retry_in.is_some() || verdict.holds_key);
        let of_retries: &[Verdict] = if has_retries { verdicts } else { &[] };
        let retry_ms: Vec<Option<i32>> = of_retries
            .iter()
            .map(|verdict| verdict.retry_in.map(|wait| i32::try_from(wait.as_millis()).unwrap_or(i32::MAX)))
            .collect();
        let holds_key: Vec<bool> = of_retries.iter().map(|verdict| verdict.holds_key).collect();
        let rows = self
            .client
            .query(&self.settle, &[&ids, &statuses, &errors, &retry_ms, &holds_key, &batch.skip_locked])
            .await?;
        let mut not_written = NotWritten::default();
        for row in &rows {
            let status: Option<&str> = row.try_get("status")?;
            let which = match status {
                Some("PENDING") if batch.skip_locked => &mut not_written.locked,
                Some("PENDING") | None => &mut not_written.missing,
                Some(_) => &mut not_written.finished,
            };
            which.push(row.try_get("id")?);
        }
        Ok(not_written)
    }

    /// The failure of verdicts with its remedy, or the error itself if the session must end. A trigger of the user's
    /// can fail with any error; if it did, connecting anew does not help, and publishes everything once more.
    pub(super) async fn failure_to_settle(&self, error: StoreError) -> Result<Failure, StoreError> {
        match error.failure() {
            Err(error) if error.is_an_answer() && self.can_settle().await => {
                Ok(Failure { remedy: Remedy::Isolate, error: error.to_string() })
            }
            failure => failure,
        }
    }

    /// Whether the session can still write verdicts, as far as a statement without one tells: it fires no trigger.
    async fn can_settle(&self) -> bool {
        let (ids, texts): (&[Uuid], &[Option<&str>]) = (&[], &[]);
        let (numbers, flags): (&[Option<i32>], &[bool]) = (&[], &[]);
        let settled = self.client.query(&self.settle, &[&ids, &texts, &texts, &numbers, &flags, &false]).await;
        let may_write = async || self.client.query_one(sql::MAY_WRITE, &[]).await?.try_get(0);
        settled.is_ok() && may_write().await.unwrap_or(false)
    }

    /// The broker's reason in characters that the database can store, so that no verdict fails because of a name in
    /// another script.
    fn storable<'a>(&self, error: &'a str) -> Cow<'a, str> {
        if self.stores_any_text || error.is_ascii() {
            return Cow::Borrowed(error);
        }
        error.chars().map(|char| if char.is_ascii() { char } else { '?' }).collect()
    }
}
