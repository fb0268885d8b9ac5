//! What is emitted: payloads of one size, spread evenly over keys.

use std::{
    fmt,
    time::{Duration, Instant},
};

use harness::{Connection, Database};

use crate::emitted::Emitted;

/// `application_name` of the sessions that emit while the relay runs.
pub(crate) const EMITTER: &str = "emitter";

/// Size of the messages' bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// 200 bytes
    B200,
    /// 1,000 bytes
    Kb1,
    /// 10,000 bytes
    Kb10,
}

impl Payload {
    pub(crate) const ALL: [Self; 3] = [Self::B200, Self::Kb1, Self::Kb10];

    /// Its size.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::B200 => 200,
            Self::Kb1 => 1000,
            Self::Kb10 => 10_000,
        }
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::B200 => "200 B",
            Self::Kb1 => "1 kB",
            Self::Kb10 => "10 kB",
        })
    }
}

/// Events of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// What each carries.
    pub(crate) payload: Payload,
    /// Their ordering keys take turns.
    pub(crate) keys: u64,
}

impl Load {
    /// Emits set-based, a thousand events a transaction.
    pub(crate) async fn emit(&self, db: &Connection, events: u64) {
        const PER_TRANSACTION: u64 = 1000;
        let emit = db.prepare(&self.statement("i % $3")).await.expect("emit");
        for first in (0..events).step_by(usize::try_from(PER_TRANSACTION).expect("small")) {
            self.emit_some(db, &emit, first, PER_TRANSACTION.min(events - first)).await;
        }
    }

    /// Emits set-based, all in one transaction.
    pub(crate) async fn emit_at_once(&self, db: &Connection, events: u64) {
        let emit = db.prepare(&self.statement("i % $3")).await.expect("emit");
        self.emit_some(db, &emit, 0, events).await;
    }

    /// Emits from several sessions at once, ten events a transaction, as fast as they can, for `time`.
    pub(crate) async fn emit_live(&self, sessions: &[Connection], time: Duration, emitted: &Emitted) {
        self.emit_live_with(sessions, time, &self.statement("i % $3"), emitted).await;
    }

    /// As [`emit_live`](Self::emit_live), but every tenth event has the key and the topic `hot`.
    pub(crate) async fn emit_live_beside_hot_key(&self, sessions: &[Connection], time: Duration) {
        let hot = self.statement("CASE WHEN i % 10 = 0 THEN 'hot' ELSE (i % $3)::text END");
        let hot = hot.replace("'order.moved'", "CASE WHEN i % 10 = 0 THEN 'hot' ELSE 'order.moved' END");
        self.emit_live_with(sessions, time, &hot, &Emitted::default()).await;
    }

    async fn emit_live_with(&self, sessions: &[Connection], time: Duration, statement: &str, emitted: &Emitted) {
        const PER_TRANSACTION: u64 = 10;
        let end = Instant::now() + time;
        let emit = async |number: u64, session: &Connection| {
            let emit = session.prepare(statement).await.expect("emit");
            let mut transactions = 0;
            while Instant::now() < end {
                // Each session has numbers of its own, so that all go through all keys.
                let first = (transactions * sessions.len() as u64 + number) * PER_TRANSACTION;
                self.emit_some(session, &emit, first, PER_TRANSACTION).await;
                emitted.add(PER_TRANSACTION);
                transactions += 1;
            }
        };
        let all = sessions.iter().zip(0..).map(|(session, number)| emit(number, session));
        futures_util::future::join_all(all).await;
        emitted.end();
    }

    async fn emit_some(&self, db: &Connection, emit: &tokio_postgres::Statement, first: u64, count: u64) {
        let number = |number: u64| i64::try_from(number).expect("far less than 2^63");
        let text = self.text();
        let last = number(first + count) - 1;
        db.query_one(emit, &[&number(first), &last, &number(self.keys), &text]).await.expect("emit");
    }

    /// Emits the events numbered $1 to $2 over $3 keys with the text $4; `key` makes a key of `i`.
    fn statement(&self, key: &str) -> String {
        format!(
            "SELECT count(outbox.emit('order.moved', json_build_object('n', i, 'text', $4::text),
                                      event_type => 'OrderMoved', aggregate_type => 'order',
                                      aggregate_id => ({key})::text))
             FROM generate_series($1::bigint, $2::bigint) AS i WHERE $3::bigint > 0"
        )
    }

    /// Random letters and digits: the worst case, PostgreSQL cannot compress them, so 10 kB go out of line (TOAST).
    fn text(&self) -> String {
        let around = r#"{"n": 123456, "text": ""}"#.len();
        std::iter::repeat_with(fastrand::alphanumeric).take(self.payload.bytes() - around).collect()
    }
}

/// Sessions to emit from.
pub(crate) async fn emitters(db: &Database, count: usize) -> Vec<Connection> {
    let url = format!("{}?application_name={EMITTER}", db.url());
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(Connection::open(&url).await);
    }
    sessions
}
