//! Upgrades that are refused, and what is frozen for them.

use std::process::Command;

use harness::{Postgres, places::checkout};

use super::{role, run, upgrade::Outbox, value, with_owner};

#[tokio::test]
async fn the_script_is_refused_to_a_role_that_does_not_own_the_outbox() {
    let Some(old) = Outbox::plain("0.1.0").await else { return };
    let owner = role(&old.db, "owner").await;
    run(&old.db, &format!("ALTER TABLE outbox.events OWNER TO {owner}")).await;
    let said = old.upgrade().await.unwrap_err();
    assert!(said.contains(&format!("the outbox belongs to {owner}, and this is ")), "{said}");
    assert!(said.contains(&format!("Log in as {owner} for this script")), "{said}");
    assert_eq!(value(&old.db, "SELECT outbox.version()").await, "0.1.0");
}

#[tokio::test]
async fn no_code_of_the_owners_runs_in_an_upgrade_with_a_superusers_rights() {
    let Some(old) = Outbox::plain("0.2.0").await else { return };
    let owner = role(&old.db, "owner").await;
    let give = format!(
        "DO $$ DECLARE f regprocedure; BEGIN
             FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND proname = 'version' LOOP
                 EXECUTE format('ALTER FUNCTION %s OWNER TO {owner}', f);
             END LOOP;
         END $$;
         ALTER TABLE outbox.events OWNER TO {owner};
         CREATE OR REPLACE FUNCTION outbox.version() RETURNS text LANGUAGE plpgsql AS
             'BEGIN RESET ROLE; CREATE TABLE public.taken (); RETURN ''0.2.0''; END'"
    );
    run(&old.db, &give).await;
    let mut psql = Postgres::shared().await.program("psql");
    psql.args(["--quiet", "--no-psqlrc", "--dbname", old.db.name(), "--command"]).arg(format!("SET ROLE {owner}"));
    let output = psql.arg("--file").arg(checkout().join("sql/upgrade.sql")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(", who is a superuser"), "{said}");
    assert_eq!(value(&old.db, "SELECT to_regclass('public.taken') IS NULL").await, "true");

    let Some(old) = Outbox::extension("0.2.0").await else { return };
    let owner = role(&old.db, "owner").await;
    run(&old.db, &format!("ALTER TABLE outbox.events OWNER TO {owner}")).await;
    let said = old.upgrade().await.unwrap_err();
    assert!(
        said.contains(&format!("outbox.events belongs to {owner}, whose code would run with your rights")),
        "{said}"
    );
    run(&old.db, "ALTER TABLE outbox.events OWNER TO CURRENT_USER").await;
    old.upgrade().await.unwrap();
}

#[tokio::test]
async fn what_somebody_else_has_put_into_the_schema_is_left_to_them() {
    let Some(old) = Outbox::plain("0.2.0").await else { return };
    let owner = role(&old.db, "owner").await;
    run(&old.db, &format!("{}; CREATE VIEW outbox.report AS SELECT 1", with_owner(&owner))).await;
    let mut psql = Postgres::shared().await.program("psql");
    psql.args(["--quiet", "--no-psqlrc", "--username", &owner, "--dbname", old.db.name(), "--file"]);
    let output = psql.arg(checkout().join("sql/upgrade.sql")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(value(&old.db, "SELECT count(*) FROM outbox.report").await, "1");
}

#[tokio::test]
async fn a_column_of_the_tables_row_type_keeps_the_upgrade_back_and_is_named() {
    let Some(old) = Outbox::plain("0.2.0").await else { return };
    run(&old.db, "CREATE TABLE archive (event outbox.events)").await;
    let said = old.upgrade().await.unwrap_err();
    assert!(said.contains("archive.event") && said.contains("Drop what the upgrade stopped at"), "{said}");
}

#[tokio::test]
async fn an_upgrade_of_nothing_says_so() {
    let db = Postgres::shared().await.empty_database().await;
    let said = Outbox { db, is_extension: false }.upgrade().await.unwrap_err();
    assert!(said.contains("there is no outbox in database"), "{said}");
}

/// What a release has done to somebody's tables cannot be done otherwise later: a change is the next migration's.
#[test]
fn no_migration_of_a_released_version_has_changed() {
    let folder = checkout().join("sql/migrations");
    let sums = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let check =
        Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&folder).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    for file in std::fs::read_dir(&folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let is_released = name.ends_with(".sql") && !name.ends_with(concat!("--", env!("CARGO_PKG_VERSION"), ".sql"));
        assert!(!is_released || sums.contains(&name), "sha256sum {name} >>SHA256SUMS, in {}", folder.display());
    }
}
