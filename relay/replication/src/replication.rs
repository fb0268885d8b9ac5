//! Commands of a replication session: everything before the stream runs.

use std::{io, ops::Range};

use bytes::BytesMut;
use client_socket::Socket;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::{
    backend::{DataRowBody, Message},
    frontend,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    error::{ConnectCause, ReplError},
    framed::{Framed, SESSION_LIMIT},
    lsn::Lsn,
    quoting::{identifier, literal},
    search_path::PIN_SEARCH_PATH,
    server_error::ServerError,
    stream::ReplicationStream,
    time_limits::time_limits,
};

/// A session that takes replication commands
/// (<https://www.postgresql.org/docs/current/protocol-replication.html>).
///
/// Dropping a command's future leaves its answer in the session, so the session has to be dropped too.
#[derive(Debug)]
pub struct Replication<S = Socket> {
    framed: Framed<S>,
    pid: i32,
}

/// The server's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Id of the cluster, which replicas and restored backups share.
    pub system_id: String,
    /// The timeline, which grows with each failover.
    pub timeline: u32,
    /// The position up to which the WAL is flushed.
    pub wal_position: Lsn,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Replication<S> {
    pub(crate) fn new(mut framed: Framed<S>, pid: i32) -> Self {
        framed.set_limit(SESSION_LIMIT);
        Self { framed, pid }
    }

    /// Makes the session look names up among PostgreSQL's own objects alone, and lifts its time limits. Connecting
    /// includes this.
    pub(crate) async fn begin(&mut self, server_version: Option<&str>) -> Result<(), ConnectCause> {
        self.command(PIN_SEARCH_PATH).await.map_err(connect_cause)?;
        for limit in time_limits(server_version) {
            match self.set(limit, "0").await {
                Err(ReplError::Command(refusal)) if !refusal.ends_the_session() => {
                    tracing::debug!(%refusal, "the session keeps its {limit}");
                }
                lifted => lifted.map_err(connect_cause)?,
            }
        }
        Ok(())
    }

    /// Id of the server process. `pg_blocking_pids` of it lists the sessions that [`create_slot`](Self::create_slot)
    /// waits for.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Asks the server for its identity.
    ///
    /// # Errors
    ///
    /// The connection broke.
    pub async fn identify_system(&mut self) -> Result<Identity, ReplError> {
        let row = self.command("IDENTIFY_SYSTEM").await?.ok_or(ReplError::Protocol("no identity"))?;
        match row.as_slice() {
            [Some(system_id), Some(timeline), Some(position), ..] => Ok(Identity {
                system_id: system_id.clone(),
                timeline: timeline.parse().map_err(|_| ReplError::Protocol("a timeline that is no number"))?,
                wal_position: position.parse().map_err(|_| ReplError::Protocol("a position that is no LSN"))?,
            }),
            _ => Err(ReplError::Protocol("an identity without its parts")),
        }
    }

    /// Changes a setting of the session.
    ///
    /// # Errors
    ///
    /// The server refuses the setting, and the session remains usable; or the connection broke.
    pub async fn set(&mut self, setting: &str, value: &str) -> Result<(), ReplError> {
        self.command(&format!("SET {} = {}", identifier(setting), literal(value))).await.map(|_| ())
    }

    /// Creates a slot for `pgoutput`. The stream can begin at the returned position.
    ///
    /// Waits for every transaction that runs at this moment to end; see [`pid`](Self::pid).
    ///
    /// # Errors
    ///
    /// [`ReplError::slot_exists`]; no permission; no free slot (`53400`); `wal_level` is not `logical`
    /// ([`ReplError::slot_invalidated`], which has the same code).
    pub async fn create_slot(&mut self, name: &str) -> Result<Lsn, ReplError> {
        // The old form of the options, which PostgreSQL 14 and all newer versions know.
        self.make_slot(name, "NOEXPORT_SNAPSHOT").await
    }

    /// Like [`create_slot`](Self::create_slot), but standbys copy the slot, so that a promoted standby has it
    /// (<https://www.postgresql.org/docs/current/logicaldecoding-explanation.html#LOGICALDECODING-REPLICATION-SLOTS-SYNCHRONIZATION>).
    /// PostgreSQL 17 or newer.
    ///
    /// # Errors
    ///
    /// Those of [`create_slot`](Self::create_slot); or the server is older.
    pub async fn create_failover_slot(&mut self, name: &str) -> Result<Lsn, ReplError> {
        self.make_slot(name, "(SNAPSHOT 'nothing', FAILOVER)").await
    }

    /// Makes standbys copy a slot that nobody reads. PostgreSQL 17 or newer.
    ///
    /// # Errors
    ///
    /// [`ReplError::slot_in_use`], [`ReplError::slot_missing`]; the server is older; the connection broke.
    pub async fn let_standbys_copy(&mut self, slot: &str) -> Result<(), ReplError> {
        self.command(&format!("ALTER_REPLICATION_SLOT {} (FAILOVER)", identifier(slot))).await.map(|_| ())
    }

    async fn make_slot(&mut self, name: &str, options: &str) -> Result<Lsn, ReplError> {
        let command = format!("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput {options}", identifier(name));
        let row = self.command(&command).await?.ok_or(ReplError::Protocol("no slot"))?;
        match row.as_slice() {
            [_, Some(position), ..] => position.parse().map_err(|_| ReplError::Protocol("a position that is no LSN")),
            _ => Err(ReplError::Protocol("a slot without a position")),
        }
    }

    /// Starts the stream of a slot: inserts of the publication's tables, and logical messages.
    ///
    /// It begins at `from` or at the slot's confirmed position, whichever is later; `Lsn(0)` means the confirmed
    /// position.
    ///
    /// # Errors
    ///
    /// [`ReplError::slot_in_use`], [`ReplError::slot_missing`], [`ReplError::slot_invalidated`]. A missing publication
    /// shows only later, in the stream.
    pub async fn start(mut self, slot: &str, publication: &str, from: Lsn) -> Result<ReplicationStream<S>, ReplError> {
        // Version 1 sends whole transactions in commit order, which later versions can also send before they commit.
        // Binary values need no parsing.
        let command = format!(
            "START_REPLICATION SLOT {} LOGICAL {from} \
             (proto_version '1', publication_names {}, messages 'true', binary 'true')",
            identifier(slot),
            literal(&identifier(publication)),
        );
        frontend::query(&command, self.framed.outgoing())?;
        match self.receive().await?.first() {
            Some(b'W') => Ok(ReplicationStream::new(self.framed, self.pid)), // CopyBothResponse
            _ => Err(ReplError::Protocol("no stream where one begins")),
        }
    }

    /// Runs a command that returns at most one row of text. An error of the server leaves the session usable.
    async fn command(&mut self, command: &str) -> Result<Option<Row>, ReplError> {
        frontend::query(command, self.framed.outgoing())?;
        let mut answer = Ok(None);
        loop {
            match self.receive().await {
                Ok(mut message) => match parse(&mut message)? {
                    Message::DataRow(body) => answer = Ok(Some(row(&body)?)),
                    Message::RowDescription(_) | Message::CommandComplete(_) => {}
                    Message::ReadyForQuery(_) => return answer,
                    _ => return Err(ReplError::Protocol("a message that answers no command")),
                },
                Err(ReplError::Command(refusal)) if !refusal.ends_the_session() => {
                    answer = Err(ReplError::Command(refusal));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The command's next message.
    async fn receive(&mut self) -> Result<BytesMut, ReplError> {
        loop {
            let mut message = self.framed.read().await?;
            if !matches!(message.first(), Some(b'E' | b'N' | b'S')) {
                return Ok(message);
            }
            match parse(&mut message)? {
                Message::ErrorResponse(body) => {
                    return Err(ReplError::Command(Box::new(ServerError::from_error(&body))));
                }
                Message::NoticeResponse(body) => ServerError::log_notice(&body),
                _ => {} // a setting has changed
            }
        }
    }
}

type Row = Vec<Option<String>>;

fn row(body: &DataRowBody) -> Result<Row, ReplError> {
    let text = |range: Option<Range<usize>>| {
        let Some(range) = range else { return Ok(None) };
        let bytes = body.buffer().get(range).unwrap_or_default();
        String::from_utf8(bytes.to_vec()).map(Some).map_err(io::Error::other)
    };
    body.ranges().map(text).collect().map_err(|_| ReplError::Protocol("a row that cannot be read"))
}

fn parse(message: &mut BytesMut) -> Result<Message, ReplError> {
    Message::parse(message).ok().flatten().ok_or(ReplError::Protocol("a message that cannot be read"))
}

/// Translates an error of a session's first statements.
fn connect_cause(error: ReplError) -> ConnectCause {
    match error {
        ReplError::Command(error) => ConnectCause::Server(error),
        ReplError::Io(error) => error.into(),
        other => ConnectCause::Login(other.to_string()),
    }
}
