//! Numbers in headers travel as 64-bit integers or doubles; one that fits neither is refused at the call.

use harness::Database;

use super::{limits::refused, on_both_installations, refusal, run, value};

on_both_installations!(a_number_that_no_double_holds_is_refused, numbers_that_a_double_holds_are_admitted);

async fn a_number_that_no_double_holds_is_refused(db: Database) {
    let just_more = format!("17976931348623159{}", "0".repeat(292));
    for (headers, name) in [
        (r#"{"a": 1e400}"#, "a"),
        (r#"{"a": 1, "b": -1e309}"#, "b"),
        (r#"{"a": 1e308, "b": {"c": [0, {"d": 1.7976931348623159e308}]}}"#, "b"),
        (&*format!("{{\"a\": {}}}", just_more), "a"),
    ] {
        let sql = format!("SELECT outbox.emit('a', '{{}}', headers => '{headers}')");
        refused(&db, &sql, "22003", "headers has a number that no double holds").await;
        let error = refusal(&db, &sql).await;
        assert_eq!(error.detail(), Some(&*format!("It is in the header that begins with \"{name}\".")));
    }
}

async fn numbers_that_a_double_holds_are_admitted(db: Database) {
    run(
        &db,
        r#"SELECT outbox.emit('a', '{}', headers => '{"a": [1e308, -1.7976931348623157e308, 0.1e-400, 1e-16000,
            123456789012345678901234567890, 18446744073709551615, -9223372036854775808, 0, 0.5]}')"#,
    )
    .await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "1");
}
