//! `check`: finds what is wrong, says what to do, and changes nothing.

mod rights;
mod sequence;
mod slots;
mod transactions;

use std::collections::BTreeMap;

use harness::{Postgres, RabbitMq, SOON, Stack, eventually};
use serde_json::Value;
use tokio::process::Command;

use super::{Asked, OPERATOR, RELAY, ask_as, command, finish, forget, role, value};
use crate::{extension::other_version, publish::tls::Certificates};

/// The findings, by check.
fn findings(asked: &Asked) -> BTreeMap<String, Value> {
    let by_check = |finding: Value| (finding["check"].as_str().unwrap().to_owned(), finding);
    asked.json().into_iter().map(by_check).collect()
}

fn level(asked: &Asked, check: &str) -> String {
    findings(asked)[check]["level"].as_str().unwrap().to_owned()
}

async fn check_with(mut check: Command, variables: &[(&str, &str)]) -> Asked {
    check.envs(variables.iter().copied());
    finish(check).await
}

async fn check(stack: &Stack, variables: &[(&str, &str)]) -> Asked {
    check_with(command(stack, stack.db.url(), &["check", "--json"]), variables).await
}

#[tokio::test]
async fn where_all_is_well_nothing_is_bad_for_the_relays_role_and_what_it_may_not_see_is_unknown() {
    let stack = Stack::new().await;
    let role = role(&stack.db, "relay", RELAY).await;
    // It sees how old the transactions of other tests on this server are.
    stack.db.batch_execute(&format!("GRANT pg_monitor TO {role}")).await.unwrap();
    let _consumer = stack.consumer("#").await;
    let _relay = stack.relay().set("database-url", &stack.db.url_as(&role)).start().await;
    stack.db.batch_execute("SELECT outbox.emit('a', '{}')").await.unwrap();
    eventually("it is sent", SOON, async || match super::payloads(&stack, "SENT").await {
        sent if sent == "{}" => Ok(()),
        other => Err(other),
    })
    .await;

    let asked = ask_as(&stack, &role, &["check", "--json"]).await.ended_with(0);
    let found = findings(&asked);
    for (check, finding) in &found {
        let expected = match check.as_str() {
            "routes" => "unknown", // the role may not read events
            "slot_limit" => "warning",
            _ => "ok",
        };
        assert_eq!(finding["level"], expected, "{finding}");
        assert!(expected == "ok" || finding["to_do"].is_string(), "{finding}");
    }
    stack.db.batch_execute(&format!("SELECT outbox.grant_operate('{role}')")).await.unwrap();
    assert_eq!(level(&ask_as(&stack, &role, &["check", "--json"]).await, "routes"), "ok");
    let asked = ask_as(&stack, &role, &["check"]).await.ended_with(0);
    assert!(asked.out.contains("0 bad, 1 to be aware of, 0 unknown") && !asked.out.contains('\u{1b}'), "{asked:?}");
    assert!(asked.out.contains("→ ALTER SYSTEM SET max_slot_wal_keep_size"), "{asked:?}");
    drop(_relay);
    forget(&stack.db, &role).await;
}

#[tokio::test]
async fn each_thing_that_is_wrong_in_the_database_is_found_with_what_to_do() {
    let stack = Stack::new().await;
    let _relay = stack.relay().start().await;
    stack.vhost.exchange("outbox").await;
    let our_version = other_version(env!("CARGO_PKG_VERSION"));
    for (check_name, break_it, repair_it, to_do) in [
        (
            "triggers",
            "ALTER TABLE outbox.events ENABLE TRIGGER admit, DISABLE TRIGGER status_moves",
            "ALTER TABLE outbox.events ENABLE ALWAYS TRIGGER admit, ENABLE ALWAYS TRIGGER status_moves",
            "ENABLE ALWAYS TRIGGER admit",
        ),
        (
            "publication",
            "ALTER PUBLICATION outbox DROP TABLE outbox.events",
            "ALTER PUBLICATION outbox ADD TABLE outbox.events",
            "init",
        ),
        (
            "publication",
            "ALTER PUBLICATION outbox SET (publish = 'update')",
            "ALTER PUBLICATION outbox SET (publish = 'insert')",
            "init",
        ),
        ("extension", &other_version("9.8.7"), &our_version, "install the relay of the schema's version"),
        ("extension", &other_version("0.1.0"), &our_version, "ALTER EXTENSION outbox UPDATE"),
    ] {
        assert_eq!(level(&check(&stack, &[]).await, check_name), "ok", "{check_name}");
        stack.db.batch_execute(break_it).await.unwrap();
        let asked = check(&stack, &[]).await.ended_with(1);
        let finding = &findings(&asked)[check_name];
        assert_eq!(finding["level"], "bad", "{break_it}: {finding}");
        assert!(finding["to_do"].as_str().unwrap().contains(to_do), "{finding}");
        stack.db.batch_execute(repair_it).await.unwrap();
    }
}

#[tokio::test]
async fn a_foreign_key_without_an_index_is_named_before_a_deletion_has_to_do_without() {
    let stack = Stack::new().await;
    let key = async || findings(&check(&stack, &[]).await)["foreign_keys"].clone();
    stack.db.batch_execute("CREATE TABLE invoice (event uuid REFERENCES outbox.events)").await.unwrap();
    let finding = key().await;
    assert_eq!(finding["level"], "warning", "{finding}");
    assert!(finding["found"].as_str().unwrap().contains("invoice (event)"), "{finding}");
    stack.db.batch_execute("CREATE INDEX ON invoice (event)").await.unwrap();
    assert_eq!(key().await["level"], "ok");
}

#[tokio::test]
async fn an_exchange_that_is_gone_while_a_relay_is_at_work_is_bad_because_that_one_does_not_create_it_again() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    stack.db.batch_execute("SELECT outbox.emit('a', '{}')").await.unwrap();
    consumer.wait_for(1).await;
    stack.vhost.api("DELETE", &format!("/api/exchanges/{}/outbox", stack.vhost.name()), None).await;
    let asked = check(&stack, &[]).await.ended_with(1);
    let finding = &findings(&asked)["exchange"];
    assert_eq!(finding["level"], "bad", "{finding}");
    assert!(finding["to_do"].as_str().unwrap().contains("create it again"), "{finding}");
}

#[tokio::test]
async fn a_server_that_is_not_set_up_is_told_every_setting_and_nothing_is_made_by_looking() {
    let postgres = Postgres::private()
        .set("wal_level", "replica")
        .set("max_replication_slots", "1")
        .set("max_wal_senders", "1")
        .set("synchronous_standby_names", "*")
        .set("synchronous_commit", "local")
        .start()
        .await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    stack.db.batch_execute("SELECT pg_create_physical_replication_slot('other')").await.unwrap();
    let asked = check(&stack, &[]).await.ended_with(1);
    let levels: BTreeMap<String, String> = findings(&asked)
        .into_iter()
        .map(|(check, finding)| (check, finding["level"].as_str().unwrap().to_owned()))
        .collect();
    for (check, level) in [
        ("wal_level", "bad"),
        ("replication_slots", "bad"),
        ("wal_senders", "ok"),
        ("synchronous_standbys", "bad"),
        ("slot_limit", "warning"),
        ("slot", "warning"),
        ("publication", "warning"),
        ("exchange", "warning"),
        ("extension", "ok"),
        ("replication_right", "ok"),
    ] {
        assert_eq!(levels[check], level, "{check}: {asked:?}");
    }
    let asked =
        check(&stack, &[("OUTBOX_RELAY_CREATE_SLOT", "false"), ("OUTBOX_RELAY_DECLARE_EXCHANGE", "false")]).await;
    for check in ["slot", "publication", "exchange"] {
        assert_eq!(level(&asked, check), "bad", "{check}: {asked:?}");
    }
    assert_eq!(value(&stack.db, "SELECT count(*) FROM pg_publication").await, "0");
    assert_eq!(value(&stack.db, "SELECT count(*) FROM pg_replication_slots WHERE plugin IS NOT NULL").await, "0");
    let exchanges = stack.vhost.api("GET", &format!("/api/exchanges/{}", stack.vhost.name()), None).await;
    assert!(!exchanges.as_array().unwrap().iter().any(|exchange| exchange["name"] == "outbox"));
}

#[tokio::test]
async fn a_role_that_lacks_a_right_is_told_which_unless_it_is_seen_to_be_no_relays() {
    let stack = Stack::new().await;
    let nobody = role(&stack.db, "nobody", "").await;
    let asked = ask_as(&stack, &nobody, &["check", "--json"]).await.ended_with(1);
    for (check, to_do) in [("grants", "outbox.grant_relay"), ("replication_right", "")] {
        let finding = &findings(&asked)[check];
        assert_eq!(finding["level"], "bad", "{finding}");
        assert!(finding.to_string().contains(to_do) && finding.to_string().contains(&nobody), "{finding}");
    }
    assert_eq!(level(&asked, "wal_level"), "ok");
    forget(&stack.db, &nobody).await;
    for grant in [OPERATOR, super::MONITOR] {
        let looks = role(&stack.db, "looks", grant).await;
        let asked = ask_as(&stack, &looks, &["check", "--json"]).await;
        for check in ["grants", "replication_right"] {
            let finding = &findings(&asked)[check];
            assert_eq!(finding["level"], "unknown", "{finding}");
            assert!(finding["to_do"].as_str().unwrap().contains("the relay's own DATABASE_URL"), "{finding}");
        }
        forget(&stack.db, &looks).await;
    }
}

#[tokio::test]
async fn a_role_or_database_whose_sessions_are_read_only_is_bad_and_what_to_do_about_it_helps() {
    let stack = Stack::new().await;
    let role = role(&stack.db, "relay", RELAY).await;
    for whom in [format!("ROLE {role}"), format!("DATABASE {}", stack.db.name())] {
        let set = |to: &str| format!("ALTER {whom} {to}");
        let primary = async || findings(&ask_as(&stack, &role, &["check", "--json"]).await)["primary"].clone();
        assert_eq!(primary().await["level"], "ok", "{whom}");
        stack.db.batch_execute(&set("SET default_transaction_read_only = on")).await.unwrap();
        let finding = primary().await;
        assert_eq!(finding["level"], "bad", "{whom}: {finding}");
        assert!(finding["found"].as_str().unwrap().contains("default_transaction_read_only"), "{finding}");
        let to_do = finding["to_do"].as_str().unwrap();
        let (_, statements) = to_do.split_once(": ").unwrap();
        let (statements, _) = statements.split_once(" (").unwrap();
        let admin = stack.db.connect().await;
        for statement in statements.split("; ") {
            admin.batch_execute(statement).await.unwrap();
        }
        assert_eq!(primary().await["level"], "ok", "{whom}: {statements}");
        let own = format!("ALTER ROLE {role} IN DATABASE {} RESET ALL", stack.db.name());
        admin.batch_execute(&format!("{}; {own}", set("RESET ALL"))).await.unwrap();
    }
    forget(&stack.db, &role).await;
}

#[tokio::test]
async fn while_a_relay_works_an_operator_who_checks_is_not_told_that_the_relay_lacks_rights() {
    let stack = Stack::new().await;
    let operator = role(&stack.db, "operator", OPERATOR).await;
    let _relay = stack.relay().start().await;
    let asked = ask_as(&stack, &operator, &["check", "--json"]).await.ended_with(0);
    for check in ["grants", "replication_right"] {
        let finding = &findings(&asked)[check];
        assert_eq!(finding["level"], "unknown", "{finding}");
        assert!(finding["to_do"].as_str().unwrap().contains("the relay's own DATABASE_URL"), "{finding}");
    }
    drop(_relay);
    forget(&stack.db, &operator).await;
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_unknown_and_never_ok() {
    let stack = Stack::new().await;
    let nowhere =
        [("DATABASE_URL", "postgres://u:hunter2@127.0.0.1:1/d"), ("AMQP_URL", "amqp://u:hunter2@127.0.0.1:1")];
    let asked = check(&stack, &nowhere).await.ended_with(1);
    assert!(!asked.out.contains("hunter2") && !asked.err.contains("hunter2"), "{asked:?}");
    for (check, finding) in findings(&asked) {
        let bad = ["database", "broker"].contains(&check.as_str());
        assert_eq!(finding["level"], if bad { "bad" } else { "unknown" }, "{finding}");
    }
    let mut without_broker = command(&stack, stack.db.url(), &["check", "--json"]);
    without_broker.env_remove("AMQP_URL");
    let asked = finish(without_broker).await.ended_with(0);
    assert_eq!([level(&asked, "broker"), level(&asked, "exchange")], ["unknown", "unknown"]);
}

#[tokio::test]
async fn a_topic_is_as_good_as_its_last_verdict() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("bound").await;
    assert_eq!(level(&check(&stack, &[]).await, "routes"), "unknown", "there was no event");
    let _relay = stack.relay().start().await;
    stack.db.batch_execute("SELECT outbox.emit('bound', '{}'); SELECT outbox.emit('unbound', '{}')").await.unwrap();
    let finding = eventually("both have a verdict", SOON, async || {
        let asked = check(&stack, &[]).await;
        let finding = findings(&asked)["routes"].clone();
        if finding["level"] == "bad" { Ok(finding) } else { Err(finding) }
    })
    .await;
    assert!(finding["found"].as_str().unwrap().ends_with("1 topic: unbound"), "{finding}");
    consumer.bind("unbound").await;
    stack.db.batch_execute("SELECT outbox.emit('unbound', '{}')").await.unwrap();
    eventually("the last verdict counts", SOON, async || {
        let asked = check(&stack, &[]).await;
        let finding = findings(&asked)["routes"].clone();
        if finding["level"] == "ok" { Ok(()) } else { Err(finding) }
    })
    .await;
    assert_eq!(consumer.wait_for(2).await.len(), 2, "no check has sent anything");
}

#[tokio::test]
async fn a_broker_that_refuses_is_told_apart_from_one_that_is_away() {
    let stack = Stack::new().await;
    let user = format!("checker_{}", stack.db.name());
    stack.vhost.exchange("outbox").await;
    stack.vhost.user(&user, "secret", ".*", "", ".*").await;
    for (url, exchange, found, words) in [
        (stack.vhost.url_as(&user, "secret"), "outbox", "exchange", "write permission"),
        (stack.vhost.url(), "amq.fanout", "exchange", "declare_exchange = false"),
        (stack.vhost.url_as("guest", "secret"), "outbox", "broker", "refuses user"),
        (stack.vhost.url().replace(stack.vhost.name(), "nowhere"), "outbox", "broker", "nowhere"),
    ] {
        let asked = check(&stack, &[("AMQP_URL", &url), ("OUTBOX_RELAY_EXCHANGE", exchange)]).await.ended_with(1);
        let finding = &findings(&asked)[found];
        assert!(finding["level"] == "bad" && finding.to_string().contains(words), "{finding}");
        assert!(!asked.out.contains("secret"), "{asked:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_about_to_expire_is_found() {
    let files = Certificates::new();
    let (node, port) = files.node();
    let node = node.start().await;
    let stack = Stack::on(Postgres::shared().await, &node).await;
    stack.vhost.exchange("outbox").await;
    let url =
        format!("amqps://guest:guest@127.0.0.1:{port}/{}?cacertfile={}", stack.vhost.name(), files.path("ca.pem"));
    let asked = check(&stack, &[("AMQP_URL", &url)]).await.ended_with(1);
    let finding = &findings(&asked)["broker_certificate"];
    assert_eq!(finding["level"], "bad", "{finding}");
    assert!(finding["found"].as_str().unwrap().starts_with("good for 1 day, until "), "{finding}");
    files.certify("client", 10);
    let own = format!("{url}&certfile={}&keyfile={}", files.path("client.pem"), files.path("client.key"));
    let finding = &findings(&check(&stack, &[("AMQP_URL", &own)]).await)["broker_certificate"];
    assert!(finding["found"].as_str().unwrap().contains("; the relay's own is good for 9 days, until "), "{finding}");
    assert_eq!(level(&asked, "database_certificate"), "ok");
    assert_eq!(level(&asked, "broker"), "ok");

    // tail speaks over the same socket as the relay.
    let mut tail = command(&stack, stack.db.url(), &["tail", "#", "--yes", "--for", "1s"]);
    tail.env("AMQP_URL", &url);
    finish(tail).await.ended_with(0);
}

#[tokio::test]
async fn a_time_is_enough_for_the_whole_check_although_each_statement_waits_for_a_lock_and_one_cut_exits_with_1() {
    let stack = Stack::new().await;
    let mut blocker = stack.db.connect().await;
    let transaction = blocker.transaction().await.unwrap();
    transaction
        .batch_execute("LOCK TABLE outbox.events, pg_publication, pg_trigger IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let began = std::time::Instant::now();
    let asked = check_with(command(&stack, stack.db.url(), &["check", "--json", "--timeout", "2s"]), &[]).await;
    let took = began.elapsed();
    transaction.rollback().await.unwrap();
    assert!(took < std::time::Duration::from_secs(5), "{took:?} {asked:?}");
    let asked = asked.ended_with(1);
    let found = findings(&asked);
    assert_eq!(found["database"]["level"], "ok", "{asked:?}");
    assert!(found.values().all(|finding| finding["level"] != "bad"), "{asked:?}");
    assert!(
        found.values().any(|finding| finding["level"] == "unknown" && finding["to_do"] == "allow more by --timeout"),
        "{asked:?}"
    );
}
