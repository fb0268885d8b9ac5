//! The dashboard of a real relay: over HTTP, and in a real browser.

mod access;
mod browser;
mod hostile;
pub(crate) mod http;
mod live;
mod pictures;
mod rights;

use std::path::PathBuf;

use harness::{Database, Relay, RelayBuilder, Stack};

/// Tokens, as the files have them.
const READER: &str = "reader-token-0123456789abcdef";
const OPERATOR: &str = "operator-token-0123456789abcdef";

/// A relay with its dashboard.
struct Dashboard {
    stack: Stack,
    relay: Relay,
    port: u16,
    /// The files of tokens.
    folder: PathBuf,
}

/// Who may use a dashboard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tokens {
    /// Whoever comes over loopback reads; nobody acts.
    None,
    /// Whoever comes over loopback reads; Grace acts.
    Operators,
    /// Ada reads, Grace acts, nobody else comes in.
    Both,
}

impl Dashboard {
    async fn start(tokens: Tokens) -> Self {
        Self::start_with(tokens, |relay| relay).await
    }

    async fn start_with(tokens: Tokens, more: impl FnOnce(RelayBuilder) -> RelayBuilder) -> Self {
        Self::start_on(Stack::new().await, tokens, more).await
    }

    async fn start_on(stack: Stack, tokens: Tokens, more: impl FnOnce(RelayBuilder) -> RelayBuilder) -> Self {
        let folder = std::env::temp_dir().join(format!("{}-{}", stack.db.name(), std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut relay = stack.relay().set("http-listen", "127.0.0.1:0");
        relay = relay.set("dashboard-database-url", &role(&stack.db, "monitor").await);
        if tokens != Tokens::None {
            std::fs::write(folder.join("operators"), format!("# on call\nGrace {OPERATOR}\n")).unwrap();
            relay = relay
                .set("dashboard-operator-database-url", &role(&stack.db, "operate").await)
                .set("dashboard-operators", folder.join("operators").to_str().unwrap());
        }
        if tokens == Tokens::Both {
            std::fs::write(folder.join("readers"), format!("Ada {READER}\n")).unwrap();
            relay = relay.set("dashboard-readers", folder.join("readers").to_str().unwrap());
        }
        let relay = more(relay).start().await;
        let line = relay.wait_for_log("listening for HTTP").await;
        let address = line.split("address=").nth(1).unwrap().split(' ').next().unwrap();
        let port = address.rsplit(':').next().unwrap();
        Self { stack, relay, port: port.parse().unwrap(), folder }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A URL for a role of the test's own with `outbox.grant_monitor` or `outbox.grant_operate`.
async fn role(db: &Database, grant: &str) -> String {
    let role = format!("{}_{grant}", db.name());
    let make = format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN; SELECT outbox.grant_{grant}('{role}')");
    db.batch_execute(&make).await.unwrap();
    db.url_as(&role)
}

/// Three failed events of one topic and error, one of another. None has been published: their time has not come when
/// they fail.
async fn some_failures(db: &Database) {
    let failures = "
        SELECT outbox.emit('orders.created', to_jsonb(n), aggregate_type => 'order', aggregate_id => n::text, available_at => now() + interval '1 hour')
        FROM generate_series(1, 4) AS n;
        UPDATE outbox.events SET status = 'FAILED', last_error = CASE WHEN payload::text = '4' THEN 'nack' ELSE '312 NO_ROUTE 100%_sure' END";
    db.batch_execute(&format!("BEGIN; {failures}; COMMIT")).await.unwrap();
}
