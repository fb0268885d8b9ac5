//! `replay` and `release`: what is shown is what is done.

use harness::{Postgres, RabbitMq, SOON, Stack, eventually};

use super::{OPERATOR, ask, ask_as, forget, history, payloads, role, value};

#[tokio::test]
async fn what_a_preview_counts_is_what_a_replay_replays() {
    let stack = Stack::new().await;
    for (filters, replayed) in [
        (&["--topic", "topic.1"][..], "4 10"),
        (&["--topic-like", "%.2"], "2 8"),
        (&["--aggregate-type", "order", "--aggregate-id", "3"], "8"),
        (&["--correlation-id", "c6"], "6"),
        (&["--error-like", "%NO_ROUTE%"], "4 8"),
        (&["--since", "1h"], "2 4 6 8 10"),
        (&["--since", "1h", "--limit", "2"], "2 4"),
        (&["--until", "1h"], ""),
        (&["--all"], "2 4 6 8 10"),
        (&["--status", "SENT", "--topic", "topic.1"], "1 7"),
    ] {
        stack.db.batch_execute("DELETE FROM outbox.events").await.unwrap();
        history(&stack).await;
        let call = async |last: &[&str]| {
            let arguments: Vec<&str> = ["replay", "--json"].iter().chain(filters).chain(last).copied().collect();
            ask(&stack, &arguments).await
        };
        let preview = call(&["--dry-run"]).await;
        assert_eq!(payloads(&stack, "PENDING").await, "", "a dry run changes nothing");
        let done = call(&["--yes"]).await;
        assert_eq!(payloads(&stack, "PENDING").await, replayed, "{filters:?}");
        let count = replayed.split_whitespace().count();
        assert_eq!(preview.code, Some(i32::from(count == 0)), "{preview:?}");
        assert_eq!(done.code, preview.code, "{done:?}");
        assert_eq!(
            (preview.object()["matched"].as_u64(), preview.object()["done"].as_u64()),
            (Some(count as u64), Some(0))
        );
        assert_eq!(
            (done.object()["matched"].as_u64(), done.object()["done"].as_u64()),
            (Some(count as u64), Some(count as u64))
        );
    }
}

#[tokio::test]
async fn events_are_replayed_by_id_whether_sent_or_failed_and_one_that_is_pending_already_is_not() {
    let stack = Stack::new().await;
    history(&stack).await;
    stack.db.batch_execute("SELECT outbox.emit('t', '11')").await.unwrap();
    let ids =
        value(&stack.db, "SELECT string_agg(id::text, ' ') FROM outbox.events WHERE payload::text::int IN (1, 2, 11)")
            .await;
    let mut arguments = vec!["replay", "--yes", "--json"];
    arguments.extend(ids.split(' '));
    let asked = ask(&stack, &arguments).await.ended_with(1);
    let done = asked.object();
    assert_eq!((&done["matched"], &done["done"]), (&2.into(), &2.into()), "one of three was PENDING");
    let pending = value(&stack.db, "SELECT id FROM outbox.events WHERE payload::text::int = 11").await;
    let missing = "00000000-0000-4000-8000-000000000000";
    assert!(asked.err.contains(&format!("No event that fits has the id {pending}.")), "{asked:?}");
    for command in ["replay", "release", "purge"] {
        let asked = ask(&stack, &[command, "--dry-run", missing, &pending]).await.ended_with(1);
        for id in [missing, &pending] {
            assert!(asked.err.contains(&format!("No event that fits has the id {id}.")), "{asked:?}");
        }
    }
    assert_eq!(payloads(&stack, "PENDING").await, "1 2 11");

    let replayed = value(&stack.db, "SELECT id FROM outbox.events WHERE payload::text::int = 1").await;
    let shown = ask(&stack, &["events", &replayed]).await.ended_with(0);
    assert!(shown.out.contains("is PENDING, replayed 1 time\n"), "{shown:?}");
    let finished = value(&stack.db, "SELECT id FROM outbox.events WHERE payload::text::int = 3").await;
    ask(&stack, &["replay", "--yes", &finished, &finished]).await.ended_with(0); // named twice, and replayed once
    let life = ask(&stack, &["events", &replayed, "--json"]).await.object();
    assert_eq!(life["replays"], 1, "{life:?}");
}

#[tokio::test]
async fn nothing_is_replayed_without_a_filter_and_nothing_without_somebody_who_agrees() {
    let stack = Stack::new().await;
    history(&stack).await;
    let asked = ask(&stack, &["replay", "--yes"]).await.ended_with(2);
    assert!(asked.err.contains("--all"), "{asked:?}");
    let asked = ask(&stack, &["replay", "--all"]).await.ended_with(2);
    assert!(asked.err.contains("Replay 5 events?") && asked.err.contains("--yes"), "{asked:?}");
    assert_eq!(payloads(&stack, "PENDING").await, "");
}

#[tokio::test]
async fn a_preview_shows_the_oldest_of_many_and_a_replay_of_many_goes_on_in_batches() {
    let stack = Stack::new().await;
    stack
        .db
        .batch_execute(
            "INSERT INTO outbox.events (topic, payload) SELECT 'a', to_jsonb(n) FROM generate_series(1, 2500) AS n;
             UPDATE outbox.events SET status = 'FAILED', last_error = 'nack'",
        )
        .await
        .unwrap();
    let oldest = value(&stack.db, "SELECT id FROM outbox.events ORDER BY seq LIMIT 1").await;
    let asked = ask(&stack, &["replay", "--topic", "a", "--dry-run"]).await.ended_with(0);
    assert!(asked.out.lines().nth(1).unwrap().starts_with(&oldest), "{asked:?}");
    assert!(asked.out.contains("… and 2,490 more") && asked.err.contains("Would replay 2,500 events"), "{asked:?}");
    let asked = ask(&stack, &["replay", "--topic", "a", "--yes"]).await.ended_with(0);
    assert!(asked.err.contains("Replayed 2,500 events"), "{asked:?}");
    assert_eq!(value(&stack.db, "SELECT count(*) FROM outbox.events WHERE status = 'PENDING'").await, "2500");
    assert_eq!(value(&stack.db, "SELECT count(DISTINCT xmin::text) FROM outbox.events").await, "3");
    let audit = "SELECT string_agg(concat_ws(' ', action, filter ->> 'topic', events, program), ',' ORDER BY id) FROM outbox.audit";
    let noted = "replay a 1000 outbox-relay replay,replay a 1000 outbox-relay replay,replay a 500 outbox-relay replay";
    assert_eq!(value(&stack.db, audit).await, noted);
}

#[tokio::test]
async fn an_operator_replays_and_releases_and_a_relays_role_may_not() {
    let stack = Stack::new().await;
    let operator = role(&stack.db, "operator", OPERATOR).await;
    let relay = role(&stack.db, "relay", super::RELAY).await;
    let consumer = stack.consumer("bound").await;
    let _relay = stack.relay().set("after-failed", "hold").start().await;
    let emit = async |topic: &str| {
        let sql = format!("SELECT outbox.emit('{topic}', '{{}}', aggregate_id => '1')");
        value(&stack.db, &sql).await
    };
    let failed = emit("unbound").await;
    emit("bound").await;
    eventually("the key is held", SOON, async || {
        match value(&stack.db, "SELECT count(*) FROM outbox.failed WHERE holds_key").await {
            one if one == "1" => Ok(()),
            other => Err(other),
        }
    })
    .await;
    for command in ["replay", "release"] {
        let asked = ask_as(&stack, &relay, &[command, &failed, "--yes"]).await.ended_with(13);
        assert!(asked.err.contains("outbox.grant_operate"), "{asked:?}");
    }
    let done = ask_as(&stack, &operator, &["release", "--topic", "unbound", "--dry-run", "--json"]).await.ended_with(0);
    assert_eq!(done.object()["matched"], 1);
    assert_eq!(consumer.count(), 0);
    ask_as(&stack, &operator, &["release", &failed, "--yes"]).await.ended_with(0);
    consumer.wait_for(1).await;
    ask_as(&stack, &operator, &["release", &failed, "--yes"]).await.ended_with(1);

    consumer.bind("unbound").await;
    ask_as(&stack, &operator, &["replay", &failed, "--yes"]).await.ended_with(0);
    consumer.wait_for(2).await;
    forget(&stack.db, &operator).await;
    forget(&stack.db, &relay).await;
}

async fn wait_until_blocked(stack: &Stack) {
    eventually("it waits for the lock", SOON, async || {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        match value(&stack.db, waiting).await.as_str() {
            "1" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
}

#[tokio::test]
async fn an_id_whose_event_has_changed_meanwhile_makes_the_exit_code_1_and_a_limit_that_leaves_ids_out_does_not() {
    let stack = Stack::new().await;
    history(&stack).await;
    let id = async |payload: u8| {
        value(&stack.db, &format!("SELECT id FROM outbox.events WHERE payload::text::int = {payload}")).await
    };
    for (race, kept) in [
        (format!("DELETE FROM outbox.events WHERE id = '{}'", id(2).await), id(4).await),
        (format!("SELECT outbox.replay('{}')", id(6).await), id(8).await),
    ] {
        let lost = race.split('\'').nth(1).unwrap();
        let mut blocker = stack.db.connect().await;
        let transaction = blocker.transaction().await.unwrap();
        transaction.batch_execute(&race).await.unwrap();
        let replay = super::command(&stack, stack.db.url(), &["replay", "--yes", lost, &kept]).spawn().unwrap();
        wait_until_blocked(&stack).await;
        transaction.commit().await.unwrap();
        let ended = replay.wait_with_output().await.unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{race}: {told}");
        assert!(told.contains("Replayed 1 event, to be sent again; 1 event had changed meanwhile."), "{told}");
    }
    let (failed, sent, missing) = (id(10).await, id(1).await, "00000000-0000-4000-8000-000000000000");
    let asked = ask(&stack, &["replay", "--dry-run", &sent, &failed, "--limit", "1"]).await.ended_with(0);
    assert!(asked.err.contains("Would replay 1 event."), "{asked:?}");
    let asked = ask(&stack, &["replay", "--dry-run", &failed, missing, "--limit", "2"]).await.ended_with(1);
    assert!(asked.err.contains(&format!("No event that fits has the id {missing}.")), "{asked:?}");
}

#[tokio::test]
async fn a_signal_in_the_middle_ends_a_replay_after_its_batch_and_says_how_far_it_came() {
    let stack = Stack::new().await;
    stack
        .db
        .batch_execute(
            "SELECT count(outbox.emit('t', '{}')) FROM generate_series(1, 3000);
             SELECT outbox.settle(array_agg(id), array_agg('FAILED'::outbox.status), array_agg('no'::text)) FROM outbox.events",
        )
        .await
        .unwrap();
    let mut blocker = stack.db.connect().await;
    for signal in ["INT", "TERM"] {
        let lock = "SELECT FROM outbox.events WHERE id = (SELECT id FROM outbox.events WHERE status = 'FAILED' ORDER BY seq OFFSET 500 LIMIT 1) FOR UPDATE";
        let transaction = blocker.transaction().await.unwrap();
        transaction.query(lock, &[]).await.unwrap();
        let before: i64 =
            value(&stack.db, "SELECT count(*) FROM outbox.events WHERE status = 'FAILED'").await.parse().unwrap();
        let mut replay = super::command(&stack, stack.db.url(), &["replay", "--all", "--yes"]);
        let replay = replay.spawn().unwrap();
        wait_until_blocked(&stack).await;
        let kill = std::process::Command::new("kill").args(["-s", signal, &replay.id().unwrap().to_string()]).status();
        assert!(kill.unwrap().success());
        transaction.rollback().await.unwrap();
        let ended = replay.wait_with_output().await.unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(if signal == "INT" { 130 } else { 143 }), "{told}");
        assert!(told.contains("A second signal ends the command at once."), "{told}");
        let line = if before == 3000 { "1,000 of 3,000 events done" } else { "1,000 of 2,000 events done" };
        assert!(told.contains(&format!("Interrupted: {line}")), "{told}");
        assert!(told.contains("Replayed 1,000 events, to be sent again."), "nobody has changed the others: {told}");
        let after = value(&stack.db, "SELECT count(*) FROM outbox.events WHERE status = 'FAILED'").await;
        assert_eq!(after, (before - 1000).to_string());
    }
    let done = ask(&stack, &["replay", "--all", "--yes", "--json"]).await.ended_with(0).object();
    assert_eq!(done["done"], 1000, "{done}");
}

#[tokio::test]
async fn a_replay_that_a_locked_event_ends_says_what_is_in_the_way_and_as_json_how_far_it_came() {
    let stack = Stack::new().await;
    let set_up = "INSERT INTO outbox.events (topic, payload) SELECT 'a', '{}' FROM generate_series(1, 2000);
         UPDATE outbox.events SET status = 'FAILED', last_error = 'nack'";
    stack.db.batch_execute(set_up).await.unwrap();
    let mut blocker = stack.db.connect().await;
    let transaction = blocker.transaction().await.unwrap();
    let lock = "SELECT FROM outbox.events WHERE id = (SELECT id FROM outbox.events ORDER BY seq OFFSET 1500 LIMIT 1) FOR UPDATE";
    transaction.query(lock, &[]).await.unwrap();
    let asked = ask(&stack, &["replay", "--all", "--yes", "--json"]).await.ended_with(10);
    assert!(asked.err.contains("1,000 events done before this:"), "{asked:?}");
    assert!(asked.err.contains("somebody has locked outbox.events, or the events"), "{asked:?}");
    let done = asked.object();
    assert_eq!((&done["matched"], &done["done"]), (&2000.into(), &1000.into()));
    assert_eq!(value(&stack.db, "SELECT count(*) FROM outbox.events WHERE status = 'PENDING'").await, "1000");
}

#[tokio::test]
async fn a_command_whose_commit_waits_for_a_synchronous_standby_ends_at_its_timeout_and_says_that_it_may_count() {
    let postgres = Postgres::without_its_standby().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    history(&stack).await;
    let operator = role(&stack.db, "operator", OPERATOR).await;
    stack.db.batch_execute(&format!("ALTER ROLE {operator} SET synchronous_commit = on")).await.unwrap();
    let arguments = ["replay", "--all", "--yes", "--timeout", "1s"];
    let asked = ask_as(&stack, &operator, &arguments).await.ended_with(10);
    assert!(asked.err.contains("neither done nor ended a statement within 1s"), "{asked:?}");
    assert!(asked.err.contains("synchronous standby") && asked.err.contains("look at the events"), "{asked:?}");
    assert_eq!(payloads(&stack, "PENDING").await, "", "nobody sees it yet");
    postgres.end_waiting_commits().await;
    eventually("it counts once nothing is waited for", SOON, async || match &*payloads(&stack, "PENDING").await {
        "2 4 6 8 10" => Ok(()),
        other => Err(other.to_owned()),
    })
    .await;
}
