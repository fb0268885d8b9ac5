//! The table of rights in docs/rights.md: each cell is tried from outside, as a role that has one grant and nothing
//! else. After a change: `UPDATE_DOCS=1 make test T=rights::` writes the table anew.

use std::{collections::BTreeMap, fs};

use harness::{Database, places::checkout};
use tokio_postgres::Client;

use super::{on_both_installations, role, run};

on_both_installations!(
    every_cell_of_the_table_of_rights_is_as_it_stands_in_the_documents,
    the_statements_of_the_page_take_back_whatever_a_role_was_granted,
);

const BEGIN: &str = "<!-- rights: made by tests/suite/extension/rights.rs -->\n";
const END: &str = "<!-- end of rights -->\n";

/// The roles, in the order of the columns, and what each is granted.
const ROLES: [(&str, &str); 7] = [
    ("all", ""),
    ("emitter", "SELECT outbox.grant_emit('{}')"),
    ("monitor", "SELECT outbox.grant_monitor('{}')"),
    ("operator", "SELECT outbox.grant_operate('{}')"),
    ("relay", "SET client_min_messages = warning; SELECT outbox.grant_relay('{}'); RESET client_min_messages"),
    ("retention", "SELECT outbox.grant_maintain('{}')"),
    ("owner", OWN),
];

/// Makes a role the owner of everything, as the one is that runs sql/outbox.sql. It comes last: the others are granted
/// by the owner before.
pub(super) const OWN: &str = "
    DO $$
    DECLARE object text;
    BEGIN
        EXECUTE format('GRANT CREATE ON DATABASE %I TO {}', current_database());
        FOR object IN
            SELECT format('TABLE outbox.%I', relname) FROM pg_class WHERE relnamespace = 'outbox'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
            UNION ALL SELECT format('VIEW outbox.%I', relname) FROM pg_class WHERE relnamespace = 'outbox'::regnamespace AND relkind = 'v'
            UNION ALL SELECT format('FUNCTION %s', oid::regprocedure) FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND prokind = 'f'
            UNION ALL SELECT format('PROCEDURE %s', oid::regprocedure) FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND prokind = 'p'
            UNION ALL SELECT 'TYPE outbox.status'
            UNION ALL SELECT 'SCHEMA outbox'
        LOOP
            EXECUTE format('ALTER %s OWNER TO {}', object);
        END LOOP;
    END
    $$";

/// What is tried: a line of the table, and the statement. Lines that all roles fare alike with are put together by
/// `what`.
struct Try {
    /// What is done to the object, such as `read`.
    what: String,
    /// The object, such as a column or a function.
    object: String,
    sql: String,
}

fn attempt(what: &str, object: &str, sql: String) -> Try {
    Try { what: what.to_owned(), object: object.to_owned(), sql }
}

/// Every table and view, with its columns.
const COLUMNS: &str = "
    SELECT c.relname::text, c.relkind = 'v', array_agg(a.attname::text ORDER BY a.attnum)
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
      AND a.attnum > 0 AND NOT a.attisdropped
    GROUP BY c.relname, c.relkind ORDER BY c.relname";

const SEQUENCES: &str =
    "SELECT relname::text FROM pg_class WHERE relnamespace = 'outbox'::regnamespace AND relkind = 'S' ORDER BY relname";

/// Every function or procedure: its name and first distinguishing type, and a call of it with nulls. OFFSET 0 keeps the
/// planner from working a call with nulls out by itself, without asking for the right.
const FUNCTIONS: &str = "
    SELECT f.proname::text || CASE WHEN f.namesakes > 1 THEN '(' || f.types || ')' ELSE '' END,
           CASE f.prokind
               WHEN 'p' THEN format('CALL outbox.%I(%s)', f.proname, f.nulls)
               ELSE format('SELECT outbox.%I(%s) FROM (SELECT %s OFFSET 0) AS a', f.proname, f.names, coalesce(f.named_nulls, '1'))
           END
    FROM (
        SELECT p.proname, p.prokind, count(*) OVER (PARTITION BY p.proname) AS namesakes,
               (SELECT string_agg(format_type(t, NULL), ', ' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY AS u (t, n) WHERE n <= 2) AS types,
               (SELECT string_agg(format('NULL::%s', format_type(t, NULL)), ', ' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY AS u (t, n)) AS nulls,
               (SELECT string_agg(format('NULL::%s AS a%s', format_type(t, NULL), n), ', ' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY AS u (t, n)) AS named_nulls,
               (SELECT string_agg('a.a' || n, ', ' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY AS u (t, n)) AS names
        FROM pg_proc AS p WHERE p.pronamespace = 'outbox'::regnamespace
    ) AS f
    ORDER BY 1";

async fn attempts(db: &Client) -> Vec<Try> {
    let mut tries = Vec::new();
    for row in db.query(COLUMNS, &[]).await.unwrap() {
        let (table, is_view, columns): (String, bool, Vec<String>) = (row.get(0), row.get(1), row.get(2));
        for column in &columns {
            tries.push(attempt(&format!("`{table}`: read"), column, format!("SELECT {column} FROM outbox.{table}")));
        }
        if !is_view {
            for column in &columns {
                let insert = format!("INSERT INTO outbox.{table} ({column}) VALUES (DEFAULT)");
                tries.push(attempt(&format!("`{table}`: insert"), column, insert));
            }
            for column in &columns {
                let update = format!("UPDATE outbox.{table} SET {column} = DEFAULT");
                tries.push(attempt(&format!("`{table}`: update"), column, update));
            }
        }
        let whole = |what: &str, sql: &str| attempt(&format!("`{table}`: {what}"), "", sql.replace("{}", &table));
        tries.push(whole("read whole rows", "SELECT to_jsonb(t) FROM outbox.{} AS t"));
        if !is_view {
            tries.push(whole("delete", "DELETE FROM outbox.{}"));
            tries.push(whole("read for update", "SELECT FROM outbox.{} FOR UPDATE"));
            tries.push(whole("truncate", "TRUNCATE outbox.{}"));
            tries.push(whole("lock against writers", "LOCK TABLE outbox.{} IN SHARE MODE"));
            tries.push(whole("alter, index, drop", "ALTER TABLE outbox.{} ADD COLUMN extra text"));
            tries.push(whole(
                "add a trigger",
                "CREATE TRIGGER t AFTER INSERT ON outbox.{} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            ));
            tries.push(whole("publish", "CREATE PUBLICATION stolen FOR TABLE outbox.{}"));
        }
    }
    for row in db.query(SEQUENCES, &[]).await.unwrap() {
        let name: String = row.get(0);
        tries.push(attempt("sequences: read, advance or set", "", format!("SELECT setval('outbox.{name}', 1)")));
        tries.push(attempt("sequences: read, advance or set", "", format!("SELECT nextval('outbox.{name}')")));
        tries.push(attempt("sequences: read, advance or set", "", format!("SELECT last_value FROM outbox.{name}")));
    }
    tries.push(attempt("schema: create objects in it", "", "CREATE TABLE outbox.mine ()".to_owned()));
    tries.push(attempt("schema: drop, rename", "", "ALTER SCHEMA outbox RENAME TO mine".to_owned()));
    tries.push(attempt("`outbox.status`: use the type", "", "SELECT 'SENT'::outbox.status".to_owned()));
    for row in db.query(FUNCTIONS, &[]).await.unwrap() {
        tries.push(attempt("call", &row.get::<_, String>(0), row.get(1)));
    }
    tries
}

/// Whether the role is let do it. What a call then makes of its nulls is another matter.
async fn is_allowed(session: &Client, sql: &str) -> bool {
    session.batch_execute("BEGIN").await.unwrap();
    let done = session.batch_execute(sql).await;
    session.batch_execute("ROLLBACK").await.unwrap();
    match done {
        Ok(()) => true,
        Err(error) => {
            let refused = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error:?}"));
            refused.code().code() != "42501"
        }
    }
}

/// What is done, to which objects, and by which roles; a line of the page.
struct Line {
    what: String,
    objects: Vec<String>,
    /// In the order of [`ROLES`].
    may: Vec<bool>,
}

fn add(lines: &mut Vec<Line>, what: &str, may: Vec<bool>, object: &str) {
    match lines.iter_mut().find(|line| line.what == what && line.may == may) {
        Some(line) => line.objects.push(object.to_owned()),
        None => lines.push(Line { what: what.to_owned(), objects: vec![object.to_owned()], may }),
    }
}

/// Returns the objects as the page names them: each one, or all but those of the other lines about the same thing.
fn named(line: &Line, lines: &[Line]) -> String {
    let names = |objects: &[String]| objects.iter().map(|object| format!("`{object}`")).collect::<Vec<_>>().join(", ");
    let others = lines.iter().filter(|other| other.what == line.what && other.may != line.may);
    let others: Vec<String> = others.flat_map(|other| other.objects.clone()).collect();
    if line.objects.iter().all(String::is_empty) {
        String::new()
    } else if line.what == "call" && is_owners(line) && line.objects.len() > 10 {
        "any other function".to_owned() // the two installations differ in these
    } else if line.what == "call" || line.objects.len() <= others.len() {
        names(&line.objects)
    } else if others.is_empty() {
        "any column".to_owned()
    } else {
        format!("all columns but {}", names(&others))
    }
}

/// Whether nobody but the owner may.
fn is_owners(line: &Line) -> bool {
    line.may.iter().rev().skip(1).all(|may| !may)
}

/// The table of what the grants give, and a list of what nobody but the owner may do.
fn table(lines: &[Line]) -> String {
    let mut text = "| may | which roles, beside the owner |\n|---|---|\n".to_owned();
    let mut owners: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines {
        assert_eq!(line.may.last(), Some(&true), "the owner may do everything: {}", line.what);
        let what = format!("{} {}", line.what, named(line, lines)).trim().to_owned();
        if is_owners(line) {
            let (place, what) = what.split_once(": ").unwrap_or(("functions", &what));
            match owners.iter_mut().find(|(other, _)| other == place) {
                Some((_, whats)) => whats.push(what.to_owned()),
                None => owners.push((place.to_owned(), vec![what.to_owned()])),
            }
            continue;
        }
        let roles = ROLES.iter().zip(&line.may).filter(|((role, _), may)| **may && *role != "owner");
        let roles: Vec<&str> = roles.map(|((role, _), _)| *role).collect();
        let roles = if line.may[0] { "all".to_owned() } else { roles.join(", ") };
        assert!(!line.may[0] || line.may.iter().all(|may| *may), "what all may do, every role may: {}", line.what);
        text += &format!("| {what} | {roles} |\n");
    }
    text += "\nThe owner alone may:\n\n";
    for (place, whats) in owners {
        text += &format!("- {place}: {}\n", whats.join("; "));
    }
    text
}

async fn every_cell_of_the_table_of_rights_is_as_it_stands_in_the_documents(db: Database) {
    let tries = attempts(&db).await;
    let mut sessions = Vec::new();
    for (name, grant) in ROLES {
        let role = role(&db, name).await;
        run(&db, &grant.replace("{}", &role)).await;
        sessions.push(db.connect_as(&role).await);
    }
    let mut cells = BTreeMap::new();
    for (place, attempt) in tries.iter().enumerate() {
        for session in &sessions {
            cells.entry(place).or_insert_with(Vec::new).push(is_allowed(session, &attempt.sql).await);
        }
    }
    let mut lines = Vec::new();
    for (place, attempt) in tries.iter().enumerate() {
        add(&mut lines, &attempt.what, cells[&place].clone(), &attempt.object);
    }
    let tried = tries.len() * ROLES.len();
    assert!(tried > 500, "{tried} cells");

    let page = checkout().join("docs/rights.md");
    let old = fs::read_to_string(&page).unwrap();
    let (head, rest) = old.split_once(BEGIN).expect("the page has a place for the table");
    let (_, tail) = rest.split_once(END).expect("that place has an end");
    let made = format!("{head}{BEGIN}\n{}\n{END}{tail}", table(&lines));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, &made).unwrap();
    } else {
        assert!(old == made, "run: UPDATE_DOCS=1 make test T=rights:: if this is meant:\n{}", table(&lines));
    }
}

async fn the_statements_of_the_page_take_back_whatever_a_role_was_granted(db: Database) {
    let role = role(&db, "operator").await;
    for (_, grant) in ROLES.iter().filter(|(name, _)| *name != "owner") {
        run(&db, &grant.replace("{}", &role)).await;
    }
    let page = fs::read_to_string(checkout().join("docs/rights.md")).unwrap();
    let statements = page.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(statements.matches("FROM operator;").count(), 4, "{statements}");
    run(&db, &statements.replace("operator", &role)).await;
    run(&db, &format!("DROP ROLE {role}")).await; // fails while it has a right
}
