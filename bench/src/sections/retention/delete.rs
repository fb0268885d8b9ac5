//! Deletes old events as the relay's retention does: some pages a step, and only those that have something old.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::Connection;

/// Pages that the relay looks through in one step.
const PAGES: i64 = 256;

/// Remembers what the pages of each step have, as the relay does.
#[derive(Default)]
pub(super) struct Deleter {
    /// When the oldest event was sent that the pages of a step still have. `None`: they are looked at each time.
    oldest: Vec<Option<SystemTime>>,
}

impl Deleter {
    /// Deletes events that were finished before a time. Returns how many.
    pub(super) async fn delete(&mut self, session: &Connection, before: SystemTime) -> u64 {
        let step = "SELECT deleted, oldest_sent, table_pages FROM outbox.delete_finished($1, NULL, $2, 256)";
        let (mut deleted, mut from, mut pages) = (0, 0, PAGES);
        while from < pages {
            let number = usize::try_from(from / PAGES).expect("a small number");
            let known = self.oldest.get(number).copied();
            if known.is_none_or(|oldest| oldest.unwrap_or(UNIX_EPOCH) < before) {
                let row = session.query_one(step, &[&before, &from]).await.expect("a step");
                deleted += row.get::<_, i64>(0).unsigned_abs();
                pages = row.get(2);
                if self.oldest.len() <= number {
                    self.oldest.resize(number + 1, None);
                }
                if let Some(oldest) = self.oldest.get_mut(number) {
                    *oldest = row.get(1);
                }
            }
            from += PAGES;
        }
        deleted
    }
}
