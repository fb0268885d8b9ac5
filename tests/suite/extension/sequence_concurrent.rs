//! `outbox.ensure_sequence` beside those who emit.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use harness::{Connection, Database, seed};
use tokio::task::JoinSet;

use super::{
    on_both_installations, run,
    sequence::{emit, ensure},
};

on_both_installations!(no_number_comes_twice_or_goes_down_for_a_session_while_it_is_mended_beside_emitters);

/// The greatest number of the rows that the sequence is behind.
const ROWS: i64 = 1_000_000;

/// Emits until told to stop, some in transactions that end in one or the other way. Returns the numbers that it was
/// given.
async fn emit_on(session: Connection, mut random: fastrand::Rng, stop: Arc<AtomicBool>) -> Vec<i64> {
    let mut given = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let events = random.u32(1..4);
        run(&session, "BEGIN").await;
        for _ in 0..events {
            given.push(emit(&session).await);
        }
        run(&session, if random.u32(..4) == 0 { "ROLLBACK" } else { "COMMIT" }).await;
    }
    given
}

/// Mends it until it is in order, as a relay does; then emits once. Returns that number.
async fn mend(session: Connection) -> i64 {
    loop {
        match session.query_one("SELECT outbox.ensure_sequence()", &[]).await {
            Ok(row) if row.get::<_, &str>(0) == "in order" => return emit(&session).await,
            Ok(_) => {}
            Err(error) => {
                let code = error.code().map(|code| code.code().to_owned());
                assert!(["55006", "55P03"].map(|code| Some(code.to_owned())).contains(&code), "{error:?}");
            }
        }
    }
}

async fn no_number_comes_twice_or_goes_down_for_a_session_while_it_is_mended_beside_emitters(db: Database) {
    let mut random = seed::rng("no_number_comes_twice_or_goes_down_for_a_session_while_it_is_mended_beside_emitters");
    for round in 0..8 {
        let change = ["CACHE 1", "CACHE 10", "INCREMENT 3 CACHE 4", "CYCLE"][random.usize(..4)];
        let broken = format!(
            "TRUNCATE outbox.events; ALTER SEQUENCE outbox.events_seq_seq {change} RESTART {};
             INSERT INTO outbox.events (seq, topic, payload) OVERRIDING SYSTEM VALUE VALUES ({ROWS}, 't', '{{}}')",
            random.u32(1..100)
        );
        run(&db, &broken).await;
        let (stop, mut emitters, mut menders) = (Arc::new(AtomicBool::new(false)), JoinSet::new(), JoinSet::new());
        for _ in 0..4 {
            emitters.spawn(emit_on(db.connect().await, random.fork(), Arc::clone(&stop)));
        }
        for _ in 0..3 {
            menders.spawn(mend(db.connect().await));
        }
        let mut all = tokio::time::timeout(harness::SOON, menders.join_all()).await.expect("it comes to be in order");
        assert!(all.iter().all(|seq| *seq > ROWS), "{round} {change}: {all:?}");
        stop.store(true, Ordering::Relaxed);
        for given in emitters.join_all().await {
            assert!(given.is_sorted_by(|before, after| before < after), "{round} {change}: {given:?}");
            all.extend(given);
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "{round} {change}: a number was given twice");
        assert_eq!(ensure(&db).await, "in order");
    }
}
