//! `status`: one glance.

use harness::{SOON, Stack, eventually};

use super::{MONITOR, OPERATOR, ask, ask_as, forget, history, role};

#[tokio::test]
async fn status_tells_at_one_glance_that_events_flow_and_ends_with_0() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    stack.db.batch_execute("SELECT outbox.emit('a', '{}')").await.unwrap();
    consumer.wait_for(1).await;
    let asked = eventually("all is well", SOON, async || {
        let asked = ask(&stack, &["status"]).await;
        if asked.code == Some(0) && asked.out.contains("nothing waits") { Ok(asked) } else { Err(asked) }
    })
    .await;
    assert!(asked.out.starts_with("Events flow: nothing waits.\n"), "{asked:?}");
    for words in ["pending", "1 at work (pid ", "0 on standby", ": active, WAL reserved", "keys held"] {
        assert!(asked.out.contains(words), "{words:?} is not in {asked:?}");
    }
    assert_eq!(asked.err, "");

    let status = ask(&stack, &["status", "--json"]).await.ended_with(0).object();
    assert_eq!(status["healthy"], true);
    assert_eq!((&status["pending"], &status["failed"], &status["relays_standby"]), (&0.into(), &0.into(), &0.into()));
    assert!(status["relay_working_pid"].is_i64() && status["slot_kept_bytes"].is_i64(), "{status}");
}

#[tokio::test]
async fn status_names_the_host_that_has_answered_of_several() {
    let stack = Stack::new().await;
    let port = harness::Postgres::shared().await.port();
    let url = stack.db.url().replace("@", &format!("@127.0.0.1:{},", harness::free_port()));
    let asked = super::finish(super::command(&stack, &url, &["status"])).await;
    let line = asked.out.lines().find(|line| line.starts_with("  database ")).unwrap_or_else(|| panic!("{asked:?}"));
    assert!(line.ends_with(&format!(" 127.0.0.1:{port}")), "{asked:?}");
    let status = super::finish(super::command(&stack, &url, &["status", "--json"])).await.object();
    assert_eq!(status["database_host"], format!("127.0.0.1:{port}"));
}

#[tokio::test]
async fn a_relay_that_answers_http_is_one_relay_and_none_on_standby() {
    let stack = Stack::new().await;
    let relay = stack.relay().set("http-listen", "0").start().await;
    let port = crate::watch::http_port(&relay).await;
    let metrics = harness::get(port, "/metrics").await.unwrap(); // opens the connection that asks for the backlog
    assert!(metrics.body.contains("outbox_database_up"), "{metrics:?}");
    let status = ask(&stack, &["status", "--json"]).await.ended_with(0).object();
    assert!(status["relay_working_pid"].is_i64() && status["relays_standby"] == 0, "{status}");
}

#[tokio::test]
async fn a_relay_that_reads_another_slot_is_not_counted_as_one_that_waits_for_this_one() {
    let stack = Stack::new().await;
    let _relay = stack.relay().start().await;
    let _other = stack.relay().set("slot", &format!("other_{}", stack.db.name())).start().await;
    let status = ask(&stack, &["status", "--json"]).await.object();
    assert!(status["relay_working_pid"].is_i64() && status["relays_standby"] == 0, "{status}");
}

#[tokio::test]
async fn a_server_that_lets_in_and_says_nothing_is_waited_for_as_long_as_the_timeout_says() {
    let stack = Stack::new().await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://u@{}/d", silent.local_addr().unwrap());
    let asked = super::finish(super::command(&stack, &url, &["status", "--timeout", "2s"])).await.ended_with(10);
    assert!(asked.err.contains("has not answered within 2s"), "{asked:?}");
}

#[tokio::test]
async fn status_says_what_is_wrong_and_ends_with_1() {
    let stack = Stack::new().await;
    stack.db.batch_execute("SELECT outbox.emit('a', '{}')").await.unwrap();
    let asked = ask(&stack, &["status"]).await.ended_with(1);
    assert!(asked.out.starts_with("Something is wrong: ") && asked.out.contains("slot"), "{asked:?}");
    assert!(asked.out.contains("none at work"), "{asked:?}");
    let status = ask(&stack, &["status", "--json"]).await.ended_with(1).object();
    assert_eq!((&status["healthy"], &status["pending"]), (&false.into(), &1.into()), "{status}");
}

#[tokio::test]
async fn events_that_have_failed_are_wrong_while_the_others_flow() {
    let stack = Stack::new().await;
    let _relay = stack.relay().start().await;
    let failed = "SELECT outbox.emit('nobody', '{}', available_at => now() + interval '1 day');
                  UPDATE outbox.events SET status = 'FAILED'";
    stack.db.batch_execute(failed).await.unwrap();
    let asked = ask(&stack, &["status"]).await.ended_with(1);
    assert!(asked.out.starts_with("Events flow, but 1 failed.\n"), "{asked:?}");
}

#[tokio::test]
async fn an_operator_sees_the_status_and_what_the_operator_may_not_see_is_unknown_and_not_none() {
    let stack = Stack::new().await;
    let role = role(&stack.db, "operator", OPERATOR).await;
    let _relay = stack.relay().start().await;
    let asked = ask_as(&stack, &role, &["status"]).await.ended_with(0);
    assert!(asked.out.contains("1 at work") && asked.out.contains("standby unknown"), "{asked:?}");
    let status = ask_as(&stack, &role, &["status", "--json"]).await.object();
    assert!(status["relays_standby"].is_null(), "{status}");
    stack.db.batch_execute(&format!("GRANT pg_monitor TO {role}")).await.unwrap();
    let status = ask_as(&stack, &role, &["status", "--json"]).await.object();
    assert_eq!(status["relays_standby"], 0, "{status}");
    forget(&stack.db, &role).await;
}

#[tokio::test]
async fn a_role_without_the_right_is_told_which() {
    let stack = Stack::new().await;
    let role = role(&stack.db, "nobody", "").await;
    for (command, grant) in [
        (&["status"][..], "grant_monitor"),
        (&["events"], "grant_monitor"),
        (&["events", "--payload"], "grant_operate"),
        (&["replay", "--all", "--yes"], "grant_operate"),
    ] {
        let asked = ask_as(&stack, &role, command).await.ended_with(13);
        assert!(asked.err.contains(&format!("SELECT outbox.{grant}('{role}')")), "{asked:?}");
        assert_eq!(asked.err.lines().count(), 1, "{asked:?}");
    }
    forget(&stack.db, &role).await;
}

#[tokio::test]
async fn the_last_line_tells_a_terminal_nothing_that_a_server_or_the_environment_has_written() {
    let stack = Stack::new().await;
    for arguments in [&["run", "--no-wait"][..], &["tail", "#", "--yes"]] {
        let mut refused = super::command(&stack, stack.db.url(), arguments);
        let url = stack.vhost.url().replace(stack.vhost.name(), "%1b%5b31m%c2%9b2J%e2%80%ae");
        let asked = super::finish({
            refused.env("AMQP_URL", url);
            refused
        });
        let asked = asked.await.ended_with(21);
        let line = asked.err.lines().last().unwrap();
        assert!(line.contains("\\u{1b}[31m\\u{9b}2J\\u{202e}") && !line.contains(char::is_control), "{asked:?}");
    }
    let mut unknown = super::command(&stack, stack.db.url(), &["status"]);
    unknown.env("OUTBOX_RELAY_\u{1b}[31m", "1");
    let asked = super::finish(unknown).await.ended_with(2);
    assert!(asked.err.contains("OUTBOX_RELAY_\\u{1b}[31m") && asked.err.lines().count() == 1, "{asked:?}");
}

#[tokio::test]
async fn a_database_without_the_extension_is_named() {
    let stack = Stack::new().await;
    let empty = harness::Postgres::shared().await.empty_database().await;
    let asked = super::finish(super::command(&stack, empty.url(), &["status"])).await.ended_with(14);
    assert!(asked.err.contains("CREATE EXTENSION outbox"), "{asked:?}");
}

#[tokio::test]
async fn a_role_that_monitors_sees_status_and_events_but_no_payload_and_changes_nothing() {
    let stack = Stack::new().await;
    history(&stack).await;
    let role = role(&stack.db, "monitor", MONITOR).await;
    ask_as(&stack, &role, &["status", "--json"]).await.ended_with(1);
    let listed = ask_as(&stack, &role, &["events", "--json"]).await.ended_with(0).json();
    assert_eq!(listed.len(), 10);
    let id = listed[0]["id"].as_str().unwrap();
    ask_as(&stack, &role, &["events", id]).await.ended_with(0);
    for refused in
        [&["events", "--payload"][..], &["replay", "--all", "--yes"], &["purge", "--older-than", "1s", "--yes"]]
    {
        ask_as(&stack, &role, refused).await.ended_with(13);
    }
    forget(&stack.db, &role).await;
}
