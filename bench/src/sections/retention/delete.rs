//! Deletes old events as the relay's retention does: a stretch of pages a step, and only stretches that have something old.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::Connection;

/// Pages that the relay looks through in one step.
const STRETCH: i64 = 256;

/// Remembers what each stretch of pages has, as the relay does.
#[derive(Default)]
pub(super) struct Deleter {
    /// When the oldest event was sent that a stretch still has. `None` where it has none: it is looked at each time.
    oldest: Vec<Option<SystemTime>>,
}

impl Deleter {
    /// Deletes events that were finished before a time. Returns how many.
    pub(super) async fn delete(&mut self, session: &Connection, before: SystemTime) -> u64 {
        let step = "SELECT deleted, oldest_sent, table_pages FROM outbox.delete_finished($1, NULL, $2, 256)";
        let (mut deleted, mut from, mut pages) = (0, 0, STRETCH);
        while from < pages {
            let number = usize::try_from(from / STRETCH).expect("a small number");
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
            from += STRETCH;
        }
        deleted
    }
}
