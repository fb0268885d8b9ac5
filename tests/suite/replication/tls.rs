//! Encryption and what is verified.

use std::{path::PathBuf, process::Command};

use harness::{Connection, Postgres};
use outbox_service::database::postgres;
use pg_replication::{ConnInfo, ConnectCause, Lsn};

/// A server with a certificate for 127.0.0.1 from an authority of its own, and another authority's certificate.
pub(crate) struct Server {
    pub(crate) postgres: Postgres,
    ca: PathBuf,
    other_ca: PathBuf,
}

const ELLIPTIC: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1";

impl Server {
    pub(crate) async fn start() -> Self {
        Self::signed(ELLIPTIC).await
    }

    /// With a key, and a signature of the authority, of this kind.
    async fn signed(kind: &str) -> Self {
        let postgres = Postgres::private().start().await;
        let folder = postgres.socket_folder().to_owned();
        let (ca, other_ca) = (folder.join("ca.pem"), folder.join("other.pem"));
        let server = Self { postgres, ca, other_ca };
        for ca in ["ca", "other"] {
            server.openssl(&format!("req -x509 {kind} -nodes -days 2 -keyout {ca}.key -out {ca}.pem -subj /CN={ca}"));
        }
        let db = server.postgres.empty_database().await;
        server.certify(&db, kind, 2).await;
        for setting in ["ssl_cert_file = 'server.pem'", "ssl_key_file = 'server.key'", "ssl = on"] {
            db.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.unwrap();
        }
        db.batch_execute("CREATE ROLE bound LOGIN SUPERUSER PASSWORD 'secret'").await.unwrap();
        drop(db);
        server.postgres.stop(harness::Shutdown::Fast).await;
        let hba = "local all postgres trust\nhost all postgres 127.0.0.1/32 trust\nhostssl all bound 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(folder.join("data/pg_hba.conf"), hba).unwrap();
        server.postgres.start().await;
        server
    }

    /// Renews the certificate, for so many days, and has the server load it.
    pub(crate) async fn renew(&self, days: u32) {
        let db = Connection::open(&self.postgres.url("postgres")).await;
        self.certify(&db, ELLIPTIC, days).await;
        db.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    }

    /// Makes the server's key and certificate. The server itself writes them: the key must be its own, and closed to
    /// others.
    async fn certify(&self, db: &Connection, kind: &str, days: u32) {
        self.openssl(&format!(
            "req -x509 {kind} -nodes -days {days} -CA ca.pem -CAkey ca.key -keyout server.key -out server.pem -subj /CN=db \
             -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=CA:FALSE"
        ));
        for file in ["server.key", "server.pem"] {
            let text = std::fs::read_to_string(self.postgres.socket_folder().join(file)).unwrap();
            let copy = format!(
                "COPY (SELECT unnest(string_to_array(trim($body${text}$body$, E'\\n'), E'\\n')))
                 TO PROGRAM 'umask 077 && cat > {file}'"
            );
            db.batch_execute(&copy).await.unwrap();
        }
    }

    /// Lets the role `certified` in by a certificate of the authority, and only so.
    async fn take_client_certificates(&self) {
        let db = Connection::open(&self.postgres.url("postgres")).await;
        db.batch_execute("CREATE ROLE certified LOGIN SUPERUSER").await.unwrap();
        let hba = self.postgres.socket_folder().join("data/pg_hba.conf");
        let lines = std::fs::read_to_string(&hba).unwrap() + "hostssl all certified 127.0.0.1/32 cert\n";
        std::fs::write(&hba, lines).unwrap();
        db.batch_execute(&format!("ALTER SYSTEM SET ssl_ca_file = '{}'", self.ca.display())).await.unwrap();
        db.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    }

    /// Makes a client's certificate in `client.pem`, with its key, and says what of a URL shows it.
    fn client_certificate(&self, authority: &str, name: &str) -> String {
        self.openssl(&format!(
            "req -x509 {ELLIPTIC} -nodes -days 2 -CA {authority}.pem -CAkey {authority}.key -keyout client.key -out client.pem \
             -subj /CN={name} -addext basicConstraints=CA:FALSE"
        ));
        let file = |name: &str| self.postgres.socket_folder().join(name).display().to_string();
        format!("sslmode=verify-full&sslrootcert=CA&sslcert={}&sslkey={}", file("client.pem"), file("client.key"))
    }

    fn openssl(&self, arguments: &str) {
        let folder = self.postgres.socket_folder();
        let output = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn url(&self, options: &str) -> String {
        let options = options
            .replace("CA", &self.ca.display().to_string())
            .replace("OTHER", &self.other_ca.display().to_string());
        format!("postgres://bound:secret@127.0.0.1:{}/postgres?{options}", self.postgres.port())
    }
}

/// Connects both ways. Tells whether the sessions are encrypted, or why there is none.
async fn encrypted(url: &str) -> Result<bool, ConnectCause> {
    let database: ConnInfo = url.parse().unwrap();
    let (client, connection, _) = postgres::connect(&database, "sql").await.map_err(|error| error.cause)?;
    let mut replication = database.connect_replication("replication").await.map_err(|error| error.cause)?;
    replication.identify_system().await.unwrap();
    let query = "SELECT bool_and(ssl), count(*) FROM pg_stat_ssl WHERE pid IN (pg_backend_pid(), $1)";
    let pid = replication.pid();
    let row = tokio::select! {
        row = async { client.query_one(query, &[&pid]).await } => row.unwrap(),
        ended = connection => panic!("the connection ended: {ended:?}"),
    };
    assert_eq!(row.get::<_, i64>(1), 2);
    Ok(row.get(0))
}

#[tokio::test]
async fn sslmode_means_what_it_means_to_libpq() {
    let server = Server::start().await;
    for options in [
        "",
        "sslmode=prefer",
        "sslmode=require",
        "sslmode=require&sslrootcert=CA",
        "sslmode=verify-ca&sslrootcert=CA",
        "sslmode=verify-full&sslrootcert=CA",
        "sslmode=require&channel_binding=require",
        "channel_binding=disable",
    ] {
        assert!(encrypted(&server.url(options)).await.unwrap_or_else(|e| panic!("{options}: {e}")), "{options}");
    }
    // Nobody vouches for the server: another authority, none of the machine's, or for another name.
    let elsewhere = |options: &str| server.url(options).replace("@127.0.0.1", "@localhost");
    for url in [
        server.url("sslmode=verify-full&sslrootcert=OTHER"),
        server.url("sslmode=verify-ca&sslrootcert=OTHER"),
        server.url("sslmode=require&sslrootcert=OTHER"),
        server.url("sslmode=verify-full"),
        elsewhere("sslmode=verify-full&sslrootcert=CA"),
    ] {
        let cause = encrypted(&url).await.expect_err(&url);
        assert!(matches!(cause, ConnectCause::Tls(_)), "{url}: {cause:?}");
    }
    assert!(encrypted(&elsewhere("sslmode=verify-ca&sslrootcert=CA")).await.unwrap());
    // Without encryption the server does not let this role in.
    let cause = encrypted(&server.url("sslmode=disable")).await.unwrap_err();
    assert_eq!(cause.sqlstate().unwrap().code(), "28000");
}

#[tokio::test]
async fn a_client_certificate_stands_for_a_password_and_is_read_for_each_connection() {
    let server = Server::start().await;
    server.take_client_certificates().await;
    let certified = |options: &str| server.url(options).replace("bound:secret@", "certified@");
    let shows = server.client_certificate("ca", "certified");
    // The server may not have read its files again yet.
    harness::eventually("the certificate is taken", harness::SOON, async || {
        encrypted(&certified(&shows)).await.map_err(|cause| cause.to_string())
    })
    .await;
    assert!(encrypted(&certified("sslmode=require")).await.is_err(), "no certificate");
    server.client_certificate("ca", "somebody_else");
    let cause = encrypted(&certified(&shows)).await.unwrap_err();
    assert_eq!(cause.sqlstate().map(|state| state.code()), Some("28000"), "a certificate of another: {cause:?}");
    server.client_certificate("other", "certified");
    let cause = encrypted(&certified(&shows)).await.unwrap_err();
    assert!(!cause.is_transient(), "of another authority: {cause:?}");
    server.client_certificate("ca", "certified");
    assert!(encrypted(&certified(&shows)).await.unwrap(), "the files are read again");
}

#[tokio::test]
async fn a_login_is_bound_to_certificates_of_every_hash() {
    for kind in [
        "-newkey ec -pkeyopt ec_paramgen_curve:secp384r1 -sha384",
        "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -sha512",
        "-newkey rsa:2048 -sha512",
        "-newkey rsa:2048 -sha384 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest",
    ] {
        let server = Server::signed(kind).await;
        let bound = encrypted(&server.url("sslmode=require&channel_binding=require")).await;
        assert!(bound.unwrap_or_else(|error| panic!("{kind}: {error}")), "{kind}");
    }
}

#[tokio::test]
async fn an_encrypted_stream_brings_everything() {
    let server = Server::start().await;
    let source = super::Source::on(&server.postgres).await;
    source.insert(1..=50_000).await;
    let url = format!("{}?sslmode=require", source.db.url());
    let session = super::connect(&url).await;
    let stream = session.start(source.name(), source.name(), Lsn(0)).await.unwrap();
    assert!(super::Reader::new(stream).ids().await.into_iter().eq(1..=50_000));
}

#[tokio::test]
async fn a_server_without_tls_is_taken_unencrypted_only_where_that_was_not_excluded() {
    let url = Postgres::shared().await.url("postgres");
    assert!(!encrypted(&url).await.unwrap());
    assert!(!encrypted(&format!("{url}?sslmode=disable")).await.unwrap());
    let cause = encrypted(&format!("{url}?sslmode=require")).await.unwrap_err();
    assert!(matches!(cause, ConnectCause::Tls(_)), "{cause:?}");
    let cause = encrypted(&format!("{url}?channel_binding=require")).await.unwrap_err();
    assert!(matches!(cause, ConnectCause::Login(_)), "{cause:?}");
}
