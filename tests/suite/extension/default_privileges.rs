//! Default privileges of the role that installs give nobody a right in what is installed: on that, nothing was granted
//! yet.

use harness::{Database, Postgres};

use super::{
    inbox, install_plain_sql, role, run, text,
    upgrade::{EARLIER, Outbox},
    value,
};

/// What others than its owner were granted in a schema, but for what everybody is meant to have.
const GRANTED: &str = "
    SELECT string_agg(format('%s: %s on %s', coalesce(r.rolname, 'PUBLIC'), acl.privilege_type, o.object), ', ' ORDER BY r.rolname, o.object)
    FROM (
        SELECT n.nspname || ' itself', n.nspowner, n.nspacl, n.oid FROM pg_namespace AS n
        UNION ALL SELECT c.oid::regclass::text, c.relowner, c.relacl, c.relnamespace FROM pg_class AS c
        UNION ALL SELECT p.oid::regprocedure::text, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner)), p.pronamespace FROM pg_proc AS p
    ) AS o (object, owner, acl, schema)
    CROSS JOIN aclexplode(o.acl) AS acl LEFT JOIN pg_roles AS r ON r.oid = acl.grantee
    WHERE o.schema = '{}'::regnamespace AND acl.grantee <> o.owner
      AND NOT (acl.grantee = 0 AND (o.object, acl.privilege_type) IN (
          ('outbox itself', 'USAGE'), ('outbox.version()', 'EXECUTE'), ('outbox.uuid_v7()', 'EXECUTE'), ('outbox.wake_relay()', 'EXECUTE'),
          ('outbox.emit(text,text,text,text,text,jsonb,text,text,timestamp with time zone,text)', 'EXECUTE')))";

async fn granted_in(db: &Database, schema: &str) -> Option<String> {
    text(db, &GRANTED.replace("{}", schema)).await
}

/// Rights on all that the role of this session makes from now on.
fn defaults(role: &str, on_schemas: &str) -> String {
    [("ALL", "TABLES"), ("ALL", "SEQUENCES"), ("ALL", "ROUTINES"), (on_schemas, "SCHEMAS")]
        .map(|(rights, what)| format!("ALTER DEFAULT PRIVILEGES GRANT {rights} ON {what} TO {role}"))
        .join("; ")
}

#[tokio::test]
async fn default_privileges_give_no_role_a_right_in_the_plain_sql() {
    let db = Postgres::shared().await.empty_database().await;
    let mallory = role(&db, "mallory").await;
    run(&db, &format!("{}; {}", defaults(&mallory, "ALL"), defaults("PUBLIC", "ALL"))).await;
    let output = install_plain_sql(&db).await;
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(granted_in(&db, "outbox").await, None);
}

#[tokio::test]
async fn default_privileges_give_no_role_a_right_in_the_extension_nor_in_its_restore() {
    let db = Postgres::shared().await.empty_database().await;
    let mallory = role(&db, "mallory").await;
    let defaults = defaults(&mallory, "USAGE");
    run(&db, &format!("{defaults}; CREATE EXTENSION outbox")).await;
    let usage = Some(format!("{mallory}: USAGE on outbox itself"));
    assert_eq!(granted_in(&db, "outbox").await.filter(|granted| Some(granted) != usage.as_ref()), None);
    // Where it may do nothing, it is nothing that the extension would have granted.
    let noted =
        "SELECT count(*) FROM pg_init_privs AS p, aclexplode(p.initprivs) AS acl WHERE acl.grantee = '{}'::regrole
                 AND p.classoid <> 'pg_namespace'::regclass";
    assert_eq!(value(&db, &noted.replace("{}", &mallory)).await, "0");

    run(&db, "SELECT outbox.emit('a', '{}')").await;
    let postgres = Postgres::shared().await;
    let copy = postgres.empty_database().await;
    run(&copy, &defaults).await;
    let file = std::env::temp_dir().join(format!("{}-{}.sql", copy.name(), std::process::id()));
    let dump = postgres.program("pg_dump").args(["--dbname", db.name(), "--file"]).arg(&file).output().unwrap();
    let restore = postgres
        .program("psql")
        .args(["--quiet", "--set=ON_ERROR_STOP=1", "--dbname", copy.name(), "--file"])
        .arg(&file)
        .output();
    std::fs::remove_file(&file).unwrap();
    assert!(dump.status.success() && restore.as_ref().unwrap().status.success(), "{dump:?} {restore:?}");
    assert_eq!(value(&copy, "SELECT count(*) FROM outbox.events").await, "1");
    assert_eq!(granted_in(&copy, "outbox").await.filter(|granted| Some(granted) != usage.as_ref()), None);
}

#[tokio::test]
async fn an_extension_into_whose_new_schema_others_could_put_objects_says_what_to_do() {
    let db = Postgres::shared().await.empty_database().await;
    let mallory = role(&db, "mallory").await;
    run(&db, &format!("ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO {mallory}")).await;
    let error = super::refusal(&db, "CREATE EXTENSION outbox").await;
    run(&db, error.hint().unwrap()).await;
    run(&db, "CREATE EXTENSION outbox").await;
    assert_eq!(granted_in(&db, "outbox").await, Some(format!("{mallory}: USAGE on outbox itself")));
}

#[tokio::test]
async fn default_privileges_give_no_role_a_right_in_what_an_upgrade_adds_and_what_was_granted_stays() {
    let mut olds = Vec::new();
    for version in EARLIER {
        olds.extend(Outbox::plain(version).await);
        olds.extend(Outbox::extension(version).await);
    }
    for old in olds {
        let [mallory, reporting] = [role(&old.db, "mallory").await, role(&old.db, "reporting").await];
        let granted = format!(
            "GRANT SELECT ON outbox.events TO {reporting}; GRANT EXECUTE ON FUNCTION outbox.next_due() TO {reporting}"
        );
        run(&old.db, &format!("{granted}; {}", defaults(&mallory, "USAGE"))).await;
        old.upgrade().await.unwrap();
        let expected = format!("{reporting}: SELECT on outbox.events, {reporting}: EXECUTE on outbox.next_due()");
        assert_eq!(granted_in(&old.db, "outbox").await, Some(expected));
    }
}

#[tokio::test]
async fn default_privileges_give_nobody_a_right_in_the_inbox() {
    let db = Postgres::shared().await.empty_database().await;
    let mallory = role(&db, "mallory").await;
    run(&db, &format!("{}; {}", defaults(&mallory, "ALL"), defaults("PUBLIC", "ALL"))).await;
    inbox::installed(&db, "postgres").await;
    assert_eq!(granted_in(&db, "inbox").await, None);
}
