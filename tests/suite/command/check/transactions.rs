//! `check` on transactions that keep the slot back.

use harness::{Postgres, RabbitMq, SOON, Stack, eventually};

use super::{
    super::{RELAY, ask, ask_as, forget, role, value},
    check, findings, level,
};

#[tokio::test]
async fn a_transaction_whose_age_the_role_may_not_see_is_unknown_if_it_stays_open_and_nothing_to_report_if_it_ends() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let role = role(&stack.db, "relay", RELAY).await;
    let transactions = async || {
        let asked = ask_as(&stack, &role, &["check", "--json"]).await;
        findings(&asked)["transactions"].clone()
    };
    let writer = stack.db.connect().await;
    writer.batch_execute("BEGIN; SELECT txid_current()").await.unwrap();
    let stays = transactions().await;
    assert_eq!((&stays["level"], &stays["to_do"]), (&"unknown".into(), &"GRANT pg_monitor to this role".into()));
    writer.batch_execute("COMMIT").await.unwrap();
    let busy = tokio::spawn(async move {
        while writer.batch_execute("BEGIN; SELECT txid_current(), pg_sleep(0.05); COMMIT").await.is_ok() {}
    });
    let passes = transactions().await;
    assert_eq!(passes["level"], "ok", "{passes}");
    busy.abort();
    forget(&stack.db, &role).await;
}

#[tokio::test]
async fn a_slot_that_runs_out_under_a_running_relay_is_bad_and_the_transaction_that_keeps_it_is_named() {
    let postgres = Postgres::private().set("max_slot_wal_keep_size", "320MB").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let _relay = stack.relay().start().await;
    let asked = check(&stack, &[]).await.ended_with(0);
    assert_eq!([level(&asked, "slot"), level(&asked, "transactions")], ["ok", "ok"], "{asked:?}");

    let forgotten = stack.db.connect().await;
    forgotten.batch_execute("SET application_name = 'report'; BEGIN; SELECT txid_current()").await.unwrap();
    let pid = value(&forgotten, "SELECT pg_backend_pid()").await;
    let write = async |segments| {
        for _ in 0..segments {
            let segment = "SELECT pg_logical_emit_message(false, 'x', 'x'); SELECT pg_switch_wal()";
            stack.db.batch_execute(segment).await.unwrap();
        }
    };
    write(12).await; // of 20 that it may keep
    let asked = check(&stack, &[]).await.ended_with(0);
    assert_eq!([level(&asked, "slot"), level(&asked, "transactions")], ["warning", "warning"], "{asked:?}");
    ask(&stack, &["status"]).await.ended_with(0);
    write(6).await;
    let asked = check(&stack, &[]).await.ended_with(1);
    assert_eq!(level(&asked, "slot"), "bad", "{asked:?}");
    let finding = &findings(&asked)["transactions"];
    assert!(finding["found"].as_str().unwrap().contains("report"), "{finding}");
    assert!(finding["to_do"].as_str().unwrap().contains(&format!("pg_terminate_backend({pid})")), "{finding}");
    let asked = ask(&stack, &["status"]).await.ended_with(1);
    assert!(asked.out.contains("is about to be lost: it keeps "), "{asked:?}");

    drop(forgotten);
    eventually("the slot moves on", SOON, async || {
        // A relay that has nothing to do learns of it when the server next notes which transactions run.
        stack.db.batch_execute("CHECKPOINT").await.unwrap();
        let asked = check(&stack, &[]).await;
        if level(&asked, "slot") == "ok" { Ok(()) } else { Err(asked) }
    })
    .await;
}

#[tokio::test]
async fn while_an_older_transaction_keeps_the_slot_from_being_made_everybody_who_is_asked_names_it() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let forgotten = stack.db.connect().await;
    forgotten.batch_execute("SET application_name = 'report'; BEGIN; SELECT txid_current()").await.unwrap();
    let pid = value(&forgotten, "SELECT pg_backend_pid()").await;
    let relay = stack.relay().set("http-listen", "0").spawn();
    let port = crate::watch::http_port(&relay).await;
    let sentence = format!("making the slot waits for an older transaction to end: process {pid} of ");
    crate::watch::wait_for_ready(port, 503, &sentence).await;
    let asked = ask(&stack, &["status"]).await.ended_with(1);
    assert!(asked.out.contains("and waits for older transactions to end"), "{asked:?}");
    let asked = check(&stack, &[]).await.ended_with(1);
    assert_eq!([level(&asked, "slot"), level(&asked, "transactions")], ["bad", "warning"], "{asked:?}");
    assert!(findings(&asked)["transactions"].to_string().contains(&pid), "{asked:?}");
    forgotten.batch_execute("COMMIT").await.unwrap();
    crate::watch::wait_for_ready(port, 200, "delivering").await;
    ask(&stack, &["status"]).await.ended_with(0);
}
