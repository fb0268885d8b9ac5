//! `check` on rights: those that somebody lacks, and those that everybody has.

use harness::{Postgres, RabbitMq, Stack};

use super::{
    super::{RELAY, ask_as, command, finish, forget, role, value},
    check, findings, level,
};
use crate::extension::with_owner;

#[tokio::test]
async fn what_everybody_may_do_is_bad_and_each_is_named_with_the_statement_that_ends_it() {
    let stack = Stack::new().await;
    let relay = role(&stack.db, "relay", RELAY).await;
    for open in [
        "GRANT SELECT ON outbox.events TO PUBLIC",
        "GRANT UPDATE (status) ON outbox.events TO PUBLIC",
        "GRANT EXECUTE ON FUNCTION outbox.settle TO PUBLIC",
        "GRANT EXECUTE ON PROCEDURE outbox.maintain TO PUBLIC",
        "GRANT CREATE ON SCHEMA outbox TO PUBLIC",
        "GRANT USAGE ON SEQUENCE outbox.events_seq_seq TO PUBLIC",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA outbox GRANT SELECT ON TABLES TO PUBLIC",
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
    ] {
        assert_eq!(level(&check(&stack, &[]).await, "everybody"), "ok", "{open}");
        stack.db.batch_execute(open).await.unwrap();
        let asked = check(&stack, &[]).await.ended_with(1);
        let finding = &findings(&asked)["everybody"];
        assert_eq!(finding["level"], "bad", "{open}: {finding}");
        let (_, statement) = finding["to_do"].as_str().unwrap().split_once(": ").unwrap();
        let same = ask_as(&stack, &relay, &["check", "--json"]).await;
        assert_eq!(level(&same, "everybody"), "bad", "{open}: the relay's role may see it");
        stack.db.batch_execute(statement).await.unwrap();
    }

    stack.db.batch_execute("GRANT EXECUTE ON ALL ROUTINES IN SCHEMA outbox TO PUBLIC").await.unwrap();
    let asked = check(&stack, &[]).await.ended_with(1);
    let finding = &findings(&asked)["everybody"];
    assert!(finding["found"].as_str().unwrap().ends_with(" rights more"), "{finding}");
    assert!(finding["to_do"].as_str().unwrap().contains("outbox.grant_emit('<role>')"), "{finding}");
    stack
        .db
        .batch_execute(&format!("SET client_min_messages = error; SELECT outbox.grant_emit('{relay}')"))
        .await
        .unwrap();
    assert_eq!(level(&check(&stack, &[]).await, "everybody"), "ok");
    forget(&stack.db, &relay).await;
}

#[tokio::test]
async fn the_statements_about_rights_that_were_passed_on_take_them_from_all_who_got_them() {
    let stack = Stack::new().await;
    let first = role(&stack.db, "first", "").await;
    let second = role(&stack.db, "second", "").await;
    let grants = format!(
        "GRANT SELECT ON outbox.events TO {first} WITH GRANT OPTION;
         SET ROLE {first}; GRANT SELECT ON outbox.events TO {second}; RESET ROLE"
    );
    stack.db.batch_execute(&grants).await.unwrap();
    let finding = findings(&check(&stack, &[]).await)["other_rights"].clone();
    let (_, statements) = finding["to_do"].as_str().unwrap().split_once(": ").unwrap();
    stack.db.batch_execute(statements).await.unwrap();
    assert_eq!(level(&check(&stack, &[]).await, "other_rights"), "ok", "{finding}");
    forget(&stack.db, &first).await;
    forget(&stack.db, &second).await;
}

#[tokio::test]
async fn a_role_that_may_call_the_functions_only_as_everybody_may_is_told_the_grant_it_lacks() {
    let stack = Stack::new().await;
    let nobody = role(&stack.db, "nobody", "ALTER ROLE {} REPLICATION").await;
    let relay = role(&stack.db, "relay", RELAY).await;
    stack.db.batch_execute("GRANT EXECUTE ON ALL ROUTINES IN SCHEMA outbox TO PUBLIC").await.unwrap();
    let finding = findings(&ask_as(&stack, &nobody, &["check", "--json"]).await.ended_with(1))["grants"].clone();
    assert_eq!(finding["level"], "bad", "{finding}");
    assert!(finding["to_do"].as_str().unwrap().contains("outbox.grant_relay('"), "{finding}");
    assert_eq!(level(&ask_as(&stack, &relay, &["check", "--json"]).await, "grants"), "ok");
    let mut check = command(&stack, &stack.db.url_as(&relay), &["check", "--json"]);
    check.env("OUTBOX_RELAY_RETENTION", "1d");
    let finding = findings(&finish(check).await)["grants"].clone();
    assert_eq!(finding["level"], "bad", "{finding}");
    assert!(finding["to_do"].as_str().unwrap().contains("outbox.grant_maintain('"), "{finding}");
    for role in [nobody, relay] {
        forget(&stack.db, &role).await;
    }
}

#[tokio::test]
async fn rights_that_no_grant_gives_are_told_with_the_role_that_has_them() {
    let stack = Stack::new().await;
    let told = async || findings(&check(&stack, &[]).await)["other_rights"].clone();
    let mut roles = Vec::new();
    for what in ["emit", "relay", "operate", "monitor", "maintain"] {
        let grant =
            format!("SET client_min_messages = error; SELECT outbox.grant_{what}('{{}}'); RESET client_min_messages");
        roles.push(role(&stack.db, what, &grant).await);
    }
    assert_eq!(told().await["level"], "ok", "{}", told().await);
    let mallory = role(&stack.db, "mallory", "").await;
    for grant in [
        "SELECT ON outbox.events",
        "UPDATE (status) ON outbox.events",
        "SELECT (payload) ON outbox.events",
        "INSERT ON outbox.events",
        "USAGE ON SEQUENCE outbox.events_seq_seq",
        "CREATE ON SCHEMA outbox",
        "EXECUTE ON FUNCTION outbox.begin_grant",
        "EXECUTE ON FUNCTION outbox.pending_page",
    ] {
        stack.db.batch_execute(&format!("GRANT {grant} TO {mallory}")).await.unwrap();
        let finding = told().await;
        assert_eq!(finding["level"], "warning", "{grant}: {finding}");
        let found = finding["found"].as_str().unwrap();
        let (right, object) = grant.split_once(" ON ").unwrap();
        let object = object.rsplit_once("outbox").unwrap().1;
        assert!(
            found.contains(&mallory) && found.contains(right.split(' ').next().unwrap()) && found.contains(object),
            "{grant}: {finding}"
        );
        assert!(finding["to_do"].as_str().unwrap().contains(&mallory), "{finding}");
        let revoke = format!("REVOKE {grant} FROM {mallory}");
        stack.db.batch_execute(&revoke).await.unwrap();
    }
    // What one grant gives is another's excess.
    stack.db.batch_execute(&format!("GRANT SELECT ON outbox.events TO {}", roles[3])).await.unwrap();
    assert_eq!(told().await["level"], "warning");
    roles.push(mallory);
    for role in roles {
        forget(&stack.db, &role).await;
    }
}

#[tokio::test]
async fn functions_and_a_table_of_different_owners_are_bad_and_the_owner_is_named_where_all_is_well() {
    let stack = Stack::new().await;
    let (other, member) = (role(&stack.db, "other", "").await, role(&stack.db, "monitor", super::super::MONITOR).await);
    let finding = findings(&check(&stack, &[]).await)["extension"].clone();
    assert!(finding["found"].as_str().unwrap().ends_with(", of role postgres"), "{finding}");
    let moved = format!("ALTER FUNCTION outbox.settle OWNER TO {other}");
    stack.db.batch_execute(&moved).await.unwrap();
    let asked = check(&stack, &[]).await.ended_with(1);
    let finding = &findings(&asked)["extension"];
    assert_eq!(finding["level"], "bad", "{finding}");
    assert!(finding["found"].as_str().unwrap().contains(&other), "{finding}");
    let asked = ask_as(&stack, &member, &["status"]).await.ended_with(13);
    assert!(asked.err.contains(&other) && asked.err.contains("outbox.settle"), "{asked:?}");
    stack.db.batch_execute(finding["to_do"].as_str().unwrap().split_once(": ").unwrap().1).await.unwrap();
    assert_eq!(level(&check(&stack, &[]).await, "extension"), "ok");
    for role in [other, member] {
        forget(&stack.db, &role).await;
    }
}

#[tokio::test]
async fn an_inbox_that_everybody_may_use_is_bad_where_there_is_one() {
    let stack = Stack::new().await;
    let inbox = harness::places::checkout().join("sql/inbox.sql");
    let mut psql = Postgres::shared().await.program("psql");
    psql.args(["--quiet", "--no-psqlrc", "--dbname", stack.db.name(), "--file"]).arg(inbox);
    assert!(psql.status().unwrap().success());
    assert_eq!(level(&check(&stack, &[]).await, "everybody"), "ok");
    stack
        .db
        .batch_execute("GRANT SELECT ON inbox.received TO PUBLIC; GRANT USAGE ON SCHEMA inbox TO PUBLIC")
        .await
        .unwrap();
    let asked = check(&stack, &[]).await.ended_with(1);
    let finding = &findings(&asked)["everybody"];
    let to_do = finding["to_do"].as_str().unwrap();
    assert!(to_do.contains("REVOKE SELECT ON inbox.received FROM PUBLIC"), "{finding}");
    assert!(to_do.contains("REVOKE USAGE ON SCHEMA inbox FROM PUBLIC"), "{finding}");
}

#[tokio::test]
async fn an_owner_who_may_not_make_a_publication_is_named_with_the_statement_that_helps() {
    let stack = Stack::new().await;
    let relay = role(&stack.db, "relay", RELAY).await;
    let owner = role(&stack.db, "owner", "").await;
    let revoke = format!("REVOKE CREATE ON DATABASE {} FROM {owner}", stack.db.name());
    stack.db.batch_execute(&format!("{}; {revoke}", with_owner(&owner))).await.unwrap();
    let statement = format!("GRANT CREATE ON DATABASE {} TO {owner}", stack.db.name());

    let finding = findings(&ask_as(&stack, &relay, &["check", "--json"]).await)["publication"].clone();
    assert_eq!(finding["level"], "bad", "{finding}");
    assert!(finding["to_do"].as_str().unwrap().contains(&statement), "{finding}");
    let init = command(&stack, &stack.db.url_as(&relay), &["init"]);
    let asked = finish(init).await.ended_with(13);
    assert!(asked.err.contains(&statement) && !asked.err.contains("grant_relay"), "{asked:?}");

    stack.db.batch_execute(&statement).await.unwrap();
    finish(command(&stack, &stack.db.url_as(&relay), &["init"])).await.ended_with(0);
    // A publication that stayed with the owner before.
    let other = role(&stack.db, "other", "").await;
    let repair = "ALTER PUBLICATION outbox DROP TABLE outbox.events; ALTER PUBLICATION outbox OWNER TO";
    stack
        .db
        .batch_execute(&format!("GRANT CREATE ON DATABASE {} TO {other}; {repair} {other}", stack.db.name()))
        .await
        .unwrap();
    let asked = finish(command(&stack, &stack.db.url_as(&relay), &["init"])).await.ended_with(13);
    let statement = format!("ALTER PUBLICATION outbox OWNER TO {owner}");
    assert!(asked.err.contains(&statement) && !asked.err.contains("grant_relay"), "{asked:?}");
    stack.db.batch_execute(&statement).await.unwrap();
    finish(command(&stack, &stack.db.url_as(&relay), &["init"])).await.ended_with(0);
    assert_eq!(value(&stack.db, "SELECT count(*) FROM pg_publication_rel").await, "1");
    for role in [relay, other] {
        forget(&stack.db, &role).await;
    }
}

#[tokio::test]
async fn a_right_of_everybodys_that_somebody_has_revoked_is_named_with_the_statement_that_gives_it_back() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let relay = role(&stack.db, "relay", &format!("{RELAY}; {}", super::super::MONITOR)).await;
    for (revoke, statement) in [
        (
            "REVOKE EXECUTE ON FUNCTION pg_stat_get_activity FROM PUBLIC",
            "GRANT EXECUTE ON FUNCTION pg_catalog.pg_stat_get_activity(".to_owned(),
        ),
        (
            "REVOKE SELECT ON pg_replication_slots FROM PUBLIC",
            format!("GRANT SELECT ON pg_catalog.pg_replication_slots TO {relay}"),
        ),
    ] {
        stack.db.batch_execute(revoke).await.unwrap();
        let finding = findings(&ask_as(&stack, &relay, &["check", "--json"]).await)["grants"].clone();
        assert_eq!(finding["level"], "bad", "{revoke}: {finding}");
        let to_do = finding["to_do"].as_str().unwrap();
        assert!(to_do.contains(&statement) && !to_do.contains("grant_relay"), "{finding}");
        let asked = finish(command(&stack, &stack.db.url_as(&relay), &["init"])).await.ended_with(13);
        assert!(asked.err.contains(&statement) && !asked.err.contains("grant_relay"), "{asked:?}");
        let asked = ask_as(&stack, &relay, &["status"]).await;
        assert!(!asked.err.contains("outbox.grant_monitor('"), "{asked:?}");
        stack.db.batch_execute(to_do.split_once(": ").unwrap().1).await.unwrap();
        finish(command(&stack, &stack.db.url_as(&relay), &["init"])).await.ended_with(0);
    }
}

#[tokio::test]
async fn a_role_that_may_not_even_use_the_schema_is_told_the_grant_that_lets_it() {
    let stack = Stack::new().await;
    let relay = role(&stack.db, "relay", "ALTER ROLE {} REPLICATION").await;
    stack.db.batch_execute("REVOKE USAGE ON SCHEMA outbox FROM PUBLIC").await.unwrap();
    let finding = findings(&ask_as(&stack, &relay, &["check", "--json"]).await.ended_with(1))["grants"].clone();
    assert_eq!(finding["level"], "bad", "{finding}");
    let statement = format!("SELECT outbox.grant_relay('{relay}')");
    assert!(finding["to_do"].as_str().unwrap().contains(&statement), "{finding}");
    let asked = finish(command(&stack, &stack.db.url_as(&relay), &["init"])).await.ended_with(13);
    assert!(asked.err.contains(&statement), "{asked:?}");
    stack.db.batch_execute(&statement).await.unwrap();
    finish(command(&stack, &stack.db.url_as(&relay), &["init"])).await.ended_with(0);
    forget(&stack.db, &relay).await;
}

#[tokio::test]
async fn the_statement_in_a_hint_of_the_server_runs_as_init_prints_it_and_the_log_has_it() {
    let stack = Stack::new().await;
    let database = stack.db.name();
    let owner = format!("a\u{200b}\tb {database}");
    // The name that the escapes of a terminal would spell.
    let alike = format!("a\\u{{200b}}\\tb {database}");
    let set_up = format!(
        "CREATE ROLE \"{owner}\"; CREATE ROLE \"{alike}\"; ALTER TABLE outbox.events OWNER TO \"{owner}\";
         ALTER FUNCTION outbox.ensure_publication(text) OWNER TO \"{owner}\""
    );
    stack.db.batch_execute(&set_up).await.unwrap();
    let relay = stack.relay().spawn();
    let told = relay.wait_for_log("its repair was refused").await;
    assert!(told.contains("GRANT CREATE ON DATABASE") && !told.contains("SELECT outbox.ensure_publication"), "{told}");
    relay.kill().await;
    let asked = super::super::ask(&stack, &["init"]).await.ended_with(13);
    let (_, statement) = asked.err.split_once("HINT: As the owner of the database: ").unwrap();
    stack.db.batch_execute(statement.split_inclusive(';').next().unwrap()).await.unwrap();
    super::super::ask(&stack, &["init"]).await.ended_with(0);
    stack.db.batch_execute(&format!("DROP ROLE \"{alike}\"")).await.unwrap();
}

#[tokio::test]
async fn the_statement_that_gives_a_right_works_as_it_stands_whatever_the_roles_name() {
    let stack = Stack::new().await;
    let database = stack.db.name();
    // What a terminal or a log makes of the last names would be this one.
    let alike = format!("a b {database}");
    stack.db.batch_execute(&format!("CREATE ROLE \"{alike}\"")).await.unwrap();
    // Unquoted, the first would be another role, and the process id, which is the last, an OID.
    let names = ["Shop 1", "it's \"odd\"", "a  b", "a\tb", "a\nb", "a\u{a0}b", "a \u{200b}b", "a\u{202e} b\\", " a b"];
    let names = names.map(|name| format!("{name} {database}"));
    for role in names.into_iter().chain([std::process::id().to_string()]) {
        let quoted = format!("\"{}\"", role.replace('"', "\"\""));
        stack.db.batch_execute(&format!("CREATE ROLE {quoted} LOGIN")).await.unwrap();
        let url = stack.db.url_as(&role.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>());
        let statement = |told: &str, from: &str, to: &str| {
            let (_, rest) = told.split_once(from).unwrap_or_else(|| panic!("{told}"));
            format!("{from}{}{to}", rest.split_once(to).unwrap_or_else(|| panic!("{told}")).0)
        };
        let asked = finish(command(&stack, &url, &["status"])).await.ended_with(13);
        stack.db.batch_execute(&statement(&asked.err, "SELECT outbox.grant_monitor(", "')")).await.unwrap();
        finish(command(&stack, &url, &["status"])).await.ended_with(1);
        stack.db.batch_execute(&format!("DROP OWNED BY {quoted}")).await.unwrap();

        let asked = finish(command(&stack, &url, &["check", "--json"])).await.ended_with(1);
        let told = |check: &str| {
            let finding = &findings(&asked)[check];
            format!("{} {}", finding["found"].as_str().unwrap(), finding["to_do"].as_str().unwrap_or_default())
        };
        let grant = statement(&told("grants"), "SELECT outbox.grant_relay(", "')");
        let replicate = statement(&told("replication_right"), "ALTER ROLE ", " REPLICATION");
        let as_text = finish(command(&stack, &url, &["check"])).await.ended_with(1).out;
        assert!(as_text.contains(&grant) && as_text.contains(&replicate), "{as_text}");
        let refused = finish(command(&stack, &url, &["init"])).await.ended_with(13).err;
        assert!(refused.contains(&replicate), "{refused}");
        stack.db.batch_execute(&format!("{grant}; {replicate}")).await.unwrap();
        let asked = finish(command(&stack, &url, &["check", "--json"])).await;
        assert_eq!([level(&asked, "grants"), level(&asked, "replication_right")], ["ok", "ok"], "{asked:?}");
        stack.db.batch_execute(&format!("DROP OWNED BY {quoted}; DROP ROLE {quoted}")).await.unwrap();
    }
    // None of these statements has given a right to the role whose name looks alike.
    stack.db.batch_execute(&format!("DROP ROLE \"{alike}\"")).await.unwrap();
}
