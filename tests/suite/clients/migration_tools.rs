//! Tools that bring a schema run the scripts of `make sql` in their own transaction, as docs/guides/migrations.md says:
//! each installs the outbox, and upgrades one of 0.2.0. What is there then is what psql makes of sql/outbox.sql. Those
//! of the recipes' frameworks are in `scripted`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use harness::{Connection, Database, Postgres, places::checkout};
use sqlx::{Connection as _, PgConnection, migrate::Migrator};

use super::{Workshop, clients, go, maven, node, text};
use crate::extension::upgrade::{catalogue, earlier};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[tokio::test]
async fn flyway_installs_and_upgrades_the_outbox() {
    let Some(workshop) = maven("flyway").await else { return };
    installs_and_upgrades("flyway_schema_history", async |site, script| {
        let orders = clients().join("orders.sql");
        let migrations = site.folder(&[("V1__outbox.sql", script), ("V2__orders.sql", &orders)]);
        let mut java = workshop.command("java");
        java.args(["-cp", "jars/*", "Migrate.java"]).env("FLYWAY_URL", site.jdbc_url());
        java.env("FLYWAY_LOCATIONS", format!("filesystem:{}", migrations.display()));
        java.env("FLYWAY_GROUP", "true"); // both in one transaction
        succeeds(java).await;
    })
    .await;
}

#[tokio::test]
async fn liquibase_installs_and_upgrades_the_outbox() {
    let Some(workshop) = maven("liquibase").await else { return };
    installs_and_upgrades("databasechangelog", async |site, script| {
        let (changelog, orders) = (clients().join("liquibase/changelog.yaml"), clients().join("orders.sql"));
        let resources = site.folder(&[("changelog.yaml", &changelog), ("outbox.sql", script), ("orders.sql", &orders)]);
        let mut java = workshop.command("java");
        java.args(["-cp", &format!("jars/*:{}", resources.display()), "Migrate.java"]);
        java.env("DATABASE_URL", site.jdbc_url()).env("LIQUIBASE_ANALYTICS_ENABLED", "false");
        succeeds(java).await;
    })
    .await;
}

#[tokio::test]
async fn alembic_installs_and_upgrades_the_outbox() {
    let Some(workshop) = Workshop::open("alembic", Workshop::pip_install).await else { return };
    installs_and_upgrades("alembic_version", async |site, script| {
        let mut python = workshop.command("venv/bin/python");
        python.args(["-m", "alembic", "upgrade", "head"]).env("DATABASE_URL", site.url()).env("OUTBOX_SQL", script);
        succeeds(python).await;
    })
    .await;
}

#[tokio::test]
async fn sqlx_installs_and_upgrades_the_outbox() {
    installs_and_upgrades("_sqlx_migrations", async |site, script| {
        let migrations = site.folder(&[("1_outbox.sql", script)]);
        let mut connection = PgConnection::connect(&site.url()).await.unwrap();
        Migrator::new(migrations).await.unwrap().run(&mut connection).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn node_postgres_installs_and_upgrades_the_outbox() {
    let Some(workshop) = node().await else { return };
    installs_and_upgrades("migrations", async |site, script| {
        let mut node = workshop.command("node");
        node.arg("migrate.mjs").env("DATABASE_URL", site.url()).env("OUTBOX_SQL", script);
        succeeds(node).await;
    })
    .await;
}

#[tokio::test]
async fn pgx_installs_and_upgrades_the_outbox() {
    let Some(workshop) = go().await else { return };
    installs_and_upgrades("migrations", async |site, script| {
        let mut migrate = workshop.command("built/migrate");
        migrate.env("DATABASE_URL", site.url()).env("OUTBOX_SQL", script);
        succeeds(migrate).await;
    })
    .await;
}

#[tokio::test]
async fn psql_runs_each_flat_file_in_one_transaction() {
    installs_and_upgrades("history", async |site, script| {
        if value(&site.db, "SELECT to_regclass('public.history') IS NOT NULL").await == "true" {
            return;
        }
        let mut psql = psql(&site.db, &site.owner).await;
        psql.args(["--single-transaction", "--set=ON_ERROR_STOP=1"]);
        psql.arg("--file").arg(script).arg("--file").arg(site.script("inbox"));
        psql.args(["--command", "CREATE TABLE history AS SELECT 'outbox' AS script"]);
        assert_eq!(text(&succeeds(psql).await), "");
    })
    .await;
}

#[tokio::test]
async fn a_script_without_a_transaction_changes_nothing_and_says_so() {
    let site = Site::empty().await;
    for script in ["outbox", "inbox"] {
        is_stopped(&site, &site.script(script)).await;
        assert_eq!(
            value(&site.db, "SELECT count(*) FROM pg_namespace WHERE nspname IN ('outbox', 'inbox')").await,
            "0"
        );
    }
    let Some(old) = Site::with_the_earlier_outbox().await else { return };
    let before = catalogue(&old.db, false).await;
    is_stopped(&old, &old.script("outbox-upgrade")).await;
    assert_eq!(value(&old.db, "SELECT outbox.version()").await, "0.2.0");
    are_alike(&before, &catalogue(&old.db, false).await);
}

/// By psql, which goes on after an error: as the owner, and as a superuser that has taken the owner's role, who may not
/// end sessions.
async fn is_stopped(site: &Site, script: &Path) {
    for (login, set_role) in [(&*site.owner, "SELECT"), ("postgres", &*format!("SET ROLE {}", site.owner))] {
        let mut psql = psql(&site.db, login).await;
        psql.args(["--tuples-only", "--command", set_role, "--file"]).arg(script);
        let output = run(psql).await;
        let said = text(&output);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("this script is to run as one transaction"), "{said}");
        assert_eq!(said.matches("ERROR:").count(), 1, "{said}");
    }
}

#[tokio::test]
async fn a_script_gives_back_whatever_search_path_was_set() {
    let site = Site::empty().await;
    let session = site.db.connect_as(&site.owner).await;
    let script = std::fs::read_to_string(site.script("inbox")).unwrap();
    for path in ["\"$user\", public", "mine, pg_catalog", ""] {
        session.batch_execute(&format!("BEGIN; SELECT set_config('search_path', '{path}', false)")).await.unwrap();
        session.batch_execute(&script).await.unwrap_or_else(|error| panic!("{path:?}: {error:?}"));
        let given_back = value(&session, "SELECT current_setting('search_path')").await;
        assert_eq!(if given_back == "\"\"" { "" } else { &given_back }, path);
        session.batch_execute("ROLLBACK").await.unwrap();
    }
}

#[tokio::test]
async fn a_flat_file_has_nothing_that_psql_alone_runs_or_a_tool_replaces() {
    let site = Site::empty().await;
    for script in ["outbox", "outbox-upgrade", "inbox"] {
        for line in std::fs::read_to_string(site.script(script)).unwrap().lines() {
            let is_psqls = line.trim_start().starts_with('\\') || ["BEGIN;", "COMMIT;"].contains(&line);
            let is_replaced = line.contains("${"); // by Flyway, and by Liquibase
            assert!(!is_psqls && !is_replaced, "{script}: {line}");
        }
    }
}

/// Has a tool install an outbox and upgrade one. `migrate` runs the tool, which notes in the table `history` what has
/// run: a second run does nothing.
pub(super) async fn installs_and_upgrades(history: &str, migrate: impl AsyncFn(&Site, &Path)) {
    let new = Site::empty().await;
    is_migrated(&new, &new.script("outbox"), history, &migrate).await;
    if let Some(old) = Site::with_the_earlier_outbox().await {
        is_migrated(&old, &old.script("outbox-upgrade"), history, &migrate).await;
    }
}

async fn is_migrated(site: &Site, script: &Path, history: &str, migrate: impl AsyncFn(&Site, &Path)) {
    migrate(site, script).await;
    assert_eq!(value(&site.db, "SELECT outbox.version()").await, VERSION);
    are_alike(&catalogue(&site.db, false).await, &catalogue(&site.made_by_psql().await, false).await);
    let history = format!("SELECT string_agg(h::text, ' ') FROM public.{history} AS h");
    let noted = value(&site.db, &history).await;

    migrate(site, script).await;
    assert_eq!(value(&site.db, &history).await, noted);

    let shop = format!("{}_shop", site.db.name());
    site.db.batch_execute(&format!("CREATE ROLE {shop} LOGIN")).await.unwrap();
    let owner = site.db.connect_as(&site.owner).await;
    owner.batch_execute(&format!("SELECT outbox.grant_emit('{shop}')")).await.unwrap();
    let emit = "SELECT outbox.emit('orders.created', '{\"id\": 1}')";
    site.db.connect_as(&shop).await.batch_execute(emit).await.unwrap();
    assert_eq!(value(&owner, "SELECT string_agg(topic, ' ') FROM outbox.events").await, "orders.created");
}

fn are_alike(one: &BTreeSet<String>, other: &BTreeSet<String>) {
    let differs: Vec<_> = one.symmetric_difference(other).collect();
    assert!(differs.is_empty(), "{differs:#?}");
}

/// A database that belongs to a role without rights of its own, and a folder with the scripts of `make sql`.
pub(super) struct Site {
    db: Database,
    owner: String,
    folder: PathBuf,
}

impl Site {
    async fn empty() -> Self {
        let db = Postgres::shared().await.empty_database().await;
        let owner = format!("{}_owner", db.name());
        db.batch_execute(&format!("CREATE ROLE {owner} LOGIN")).await.unwrap();
        give(&db, &owner).await;
        let folder = std::env::temp_dir().join(format!("{}-{}", db.name(), std::process::id()));
        let mut scripts = Command::new(checkout().join("scripts/sql"));
        scripts.arg(&folder);
        succeeds(scripts).await;
        Self { db, owner, folder }
    }

    /// With an outbox of 0.2.0 that psql has installed; `None` if this checkout has no history.
    async fn with_the_earlier_outbox() -> Option<Self> {
        let script = earlier("0.2.0")?.join("sql/install.sql");
        let site = Self::empty().await;
        let mut psql = psql(&site.db, &site.owner).await;
        psql.arg("--file").arg(script);
        assert_eq!(text(&succeeds(psql).await), "");
        Some(site)
    }

    /// Another database of the same owner, with what psql has installed.
    async fn made_by_psql(&self) -> Database {
        let db = Postgres::shared().await.empty_database().await;
        give(&db, &self.owner).await;
        let mut psql = psql(&db, &self.owner).await;
        psql.arg("--file").arg(checkout().join("sql/outbox.sql"));
        succeeds(psql).await;
        db
    }

    fn script(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}-{VERSION}.sql"))
    }

    /// A folder with copies of these files, under these names.
    fn folder(&self, files: &[(&str, &Path)]) -> PathBuf {
        let folder = self.folder.join("migrations");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, file) in files {
            std::fs::copy(file, folder.join(name)).unwrap();
        }
        folder
    }

    pub(super) fn url(&self) -> String {
        self.db.url_as(&self.owner)
    }

    fn jdbc_url(&self) -> String {
        format!("jdbc:postgresql://127.0.0.1:{}/{}?user={}", self.db.port(), self.db.name(), self.owner)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn give(db: &Database, owner: &str) {
    db.batch_execute(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name())).await.unwrap();
}

async fn psql(db: &Database, login: &str) -> Command {
    let mut psql = Postgres::shared().await.program("psql");
    psql.env("PGUSER", login).args(["--no-psqlrc", "--quiet", "--dbname", db.name()]);
    psql
}

/// One value as text.
async fn value(session: &Connection, sql: &str) -> String {
    session.query_one(&format!("SELECT ({sql})::text"), &[]).await.unwrap().get(0)
}

async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

async fn succeeds(command: Command) -> Output {
    let output = run(command).await;
    assert!(output.status.success(), "{}", text(&output));
    output
}
