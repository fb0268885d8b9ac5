//! What the dashboard tells each second, and how it asks the database for that and for pages.

use std::time::Duration;

use futures_util::future::join_all;
use harness::{SOON, eventually};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

use super::{Dashboard, Tokens};

/// Reads what is told until `is_last`, and returns all of it.
async fn told_until(port: u16, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    socket.write_all(b"GET /api/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let (mut lines, mut told) = (BufReader::new(socket).lines(), Vec::new());
    let reading = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let Some(figures) = line.strip_prefix("data: ") else { continue };
            let figures: Value = serde_json::from_str(figures).unwrap();
            let ends = is_last(&figures);
            told.push(figures);
            if ends {
                return;
            }
        }
    };
    let in_time = timeout(SOON, reading).await.is_ok();
    assert!(in_time, "what was waited for is not told: {told:#?}");
    told
}

#[tokio::test]
async fn the_words_about_a_relay_that_has_just_started_name_no_trouble_from_before_its_start() {
    let dashboard = Dashboard::start(Tokens::None).await;
    let is_streaming = |figures: &Value| figures["state"] == "streaming";
    let sees_its_slot = |figures: &Value| figures["health"]["slot_active"] == true;
    let told = told_until(dashboard.port, |figures| is_streaming(figures) && sees_its_slot(figures)).await;
    for figures in told.iter().filter(|figures| is_streaming(figures)) {
        assert_eq!(figures["words"], "Events flow.", "{figures:#}");
    }
}

#[tokio::test]
async fn a_dashboard_that_cannot_read_its_database_does_not_say_that_all_is_well_and_the_log_warns_of_it() {
    let wrong = "postgres://nobody:wrong@127.0.0.1:1/shop";
    let dashboard = Dashboard::start_with(Tokens::None, |relay| relay.set("dashboard-database-url", wrong)).await;
    let warning = dashboard.relay.wait_for_log("the dashboard cannot read the database; trying again").await;
    assert!(warning.contains("dashboard_database_url") && !warning.contains("wrong@"), "{warning}");
    let told = told_until(dashboard.port, |figures| figures["level"] == "waiting").await;
    assert_eq!(told.last().unwrap()["words"], "Events flow, but this page cannot read the database.");
}

#[tokio::test]
async fn many_questions_about_a_locked_table_are_answered_in_seconds_and_those_of_nobody_are_dropped() {
    let dashboard = Dashboard::start(Tokens::None).await;
    let locker = dashboard.stack.db.connect().await;
    locker.batch_execute("BEGIN; LOCK TABLE outbox.events IN ACCESS EXCLUSIVE MODE").await.unwrap();

    // Each question waits for its lock for a second, one after the other.
    let answers = join_all((0..60).map(|_| dashboard.ask("GET", "/api/events", &[], None))).await;
    let busy = answers.iter().filter(|answer| answer.body.contains("still busy")).count();
    assert!(answers.iter().all(|answer| answer.status == 503), "{answers:#?}");
    assert!(busy >= 30, "{busy} were told that it is busy: {answers:#?}");

    for _ in 0..60 {
        let mut socket = TcpStream::connect(("127.0.0.1", dashboard.port)).await.unwrap();
        socket.write_all(b"GET /api/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        drop(socket);
    }
    eventually("a question comes to its turn at once", SOON, async || {
        let answer = dashboard.ask("GET", "/api/events", &[], None).await;
        if answer.body.contains("still busy") { Err(answer) } else { Ok(()) }
    })
    .await;
    locker.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(dashboard.ask("GET", "/api/events", &[], None).await.status, 200);
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '%dashboard%' AND state = 'active'";
    eventually("no statement of theirs runs", Duration::from_secs(5), async || {
        match dashboard.stack.db.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) {
            0 => Ok(()),
            active => Err(active),
        }
    })
    .await;
}
