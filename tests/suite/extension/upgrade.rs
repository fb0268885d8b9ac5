//! From each earlier version to this one: the extension by ALTER EXTENSION, the plain SQL by its script.

use std::{collections::BTreeSet, path::PathBuf, process::Command, sync::Mutex};

use harness::{Database, Postgres, places::checkout, places::pg_config};

use super::{run, text, value, with_plain_sql, with_the_extension};
use crate::not_run::not_run;

/// The versions that are upgraded, the first one first.
pub(crate) const EARLIER: [&str; 2] = ["0.1.0", "0.2.0"];

/// Runs each promise on both installations of each earlier version.
macro_rules! from_both_installations {
    ($($promise:ident),+ $(,)?) => {
        mod of_the_extension {
            $(#[tokio::test] async fn $promise() {
                for version in crate::extension::upgrade::EARLIER {
                    let Some(old) = crate::extension::upgrade::Outbox::extension(version).await else { return };
                    super::$promise(&old).await;
                }
            })+
        }
        mod of_plain_sql {
            $(#[tokio::test] async fn $promise() {
                for version in crate::extension::upgrade::EARLIER {
                    let Some(old) = crate::extension::upgrade::Outbox::plain(version).await else { return };
                    super::$promise(&old).await;
                }
            })+
        }
    };
}

pub(super) use from_both_installations;

from_both_installations!(
    an_upgraded_outbox_is_like_one_that_was_installed_anew,
    events_in_every_state_are_what_they_were_and_go_on,
    the_upgrade_waits_for_who_emits_and_loses_nothing_of_it,
    an_upgraded_outbox_is_not_upgraded_twice,
    what_depends_on_the_payload_keeps_the_upgrade_back_and_is_named,
    who_reads_a_view_meanwhile_and_the_upgrade_both_come_to_their_end,
    the_upgrade_does_not_end_while_a_dump_waits_that_would_find_the_table_empty,
    a_payload_is_kept_as_it_is_written_from_then_on,
);

/// A database with the outbox of an earlier version.
pub(crate) struct Outbox {
    pub(super) db: Database,
    pub(super) is_extension: bool,
}

/// The folder with the schema of an earlier version, which comes from the history; `None` if this checkout has none.
pub(crate) fn earlier(version: &str) -> Option<PathBuf> {
    let output = Command::new(checkout().join("scripts/earlier-schema")).arg(version).output().unwrap();
    if output.status.success() {
        return Some(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()));
    }
    not_run("upgrade", &String::from_utf8_lossy(&output.stderr));
    None
}

/// Puts the extension's scripts of earlier versions beside that of this one: the library is this version's, as after an
/// upgrade of the package. `None` if this checkout has no history.
pub(crate) fn offer_the_earlier_extensions() -> Option<()> {
    static OFFERED: Mutex<bool> = Mutex::new(false);
    let mut is_offered = OFFERED.lock().unwrap();
    if !*is_offered {
        let output = Command::new(pg_config()).arg("--sharedir").output().unwrap();
        let folder = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()).join("extension");
        for version in EARLIER {
            let new = folder.join(format!("outbox--{version}.{}", std::process::id()));
            std::fs::copy(earlier(version)?.join("extension.sql"), &new).unwrap();
            std::fs::rename(new, folder.join(format!("outbox--{version}.sql"))).unwrap();
        }
        *is_offered = true;
    }
    Some(())
}

impl Outbox {
    pub(super) async fn extension(version: &str) -> Option<Self> {
        offer_the_earlier_extensions()?;
        let db = Postgres::shared().await.empty_database().await;
        run(&db, &format!("CREATE EXTENSION outbox VERSION '{version}'")).await;
        Some(Self { db, is_extension: true })
    }

    pub(super) async fn plain(version: &str) -> Option<Self> {
        let script = earlier(version)?.join("sql/install.sql");
        let db = Postgres::shared().await.empty_database().await;
        let outbox = Self { db, is_extension: false };
        outbox.psql(script).await.unwrap();
        Some(outbox)
    }

    async fn psql(&self, file: PathBuf) -> Result<(), String> {
        let mut psql = Postgres::shared().await.program("psql");
        psql.args(["--quiet", "--no-psqlrc", "--dbname", self.db.name(), "--file"]).arg(file);
        let output = tokio::task::spawn_blocking(move || psql.output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() || !said.contains("ERROR:"), "psql ends with 0 after an error: {said}");
        if output.status.success() && said.is_empty() { Ok(()) } else { Err(said) }
    }

    pub(super) async fn upgrade(&self) -> Result<(), String> {
        if self.is_extension {
            let alter = self.db.connect().await.batch_execute("ALTER EXTENSION outbox UPDATE").await;
            alter.map_err(|error| format!("{error:?}"))
        } else {
            self.psql(checkout().join("sql/upgrade.sql")).await
        }
    }
}

#[tokio::test]
async fn until_the_upgrade_the_earlier_schema_emits_and_replays_with_this_versions_library() {
    for version in EARLIER {
        let Some(old) = Outbox::extension(version).await else { return };
        run(&old.db, "SELECT outbox.emit('t', '1'::jsonb)").await;
        run(&old.db, "UPDATE outbox.events SET status = 'FAILED', last_error = 'x'").await;
        run(&old.db, "SELECT outbox.replay(id) FROM outbox.events").await;
        assert_eq!(value(&old.db, "SELECT status FROM outbox.events").await, "PENDING", "{version}");
    }
}

/// Everything of the schema, but where the table has its columns.
const CATALOGUE: [(&str, &str); 6] = [
    (
        "functions",
        "SELECT concat_ws(' ', oid::regprocedure, prokind, prorettype::regtype, proretset, pg_get_function_arguments(oid), provolatile, prosecdef,
             proleakproof, proisstrict, proparallel, procost, prorows, proconfig, proacl::text, obj_description(oid), md5(CASE
                 WHEN proname <> 'table_makeup_of_extension' THEN concat(prosrc, pg_get_function_sqlbody(oid)) END))
         FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace",
    ),
    (
        "columns",
        "SELECT concat_ws(' ', attrelid::regclass, attname, atttypid::regtype, attnotnull, attidentity, attacl::text,
             pg_get_expr(adbin, adrelid), col_description(attrelid, attnum))
         FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
         WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'outbox'::regnamespace AND relkind <> 'i') AND attnum > 0",
    ),
    (
        "tables, views, indexes and sequences",
        "SELECT concat_ws(' ', relname, relkind, relacl::text, reloptions::text, obj_description(oid, 'pg_class'),
             CASE relkind WHEN 'v' THEN pg_get_viewdef(oid) WHEN 'i' THEN pg_get_indexdef(oid) END)
         FROM pg_class WHERE relnamespace = 'outbox'::regnamespace",
    ),
    (
        "constraints",
        "SELECT concat_ws(' ', conname, conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'outbox'::regnamespace",
    ),
    (
        "triggers",
        "SELECT concat_ws(' ', pg_get_triggerdef(oid), tgenabled) FROM pg_trigger WHERE tgrelid = 'outbox.events'::regclass
         UNION ALL SELECT concat_ws(' ', evtname, evtevent, evtfoid::regproc, evtenabled, evttags::text) FROM pg_event_trigger",
    ),
    (
        "what belongs to the extension",
        "SELECT concat_ws(' ', pg_describe_object(classid, objid, objsubid)) FROM pg_depend
         WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'outbox')
         UNION ALL SELECT concat_ws(' ', extversion, extconfig::regclass[]::text, extcondition::text) FROM pg_extension WHERE extname = 'outbox'
         UNION ALL SELECT unnest(outbox.table_makeup_of_extension()) WHERE to_regproc('outbox.table_makeup_of_extension') IS NOT NULL",
    ),
];

/// Each line of the catalogue.
pub(crate) async fn catalogue(db: &Database, is_extension: bool) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (what, catalogue) in CATALOGUE {
        if what == "what belongs to the extension" && !is_extension {
            continue;
        }
        let all = format!("SELECT string_agg(line, E'\\n' ORDER BY line COLLATE \"C\") FROM ({catalogue}) AS c (line)");
        lines.extend(value(db, &all).await.lines().map(|line| format!("{what}: {line}")));
    }
    lines
}

async fn an_upgraded_outbox_is_like_one_that_was_installed_anew(old: &Outbox) {
    old.upgrade().await.unwrap();
    let fresh = if old.is_extension { with_the_extension().await } else { with_plain_sql().await };
    let (old, fresh) = (catalogue(&old.db, old.is_extension).await, catalogue(&fresh, old.is_extension).await);
    let differs: Vec<_> = old.symmetric_difference(&fresh).collect();
    assert!(differs.is_empty(), "{differs:#?}");
}

/// Events PENDING (1), deferred (2), between two attempts and holding their key (3), SENT (4), FAILED (5) and FAILED
/// holding their key (6), and what waits behind those (7, 8).
const EVENTS: &str = "
    SELECT outbox.emit('t', to_jsonb(n), aggregate_type => 'a', aggregate_id => CASE n WHEN 7 THEN '3' WHEN 8 THEN '6' ELSE n::text END,
        available_at => CASE WHEN n = 2 THEN now() + interval '1 day' END) FROM generate_series(1, 8) AS n;
    SELECT outbox.settle(ARRAY[id], '{PENDING}', '{nack}', '{0}', '{true}') FROM outbox.events WHERE payload::text = '3';
    SELECT outbox.settle(ARRAY[id], '{SENT}', '{NULL}') FROM outbox.events WHERE payload::text = '4';
    SELECT outbox.settle(ARRAY[id], '{FAILED}', '{no route}') FROM outbox.events WHERE payload::text = '5';
    SELECT outbox.settle(ARRAY[id], '{FAILED}', '{no route}', '{NULL}', '{true}') FROM outbox.events WHERE payload::text = '6'";

async fn events_in_every_state_are_what_they_were_and_go_on(old: &Outbox) {
    let db = &old.db;
    run(db, EVENTS).await;
    let rows = "SELECT string_agg((to_jsonb(e) - 'replays')::text, E'\\n' ORDER BY seq) FROM outbox.events AS e";
    let before = value(db, rows).await;
    old.upgrade().await.unwrap();
    assert_eq!(value(db, rows).await, before);
    assert_eq!(value(db, "SELECT sum(replays) FROM outbox.events").await, "0");

    run(db, "SELECT outbox.emit('t', '9')").await;
    let pending = "SELECT string_agg(payload::text, ' ' ORDER BY seq) FROM outbox.pending_page(0, 100)";
    assert_eq!(value(db, pending).await, "1 9");
    assert_eq!(value(db, &pending.replace("page(0, 100)", "page_by_bytes(0, 100, 1000000)")).await, "1 9");
    let due = "SELECT string_agg(payload::text, ' ') FROM outbox.due_page(100, 1000000, NULL, NULL)";
    assert_eq!(value(db, due).await, "3");
    run(db, "SELECT outbox.release(id) FROM outbox.events WHERE payload::text = '6'").await;
    run(db, "SELECT outbox.replay(id) FROM outbox.events WHERE payload::text IN ('4', '5')").await;
    run(db, "SELECT outbox.settle(array_agg(id), array_agg('SENT'::outbox.status), array_agg(NULL::text)) FROM outbox.events WHERE payload::text <> '2'").await;
    let end = "SELECT string_agg(concat(payload, ' ', status, ' ', replays), ', ' ORDER BY seq) FROM outbox.events";
    assert_eq!(
        value(db, end).await,
        "1 SENT 0, 2 PENDING 0, 3 SENT 0, 4 SENT 1, 5 SENT 1, 6 FAILED 0, 7 SENT 0, 8 SENT 0, 9 SENT 0"
    );
    run(db, "CALL outbox.maintain('0', '0')").await;
    assert_eq!(value(db, "SELECT string_agg(payload::text, ' ') FROM outbox.events").await, "2");
}

async fn the_upgrade_waits_for_who_emits_and_loses_nothing_of_it(old: &Outbox) {
    let emitter = old.db.connect().await;
    run(&emitter, "BEGIN; SELECT outbox.emit('t', '1')").await;
    let waits = "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'outbox.events'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted";
    let (upgraded, ()) = tokio::join!(old.upgrade(), async {
        harness::eventually("the upgrade waits", harness::SOON, async || match value(&old.db, waits).await.as_str() {
            "true" => Ok(()),
            other => Err(other.to_owned()),
        })
        .await;
        // Whoever else emits is not kept for as long as that transaction is open.
        run(&old.db, "SET lock_timeout = '20s'; SELECT outbox.emit('t', '2')").await;
        run(&emitter, "SELECT outbox.emit('t', '3'); COMMIT").await;
    });
    upgraded.unwrap();
    run(&emitter, "SELECT outbox.emit('t', '4')").await;
    let events = "SELECT string_agg(payload::text, ' ' ORDER BY seq) FROM outbox.pending_page(0, 100)";
    assert_eq!(text(&old.db, events).await.as_deref(), Some("1 2 3 4"));
}

async fn what_depends_on_the_payload_keeps_the_upgrade_back_and_is_named(old: &Outbox) {
    let db = &old.db;
    run(db, "SET outbox.allow_undumped_changes = on; SELECT outbox.emit('t', '{\"a\": 1}')").await;
    for (make, dropped, name) in [
        ("CREATE VIEW mine AS SELECT payload -> 'a' FROM outbox.events", "VIEW mine", "rule _RETURN on view"),
        ("CREATE INDEX mine ON outbox.events USING gin (payload)", "INDEX outbox.mine", "index"),
        (
            "CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
             CREATE TRIGGER mine BEFORE UPDATE OF payload ON outbox.events FOR EACH ROW EXECUTE FUNCTION mine()",
            "FUNCTION mine() CASCADE",
            "trigger mine",
        ),
    ] {
        run(db, make).await;
        let said = old.upgrade().await.unwrap_err();
        for part in ["which become json", name, "Drop what the upgrade stopped at"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        run(db, &format!("DROP {dropped}")).await;
    }
    old.upgrade().await.unwrap();
    assert_eq!(value(db, "SELECT payload ->> 'a' FROM outbox.events").await, "1");
}

async fn who_reads_a_view_meanwhile_and_the_upgrade_both_come_to_their_end(old: &Outbox) {
    run(&old.db, "SELECT outbox.emit('t', to_jsonb(n)) FROM generate_series(1, 20000) AS n").await;
    let (reader, is_over) = (old.db.connect().await, std::cell::Cell::new(false));
    let (upgraded, ()) = tokio::join!(
        async {
            let upgraded = old.upgrade().await;
            is_over.set(true);
            upgraded
        },
        async {
            while !is_over.get() {
                run(&reader, "SELECT FROM outbox.backlog; SELECT FROM outbox.failed").await;
            }
        }
    );
    upgraded.unwrap();
}

async fn the_upgrade_does_not_end_while_a_dump_waits_that_would_find_the_table_empty(old: &Outbox) {
    run(&old.db, "SELECT outbox.emit('t', to_jsonb(n)) FROM generate_series(1, 50) AS n").await;
    // The upgrade waits for this after it has written the table anew: it comments on the function.
    let (holder, dump) = (old.db.connect().await, old.db.connect().await);
    run(&holder, "BEGIN; COMMENT ON FUNCTION outbox.version() IS 'held'").await;
    let waits = |mode: &'static str| async move {
        let sql = format!("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND {mode}");
        harness::eventually(mode, harness::SOON, async || match value(&old.db, &sql).await.as_str() {
            "true" => Ok(()),
            other => Err(other.to_owned()),
        })
        .await;
    };
    let (upgraded, found, ()) = tokio::join!(
        old.upgrade(),
        async {
            waits(
                "locktype = 'object' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            )
            .await;
            run(&dump, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT").await;
            dump.batch_execute("LOCK TABLE outbox.events IN ACCESS SHARE MODE").await.unwrap();
            value(&dump, "SELECT count(*) FROM outbox.events").await
        },
        async {
            waits("relation = 'outbox.events'::regclass AND mode = 'AccessShareLock'").await;
            run(&holder, "ROLLBACK").await;
        }
    );
    let said = upgraded.unwrap_err();
    assert!(said.contains("began during the upgrade and may find outbox.events empty"), "{said}");
    assert_eq!(found, "50");
    run(&dump, "COMMIT").await;
    old.upgrade().await.unwrap();
    assert_eq!(value(&old.db, "SELECT count(*) FROM outbox.events").await, "50");
}

async fn a_payload_is_kept_as_it_is_written_from_then_on(old: &Outbox) {
    let emit = r#"SELECT outbox.emit('t', '{"b": 1,  "a": 1e2}', headers => '{"h": 1}')"#;
    run(&old.db, emit).await;
    old.upgrade().await.unwrap();
    run(&old.db, emit).await;
    assert_eq!(
        value(&old.db, "SELECT string_agg(payload::text, ' ' ORDER BY seq) FROM outbox.pending_page(0, 9)").await,
        r#"{"a": 100, "b": 1} {"b": 1,  "a": 1e2}"#
    );
}

async fn an_upgraded_outbox_is_not_upgraded_twice(old: &Outbox) {
    old.upgrade().await.unwrap();
    let again = old.upgrade().await;
    if old.is_extension {
        again.unwrap(); // a notice says that there is nothing to do
    } else {
        let said = again.unwrap_err();
        assert!(said.contains(&format!("this is outbox {}", env!("CARGO_PKG_VERSION"))), "{said}");
    }
}
