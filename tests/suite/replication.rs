//! The replication client against real servers.

mod example;
mod liveness;
mod login;
mod slots;
mod stream;
pub(crate) mod tls;

use harness::{Database, Postgres};
use pg_replication::{
    ConnInfo, Frame, Lsn, ReplError, Replication, ReplicationStream,
    pgoutput::{Column, Decoder, Message},
};

/// A database with a published table `t (id int, body text)`, and a slot, both named as the database.
struct Source {
    db: Database,
}

impl Source {
    async fn on(postgres: &Postgres) -> Self {
        let db = postgres.empty_database().await;
        let name = db.name();
        let publish = format!(
            "CREATE TABLE t (id int PRIMARY KEY, body text);
             CREATE PUBLICATION {name} FOR TABLE t WITH (publish = 'insert');"
        );
        db.batch_execute(&publish).await.unwrap();
        let source = Self { db };
        source.session().await.create_slot(source.name()).await.unwrap();
        source
    }

    async fn new() -> Self {
        Self::on(Postgres::shared().await).await
    }

    fn name(&self) -> &str {
        self.db.name()
    }

    async fn session(&self) -> Replication {
        connect(self.db.url()).await
    }

    async fn stream(&self) -> ReplicationStream {
        self.session().await.start(self.name(), self.name(), Lsn(0)).await.unwrap()
    }

    async fn insert(&self, ids: std::ops::RangeInclusive<i32>) {
        let (first, last) = ids.into_inner();
        let insert = "INSERT INTO t SELECT id, 'row ' || id FROM generate_series($1::int, $2) id";
        self.db.execute(insert, &[&first, &last]).await.unwrap();
    }

    /// What the slot has been told.
    async fn confirmed(&self) -> Lsn {
        let query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1";
        self.db.query_one(query, &[&self.name()]).await.unwrap().get::<_, &str>(0).parse().unwrap()
    }
}

async fn connect(url: &str) -> Replication {
    let server: ConnInfo = url.parse().unwrap();
    server.connect_replication("suite").await.unwrap()
}

/// Reads a stream and decodes it.
struct Reader {
    stream: ReplicationStream,
    decoder: Decoder,
}

impl Reader {
    fn new(stream: ReplicationStream) -> Self {
        Self { stream, decoder: Decoder::new() }
    }

    async fn next(&mut self) -> Result<Message, ReplError> {
        loop {
            if let Frame::XLogData { data, .. } = self.stream.next().await? {
                return Ok(self.decoder.decode(data).unwrap());
            }
        }
    }

    /// The next transaction: ids and bodies of the rows it inserted, and where it ends.
    async fn transaction(&mut self) -> (Vec<(i32, Option<Vec<u8>>)>, Lsn) {
        let mut rows = Vec::new();
        loop {
            match self.next().await.unwrap() {
                Message::Insert { tuple, .. } => {
                    let columns: Vec<Column<'_>> = tuple.columns().collect();
                    let Column::Binary(id) = columns[0] else { panic!("not binary: {columns:?}") };
                    let id = i32::from_be_bytes(id.try_into().unwrap());
                    rows.push((id, columns[1].bytes().map(<[u8]>::to_vec)));
                }
                Message::Commit { end_lsn, .. } => return (rows, end_lsn),
                _ => {}
            }
        }
    }

    /// As [`transaction`](Self::transaction), only the ids.
    async fn ids(&mut self) -> Vec<i32> {
        self.transaction().await.0.into_iter().map(|(id, _)| id).collect()
    }
}
