//! Databases in other encodings than UTF-8: texts are measured and checked as they are sent, which is in UTF-8.

use std::{fs, path::PathBuf, process::Command};

use harness::{
    Database, Postgres,
    places::{checkout, pg_config},
};

use super::{install_plain_sql, refusal, run, upgrade::EARLIER, value};

/// One of each installation, in each encoding.
async fn databases() -> Vec<(&'static str, Database)> {
    let mut databases = Vec::new();
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let (extension, plain) = (
            Postgres::shared().await.empty_database_in(encoding).await,
            Postgres::shared().await.empty_database_in(encoding).await,
        );
        run(&extension, "CREATE EXTENSION outbox").await;
        assert!(install_plain_sql(&plain).await.status.success());
        databases.extend([(encoding, extension), (encoding, plain)]);
    }
    databases
}

#[tokio::test]
async fn both_installations_go_into_a_database_of_every_encoding_that_a_server_can_have() {
    let postgres = Postgres::shared().await;
    let known =
        "SELECT string_agg(pg_encoding_to_char(n), ' ') FROM generate_series(0, pg_char_to_encoding('KOI8U')) AS n";
    let known = value(&*postgres.empty_database().await, known).await; // KOI8U is the last one: those after it are for clients
    assert!(known.split(' ').count() > 30 && known.contains("EUC_JP"), "{known}");
    for encoding in known.split(' ').filter(|encoding| *encoding != WITHOUT_CONVERSION) {
        let db = postgres.empty_database_in(encoding).await;
        let works = async |installation: &str| {
            run(&db, "SELECT outbox.emit('a', '{\"a\": 1}', headers => '{\"h\": 1}')").await;
            let pending = "SELECT string_agg(topic || payload, '') FROM outbox.pending_page_by_bytes(0, 10, 1000)";
            assert_eq!(value(&db, pending).await, "a{\"a\": 1}", "{installation} in {encoding}");
        };
        let output = install_plain_sql(&db).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{encoding}: {said}");
        works("the plain SQL").await;
        run(&db, "DROP SCHEMA outbox CASCADE").await;
        db.batch_execute("CREATE EXTENSION outbox").await.unwrap_or_else(|error| panic!("{encoding}: {error:?}"));
        works("the extension").await;
    }
}

/// The one encoding of a server that PostgreSQL cannot convert to UTF-8: no relay can read its texts.
const WITHOUT_CONVERSION: &str = "MULE_INTERNAL";

#[tokio::test]
async fn a_database_whose_texts_no_relay_could_read_is_refused_at_once() {
    let postgres = Postgres::shared().await;
    let db = format!("mule_{}", std::process::id());
    let create = ["--template=template0", "--locale=C", "--encoding", WITHOUT_CONVERSION, &db];
    assert!(postgres.program("createdb").args(create).status().unwrap().success());
    let create = "CREATE EXTENSION outbox";
    let extension = postgres.program("psql").args(["--no-psqlrc", "--dbname", &db, "--command", create]).output();
    let plain = postgres.install_plain_sql(&db);
    assert!(postgres.program("dropdb").args(["--force", &db]).status().unwrap().success());
    for output in [extension.unwrap(), plain] {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("ERROR:  no relay could read a database in MULE_INTERNAL\n"), "{said}");
        assert!(said.contains("HINT:  CREATE DATABASE "), "{said}");
    }
}

/// A script is read in the database's own encoding, whatever it is, and by a psql whose terminal has another one.
#[test]
fn every_script_that_is_installed_is_ascii() {
    let sharedir = Command::new(pg_config()).arg("--sharedir").output().unwrap();
    let installed = PathBuf::from(String::from_utf8(sharedir.stdout).unwrap().trim()).join("extension");
    let control = fs::read_to_string(installed.join("outbox.control")).unwrap();
    assert!(control.contains("encoding = 'SQL_ASCII'"), "{control}");
    let scripts = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of_extension = scripts(installed).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_earlier = EARLIER.iter().any(|version| name == format!("outbox--{version}.sql")); // put there by another test
        name.starts_with("outbox") && name.ends_with(".sql") && !is_earlier
    });
    let folders =
        fs::read_dir(checkout().join("sql")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let plain = folders.chain([checkout().join("sql"), checkout().join("sql/native/plain")]).map(scripts);
    let mut read = 0;
    for path in of_extension.chain(plain.flatten()).filter(|path| path.is_file()) {
        let script = fs::read(&path).unwrap();
        let line = script.split(|byte| *byte == b'\n').position(|line| !line.is_ascii());
        assert_eq!(line.map(|line| line + 1), None, "{} is not ASCII in that line", path.display());
        read += 1;
    }
    assert!(read > 50, "{read}");
}

#[tokio::test]
async fn text_is_kept_as_it_was_emitted() {
    for (encoding, db) in databases().await {
        let text = "straße.é ÿ";
        let sql = "SELECT outbox.emit($1, jsonb_build_object($1::text, $1::text), event_type => $1, aggregate_type => $1,
            aggregate_id => $1, correlation_id => $1, exchange => $1, headers => jsonb_build_object($1::text, $1::text))";
        db.query_one(sql, &[&text]).await.unwrap_or_else(|error| panic!("{encoding}: {error:?}"));
        let same = "SELECT count(*) FROM outbox.events WHERE topic = $1 AND payload ->> $1 = $1 AND headers ->> $1 = $1
            AND (event_type, aggregate_type, aggregate_id, correlation_id, exchange) = ($1, $1, $1, $1, $1)";
        assert_eq!(db.query_one(same, &[&text]).await.unwrap().get::<_, i64>(0), 1, "{encoding}");
        run(&db, "SET outbox.correlation_id = 'Ü'; SELECT outbox.emit('set', '{}')").await;
        assert_eq!(value(&db, "SELECT correlation_id FROM outbox.events WHERE topic = 'set'").await, "Ü", "{encoding}");
    }
}

#[tokio::test]
async fn sizes_are_those_in_utf8() {
    for (encoding, db) in databases().await {
        run(&db, "SET outbox.max_payload_bytes = '1000B'").await;
        for (fits, too_long, sqlstate, bytes) in [
            ("repeat('ü', 127), '{}'", "repeat('ü', 128), '{}'", "22001", "topic is 256 bytes"),
            ("'a', to_jsonb(repeat('ü', 499))", "'a', to_jsonb(repeat('ü', 500))", "54000", "payload is 1002 bytes"),
            (
                "'a', '{}', headers => jsonb_build_object(repeat('ü', 127), 1)",
                "'a', '{}', headers => jsonb_build_object(repeat('ü', 128), 1)",
                "22001",
                "headers has a name of 256 bytes",
            ),
            (
                "'a', '{}', headers => jsonb_build_object('h', repeat('ü', 32700))",
                "'a', '{}', headers => jsonb_build_object('h', repeat('ü', 32768))",
                "54000",
                "headers are 65545 bytes",
            ),
        ] {
            run(&db, &format!("SELECT outbox.emit({fits})")).await;
            let error = refusal(&db, &format!("SELECT outbox.emit({too_long})")).await;
            assert_eq!(error.code().code(), sqlstate, "{encoding}, {too_long}: {error}");
            assert!(error.message().starts_with(bytes), "{encoding}, {too_long}: {error}");
        }
        let too_long =
            "BEGIN; SELECT set_config('outbox.correlation_id', repeat('ü', 128), true); SELECT outbox.emit('a', '{}')";
        let error = refusal(&db, too_long).await;
        assert!(error.message().starts_with("correlation_id is 256 bytes long"), "{encoding}: {error}");
        run(&db, "ROLLBACK").await;
    }
}

#[tokio::test]
async fn what_cannot_be_carried_is_refused_with_a_reason() {
    for (encoding, db) in databases().await {
        let cases: &[(&str, &str, &str)] = match encoding {
            // PostgreSQL's own words, which differ between its versions: the database cannot hold the character.
            "LATIN1" => &[
                ("'漢', '{}'", "22P05", "LATIN1"),
                ("'a', '{}', headers => '{\"h\": \"\\u6f22\"}'", "22P05", "LATIN1"),
            ],
            // The outbox's: the database holds any bytes, and those are no text.
            _ => &[
                (r"E'\xff', '{}'", "22021", "topic is not valid UTF-8"),
                (r"'a', to_jsonb(E'x\xc3'::text)", "22021", "payload is not valid UTF-8"),
                (r"'a', '{}', aggregate_id => E'\xff'", "22021", "aggregate_id is not valid UTF-8"),
                (
                    r"'a', '{}', headers => jsonb_build_object('a', E'\xff'::text)",
                    "22021",
                    "headers is not valid UTF-8",
                ),
            ],
        };
        for (arguments, sqlstate, words) in cases {
            let error = refusal(&db, &format!("SELECT outbox.emit({arguments})")).await;
            assert_eq!(error.code().code(), *sqlstate, "{encoding}, {arguments}: {error}");
            let said = format!("{} {}", error.message(), error.detail().unwrap_or_default());
            assert!(said.contains(words), "{encoding}, {arguments}: {said}");
        }
        assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "0");
    }
}
