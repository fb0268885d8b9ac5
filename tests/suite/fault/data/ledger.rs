//! What was committed, compared with what arrived.

use std::collections::{HashMap, HashSet};

use harness::{Connection, eventually};
use uuid::Uuid;

use super::LONG;

/// A row's place in the order of its key.
struct Place {
    key: Option<i64>,
    seq: i64,
}

/// Compares the `SENT` rows with the ids in the order in which they arrived at each queue: none is lost, none is
/// invented, at most `repeats` came again, and the first deliveries of each key are in order.
pub(super) async fn check(db: &Connection, queues: &[&[Uuid]], repeats: usize) {
    let sql = "SELECT id, seq, hashtextextended(coalesce(aggregate_type, '') || '/' || aggregate_id, 0)
               FROM outbox.events WHERE status = 'SENT'";
    let rows = db.query(sql, &[]).await.unwrap();
    let sent: HashMap<Uuid, Place> =
        rows.iter().map(|row| (row.get(0), Place { seq: row.get(1), key: row.get(2) })).collect();

    let mut arrived = HashSet::new();
    let (mut deliveries, mut invented, mut disordered) = (0, 0, 0);
    for queue in queues {
        let mut last: HashMap<i64, i64> = HashMap::new();
        for id in *queue {
            deliveries += 1;
            match sent.get(id) {
                None => invented += 1,
                Some(_) if !arrived.insert(*id) => {}
                Some(Place { key: Some(key), seq }) => {
                    let before = last.insert(*key, *seq);
                    disordered += u32::from(before.is_some_and(|before| before > *seq));
                }
                Some(_) => {}
            }
        }
    }
    let lost = sent.len() - arrived.len();
    assert_eq!((lost, invented, disordered), (0, 0, 0), "(lost, invented, out of their key's order)");
    let repeated = deliveries - sent.len();
    assert!(repeated <= repeats, "{repeated} of {} were repeated, {repeats} may be", sent.len());
}

/// Waits until as many different ids have arrived as rows are `SENT`: the broker hands out messages a moment after it
/// confirms them.
pub(super) async fn wait_for_all(db: &Connection, arrived: impl Fn() -> Vec<Uuid>) {
    let sent = usize::try_from(super::count(db, "status = 'SENT'").await).unwrap();
    eventually(&format!("{sent} arrive"), LONG, async || {
        let ids = arrived();
        match ids.len() {
            count if count < sent => Err(count),
            _ => match ids.into_iter().collect::<HashSet<Uuid>>().len() {
                different if different < sent => Err(different),
                _ => Ok(()),
            },
        }
    })
    .await;
}
