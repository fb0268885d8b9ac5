//! The DDL in docs/for-dbas.md is what the catalogue says of an installed extension.
//! After a change: `UPDATE_DOCS=1 make test T=documents::ddl` writes it anew.

use std::fs;

use harness::{Postgres, places::checkout};

const BEGIN: &str = "<!-- DDL: made by tests/suite/documents/ddl.rs -->\n\n```plpgsql\n";
const END: &str = "```\n\n<!-- end of DDL -->\n";

/// Columns that a line may have.
const WIDTH: usize = 120;

/// One statement or column a row: types, tables with their parameters, indexes, triggers, the event trigger, and who
/// the functions run as. Conditions of triggers are left out, and so are comments.
const STATEMENTS: &str = r"
    WITH made AS (
        SELECT c.oid, c.relname, c.reloptions FROM pg_class AS c
        WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind = 'r'
    ), outbox_event_triggers AS (
        SELECT * FROM pg_event_trigger
        WHERE evtfoid IN (SELECT oid FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace)
    ), statements (part, place, line) AS (
        SELECT 0, ARRAY[0::bigint], format('CREATE TYPE outbox.%I AS ENUM (%s);', t.typname,
            (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid))
        FROM pg_type AS t WHERE t.typnamespace = 'outbox'::regnamespace AND t.typtype = 'e'
        UNION ALL
        SELECT 1, ARRAY[oid::bigint, 0], format('CREATE TABLE outbox.%I (', relname) FROM made
        UNION ALL
        SELECT 1, ARRAY[made.oid::bigint, a.attnum], concat('    ', a.attname, ' ', format_type(a.atttypid, a.atttypmod),
            CASE WHEN a.attnotnull THEN ' NOT NULL' END, ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid),
            CASE a.attidentity WHEN 'a' THEN ' GENERATED ALWAYS AS IDENTITY' END, ',')
        FROM made JOIN pg_attribute AS a ON a.attrelid = made.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        UNION ALL
        SELECT 1, ARRAY[made.oid::bigint, 10000], '    ' || pg_get_constraintdef(k.oid)
        FROM made JOIN pg_constraint AS k ON k.conrelid = made.oid AND k.contype <> 'n'
        UNION ALL
        SELECT 1, ARRAY[oid::bigint, 10001], concat(')', ' WITH (' || array_to_string(reloptions, ', ') || ')', ';') FROM made
        UNION ALL
        SELECT 2, ARRAY[made.oid::bigint], pg_get_indexdef(i.indexrelid) || ';'
        FROM made JOIN pg_index AS i ON i.indrelid = made.oid AND NOT i.indisprimary
        UNION ALL
        SELECT 3, ARRAY[made.oid::bigint, 0],
            regexp_replace(pg_get_triggerdef(t.oid), ' WHEN \(.*\) EXECUTE ', ' WHEN (...) EXECUTE ', 'ns') || ';'
        FROM made JOIN pg_trigger AS t ON t.tgrelid = made.oid AND NOT t.tgisinternal
        UNION ALL
        SELECT 3, ARRAY[made.oid::bigint, 1], format('ALTER TABLE outbox.%I %s;', made.relname,
            string_agg(format('ENABLE ALWAYS TRIGGER %I', t.tgname), ', ' ORDER BY t.tgname))
        FROM made JOIN pg_trigger AS t ON t.tgrelid = made.oid AND NOT t.tgisinternal AND t.tgenabled = 'A'
        GROUP BY made.oid, made.relname
        UNION ALL
        SELECT 4, ARRAY[0::bigint], format('CREATE EVENT TRIGGER %I ON %s WHEN TAG IN (%s) EXECUTE FUNCTION %s();',
            evtname, evtevent, (SELECT string_agg(quote_literal(tag), ', ') FROM unnest(evttags) AS tag), evtfoid::regproc)
        FROM outbox_event_triggers
        UNION ALL
        SELECT 4, ARRAY[1::bigint], format('ALTER EVENT TRIGGER %I ENABLE ALWAYS;', evtname)
        FROM outbox_event_triggers WHERE evtenabled = 'A'
        UNION ALL
        SELECT 5, ARRAY[0::bigint],
            format('-- SECURITY DEFINER SET %s: %s', proconfig[1], string_agg(DISTINCT proname::text, ', '))
        FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND prosecdef GROUP BY proconfig[1]
    )
    SELECT part, line FROM statements ORDER BY part, place, line COLLATE ucs_basic";

/// What PostgreSQL adds to a definition and a reader does not need, and the short name of a type.
const SHORTER: [(&str, &str); 4] =
    [("timestamp with time zone", "timestamptz"), ("::outbox.status", ""), ("::text", ""), (" USING btree", "")];

/// Breaks a line between words, before it becomes too long. What follows a break is a comment if the line is one.
fn wrapped(line: &str) -> String {
    let indent = if line.starts_with("--") { "--     " } else { "    " };
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().unwrap();
        if last.len() + word.len() < WIDTH {
            last.push_str(word);
            last.push(' ');
        } else {
            lines.push(format!("{indent}{word} "));
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[tokio::test]
async fn the_ddl_in_the_page_for_dbas_is_that_of_the_catalogue() {
    let db = Postgres::shared().await.database().await;
    let is_extension = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'outbox')";
    if !db.query_one(is_extension, &[]).await.unwrap().get::<_, bool>(0) {
        return; // The plain SQL has no event trigger, and has in SQL what the extension has in Rust.
    }
    let (mut made, mut before) = (String::new(), 0);
    for row in db.query(STATEMENTS, &[]).await.unwrap() {
        let (part, line): (i32, String) = (row.get(0), row.get(1));
        if part != before || line.starts_with("CREATE TABLE") {
            made.push('\n');
        }
        before = part;
        let line = SHORTER.iter().fold(line, |line, (long, short)| line.replace(long, short));
        made.push_str(&wrapped(&line));
    }
    assert!(made.matches("CREATE INDEX").count() >= 4 && made.contains("EVENT TRIGGER"), "{made}");

    let page = checkout().join("docs/for-dbas.md");
    let old = fs::read_to_string(&page).unwrap();
    let (head, rest) = old.split_once(BEGIN).expect("the page has a place for the DDL");
    let (_, tail) = rest.split_once(END).expect("that place has an end");
    let new = format!("{head}{BEGIN}{made}{END}{tail}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, &new).unwrap();
    } else {
        assert!(old == new, "run: UPDATE_DOCS=1 make test T=documents::ddl if this is meant:\n{made}");
    }
}

#[test]
fn a_long_line_is_broken_between_words() {
    let broken = wrapped(&format!("-- {}", "word ".repeat(40)));
    assert!(broken.lines().all(|line| line.len() <= WIDTH && line.starts_with("--")), "{broken}");
    assert_eq!(broken.matches("word").count(), 40);
    assert_eq!(wrapped("    id uuid,"), "    id uuid,\n");
}
