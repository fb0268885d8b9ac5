//! Transactions that end in two steps, and parts of transactions that never happened.

use harness::{Postgres, RabbitMq, Shutdown, Stack};

use super::{REPEATED, check, emit, number, relay, run, wait_until_sent};

#[tokio::test]
async fn a_prepared_transaction_is_delivered_when_it_commits_also_after_a_restart_and_never_if_it_does_not() {
    let postgres = Postgres::private().set("max_prepared_transactions", "10").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let mut db = stack.db.connect().await;
    let mut committed = Vec::new();
    for (n, name) in (1..).zip(["now", "never", "later", "never_later"]) {
        run(&db, "BEGIN").await;
        let id = emit(&db, name, n).await;
        run(&db, &format!("PREPARE TRANSACTION '{name}'")).await;
        if !name.starts_with("never") {
            committed.push(id);
        }
    }
    committed.push(emit(&db, "plain", 5).await);
    wait_until_sent(&db, 1).await;
    run(&db, "COMMIT PREPARED 'now'").await;
    run(&db, "ROLLBACK PREPARED 'never'").await;
    wait_until_sent(&db, 2).await;

    let mark = relay.mark();
    postgres.stop(Shutdown::Immediate).await;
    postgres.start().await;
    relay.wait_for_log_after(mark, "streaming").await;
    db = stack.db.connect().await;
    committed.push(emit(&db, "plain", 6).await);
    wait_until_sent(&db, 3).await;
    run(&db, "COMMIT PREPARED 'later'").await;
    run(&db, "ROLLBACK PREPARED 'never_later'").await;
    wait_until_sent(&db, 4).await;
    assert_eq!(number(&db, "(SELECT count(*) FROM pg_prepared_xacts)").await, 0);
    check(&db, &consumer, &committed, REPEATED).await;
}

#[tokio::test]
async fn what_a_savepoint_or_an_exception_has_undone_is_never_delivered() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = relay(&stack).start().await;
    let db = &stack.db;
    let mut committed = Vec::new();
    run(db, "BEGIN").await;
    committed.push(emit(db, "k", 1).await);
    run(db, "SAVEPOINT outer_one").await;
    emit(db, "k", 2).await;
    run(db, "SAVEPOINT inner_one").await;
    emit(db, "k", 3).await;
    run(db, "RELEASE inner_one; ROLLBACK TO outer_one").await;
    committed.push(emit(db, "k", 4).await);
    run(db, "SAVEPOINT kept").await;
    committed.push(emit(db, "k", 5).await);
    run(db, "RELEASE kept; COMMIT").await;

    let exceptions = "DO $$ BEGIN
        FOR n IN 10..109 LOOP
            BEGIN
                PERFORM outbox.emit('t', jsonb_build_object('n', n), aggregate_type => 'a', aggregate_id => 'k');
                IF n % 2 = 0 THEN RAISE EXCEPTION 'undone'; END IF;
            EXCEPTION WHEN raise_exception THEN NULL;
            END;
        END LOOP;
    END $$";
    run(db, exceptions).await;
    wait_until_sent(db, 53).await;
    check(db, &consumer, &committed, 0).await;
    let numbers: Vec<_> = consumer.deliveries().iter().map(|delivery| delivery.json()["n"].as_i64().unwrap()).collect();
    assert_eq!(numbers, [1, 4, 5].into_iter().chain((11..110).step_by(2)).collect::<Vec<_>>());
}

#[tokio::test]
async fn large_transactions_that_are_rolled_back_while_they_are_streamed_are_never_delivered() {
    let stack = Stack::new().await;
    let spill = format!("ALTER DATABASE {} SET logical_decoding_work_mem = '64kB'", stack.db.name());
    run(&stack.db, &spill).await; // decoding keeps so much in memory, and the rest on disk
    let consumer = stack.consumer("#").await;
    let _relay = relay(&stack).start().await;
    let (one, other) = (stack.db.connect().await, stack.db.connect().await);
    let flood = "SELECT count(outbox.emit('flood', to_jsonb(repeat('x', 1000)))) FROM generate_series(1, 3000)";
    let mut committed = Vec::new();
    for n in 0..4 {
        run(&one, "BEGIN").await;
        run(&one, flood).await;
        committed.push(emit(&other, "k", 2 * n).await);
        run(&one, "SAVEPOINT s").await;
        run(&one, flood).await;
        run(&one, "ROLLBACK").await;
        committed.push(emit(&other, "k", 2 * n + 1).await);
    }
    wait_until_sent(&stack.db, 8).await;
    check(&stack.db, &consumer, &committed, 0).await;
}
