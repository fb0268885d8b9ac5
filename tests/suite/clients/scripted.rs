//! The recipes of docs/languages/ in Python, JavaScript, Ruby, PHP and Elixir: each emits in its framework's own
//! transaction, rolls back with it, and has a test that asserts what was emitted. No relay runs: rows are enough.
//!
//! Python and Node.js are on CI's machine. The others need not be: where one is missing, on CI too, its recipe did not
//! run.

use std::{
    path::Path,
    process::{Command, Output},
};

use harness::{Database, Postgres, places::checkout};
use uuid::Uuid;

use super::{
    Workshop, clients, consume::bills_once_from_rabbitmq, migration_tools::installs_and_upgrades, node, npm_ci, python,
    text,
};

#[tokio::test]
async fn psycopg_emits_in_its_transaction() {
    let Some(workshop) = python().await else { return };
    emits_with_python(&workshop).await;
}

#[tokio::test]
async fn sqlalchemy_emits_in_its_session() {
    let Some(workshop) = Workshop::open("orm", Workshop::pip_install).await else { return };
    emits_with_python(&workshop).await;
}

async fn emits_with_python(workshop: &Workshop) {
    let db = emits(run(workshop, "venv/bin/python emit.py")).await;
    asserts(&db, run(workshop, "venv/bin/python -m unittest test_emit"), "Ran 1 test").await;
}

#[tokio::test]
async fn django_emits_in_an_atomic_block() {
    let Some(workshop) = Workshop::open("django", Workshop::pip_install).await else { return };
    let django = |line| {
        let mut django = run(&workshop, line);
        django.envs([("DJANGO_SETTINGS_MODULE", "settings"), ("PYTHONPATH", ".")]);
        django
    };
    let db = emits(django("venv/bin/python emit.py")).await;

    // Django makes the database of its tests itself, by the migrations, of which one installs the outbox.
    let scripts = std::env::temp_dir().join(format!("{}-{}", db.name(), std::process::id()));
    succeeds(tool(&checkout().join("scripts/sql"), &scripts)).await;
    let owner = format!("{}_owner", db.name());
    db.batch_execute(&format!("CREATE ROLE {owner} LOGIN CREATEDB")).await.unwrap();
    let mut test = django("venv/bin/python -m django test --no-input");
    test.env("DATABASE_URL", db.url_as(&owner));
    test.env("OUTBOX_SQL", scripts.join(concat!("outbox-", env!("CARGO_PKG_VERSION"), ".sql")));
    let said = text(&succeeds(test).await);
    assert!(said.contains("Ran 1 test"), "{said}");
    std::fs::remove_dir_all(scripts).unwrap();
}

#[tokio::test]
async fn node_postgres_emits_in_its_transaction() {
    let Some(workshop) = node().await else { return };
    emits_with_node(&workshop).await;
}

#[tokio::test]
async fn drizzle_emits_in_its_transaction() {
    let Some(workshop) = Workshop::open("drizzle", npm_ci).await else { return };
    emits_with_node(&workshop).await;
}

#[tokio::test]
async fn drizzle_installs_and_upgrades_the_outbox() {
    let Some(workshop) = Workshop::open("drizzle", npm_ci).await else { return };
    migrates(&workshop, "node migrate.mjs", "__drizzle_migrations").await;
}

#[tokio::test]
async fn prisma_emits_in_its_transaction() {
    let install = |workshop: &Workshop| {
        npm_ci(workshop)?;
        // To generate the client, Prisma needs none of its engines, but would fetch one unless it is told of one.
        workshop.run("env PRISMA_SCHEMA_ENGINE_BINARY=/bin/true CHECKPOINT_DISABLE=1 node_modules/.bin/prisma generate --schema schema.prisma")
    };
    let Some(workshop) = Workshop::open("prisma", install).await else { return };
    emits_with_node(&workshop).await;
}

async fn emits_with_node(workshop: &Workshop) {
    let db = emits(run(workshop, "node emit.mjs")).await;
    asserts(&db, run(workshop, "node --test --test-reporter=tap emit.test.mjs"), "# pass 1").await;
}

#[tokio::test]
async fn active_record_emits_in_its_transaction() {
    let Some(workshop) = ruby().await else { return };
    let db = emits(run(&workshop, "bundle exec ruby emit.rb")).await;
    asserts(&db, run(&workshop, "bundle exec ruby emit_test.rb"), "1 runs, 3 assertions, 0 failures").await;
}

#[tokio::test]
async fn active_record_installs_and_upgrades_the_outbox() {
    let Some(workshop) = ruby().await else { return };
    migrates(&workshop, "bundle exec ruby migrate.rb", "schema_migrations").await;
}

#[tokio::test]
async fn a_ruby_program_consumes_with_bunny() {
    let Some(workshop) = ruby().await else { return };
    bills_once_from_rabbitmq(run(&workshop, "bundle exec ruby consume.rb")).await;
}

async fn ruby() -> Option<Workshop> {
    let install = |workshop: &Workshop| {
        // Debian's own packages (ruby-activerecord, ruby-bunny, ruby-pg) do.
        workshop.run("bundle install --local --quiet").or_else(|_| {
            workshop.run("bundle config set --local path gems")?;
            workshop.run("bundle install --quiet --retry 0")
        })
    };
    Workshop::open_where_present("ruby", install).await
}

#[tokio::test]
async fn laravels_database_layer_emits_in_its_transaction() {
    let Some(workshop) = php().await else { return };
    let db = emits(run(&workshop, "php emit.php")).await;
    let own = workshop.command("vendor/bin/phpunit");
    let phpunit = if Path::new(own.get_program()).exists() { "vendor/bin/phpunit" } else { "phpunit" };
    asserts(&db, run(&workshop, &format!("{phpunit} --do-not-cache-result OrdersTest.php")), "OK (1 test").await;
}

#[tokio::test]
async fn laravels_migrator_installs_and_upgrades_the_outbox() {
    let Some(workshop) = php().await else { return };
    migrates(&workshop, "php migrate.php", "migrations").await;
}

#[tokio::test]
async fn a_php_program_consumes_with_php_amqplib() {
    let Some(workshop) = php().await else { return };
    bills_once_from_rabbitmq(run(&workshop, "php consume.php")).await;
}

async fn php() -> Option<Workshop> {
    let install = |workshop: &Workshop| {
        workshop.run("php --version")?;
        // Debian's own packages (php-illuminate-database, php-illuminate-filesystem, php-amqplib, phpunit) do.
        workshop.run("php debian.php").or_else(|_| workshop.run("composer install --quiet --no-interaction"))
    };
    Workshop::open_where_present("php", install).await
}

#[tokio::test]
async fn ecto_emits_in_its_transaction() {
    let install = |workshop: &Workshop| {
        workshop.run("mix deps.get --only test")?;
        workshop.run("env MIX_ENV=test mix compile")
    };
    let Some(workshop) = Workshop::open_where_present("elixir", install).await else { return };
    let mix = |line| {
        let mut mix = run(&workshop, line);
        mix.env("MIX_ENV", "test");
        mix
    };
    let db = emits(mix("mix run emit.exs")).await;
    asserts(&db, mix("mix test"), "1 test, 0 failures").await;
}

/// Runs a recipe as a role with the application's grants. It places an order that stays, prints the id of its event,
/// and places one that it rolls back.
pub(super) async fn emits(mut recipe: Command) -> Database {
    let db = Postgres::shared().await.database().await;
    let orders = std::fs::read_to_string(clients().join("orders.sql")).unwrap();
    let role = format!("{}_shop", db.name());
    let setup = format!(
        "{orders} CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT ON orders TO {role}; SELECT outbox.grant_emit('{role}')"
    );
    db.batch_execute(&setup).await.unwrap();

    recipe.env("DATABASE_URL", db.url_as(&role));
    let said = String::from_utf8(succeeds(recipe).await.stdout).unwrap();
    let id: Uuid = said.trim().parse().unwrap_or_else(|_| panic!("not an id: {said:?}"));
    assert_eq!(id.get_version_num(), 7, "{id}");
    let events = "SELECT e.id, e.topic, e.aggregate_type, e.aggregate_id = o.id::text, o.customer, e.payload::jsonb,
                         jsonb_build_object('id', o.id, 'customer', o.customer, 'total', o.total::text)
                  FROM outbox.events AS e CROSS JOIN orders AS o";
    let events = db.query(events, &[]).await.unwrap();
    assert_eq!(events.len(), 1, "the order and the event that were rolled back are not there");
    assert_eq!(events[0].get::<_, Uuid>(0), id);
    assert_eq!([1, 2, 4].map(|column| events[0].get::<_, &str>(column)), ["orders.created", "order", "Ada"]);
    assert!(events[0].get::<_, bool>(3), "the key is the order's");
    assert_eq!(events[0].get::<_, serde_json::Value>(5), events[0].get::<_, serde_json::Value>(6));
    db
}

/// Runs a recipe's own test as a role that may read events. It leaves nothing behind.
pub(super) async fn asserts(db: &Database, mut test: Command, ran: &str) {
    let role = format!("{}_tests", db.name());
    let setup = format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT ON orders TO {role};
         SELECT outbox.grant_emit('{role}'), outbox.grant_operate('{role}')"
    );
    db.batch_execute(&setup).await.unwrap();
    test.env("DATABASE_URL", db.url_as(&role));
    let said = text(&succeeds(test).await);
    assert!(said.contains(ran), "{said}");
    assert_eq!(db.query("SELECT FROM outbox.events", &[]).await.unwrap().len(), 1);
}

/// Has a framework's migrations run a script of `make sql`; it notes in the table `history` what has run.
async fn migrates(workshop: &Workshop, line: &str, history: &str) {
    installs_and_upgrades(history, async |site, script| {
        let mut migrate = run(workshop, line);
        migrate.env("DATABASE_URL", site.url()).env("OUTBOX_SQL", script);
        succeeds(migrate).await;
    })
    .await;
}

pub(super) fn run(workshop: &Workshop, line: &str) -> Command {
    let (program, arguments) = line.split_once(' ').unwrap();
    let mut command = workshop.command(program);
    command.args(arguments.split(' '));
    command
}

fn tool(program: &Path, argument: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(argument);
    command
}

async fn succeeds(mut command: Command) -> Output {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", text(&output));
    output
}
