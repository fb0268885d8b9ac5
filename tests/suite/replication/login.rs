//! Ways to get in, and reasons not to be let in.

use std::{net::TcpListener, time::Duration};

use harness::Postgres;
use outbox_service::database::postgres;
use pg_replication::{ConnInfo, ConnectCause, ConnectError};

/// Both kinds of session must get in, or be refused for the same reason.
async fn try_both(url: &str) -> Result<(), ConnectError> {
    let database: ConnInfo = url.parse().unwrap();
    let sql = postgres::connect(&database, "suite").await;
    let replication = database.connect_replication("suite").await;
    match (sql, replication) {
        (Ok((client, connection, _)), Ok(mut replication)) => {
            tokio::select! {
                row = client.query_one("SELECT current_setting('application_name')", &[]) => {
                    assert_eq!(row.unwrap().get::<_, &str>(0), "suite");
                }
                ended = connection => panic!("the connection ended: {ended:?}"),
            }
            replication.identify_system().await.unwrap();
            Ok(())
        }
        (Err(sql), Err(replication)) => {
            assert_eq!(sql.sqlstate(), replication.sqlstate(), "{sql} / {replication}");
            let kind = std::mem::discriminant::<ConnectCause>;
            assert_eq!(kind(&sql.cause), kind(&replication.cause), "{sql:?} / {replication:?}");
            Err(replication)
        }
        (sql, replication) => panic!("{:?} / {:?}", sql.err(), replication.err()),
    }
}

fn sqlstate(result: Result<(), ConnectError>) -> String {
    let error = result.expect_err("it should be refused");
    error.sqlstate().unwrap_or_else(|| panic!("{error:?}")).code().to_owned()
}

#[tokio::test]
async fn every_password_method_lets_in_with_the_password_and_refuses_without() {
    let postgres = Postgres::private()
        .hba(
            "host all scram 127.0.0.1/32 scram-sha-256
             host all md5 127.0.0.1/32 md5
             host all plain 127.0.0.1/32 password
             host all trusted 127.0.0.1/32 trust
             host all nobody 127.0.0.1/32 reject",
        )
        .start()
        .await;
    let db = postgres.empty_database().await;
    let roles = "SET password_encryption = 'scram-sha-256';
        CREATE ROLE scram LOGIN REPLICATION PASSWORD 'pass word'; CREATE ROLE plain LOGIN REPLICATION PASSWORD 'pass word';
        CREATE ROLE trusted LOGIN REPLICATION; CREATE ROLE nobody LOGIN REPLICATION;
        SET password_encryption = 'md5'; CREATE ROLE md5 LOGIN REPLICATION PASSWORD 'pass word'";
    db.batch_execute(roles).await.unwrap();
    let url = |who: &str| db.url().replace("postgres@", who);

    try_both(&url("trusted@")).await.unwrap();
    for role in ["scram", "md5", "plain"] {
        try_both(&url(&format!("{role}:pass%20word@"))).await.unwrap();
        assert_eq!(sqlstate(try_both(&url(&format!("{role}:wrong@"))).await), "28P01", "{role}");
        let error = try_both(&url(&format!("{role}@"))).await.unwrap_err();
        assert!(matches!(error.cause, ConnectCause::Login(_)), "{error:?}");
    }
    assert_eq!(sqlstate(try_both(&url("nobody@")).await), "28000");
    assert_eq!(sqlstate(try_both(&url("nosuch:x@")).await), "28000"); // no line for it
}

#[tokio::test]
async fn no_session_keeps_a_time_limit_of_its_role() {
    let postgres = Postgres::private().start().await;
    let db = postgres.empty_database().await;
    // An administrator may take the functions and views of PostgreSQL itself from everybody.
    let role = "CREATE ROLE hurried LOGIN REPLICATION;
        REVOKE EXECUTE ON FUNCTION set_config(text, text, boolean) FROM PUBLIC; REVOKE SELECT ON pg_settings FROM PUBLIC;
        DO $$ DECLARE a_limit text; BEGIN
            FOR a_limit IN SELECT name FROM pg_settings
                WHERE name IN ('statement_timeout', 'idle_session_timeout', 'transaction_timeout')
            LOOP EXECUTE format('ALTER ROLE hurried SET %I = ''1s''', a_limit); END LOOP;
        END $$";
    db.batch_execute(role).await.unwrap();
    let database: ConnInfo = db.url_as("hurried").parse().unwrap();
    let (client, connection, _) = postgres::connect(&database, "suite").await.unwrap();
    let connection = tokio::spawn(connection);
    let mut replication = database.connect_replication("suite").await.unwrap();
    client.batch_execute("BEGIN; SELECT pg_sleep(2.5); COMMIT").await.unwrap();
    replication.identify_system().await.unwrap(); // it was idle meanwhile
    db.batch_execute("SELECT pg_sleep(2.5)").await.unwrap();
    client.batch_execute("SELECT").await.unwrap(); // it was idle, too
    assert!(!postgres.log().contains("unrecognized configuration parameter"), "{}", postgres.log());
    connection.abort();
}

#[tokio::test]
async fn refusals_keep_their_sqlstate() {
    let db = Postgres::shared().await.empty_database().await;
    let missing = db.url().replace(db.name(), "no_such_database");
    assert_eq!(sqlstate(try_both(&missing).await), "3D000");

    let role = db.name();
    db.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await.unwrap();
    let database = db.url_as(role).parse::<ConnInfo>().unwrap();
    let error = database.connect_replication("suite").await.unwrap_err();
    assert_eq!(error.sqlstate().unwrap().code(), "42501", "{error}"); // no REPLICATION attribute
    assert!(postgres::connect(&database, "suite").await.is_ok());
    db.batch_execute(&format!("DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn a_unix_socket_will_do() {
    let postgres = Postgres::private().start().await;
    let folder = postgres.socket_folder().display();
    try_both(&format!("host='{folder}' port={} user=postgres dbname=postgres sslmode=require", postgres.port()))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_next_host_is_tried_when_one_cannot_be_reached() {
    let postgres = Postgres::shared().await;
    // Bound and not listening: refuses for as long as the test runs.
    let closed = socket_that_refuses();
    let port = closed.local_addr().unwrap().port();
    try_both(&format!("postgres://postgres@127.0.0.1:{port},127.0.0.1:{}/postgres", postgres.port())).await.unwrap();
    let error = try_both(&format!("postgres://postgres@127.0.0.1:{port}/postgres")).await.unwrap_err();
    assert!(matches!(error.cause, ConnectCause::Unreachable(_)), "{error:?}");
    assert_eq!(error.server, format!("127.0.0.1:{port}"));
}

#[tokio::test]
async fn a_read_only_server_is_passed_over_when_writes_are_asked_for() {
    let postgres = Postgres::private().set("default_transaction_read_only", "on").start().await;
    let url = format!("{}?target_session_attrs=read-write", postgres.url("postgres"));
    assert!(matches!(try_both(&url).await.unwrap_err().cause, ConnectCause::ReadOnly));
    let shared = Postgres::shared().await.port();
    let hosts = format!("postgres@127.0.0.1:{},127.0.0.1:{shared}", postgres.port());
    try_both(&format!("postgres://{hosts}/postgres?target_session_attrs=read-write")).await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap(); // takes connections, says nothing
    let port = silent.local_addr().unwrap().port();
    for sslmode in ["disable", "prefer"] {
        let url = format!("postgres://u@127.0.0.1:{port}/d?connect_timeout=1&sslmode={sslmode}");
        let error = try_both(&url).await.unwrap_err();
        assert!(matches!(error.cause, ConnectCause::TimedOut(limit) if limit == Duration::from_secs(1)), "{error:?}");
    }
}

#[tokio::test]
async fn something_that_is_not_postgresql_is_refused() {
    let impostor = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = impostor.local_addr().unwrap().port();
    let serve = async {
        loop {
            let (mut peer, _) = impostor.accept().await.unwrap();
            let _ = tokio::io::AsyncWriteExt::write_all(&mut peer, b"SSH-2.0-OpenSSH_9.2\r\n").await;
            // Reads what was sent, so that closing does not destroy what was written.
            let _ = tokio::io::AsyncReadExt::read(&mut peer, &mut [0; 1000]).await;
        }
    };
    let database: ConnInfo = format!("postgres://u@127.0.0.1:{port}/d?sslmode=disable").parse().unwrap();
    tokio::select! {
        refused = database.connect_replication("suite") => { refused.unwrap_err(); }
        () = serve => {}
    }
}

fn socket_that_refuses() -> std::net::UdpSocket {
    // A TCP port that a listener had a moment ago; the UDP socket of the same number only keeps the number in mind.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::net::UdpSocket::bind(("127.0.0.1", port)).unwrap()
}
