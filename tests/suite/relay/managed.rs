//! On a managed PostgreSQL what is to be done is said in the provider's words. The providers are simulated: by the
//! settings and roles by which each shows itself.

use harness::{Postgres, RabbitMq, SOON, Stack, places::extension_installed};
use serde_json::Value;

use super::{emit, wait_for_counts};

struct Provider {
    setting: Option<(&'static str, &'static str)>,
    role: Option<&'static str>,
    /// How logical decoding is switched on.
    words: &'static str,
    /// How a role gets the right to replicate.
    replication: &'static str,
}

const PROVIDERS: [Provider; 6] = [
    Provider {
        setting: Some(("rds.logical_replication", "off")),
        role: Some("rds_replication"),
        words: "rds.logical_replication = 1 in the parameter group",
        replication: "GRANT rds_replication TO",
    },
    Provider {
        setting: Some(("cloudsql.logical_decoding", "off")),
        role: None,
        words: "the flag cloudsql.logical_decoding = on",
        replication: "cloudsqlsuperuser",
    },
    Provider {
        setting: None,
        role: Some("cloudsqlsuperuser"),
        words: "the flag cloudsql.logical_decoding = on",
        replication: "ALTER ROLE",
    },
    Provider {
        setting: Some(("azure.extensions", "pgcrypto")),
        role: Some("azure_pg_admin"),
        words: "the server parameter wal_level to logical",
        replication: "azure_pg_admin",
    },
    Provider {
        setting: None,
        role: Some("neon_superuser"),
        words: "nable logical replication in the project",
        replication: "neon_superuser",
    },
    Provider {
        setting: None,
        role: None,
        words: "ALTER SYSTEM SET wal_level = logical",
        replication: "as a superuser",
    },
];

#[tokio::test]
async fn without_logical_decoding_start_check_and_installation_say_it_in_the_providers_words() {
    for Provider { setting, role, words, replication } in PROVIDERS {
        let server = Postgres::private().set("wal_level", "replica");
        let server = setting.into_iter().fold(server, |server, (name, value)| server.set(name, value));
        let postgres = server.start().await;
        let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
        let role = role.map(|role| format!("CREATE ROLE {role};")).unwrap_or_default();
        let roles = format!("{role} CREATE ROLE relay LOGIN; CREATE ROLE reader LOGIN REPLICATION");
        stack.db.batch_execute(&roles).await.unwrap();

        let (status, log) = stack.relay().finish().await;
        assert!(status.code() == Some(16) && log.contains(words), "{words}: {log}");
        let (_, found) = stack.relay().arguments(&["check", "--json"]).finish().await;
        let wal_level = finding(&found, "wal_level");
        assert!(wal_level["to_do"].as_str().unwrap().contains(words), "{wal_level}");

        let empty = postgres.empty_database().await;
        let installed = if extension_installed() {
            psql(&postgres, empty.url(), "CREATE EXTENSION outbox")
        } else {
            String::from_utf8(postgres.install_plain_sql(empty.name()).stderr).unwrap()
        };
        assert!(installed.contains("WARNING") && installed.contains(words), "{words}: {installed}");

        let check = stack.relay().arguments(&["check", "--json"]).set("database-url", &stack.db.url_as("relay"));
        stack.db.batch_execute("SELECT outbox.grant_relay('relay')").await.unwrap();
        let (_, found) = check.finish().await;
        let right = finding(&found, "replication_right");
        assert!(right["found"].as_str().unwrap().contains(replication), "{replication}: {right}");
    }
}

/// What Amazon's administrators are: no superusers, and their roles replicate by membership, without the attribute.
#[tokio::test]
async fn an_admin_who_is_no_superuser_installs_plain_sql_and_the_server_decides_whether_a_role_may_replicate() {
    let postgres = Postgres::private().set("rds.logical_replication", "on").start().await;
    let rabbitmq = RabbitMq::shared().await;
    let (db, vhost) = tokio::join!(postgres.empty_database(), rabbitmq.vhost());
    let make = format!(
        "CREATE ROLE rds_superuser; CREATE ROLE rds_replication; CREATE ROLE admin LOGIN CREATEROLE IN ROLE rds_superuser;
         GRANT rds_replication TO admin WITH ADMIN OPTION; ALTER DATABASE {} OWNER TO admin",
        db.name()
    );
    db.batch_execute(&make).await.unwrap();
    let install = harness::places::checkout().join("sql/outbox.sql");
    let url = db.url_as("admin");
    let installed = psql_with(&postgres, &["--file", install.to_str().unwrap(), &url]);
    assert!(!installed.contains("ERROR"), "{installed}");
    let roles = "CREATE ROLE relay LOGIN; SELECT outbox.grant_relay('relay')";
    let granted = psql(&postgres, &url, roles);
    assert!(granted.contains("GRANT rds_replication TO relay") && !granted.contains("ALTER ROLE"), "{granted}");

    let stack = Stack { db, vhost };
    let relay = || stack.relay().set("database-url", &stack.db.url_as("relay"));
    let (status, log) = relay().finish().await;
    assert_eq!(status.code(), Some(13), "{log}");
    assert!(log.contains("as a member of rds_superuser: GRANT rds_replication TO"), "{log}");
    let granted = psql(&postgres, &url, "GRANT rds_replication TO relay; SELECT outbox.grant_relay('relay')");
    assert!(!granted.contains("NOTICE"), "{granted}");

    // Amazon's servers let members replicate; this one lets superusers. Neither has the attribute.
    stack.db.batch_execute("ALTER ROLE relay SUPERUSER NOREPLICATION").await.unwrap();
    let consumer = stack.consumer("#").await;
    let relay = relay().start().await;
    emit(&stack.db, "'t', '{}'::jsonb", &[]).await;
    consumer.wait_for(1).await;
    wait_for_counts(&stack.db, (0, 1, 0), SOON).await;
    assert!(relay.stop().await.success());
}

/// What `check --json` has found.
fn finding(output: &str, check: &str) -> Value {
    let mut findings = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    findings.find(|finding| finding["check"] == check).unwrap_or_else(|| panic!("no {check} in {output}"))
}

/// What psql and the server say.
fn psql(postgres: &Postgres, url: &str, command: &str) -> String {
    psql_with(postgres, &[url, "--command", command])
}

fn psql_with(postgres: &Postgres, arguments: &[&str]) -> String {
    let psql = postgres.program("psql").args(["--no-psqlrc", "--quiet"]).args(arguments).output().unwrap();
    String::from_utf8_lossy(&psql.stderr).into_owned()
}
