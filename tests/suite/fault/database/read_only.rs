//! The server takes no writes.

use harness::Stack;

use super::{Load, REPEATED, check, lost_sessions, relay, run, terminate};

#[tokio::test]
async fn a_database_that_turns_read_only_gets_its_verdicts_when_it_takes_writes_again() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    // The clients' sessions take writes all the time; the relay's next ones do not.
    let load = Load::start(&format!("{}?options=-c%20default_transaction_read_only%3Doff", stack.db.url()));
    load.goes_on(200).await;
    let database = stack.db.name();
    run(&stack.db, &format!("ALTER DATABASE {database} SET default_transaction_read_only = on")).await;
    let mark = relay.mark();
    terminate(&stack.db, &["client backend", "walsender"]).await;
    relay.wait_for_log_after(mark, "read-only").await;
    load.goes_on(200).await;
    let waiting = consumer.count();

    run(&stack.db, &format!("ALTER DATABASE {database} SET default_transaction_read_only = off")).await;
    load.goes_on(200).await;
    let committed = load.stop().await;
    check(&stack.db, &consumer, &committed, lost_sessions(&relay) * REPEATED).await;
    println!("{waiting} deliveries when it took writes again, {} sessions lost", lost_sessions(&relay));
}
