//! Carries out client programs, and keeps books of what was committed, whatever happens to the connection.

use std::time::Duration;

use harness::{Connection, eventually};
use tokio_postgres::Error;

use super::{
    checker::Fact,
    program::{Block, End, Kind, Program, Step, Transaction},
};

/// How long a server may be away: faults overlap, and every restart waits for its turn on a busy machine.
pub(super) const AWAY: Duration = Duration::from_secs(60);

/// What clients write beside their events. A transaction's row in `transactions` says that it was committed, or, by its
/// client, that it never will be. A key's number is counted under its row's lock, so the numbers follow the order of
/// commits.
pub(super) const TABLES: &str = "
    CREATE TABLE transactions (id int PRIMARY KEY, committed bool NOT NULL);
    CREATE TABLE business (tx int, text text);
    CREATE TABLE counters (key int PRIMARY KEY, n bigint NOT NULL DEFAULT 0);
    CREATE FUNCTION emit_all(keys int[], topics text[], exchanges text[], delays int[], sizes int[])
    RETURNS TABLE (id uuid, n bigint) LANGUAGE plpgsql AS $$
    BEGIN
        FOR i IN 1 .. cardinality(topics) LOOP
            n := NULL;
            IF keys[i] IS NOT NULL THEN
                UPDATE counters AS c SET n = c.n + 1 WHERE c.key = keys[i] RETURNING c.n INTO n;
            END IF;
            id := outbox.emit(topics[i], jsonb_build_object('n', n, 'text', repeat('x', sizes[i])),
                aggregate_type => CASE WHEN keys[i] IS NOT NULL THEN 'random' END, aggregate_id => keys[i]::text,
                exchange => exchanges[i], available_at => clock_timestamp() + delays[i] * interval '1 ms');
            RETURN NEXT;
        END LOOP;
    END $$;";

/// A client and its books.
pub(super) struct Client<'a> {
    url: &'a str,
    /// Different for every client of a server; prefix of its names for prepared transactions.
    name: String,
    /// Ids of its transactions begin here.
    base: i32,
    connection: Connection,
    facts: Vec<Fact>,
}

/// Carries out the program of client `number`, and returns what is committed.
pub(super) async fn work(url: &str, database: &str, number: usize, program: &Program) -> Vec<Fact> {
    let base = i32::try_from(number).expect("few clients") * 1_000_000;
    let name = format!("{database}-{number}");
    let mut client = Client { url, name, base, connection: connect(url).await, facts: Vec::new() };
    for (index, step) in (0..).zip(&program.steps) {
        match step {
            Step::Pause(ms) => tokio::time::sleep(Duration::from_millis(u64::from(*ms))).await,
            Step::Replay(choice) => client.replay(*choice).await,
            Step::Transaction(transaction) => client.transaction(base + index, transaction).await,
        }
    }
    client.facts
}

/// Connects, as soon as the server lets us.
pub(super) async fn connect(url: &str) -> Connection {
    eventually("the database accepts a client", AWAY, async || {
        Connection::try_open(url).await.map_err(|e| e.to_string())
    })
    .await
}

impl Client<'_> {
    /// One transaction, to an end that is known.
    async fn transaction(&mut self, id: i32, transaction: &Transaction) {
        let mut facts = Vec::new();
        let committed = match self.attempt(id, transaction, &mut facts).await {
            Ok(Some(committed)) => committed,
            Ok(None) | Err(_) => self.find_out(id, &transaction.end).await,
        };
        if committed {
            self.facts.append(&mut facts);
        }
    }

    /// `None`: it is not known whether it was committed.
    async fn attempt(&self, id: i32, transaction: &Transaction, facts: &mut Vec<Fact>) -> Result<Option<bool>, Error> {
        let db = &self.connection;
        db.batch_execute(&format!("BEGIN; INSERT INTO transactions VALUES ({id}, true)")).await?;
        let lock = "SELECT FROM counters WHERE key = ANY ($1) ORDER BY key FOR UPDATE";
        db.execute(lock, &[&transaction.keys()]).await?;
        for block in &transaction.blocks {
            let emitted = self.block(id, block).await?;
            if !block.undone {
                facts.extend(emitted);
            }
        }
        match transaction.end {
            End::Commit => db.batch_execute("COMMIT").await?,
            End::Rollback => {
                db.batch_execute("ROLLBACK").await?;
                return Ok(Some(false));
            }
            End::Disconnect => return Ok(None),
            End::Vanish(us) => {
                // What is asked for is on its way or not when the connection is dropped; nobody knows.
                let _ = tokio::time::timeout(Duration::from_micros(us.into()), db.batch_execute("COMMIT")).await;
                return Ok(None);
            }
            End::Prepared { ms, commit } => {
                db.batch_execute(&format!("PREPARE TRANSACTION '{}'", self.prepared_name(id))).await?;
                tokio::time::sleep(Duration::from_millis(ms.into())).await;
                db.batch_execute(&self.second_phase(id, commit)).await?;
                return Ok(Some(commit));
            }
        }
        Ok(Some(true))
    }

    async fn block(&self, id: i32, block: &Block) -> Result<Vec<Fact>, Error> {
        let db = &self.connection;
        let plans = &block.events;
        let keys: Vec<Option<i32>> = plans.iter().map(|plan| plan.key.map(u32::cast_signed)).collect();
        let topics: Vec<&str> = plans.iter().map(|plan| plan.kind.topic()).collect();
        let exchanges: Vec<Option<&str>> =
            plans.iter().map(|plan| (plan.kind == Kind::NoExchange).then_some("missing")).collect();
        let delays: Vec<Option<i32>> =
            plans.iter().map(|plan| (plan.kind == Kind::Deferred).then_some(plan.delay.cast_signed())).collect();
        let sizes: Vec<i32> = plans.iter().map(|plan| plan.size.cast_signed()).collect();
        let business = format!("INSERT INTO business VALUES ({id}, 'text')");

        let before = if block.undone { "SAVEPOINT undone;" } else { "" };
        db.batch_execute(&format!("{before}{}", if block.business_first { &business } else { "" })).await?;
        let emit = "SELECT id, n FROM emit_all($1, $2, $3, $4, $5)";
        let rows = db.query(emit, &[&keys, &topics, &exchanges, &delays, &sizes]).await?;
        let after = if block.undone { ";ROLLBACK TO undone" } else { "" };
        db.batch_execute(&format!("{}{after}", if block.business_first { "" } else { &business })).await?;

        let fact = |(row, plan): (&tokio_postgres::Row, &super::program::Plan)| Fact {
            id: row.get(0),
            kind: plan.kind,
            tx: id,
            key: plan.key.map(|key| (key, row.get(1))),
            replays: 0,
            unknown_replays: 0,
        };
        Ok(rows.iter().zip(plans).map(fact).collect())
    }

    /// Drops the connection and says whether transaction `id` is committed.
    async fn find_out(&mut self, id: i32, end: &End) -> bool {
        self.connection = connect(self.url).await;
        loop {
            match self.ask(id, end).await {
                Ok(committed) => return committed,
                Err(_) => self.connection = connect(self.url).await,
            }
        }
    }

    async fn ask(&self, id: i32, end: &End) -> Result<bool, Error> {
        let db = &self.connection;
        if let End::Prepared { commit, .. } = *end {
            let sql = "SELECT FROM pg_prepared_xacts WHERE gid = $1";
            if db.execute(sql, &[&self.prepared_name(id)]).await? > 0 {
                db.batch_execute(&self.second_phase(id, commit)).await?;
            }
        }
        // Waits for a transaction that has written the same row and still runs; afterwards, it cannot commit any more.
        let sql = "INSERT INTO transactions VALUES ($1, false) ON CONFLICT DO NOTHING";
        db.execute(sql, &[&id]).await?;
        // The row can be from an earlier question whose answer was lost with the server.
        Ok(db.query_one("SELECT committed FROM transactions WHERE id = $1", &[&id]).await?.get(0))
    }

    async fn replay(&mut self, choice: usize) {
        let choice = choice.checked_rem(self.facts.len());
        let Some(fact) = choice.map(|choice| &mut self.facts[choice]).filter(|fact| fact.kind != Kind::NoExchange)
        else {
            return;
        };
        match self.connection.query_one("SELECT outbox.replay($1)", &[&fact.id]).await {
            Ok(row) => fact.replays += usize::from(row.get::<_, bool>(0)),
            Err(_) => {
                fact.unknown_replays += 1;
                self.connection = connect(self.url).await;
            }
        }
    }

    fn prepared_name(&self, id: i32) -> String {
        format!("{}-{}", self.name, id - self.base)
    }

    fn second_phase(&self, id: i32, commit: bool) -> String {
        format!("{} PREPARED '{}'", if commit { "COMMIT" } else { "ROLLBACK" }, self.prepared_name(id))
    }
}

impl Kind {
    fn topic(self) -> &'static str {
        match self {
            Self::Plain | Self::Deferred | Self::NoExchange => "open",
            Self::Nackable => "full",
            Self::Unroutable => "nowhere",
        }
    }
}
