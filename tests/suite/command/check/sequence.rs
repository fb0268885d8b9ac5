//! What `check` says of the sequence of `seq`.

use harness::Stack;

use super::{
    super::{MONITOR, ask_as, forget, role},
    check, findings,
};

#[tokio::test]
async fn whatever_breaks_the_order_of_numbers_is_found_and_what_to_do_about_it_helps() {
    let stack = Stack::new().await;
    let found = async || findings(&check(&stack, &[]).await)["sequence"].clone();
    stack.db.batch_execute("SELECT outbox.emit('t', '{}') FROM generate_series(1, 20)").await.unwrap();
    for (change, words) in [
        ("ALTER SEQUENCE outbox.events_seq_seq MAXVALUE 20", "no number is left: they are from 1 to 20"),
        ("SELECT setval('outbox.events_seq_seq', 3)", "the next event would get the number 4, and there is one with"),
        ("ALTER SEQUENCE outbox.events_seq_seq CACHE 10", "CACHE is 10"),
        ("ALTER SEQUENCE outbox.events_seq_seq CYCLE", "it has CYCLE"),
        ("ALTER SEQUENCE outbox.events_seq_seq INCREMENT -1", "INCREMENT is -1"),
    ] {
        assert_eq!(found().await["level"], "ok", "before {change}");
        stack.db.batch_execute(change).await.unwrap();
        let finding = found().await;
        assert_eq!(finding["level"], "bad", "{change}: {finding}");
        assert!(finding["found"].as_str().unwrap().contains(words), "{change}: {finding}");
        let to_do = finding["to_do"].as_str().unwrap();
        let (_, statement) = to_do.rsplit_once(": ").unwrap();
        stack.db.batch_execute(statement).await.unwrap();
        stack.db.batch_execute("SELECT outbox.emit('t', '{}')").await.unwrap();
    }
    stack.db.batch_execute("SELECT setval('outbox.events_seq_seq', 9223372036854775807)").await.unwrap();
    let finding = found().await;
    assert_eq!(finding["level"], "bad", "{finding}");
    assert!(finding["to_do"].as_str().unwrap().contains("RESTART WITH 1"), "{finding}");
}

#[tokio::test]
async fn monitoring_sees_it_and_a_role_without_a_grant_is_told_that_it_is_unknown() {
    let stack = Stack::new().await;
    let looks = role(&stack.db, "looks", MONITOR).await;
    stack.db.batch_execute("ALTER SEQUENCE outbox.events_seq_seq CACHE 2").await.unwrap();
    assert_eq!(findings(&ask_as(&stack, &looks, &["check", "--json"]).await)["sequence"]["level"], "bad");
    forget(&stack.db, &looks).await;
    let nobody = role(&stack.db, "nobody", "").await;
    assert_eq!(findings(&ask_as(&stack, &nobody, &["check", "--json"]).await)["sequence"]["level"], "unknown");
    forget(&stack.db, &nobody).await;
}
