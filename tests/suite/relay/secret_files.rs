//! Passwords that stand in files, and change there.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use harness::{Database, Postgres, RabbitMq, Relay, RelayBuilder, SOON, Stack};

use super::{emit, wait_for_counts};

/// A folder of files with addresses in them, which goes when the test ends.
struct Files(PathBuf);

impl Files {
    fn new(db: &Database) -> Self {
        let folder = std::env::temp_dir().join(format!("{}-{}-secrets", db.name(), std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Replaces a file at once, as it should be done.
    fn put(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.0.join("new"), contents).unwrap();
        fs::rename(self.0.join("new"), self.0.join(name)).unwrap();
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn relay(stack: &Stack, files: &Files) -> RelayBuilder {
    stack
        .relay()
        .env("DATABASE_URL", "")
        .env("AMQP_URL", "")
        .env("DATABASE_URL_FILE", &files.path("database"))
        .env("AMQP_URL_FILE", &files.path("broker"))
}

/// Files that are right, with what the relay needs to log in to servers that trust it.
fn right(stack: &Stack) -> Files {
    let files = Files::new(&stack.db);
    files.put("database", format!("{}\n", stack.db.url()));
    files.put("broker", format!("{}\n", stack.vhost.url()));
    files
}

/// Ends the relay's sessions with the database.
async fn end_sessions(stack: &Stack) {
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    stack.db.batch_execute(end).await.unwrap();
}

async fn one_more_is_sent(stack: &Stack, so_far: i64) {
    emit(&stack.db, "'t', '{}'::jsonb", &[]).await;
    wait_for_counts(&stack.db, (0, so_far + 1, 0), SOON).await;
}

fn shows_no_password(relay: &Relay) {
    let log = relay.log_text();
    assert!(!log.contains("first-password") && !log.contains("second-password"), "{log}");
    let command = fs::read_to_string(format!("/proc/{}/cmdline", relay.pid())).unwrap();
    assert!(!command.contains("password"), "{command}");
}

#[tokio::test]
async fn a_database_password_that_is_changed_in_its_file_needs_no_restart() {
    let postgres = Postgres::private().hba("host all all all scram-sha-256").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let _consumer = stack.consumer("#").await;
    let roles = "CREATE ROLE relay LOGIN REPLICATION PASSWORD 'first-password'; SELECT outbox.grant_relay('relay')";
    stack.db.batch_execute(roles).await.unwrap();
    let url = |password: &str| stack.db.url_as("relay").replace(":secret@", &format!(":{password}@"));
    let files = right(&stack);
    files.put("database", url("first-password"));
    let relay = relay(&stack, &files).start().await;
    one_more_is_sent(&stack, 0).await;

    stack.db.batch_execute("ALTER ROLE relay PASSWORD 'second-password'").await.unwrap();
    one_more_is_sent(&stack, 1).await; // a session that is open stays open
    let mark = relay.mark();
    end_sessions(&stack).await;
    let refused = relay.wait_for_log_after(mark, "refused the login").await;
    assert!(refused.contains(&format!("check user and password in {}", files.path("database"))), "{refused}");
    files.put("database", url("second-password"));
    one_more_is_sent(&stack, 2).await;
    shows_no_password(&relay);
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn a_brokers_password_that_is_changed_in_its_file_needs_no_restart() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer("#").await;
    let user = stack.vhost.name();
    let set_password = async |password| stack.vhost.user(user, password, ".*", ".*", ".*").await;
    set_password("first-password").await;
    let files = right(&stack);
    files.put("broker", stack.vhost.url_as(user, "first-password"));
    let relay = relay(&stack, &files).start().await;
    one_more_is_sent(&stack, 0).await;

    set_password("second-password").await;
    let mark = relay.mark();
    RabbitMq::shared().await.cut_connections(stack.vhost.name()).await;
    let refused = relay.wait_for_log_after(mark, "refuses user").await;
    let hint = format!("(hint: check user, password and virtual host in {}", files.path("broker"));
    assert!(refused.contains(&hint), "{refused}");
    files.put("broker", stack.vhost.url_as(user, "second-password"));
    one_more_is_sent(&stack, 1).await;
    shows_no_password(&relay);
    assert!(relay.stop().await.success());
    stack.vhost.api("DELETE", &format!("/api/users/{user}"), None).await;
}

/// What is done to a file, and what is said of it then. A test may run as root, to whom every file is readable: a link
/// that leads to itself is readable to nobody.
type Spoiling = (&'static str, fn(&Path), &'static str);

const BAD: [Spoiling; 6] = [
    ("missing", |path| fs::remove_file(path).unwrap(), "cannot be read: No such file"),
    (
        "unreadable",
        |path| {
            let _ = fs::remove_file(path);
            symlink(path, path).unwrap();
        },
        "cannot be read: Too many levels",
    ),
    ("empty", |path| replace(path, b""), "is empty"),
    ("half-written", |path| replace(path, b"postgres://relay:first-pass"), "invalid value for option"),
    ("not UTF-8", |path| replace(path, b"postgres://relay:first-\xff@db/shop"), "is not UTF-8"),
    ("too large", |path| replace(path, &[b'a'; 70_000]), "has more than 64 KiB"),
];

fn replace(path: &Path, contents: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, contents).unwrap();
}

#[tokio::test]
async fn a_file_that_is_bad_after_the_start_is_told_and_read_again_until_it_is_good() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer("#").await;
    let files = right(&stack);
    let relay = relay(&stack, &files).start().await;
    for (so_far, (what, spoil, why)) in (0..).zip(BAD) {
        let mark = relay.mark();
        spoil(Path::new(&files.path("database")));
        end_sessions(&stack).await;
        let told = relay.wait_for_log_after(mark, why).await;
        assert!(told.contains("no connection to the database; trying again"), "{what}: {told}");
        files.put("database", stack.db.url());
        one_more_is_sent(&stack, so_far).await;
    }
    let sent = i64::try_from(BAD.len()).unwrap();
    spoiled_broker(&stack, &files, &relay).await;
    one_more_is_sent(&stack, sent).await;
    shows_no_password(&relay);
    assert!(relay.stop().await.success());
}

async fn spoiled_broker(stack: &Stack, files: &Files, relay: &Relay) {
    let mark = relay.mark();
    files.put("broker", "amqp://guest:first-password@127.0.0.1:port/");
    RabbitMq::shared().await.cut_connections(stack.vhost.name()).await;
    let told = relay.wait_for_log_after(mark, "the port is a number").await;
    assert!(told.contains("no connection to the broker") || told.contains("broker"), "{told}");
    files.put("broker", stack.vhost.url());
}

#[tokio::test]
async fn a_file_that_is_bad_at_the_start_ends_it_with_exit_code_2_and_the_reason() {
    let stack = Stack::new().await;
    let files = right(&stack);
    for (what, spoil, why) in BAD {
        spoil(Path::new(&files.path("database")));
        let (status, output) = relay(&stack, &files).finish().await;
        assert_eq!(status.code(), Some(2), "{what}: {output}");
        assert!(output.starts_with("outbox-relay: DATABASE_URL_FILE=") && output.contains(why), "{what}: {output}");
        assert!(!output.contains("first-"), "{output}");
    }
}

#[tokio::test]
async fn a_start_waits_for_a_password_that_is_about_to_change_in_its_file_unless_it_is_not_to_wait() {
    let postgres = Postgres::private().hba("host all all all scram-sha-256").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let _consumer = stack.consumer("#").await;
    let roles = "CREATE ROLE relay LOGIN REPLICATION PASSWORD 'secret'; SELECT outbox.grant_relay('relay')";
    stack.db.batch_execute(roles).await.unwrap();
    let files = right(&stack);
    let wrong_database = stack.db.url_as("relay").replace(":secret@", ":first-password@");
    let wrong_broker = stack.vhost.url_as("guest", "first-password");
    files.put("database", &wrong_database);
    let hasty = async || relay(&stack, &files).set("no-wait", "true").finish().await;
    assert_eq!(hasty().await.0.code(), Some(11));
    files.put("database", stack.db.url_as("relay"));
    files.put("broker", &wrong_broker);
    assert_eq!(hasty().await.0.code(), Some(21));

    files.put("database", &wrong_database);
    let relay = relay(&stack, &files).spawn();
    relay.wait_for_log("refuses user").await;
    relay.wait_for_log("refused the login").await;
    files.put("broker", stack.vhost.url());
    files.put("database", stack.db.url_as("relay"));
    relay.wait_for_log("streaming").await;
    one_more_is_sent(&stack, 0).await;
    shows_no_password(&relay);
}

/// Every file is a link into a folder `..data`, which is a link, too, and is replaced.
#[tokio::test]
async fn a_secret_that_kubernetes_swaps_is_taken_up() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer("#").await;
    let files = Files::new(&stack.db);
    let swap = |version: &str, database: &str| {
        fs::create_dir(files.path(version)).unwrap();
        fs::write(files.0.join(version).join("database"), database).unwrap();
        fs::write(files.0.join(version).join("broker"), stack.vhost.url()).unwrap();
        symlink(version, files.path("..data_tmp")).unwrap();
        fs::rename(files.path("..data_tmp"), files.path("..data")).unwrap();
    };
    swap("..1", stack.db.url());
    for name in ["database", "broker"] {
        symlink(format!("..data/{name}"), files.path(name)).unwrap();
    }
    let relay = relay(&stack, &files).start().await;
    one_more_is_sent(&stack, 0).await;
    let role = format!("{}_next", stack.db.name());
    let make = format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN SUPERUSER");
    stack.db.batch_execute(&make).await.unwrap();
    swap("..2", &stack.db.url_as(&role));
    let mark = relay.mark();
    end_sessions(&stack).await;
    relay.wait_for_log_after(mark, &format!("as {role}")).await;
    one_more_is_sent(&stack, 1).await;
    assert!(relay.stop().await.success());
    stack.db.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn the_other_commands_take_the_same_files_and_show_no_password() {
    let stack = Stack::new().await;
    let files = Files::new(&stack.db);
    files.put("database", stack.db.url().replace("postgres@", "postgres:first-password@"));
    files.put("broker", stack.vhost.url());
    for arguments in [
        &["init"][..],
        &["check"],
        &["status"],
        &["events"],
        &["config"],
        &["replay", "--all", "--yes"],
        &["purge", "--older-than", "7d", "--yes"],
    ] {
        let (status, output) = relay(&stack, &files).arguments(arguments).finish().await;
        assert!(matches!(status.code(), Some(0 | 1)), "{arguments:?}: {output}");
        assert!(!output.contains("first-password"), "{arguments:?}: {output}");
    }
    // Who may not read the broker's secret can still look at the database.
    fs::remove_file(files.path("broker")).unwrap();
    let (status, output) = relay(&stack, &files).arguments(&["events"]).finish().await;
    assert!(matches!(status.code(), Some(0 | 1)), "{output}");
    let (status, output) = relay(&stack, &files).arguments(&["check"]).finish().await;
    assert!(status.code() == Some(1) && output.contains("broker: cannot be read"), "{output}");
}
