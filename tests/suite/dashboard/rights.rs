//! The database roles behind the page.

use serde_json::json;

use super::{Dashboard, OPERATOR, Tokens, some_failures};

#[tokio::test]
async fn a_role_that_may_do_more_than_the_page_is_warned_of_and_named() {
    let dashboard = Dashboard::start_with(Tokens::Operators, |relay| relay).await;
    assert_eq!(dashboard.ask("GET", "/api/events", &[], None).await.status, 200);
    assert!(
        !dashboard.relay.log_text().contains("more than the dashboard needs"),
        "not of roles with the grants alone"
    );
    let url = dashboard.stack.db.url().to_owned();
    let other = dashboard.stack.relay().set("http-listen", "0").set("dashboard-database-url", &url).spawn();
    let warning = other.wait_for_log("the role may do more than the dashboard needs").await;
    assert!(
        warning.contains("role=\"postgres\"") && warning.contains("it is a superuser, it may change outbox.events"),
        "{warning}"
    );
}

#[tokio::test]
async fn without_a_database_the_dashboard_says_so_and_shows_what_the_relay_knows() {
    let dashboard = Dashboard::start_with(Tokens::None, |relay| relay.set("dashboard-database-url", "off")).await;
    let answer = dashboard.ask("GET", "/api/events", &[], None).await;
    assert_eq!(answer.status, 503);
    assert!(answer.json()["error"].as_str().unwrap().contains("outbox.grant_monitor()"), "{answer:?}");
    assert_eq!(dashboard.ask("GET", "/api/history", &[], None).await.status, 200);
}

#[tokio::test]
async fn a_role_without_its_grant_is_named() {
    let dashboard = Dashboard::start(Tokens::Operators).await;
    some_failures(&dashboard.stack.db).await;
    let name = format!("{}_operate", dashboard.stack.db.name());
    dashboard
        .stack
        .db
        .batch_execute(&format!("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA outbox FROM {name}"))
        .await
        .unwrap();
    let replay = json!({ "action": "replay", "events": 1, "filter": { "topic": "orders.created", "error": "nack", "status": "FAILED" } });
    let answer = dashboard.ask_as(OPERATOR, "POST", "/api/act", Some(&replay)).await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains(&name) && answer.body.contains("permission denied"), "{answer:?}");
}

#[tokio::test]
async fn a_function_that_came_to_belong_to_another_role_is_not_called() {
    let dashboard = Dashboard::start(Tokens::None).await;
    let (db, stranger) = (&dashboard.stack.db, format!("{}_stranger", dashboard.stack.db.name()));
    db.batch_execute(&format!("CREATE ROLE {stranger}; ALTER FUNCTION outbox.failures OWNER TO {stranger}"))
        .await
        .unwrap();
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'outbox-relay dashboard' AND datname = current_database()";
    db.batch_execute(end).await.unwrap();
    harness::eventually("it says so", harness::SOON, async || {
        let answer = dashboard.ask("GET", "/api/events", &[], None).await;
        if answer.status == 503 && answer.body.contains("outbox.failures(integer) belongs to role") {
            Ok(())
        } else {
            Err(answer)
        }
    })
    .await;
    db.batch_execute(&format!("ALTER FUNCTION outbox.failures OWNER TO postgres; DROP ROLE {stranger}")).await.unwrap();
}

#[tokio::test]
async fn a_database_that_went_away_is_asked_again_when_it_is_back() {
    let dashboard = Dashboard::start(Tokens::None).await;
    assert_eq!(dashboard.ask("GET", "/api/events", &[], None).await.status, 200);
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'outbox-relay dashboard' AND datname = current_database()";
    dashboard.stack.db.batch_execute(end).await.unwrap();
    harness::eventually("it answers again", harness::SOON, async || {
        let answer = dashboard.ask("GET", "/api/events", &[], None).await;
        if answer.status == 200 { Ok(()) } else { Err(answer) }
    })
    .await;
}

#[tokio::test]
async fn the_files_with_the_dashboards_addresses_are_read_again_for_each_connection() {
    let path = std::env::temp_dir().join(format!("outbox-dashboard-monitor-{}", std::process::id()));
    let nobody = harness::Postgres::shared().await.url("postgres").replace("//postgres@", "//nobody_of_that_name@");
    std::fs::write(&path, nobody).unwrap();
    let dashboard = Dashboard::start_with(Tokens::None, |relay| {
        relay.set("dashboard-database-url", "").set("dashboard-database-url-file", path.to_str().unwrap())
    })
    .await;
    let ask = async || dashboard.ask("GET", "/api/events", &[], None).await;
    let refused = ask().await;
    assert!(refused.status == 503 && refused.body.contains("nobody_of_that_name"), "{refused:?}");
    std::fs::write(&path, "").unwrap();
    let bad = ask().await;
    assert!(bad.status == 503 && bad.body.contains("is empty"), "{bad:?}");
    let db = &dashboard.stack.db;
    std::fs::write(&path, db.url_as(&format!("{}_monitor", db.name()))).unwrap();
    assert_eq!(ask().await.status, 200);
    std::fs::remove_file(&path).unwrap();
}
