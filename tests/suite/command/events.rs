//! `events`: what there is, and the life of one.

use harness::{SOON, Stack, eventually};
use serde_json::Value;
use uuid::Uuid;

use super::{OPERATOR, ask, ask_as, command, finish, forget, history, role, value};

async fn found(stack: &Stack, filters: &[&str]) -> String {
    let arguments: Vec<&str> = ["events", "--json", "--payload"].iter().chain(filters).copied().collect();
    let asked = ask(stack, &arguments).await;
    let payloads: Vec<String> = asked.json().iter().map(|event| event["payload"].to_string()).collect();
    asked.ended_with(i32::from(payloads.is_empty())); // as grep
    payloads.join(" ")
}

#[tokio::test]
async fn where_no_event_fits_the_answer_is_no_and_what_is_no_pattern_is_the_callers_mistake() {
    let stack = Stack::new().await;
    ask(&stack, &["events"]).await.ended_with(1);
    history(&stack).await;
    for filters in [&["--topic", "zzz"][..], &["--holding"], &["--topic-like", r"zzz\\"]] {
        let asked = ask(&stack, &[&["events"], filters].concat()).await.ended_with(1);
        assert_eq!((asked.out.as_str(), asked.err.as_str()), ("", "No event fits.\n"));
        assert_eq!(ask(&stack, &[&["events", "--json"], filters].concat()).await.ended_with(1).out, "");
    }
    for command in ["events", "replay", "release"] {
        for option in ["--topic-like", "--error-like"] {
            for pattern in [r"\", r"no such\", r"\\\"] {
                let asked = ask(&stack, &[command, option, pattern]).await.ended_with(2);
                assert!(asked.err.contains("escapes nothing"), "{asked:?}");
            }
        }
    }
}

#[tokio::test]
async fn every_filter_finds_what_it_says_the_newest_first() {
    let stack = Stack::new().await;
    history(&stack).await;
    for (filters, expected) in [
        (&[][..], "10 9 8 7 6 5 4 3 2 1"),
        (&["--status", "failed"], "10 8 6 4 2"),
        (&["--status", "SENT"], "9 7 5 3 1"),
        (&["--status", "pending"], ""),
        (&["--topic", "topic.1"], "10 7 4 1"),
        (&["--topic-like", "topic.%"], "10 9 8 7 6 5 4 3 2 1"),
        (&["--topic-like", "topic_"], ""),
        (&["--aggregate-type", "order", "--aggregate-id", "2"], "7 2"),
        (&["--correlation-id", "c3"], "3"),
        (&["--error-like", "%NO_ROUTE%"], "8 4"),
        (&["--status", "FAILED", "--error-like", "nack", "--topic", "topic.0"], "6"),
        (&["--since", "1h", "--limit", "1"], "10"),
        (&["--until", "1h"], ""),
        (&["--since", "2000-01-01", "--until", "2000-01-02T00:00Z"], ""),
        (&["--holding"], ""),
        (&["--oldest", "--limit", "3"], "1 2 3"),
        (&["--oldest", "--status", "FAILED"], "2 4 6 8 10"),
    ] {
        assert_eq!(found(&stack, filters).await, expected, "{filters:?}");
    }
    let ids =
        value(&stack.db, "SELECT string_agg(id::text, ' ') FROM outbox.events WHERE payload::text::int < 3").await;
    let ids: Vec<&str> = ids.split(' ').collect();
    assert_eq!(found(&stack, &ids).await, "2 1");
    let missing = "01a1fd4c-25b9-7c6a-a420-31b130406efa";
    let asked = ask(&stack, &["events", ids[0], missing]).await.ended_with(1);
    assert!(
        asked.out.contains(ids[0]) && asked.err.contains(&format!("No event that fits has the id {missing}.")),
        "{asked:?}"
    );
    let asked = ask(&stack, &["events", ids[0], ids[1], "--limit", "1"]).await.ended_with(0);
    assert!(
        asked.err.contains("There may be more: --limit 1 ends the list.") && !asked.err.contains("No event"),
        "{asked:?}"
    );
    let asked = ask(&stack, &["events", ids[0], "--status", "FAILED"]).await.ended_with(1);
    assert!(asked.out.is_empty() && asked.err.contains(ids[0]), "{asked:?}");

    stack.db.batch_execute("SELECT outbox.emit('many', '{}') FROM generate_series(1, 21)").await.unwrap();
    let many = value(&stack.db, "SELECT string_agg(id::text, ' ') FROM outbox.events WHERE topic = 'many'").await;
    let many: Vec<&str> = std::iter::once("events").chain(many.split(' ')).collect();
    let asked = ask(&stack, &many).await.ended_with(0);
    assert_eq!((asked.out.lines().count(), asked.err.as_str()), (22, ""), "all that were asked for: {asked:?}");

    let asked = ask(&stack, &["events", "--status", "FAILED"]).await.ended_with(0);
    let heading = asked.out.lines().next().unwrap();
    assert!(heading.starts_with("ID") && heading.ends_with("LAST ERROR"), "{asked:?}");
    assert_eq!(asked.out.lines().count(), 6, "{asked:?}");
}

#[tokio::test]
async fn pending_events_are_found_whether_or_not_they_have_a_time_of_their_own() {
    let stack = Stack::new().await;
    stack
        .db
        .batch_execute(
            "SELECT outbox.emit('t', to_jsonb(n), available_at => CASE WHEN n % 2 = 0 THEN now() + interval '1 hour' END)
             FROM generate_series(1, 6) AS n",
        )
        .await
        .unwrap();
    assert_eq!(found(&stack, &["--status", "PENDING"]).await, "6 5 4 3 2 1");
    assert_eq!(found(&stack, &["--status", "PENDING", "--oldest", "--limit", "4"]).await, "1 2 3 4");
    let asked = ask(&stack, &["events", "--status", "PENDING", "--limit", "2"]).await.ended_with(0);
    assert_eq!(asked.out.lines().count(), 3, "{asked:?}");
    assert!(asked.out.contains("PENDING, in 59m") || asked.out.contains("PENDING, in 1h"), "{asked:?}");
}

#[tokio::test]
async fn a_time_that_is_none_is_told_with_what_to_say() {
    let stack = Stack::new().await;
    for bad in ["yesteryear", "5 parsecs", "'; DROP TABLE outbox.events; --"] {
        let asked = ask(&stack, &["events", "--since", bad]).await.ended_with(2);
        assert!(asked.err.contains("--since") && asked.err.contains("2h"), "{asked:?}");
    }
}

/// What an emitter may put into an event to take over the terminal of whoever looks at it.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r\u{8}\u{7f}\u{202e}\u{200b}\n";

fn is_harmless(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !(c.is_control() || "\u{202e}\u{200b}".contains(c)))
}

#[tokio::test]
async fn nothing_that_an_emitter_writes_reaches_the_terminal_as_a_command() {
    let stack = Stack::new().await;
    let emit = "SELECT outbox.emit($1, to_jsonb($1::text), event_type => $1, aggregate_type => $1, aggregate_id => $1,
        headers => jsonb_build_object($1::text, $1::text), correlation_id => $1, exchange => $1)";
    let id: Uuid = stack.db.query_one(emit, &[&HOSTILE]).await.unwrap().get(0);
    let bytes = "SELECT outbox.emit($1, $2::bytea, content_type => $1)";
    stack.db.execute(bytes, &[&HOSTILE, &HOSTILE.as_bytes()]).await.unwrap();
    stack.db.execute("UPDATE outbox.events SET status = 'FAILED', last_error = $1", &[&HOSTILE]).await.unwrap();
    let id = id.to_string();
    for arguments in [
        &["events"][..],
        &["events", "--payload"],
        &["events", &id],
        &["events", &id, "--payload"],
        &["events", "--json", "--payload"],
        &["events", &id, "--json", "--payload"],
        &["replay", "--all", "--dry-run"],
    ] {
        let asked = ask(&stack, arguments).await.ended_with(0);
        assert!(is_harmless(&asked.out) && is_harmless(&asked.err), "{arguments:?}: {asked:?}");
        assert!(asked.out.contains("owned"), "{arguments:?}: {asked:?}");
    }
    // As JSON it means what it was.
    let event = ask(&stack, &["events", &id, "--json", "--payload"]).await.object();
    for field in ["topic", "event_type", "aggregate_type", "aggregate_id", "correlation_id", "exchange", "payload"] {
        assert_eq!(event[field], HOSTILE, "{field}");
    }
    assert_eq!(event["headers"][HOSTILE], HOSTILE);
}

#[tokio::test]
async fn a_payload_is_shown_only_when_asked_for() {
    let stack = Stack::new().await;
    // Words that no id can contain.
    let emit = "SELECT outbox.emit('t', '{\"card\": \"visa\"}', headers => '{\"token\": \"xyz\"}')";
    let id = value(&stack.db, emit).await;
    stack.db.batch_execute("SELECT outbox.emit('t', '\\x00ff'::bytea)").await.unwrap();
    for arguments in [&["events"][..], &["events", &id], &["events", "--json"], &["events", &id, "--json"]] {
        let asked = ask(&stack, arguments).await.ended_with(0);
        assert!(!asked.out.contains("visa") && !asked.out.contains("xyz"), "{arguments:?}: {asked:?}");
        let arguments: Vec<&str> = arguments.iter().chain(&["--payload"]).copied().collect();
        let asked = ask(&stack, &arguments).await.ended_with(0);
        assert!(asked.out.contains("visa") && asked.out.contains("xyz"), "{arguments:?}: {asked:?}");
    }
    let all = ask(&stack, &["events", "--json", "--payload"]).await.json();
    assert!(all.iter().any(|event| event["payload_base64"] == "AP8="), "{all:?}");
}

#[tokio::test]
async fn the_life_of_an_event_tells_what_became_of_it_and_who_waits_for_whom() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer("bound").await;
    let _relay = stack.relay().set("after-failed", "hold").start().await;
    let emit = async |topic: &str| {
        let sql = format!("SELECT outbox.emit('{topic}', '{{}}', aggregate_type => 'order', aggregate_id => '1')");
        value(&stack.db, &sql).await
    };
    let sent = emit("bound").await;
    let failed = emit("unbound").await;
    let held = emit("bound").await;
    emit("bound").await;
    eventually("one has failed and holds its key", SOON, async || {
        let holding = ask(&stack, &["events", "--holding", "--json"]).await;
        if holding.out.contains(&failed) { Ok(()) } else { Err(holding) }
    })
    .await;

    let asked = ask(&stack, &["events", &sent]).await.ended_with(0);
    assert!(
        asked.out.contains("is SENT after 1 attempt") && asked.out.contains("sent: the broker has confirmed"),
        "{asked:?}"
    );
    ask(&stack, &["events", &sent, &sent]).await.ended_with(0);
    let asked = ask(&stack, &["events", &failed]).await.ended_with(0);
    for words in [
        "is FAILED after 1 attempt",
        "emitted",
        "FAILED: 312 NO_ROUTE",
        "It holds its key: 2 events made after it wait",
    ] {
        assert!(asked.out.contains(words), "{words:?} is not in {asked:?}");
    }
    let asked = ask(&stack, &["events", &held]).await.ended_with(0);
    assert!(asked.out.contains(&format!("It waits for {failed} (FAILED)")), "{asked:?}");
    assert!(asked.out.contains(&format!("outbox-relay release {failed}")), "{asked:?}");
    let life = ask(&stack, &["events", &held, "--json"]).await.object();
    assert_eq!(life["held_by"]["id"], Value::from(failed));
    assert_eq!((&life["key_pending_before"], &life["key_pending_after"]), (&0.into(), &1.into()));

    let nobody = Uuid::nil().to_string();
    let asked = ask(&stack, &["events", &nobody]).await.ended_with(1);
    assert!(asked.out.is_empty() && asked.err.contains("There is no event"), "{asked:?}");
}

#[tokio::test]
async fn a_search_reads_an_index_whatever_the_statistics_and_however_long_the_history() {
    let stack = Stack::new().await;
    stack
        .db
        .batch_execute(
            "ALTER TABLE outbox.events SET (autovacuum_enabled = off);
             INSERT INTO outbox.events (topic, payload) SELECT 'a', '{}' FROM generate_series(1, 20000);
             UPDATE outbox.events SET status = 'SENT' WHERE seq % 1000 <> 0;
             UPDATE outbox.events SET status = 'FAILED' WHERE seq % 2000 = 0",
        )
        .await
        .unwrap();
    let counted = "SELECT seq_scan::text || ' ' || idx_scan::text FROM pg_stat_user_tables WHERE relid = 'outbox.events'::regclass";
    let read = async || {
        let text = value(&stack.db, counted).await;
        let (scans, looks) = text.split_once(' ').unwrap();
        (scans.parse::<i64>().unwrap(), looks.parse::<i64>().unwrap())
    };
    // What this session has done so far is counted when it is over.
    stack.db.batch_execute("SELECT pg_stat_clear_snapshot()").await.unwrap();
    let id = value(&stack.db, "SELECT max(id::text) FROM outbox.events").await;
    let before = eventually("what was done so far is counted", SOON, async || {
        let (scans, looks) = read().await;
        if scans >= 2 { Ok((scans, looks)) } else { Err((scans, looks)) }
    })
    .await;
    for arguments in [
        &["events"][..],
        &["events", "--status", "PENDING"],
        &["events", "--status", "FAILED"],
        &["events", "--status", "SENT"],
        &["events", "--holding"],
        &["events", "--topic", "a", "--since", "1h"],
        &["events", &id],
    ] {
        ask(&stack, arguments).await.ended_with(i32::from(arguments.contains(&"--holding"))); // none does
    }
    let after = eventually("the commands' reading is counted", SOON, async || {
        let (scans, looks) = read().await;
        if looks >= before.1 + 7 { Ok((scans, looks)) } else { Err((scans, looks)) }
    })
    .await;
    assert_eq!(after.0, before.0, "whole-table scans");
}

#[tokio::test]
async fn a_search_that_takes_too_long_ends_and_says_that_not_all_was_looked_at() {
    let stack = Stack::new().await;
    let mut blocker = stack.db.connect().await;
    let locked = blocker.transaction().await.unwrap();
    locked.batch_execute("LOCK TABLE outbox.events").await.unwrap();
    let asked = ask(&stack, &["events", "--timeout", "1s"]).await.ended_with(1);
    assert!(asked.err.contains("Not all was looked at") && asked.err.contains("--timeout"), "{asked:?}");
}

#[tokio::test]
async fn an_operator_may_look_and_nobody_has_to_read_to_the_end() {
    let stack = Stack::new().await;
    history(&stack).await;
    let role = role(&stack.db, "operator", OPERATOR).await;
    let asked = ask_as(&stack, &role, &["events", "--status", "FAILED", "--json"]).await.ended_with(0);
    assert_eq!(asked.json().len(), 5);
    forget(&stack.db, &role).await;

    stack
        .db
        .batch_execute("INSERT INTO outbox.events (topic, payload) SELECT 'a', '{}' FROM generate_series(1, 20000)")
        .await
        .unwrap();
    let mut head = command(&stack, stack.db.url(), &["events", "--json", "--limit", "100000"]);
    let mut child = head.spawn().unwrap();
    drop(child.stdout.take()); // whoever read has gone
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    finish(command(&stack, stack.db.url(), &["events"])).await.ended_with(0);
}
