//! Objects that hide PostgreSQL's own from whoever looks names up where others may write. Each says so in the server's
//! log when it is called: a record that outlives a rollback, and that a transaction that only reads can make.

use std::collections::BTreeSet;

use harness::Connection;

use super::tree::{Call, Used};

/// The schema that others may write to, besides `public`.
pub(crate) const EVIL: &str = "evil";

/// What every planted object logs, with its name.
pub(crate) const CALLED: &str = "planted: ";

/// Makes one object, and returns its name; null if PostgreSQL lets nobody make it, as with arguments of type
/// `internal`.
///
/// `arguments` are types, with names where a call names them; null stands for what the original declares.
const MAKERS: &str = r#"
    CREATE SCHEMA evil;
    GRANT USAGE ON SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.log_call(what text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
        $$ BEGIN RAISE LOG 'planted: %', what; RETURN true; END $$;

    CREATE FUNCTION pg_temp.plant_function(schema text, original oid, names text[], types oid[], result oid) RETURNS text
    LANGUAGE plpgsql AS $f$
    DECLARE
        p pg_proc := (SELECT p FROM pg_proc AS p WHERE p.oid = original);
        arguments text;
        outs text;
        returns text := '';
        body text;
    BEGIN
        SELECT string_agg(concat_ws(' ', 'OUT', quote_ident(name), format_type(type, NULL)), ', ' ORDER BY n)
        INTO outs FROM unnest(p.proallargtypes, p.proargmodes, p.proargnames) WITH ORDINALITY AS a (type, mode, name, n)
        WHERE mode IN ('o', 't');
        IF types IS NULL THEN
            arguments := pg_get_function_arguments(original);
            IF p.prorettype = 'trigger'::regtype THEN RETURN NULL; END IF;
            returns := 'RETURNS ' || pg_get_function_result(original);
        ELSE
            SELECT string_agg(concat_ws(' ', quote_ident(name), format_type(type, NULL)), ', ' ORDER BY n) INTO arguments
            FROM unnest(types, names) WITH ORDINALITY AS a (type, name, n);
            arguments := concat_ws(', ', arguments, outs);
            IF outs IS NULL THEN
                returns := format('RETURNS %s %s', CASE WHEN p.proretset THEN 'SETOF' END, format_type(result, NULL));
            ELSIF p.proretset THEN
                returns := format('RETURNS SETOF %s', CASE WHEN result = 2249 THEN 'record' ELSE format_type(result, NULL) END);
            END IF;
        END IF;
        IF p.prokind = 'a' THEN
            EXECUTE format('CREATE FUNCTION %I.%I(%s) RETURNS %s LANGUAGE plpgsql AS $$ BEGIN RAISE LOG ''planted: %s''; RETURN NULL; END $$',
                schema, 'state_of_' || p.proname, concat_ws(', ', format_type(result, NULL), nullif(arguments, '')), format_type(result, NULL), p.proname);
            EXECUTE format('CREATE AGGREGATE %I.%I(%s) (SFUNC = %I.%I, STYPE = %s)', schema, p.proname,
                coalesce(nullif(arguments, ''), '*'), schema, 'state_of_' || p.proname, format_type(result, NULL));
        ELSE
            body := CASE WHEN p.proretset OR outs IS NOT NULL OR p.prorettype = 'void'::regtype THEN 'RETURN' ELSE 'RETURN NULL' END;
            EXECUTE format('CREATE FUNCTION %I.%I(%s) %s LANGUAGE plpgsql AS $$ BEGIN RAISE LOG ''planted: %s''; %s; END $$',
                schema, p.proname, arguments, returns, p.proname, body);
        END IF;
        RETURN p.proname;
    EXCEPTION WHEN others THEN
        RETURN NULL;
    END $f$;

    CREATE FUNCTION pg_temp.plant_operator(schema text, original oid, arguments oid[]) RETURNS text LANGUAGE plpgsql AS $f$
    DECLARE
        o pg_operator := (SELECT o FROM pg_operator AS o WHERE o.oid = original);
        l oid := coalesce(CASE WHEN cardinality(arguments) = 2 THEN arguments[1] END, o.oprleft);
        r oid := coalesce(arguments[cardinality(arguments)], o.oprright);
        function text := concat_ws('_', 'operator', original, l, r);
    BEGIN
        EXECUTE format('CREATE FUNCTION %I.%I(%s) RETURNS %s LANGUAGE plpgsql AS $$ BEGIN RAISE LOG %L; RETURN NULL; END $$', schema, function,
            concat_ws(', ', format_type(nullif(l, 0), NULL), format_type(r, NULL)), format_type(o.oprresult, NULL),
            'planted: operator ' || replace(o.oprname, '%', '%%'));
        EXECUTE format('CREATE OPERATOR %I.%s (%s RIGHTARG = %s, FUNCTION = %I.%I)', schema, o.oprname,
            'LEFTARG = ' || format_type(nullif(l, 0), NULL) || ',', format_type(r, NULL), schema, function);
        RETURN o.oprname;
    EXCEPTION WHEN others THEN
        RETURN NULL;
    END $f$;

    CREATE FUNCTION pg_temp.plant_relation(schema text, original oid) RETURNS text LANGUAGE plpgsql AS $f$
    DECLARE
        name text := (SELECT relname FROM pg_class WHERE oid = original);
    BEGIN
        EXECUTE format('CREATE VIEW %I.%I AS SELECT r.* FROM evil.log_call(%L), pg_catalog.%2$I AS r', schema, name, 'relation ' || name);
        EXECUTE format('GRANT SELECT ON %I.%I TO PUBLIC', schema, name);
        RETURN name;
    EXCEPTION WHEN others THEN
        RETURN NULL;
    END $f$;

    CREATE FUNCTION pg_temp.plant_type(schema text, original oid) RETURNS text LANGUAGE plpgsql AS $f$
    DECLARE
        t pg_type := (SELECT t FROM pg_type AS t WHERE t.oid = original);
    BEGIN
        EXECUTE format('CREATE DOMAIN %I.%I AS %s CHECK (evil.log_call(%L))', schema, t.typname, format_type(original, NULL), 'type ' || t.typname);
        RETURN t.typname;
    EXCEPTION WHEN others THEN
        RETURN NULL;
    END $f$;
"#;

/// What was planted.
pub(crate) struct Planted {
    pub(crate) oids: BTreeSet<u32>,
    /// Names of functions, operators, relations and types.
    pub(crate) names: BTreeSet<String>,
}

/// Plants a better match for everything of PostgreSQL's own that was used, in a schema of its own and in `public`.
pub(crate) async fn plant(db: &Connection, used: &Used) -> Planted {
    db.batch_execute(MAKERS).await.unwrap();
    let own = "SELECT array_agg(oid) FROM (SELECT oid, pronamespace AS n FROM pg_proc UNION ALL SELECT oid, oprnamespace FROM pg_operator
               UNION ALL SELECT oid, relnamespace FROM pg_class UNION ALL SELECT oid, typnamespace FROM pg_type) AS o
               WHERE n = 'pg_catalog'::regnamespace AND oid = ANY ($1)";
    let all: Vec<u32> = used.oids().into_iter().collect();
    let own: Vec<u32> = db.query_one(own, &[&all]).await.unwrap().get(0);
    let is_own = |oid: &u32| own.contains(oid);
    let mut names = BTreeSet::new();
    for schema in [EVIL, "public"] {
        for call in used.calls.iter().filter(|call| is_own(&call.oid)) {
            names.extend(plant_call(db, schema, call).await);
        }
        for relation in used.relations.iter().filter(|oid| is_own(oid)) {
            let sql = "SELECT pg_temp.plant_relation($1, $2)";
            names.extend(db.query_one(sql, &[&schema, relation]).await.unwrap().get::<_, Option<String>>(0));
        }
    }
    for of_type in used.types.iter().filter(|oid| is_own(oid)) {
        let sql = "SELECT pg_temp.plant_type($1, $2)";
        names.extend(db.query_one(sql, &[&EVIL, of_type]).await.unwrap().get::<_, Option<String>>(0));
    }
    let oids = "SELECT array_agg(oid) FROM (SELECT oid, pronamespace AS n FROM pg_proc UNION ALL SELECT oid, oprnamespace FROM pg_operator
                UNION ALL SELECT oid, relnamespace FROM pg_class UNION ALL SELECT oid, typnamespace FROM pg_type) AS o
                WHERE n IN ('evil'::regnamespace, 'public'::regnamespace)";
    let oids: Vec<u32> = db.query_one(oids, &[]).await.unwrap().get(0);
    // This session goes on without what it has planted.
    db.batch_execute("SET search_path = pg_catalog, pg_temp").await.unwrap();
    Planted { oids: oids.into_iter().collect(), names }
}

/// Plants what has the arguments that the original declares, and what has those that the call gave.
async fn plant_call(db: &Connection, schema: &str, call: &Call) -> Vec<String> {
    let types: Vec<u32> = call.arguments.iter().map(|(_, of)| *of).collect();
    let names: Vec<Option<&str>> = call.arguments.iter().map(|(name, _)| name.as_deref()).collect();
    let mut planted = Vec::new();
    for types in [None, Some(types).filter(|types| !types.contains(&0))] {
        let row = if call.is_operator {
            db.query_one("SELECT pg_temp.plant_operator($1, $2, $3)", &[&schema, &call.oid, &types]).await
        } else {
            let sql = "SELECT pg_temp.plant_function($1, $2, $3, $4, $5)";
            db.query_one(sql, &[&schema, &call.oid, &names, &types, &call.result]).await
        };
        planted.extend(row.unwrap_or_else(|e| panic!("{call:?}: {e:?}")).get::<_, Option<String>>(0));
    }
    planted
}
