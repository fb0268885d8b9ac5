//! A role that may create functions, and nothing else, does not get them run with the relay's rights.

use harness::{SOON, Stack};

use super::{emit, wait_for_counts, wait_for_status};

/// A role of the test's own that may create objects in `public`; what it creates there notes who has called it.
async fn trap(stack: &Stack, functions: &[&str]) {
    let intruder = format!("{}_intruder", stack.db.name());
    let begin = format!(
        "CREATE ROLE {intruder} LOGIN; GRANT CREATE ON SCHEMA public TO {intruder};
         CREATE TABLE public.loot (role text); GRANT INSERT ON public.loot TO PUBLIC"
    );
    stack.db.batch_execute(&begin).await.unwrap();
    let session = stack.db.connect_as(&intruder).await;
    for function in functions {
        let (head, call) = function.split_once(" AS ").unwrap();
        let make = format!(
            "CREATE FUNCTION public.{head} LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO public.loot VALUES (current_user); RETURN {call}; END $$"
        );
        session.batch_execute(&make).await.unwrap();
    }
}

#[tokio::test]
async fn functions_in_public_that_fit_a_call_of_the_relays_better_are_not_called() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    trap(
        &stack,
        &[
            "concat_ws(text, oid, xid, oid, xid) RETURNS text AS pg_catalog.concat_ws($1, $2, $3, $4, $5)",
            "pg_relation_size(text) RETURNS bigint AS pg_catalog.pg_relation_size($1::regclass)",
            "pg_relation_filenode(text) RETURNS oid AS pg_catalog.pg_relation_filenode($1::regclass)",
        ],
    )
    .await;
    let relay = stack.relay().set("retention", "1s").set("check-interval", "100ms").start().await;
    emit(&stack.db, "'t', '{}'", &[]).await;
    consumer.wait_for(1).await;
    wait_for_counts(&stack.db, (0, 0, 0), SOON).await; // retention has deleted it
    let loot = "SELECT coalesce(string_agg(role, ' '), '') FROM public.loot";
    assert_eq!(stack.db.query_one(loot, &[]).await.unwrap().get::<_, &str>(0), "");
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn a_search_path_of_the_database_or_of_the_role_is_not_the_relays() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let role = format!("{}_relay", stack.db.name());
    let path = "SET search_path = evil, pg_catalog, public";
    let evil = format!(
        "CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
         CREATE FUNCTION evil.current_setting(text) RETURNS bytea LANGUAGE sql RETURN '\\x00'::bytea;
         CREATE ROLE {role} LOGIN REPLICATION; SELECT outbox.grant_relay('{role}');
         ALTER DATABASE {} {path}; ALTER ROLE {role} {path}",
        stack.db.name()
    );
    stack.db.batch_execute(&evil).await.unwrap();
    let url = format!("{}?options=-c%20search_path%3Devil", stack.db.url_as(&role));
    for url in [stack.db.url_as(&role), url] {
        let relay = stack.relay().set("database-url", &url).start().await;
        let id = emit(&stack.db, "'t', '{}'", &[]).await;
        wait_for_status(&stack.db, id, "SENT").await;
        assert!(relay.stop().await.success());
    }
    consumer.wait_for(2).await;
}
