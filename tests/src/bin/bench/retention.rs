//! Which shape of the table stays small, and what that costs: nothing deleted, old events deleted as retention does it, and blocks that are
//! dropped as a whole.
//!
//! The outbox is held against itself, with and without retention. Blocks are held against a plain table of the same columns and indexes, both
//! without the outbox's triggers and functions, so that nothing but the shape differs.

mod blocks;
mod outbox;
mod run;

use crate::{bench::Bench, report::Report};

const SECTION: &str = "retention";
/// In all.
const EVENTS: u64 = 10_000_000;
/// In one transaction.
const BATCH: u64 = 1000;
/// Of all events, so many of the youngest are kept.
const KEPT: u64 = 10;
/// Of all events, so many make a block.
const BLOCKS: u64 = 40;

/// Everything of this section. Once, however many runs are wanted: each case takes minutes and averages over more.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    let db = bench.stack().await.db;
    let configure = async |setting: &str| {
        db.batch_execute(&format!("ALTER SYSTEM {setting}")).await.expect("a setting");
        db.batch_execute("SELECT pg_reload_conf()").await.expect("a new configuration");
    };
    // For the few minutes that this takes VACUUM must come as often as it does in the days that they stand for.
    configure("SET autovacuum_naptime = '1s'").await;
    cases(bench, report).await;
    configure("RESET autovacuum_naptime").await;
}

async fn cases(bench: &Bench, report: &mut Report) {
    for deletes in [false, true] {
        let case = if deletes { "outbox, old events deleted" } else { "outbox, all kept" };
        if bench.wants(case) {
            let stack = bench.stack().await;
            run::run(bench, report, case, &stack.db, &outbox::Outbox::new(deletes)).await;
        }
    }
    for drops in [false, true] {
        let case = if drops { "a table in blocks, old blocks dropped" } else { "a plain table, all kept" };
        if bench.wants(case) {
            let stack = bench.stack().await;
            let block = if drops { (bench.amount(EVENTS) / BLOCKS).next_multiple_of(BATCH) } else { u64::MAX };
            run::run(bench, report, case, &stack.db, &blocks::Blocks::new(&stack.db, block).await).await;
        }
    }
}
