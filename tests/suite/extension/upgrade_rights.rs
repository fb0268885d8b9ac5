//! What roles may do after an upgrade.

use super::upgrade::{Outbox, from_both_installations};
use super::{refusal, role, run, text};

from_both_installations!(
    roles_keep_what_they_may_and_may_do_what_is_new_in_their_work,
    a_dump_of_an_upgraded_outbox_has_what_roles_were_granted,
    a_role_that_was_granted_emit_of_a_jsonb_alone_goes_on_emitting,
    a_role_whose_rights_were_chosen_by_hand_keeps_those_and_gets_no_others,
    what_the_upgrade_makes_again_keeps_its_grants,
);

async fn roles_keep_what_they_may_and_may_do_what_is_new_in_their_work(old: &Outbox) {
    let db = &old.db;
    let mut roles = Vec::new();
    for grant in ["emit", "relay", "monitor", "operate"] {
        let role = role(db, grant).await;
        run(db, &format!("SET client_min_messages = warning; SELECT outbox.grant_{grant}('{role}')")).await;
        roles.push(db.connect_as(&role).await);
    }
    let [emitter, relay, monitor, operator] = &roles[..] else { unreachable!() };
    old.upgrade().await.unwrap();
    run(emitter, "SELECT outbox.emit('t', '1')").await;
    run(relay, "SELECT outbox.pending_page(0, 1)").await;
    run(monitor, "SELECT replays FROM outbox.events").await;
    run(operator, "SELECT replays, payload FROM outbox.events").await;
    for (role, sql) in [
        (emitter, "SELECT outbox.pending_page(0, 1)"),
        (relay, "SELECT replays FROM outbox.events"),
        (monitor, "SELECT payload FROM outbox.events"),
        (monitor, "CALL outbox.maintain('1 day')"),
        (operator, "SELECT outbox.delete_finished(now(), now(), 0, 1)"),
    ] {
        assert_eq!(refusal(role, sql).await.code().code(), "42501", "{sql}");
    }
}

/// PostgreSQL takes for the extension's own rights what is granted while a script of the extension runs, and leaves
/// those out of a dump.
async fn a_dump_of_an_upgraded_outbox_has_what_roles_were_granted(old: &Outbox) {
    let mut roles = Vec::new();
    for grant in ["emit", "relay", "monitor", "operate"] {
        let role = role(&old.db, grant).await;
        run(&old.db, &format!("SET client_min_messages = warning; SELECT outbox.grant_{grant}('{role}')")).await;
        roles.push(role);
    }
    old.upgrade().await.unwrap();
    let copy = super::dump::copy(&old.db).await;
    for (role, may) in roles.iter().zip([
        "SELECT outbox.emit('t', '1'); INSERT INTO outbox.events (topic, payload) VALUES ('t', '1')",
        "SELECT outbox.pending_page(0, 1), outbox.settle('{}', '{}', '{}')",
        "SELECT outbox.health(); SELECT id FROM outbox.events",
        "SELECT payload FROM outbox.events; SELECT outbox.replay_many(topic => 't')",
    ]) {
        run(&*copy.connect_as(role).await, may).await;
    }
}

async fn a_role_that_was_granted_emit_of_a_jsonb_alone_goes_on_emitting(old: &Outbox) {
    let app = role(&old.db, "app").await;
    let grant =
        "GRANT EXECUTE ON FUNCTION outbox.emit(text, jsonb, text, text, text, jsonb, text, text, timestamptz) TO";
    run(&old.db, &format!("{grant} {app}")).await;
    let session = old.db.connect_as(&app).await;
    let emit = "SELECT outbox.emit('t', '1'), outbox.emit('t', '1'::jsonb)";
    run(&session, emit).await;
    old.upgrade().await.unwrap();
    run(&session, emit).await;
}

/// What a role may do in the outbox.
fn rights_of(role: &str) -> String {
    format!(
        "SELECT string_agg(line, ', ' ORDER BY line) FROM (
             SELECT concat_ws(' ', p.proname, a.privilege_type) FROM pg_proc AS p, aclexplode(p.proacl) AS a
             WHERE p.pronamespace = 'outbox'::regnamespace AND a.grantee = '{role}'::regrole
             UNION ALL SELECT concat_ws(' ', c.relname, a.privilege_type) FROM pg_class AS c, aclexplode(c.relacl) AS a
             WHERE c.relnamespace = 'outbox'::regnamespace AND a.grantee = '{role}'::regrole
             UNION ALL SELECT concat_ws(' ', t.attname, a.privilege_type) FROM pg_attribute AS t, aclexplode(t.attacl) AS a
             WHERE t.attrelid = 'outbox.events'::regclass AND a.grantee = '{role}'::regrole) AS r (line)"
    )
}

async fn a_role_whose_rights_were_chosen_by_hand_keeps_those_and_gets_no_others(old: &Outbox) {
    let db = &old.db;
    let [replays, settles, reads_nothing, sees_less] = [
        role(db, "replays").await,
        role(db, "settles").await,
        role(db, "reads_nothing").await,
        role(db, "sees_less").await,
    ];
    run(
        db,
        &format!(
            "SELECT outbox.grant_monitor('{sees_less}'); REVOKE SELECT (last_error) ON outbox.events FROM {sees_less};
             DO $$ DECLARE f regprocedure; BEGIN
                 FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND proname = 'replay_many' LOOP
                     EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO {replays}', f);
                 END LOOP;
                 FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND proname = 'settle' LOOP
                     EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO {settles}', f);
                 END LOOP;
                 PERFORM outbox.grant_relay('{reads_nothing}');
                 FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace
                     AND proname IN ('owed', 'pending', 'due', 'holding') LOOP
                     EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM {reads_nothing}', f);
                 END LOOP;
             END $$"
        ),
    )
    .await;
    let mut before = Vec::new();
    for role in [&replays, &settles, &reads_nothing, &sees_less] {
        before.push(text(db, &rights_of(role)).await);
    }
    old.upgrade().await.unwrap();
    for (role, before) in [&replays, &settles, &reads_nothing, &sees_less].into_iter().zip(before) {
        assert_eq!(text(db, &rights_of(role)).await, before, "{role}");
    }
}

async fn what_the_upgrade_makes_again_keeps_its_grants(old: &Outbox) {
    let owed = "to_regprocedure('outbox.owed(bigint, integer, text[], text[], bigint, boolean)')";
    if text(&old.db, &format!("SELECT {owed}::text")).await.is_none() {
        return; // 0.1.0 had another function
    }
    let relay = role(&old.db, "relay").await;
    let less = "DO $$ DECLARE f regprocedure; BEGIN
            FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND proname = 'ensure_publication' LOOP
                EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM RELAY', f);
            END LOOP;
        END $$";
    run(&old.db, &format!("SELECT outbox.grant_relay('{relay}'); {}", less.replace("RELAY", &relay))).await;
    let session = old.db.connect_as(&relay).await;
    run(&session, "SELECT * FROM outbox.owed(0, 1)").await;
    old.upgrade().await.unwrap();
    run(&session, "SELECT * FROM outbox.pending_page(0, 1)").await;
    run(
        &session,
        "SELECT outbox.pending_page_by_bytes(0, 1, 1), outbox.due_page(1, 1, NULL, 0), outbox.key_holders(1)",
    )
    .await;
}
