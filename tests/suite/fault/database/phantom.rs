//! Commits that are seen before they are on disk, and a server that crashes in between.

use harness::{Postgres, RabbitMq, SOON, Stack};

use super::{emit, number, relay, run};

const ROUNDS: i64 = 3;

#[tokio::test]
async fn what_a_crash_takes_back_was_not_published() {
    // Only a commit that waits for the disk takes the log there.
    let postgres = Postgres::private().set("wal_writer_delay", "10s").set("fsync", "off").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    // Passes, which see what the stream does not bring yet; and no verdict, whose commit would take the log to the
    // disk.
    let no_verdict = "
        SET outbox.allow_undumped_changes = on;
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no verdict'; END; $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON outbox.events FOR EACH ROW EXECUTE FUNCTION refuse()";
    run(&stack.db, no_verdict).await;
    let relay = relay(&stack).set("check-interval", "100ms").start().await;
    for round in 1..=ROUNDS {
        let hasty = stack.db.connect().await;
        hasty.batch_execute("SET synchronous_commit = off").await.unwrap();
        let id = emit(&hasty, "k", round).await;
        consumer.wait_for_ids(&[id], SOON).await;
        let mark = relay.mark();
        postgres.kill().await;
        postgres.start().await;
        let db = stack.db.connect().await;
        let rows = number(&db, &format!("SELECT count(*) FROM outbox.events WHERE id = '{id}'")).await;
        assert_eq!(rows, 1, "round {round}: the message is out, and its row is gone");
        relay.wait_for_log_after(mark, "streaming").await;
    }
}
