//! The check at the end of each test of the extension.

use crate::extension::run;

#[tokio::test]
async fn the_check_at_the_end_of_each_test_finds_a_row_that_an_index_has_not() {
    let db = harness::Postgres::shared().await.database().await;
    run(
        &db,
        "SET outbox.allow_undumped_changes = on;
         CREATE FUNCTION sign() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
         CREATE FUNCTION key(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 * public.sign(); END';
         SELECT outbox.emit('t', '1'), outbox.emit('t', '2');
         CREATE INDEX mine ON outbox.events (key(seq))",
    )
    .await;
    assert_eq!(db.check().await, Ok(()));
    let session = db.connect().await;
    run(&session, "CREATE OR REPLACE FUNCTION sign() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT -1'").await;
    let found = db.check().await.unwrap_err();
    assert!(found.contains("mine"), "{found}");
}
