//! A client for PostgreSQL's logical replication.
//!
//! ```text
//! ConnInfo ─▶ dial (TCP, Unix, TLS) ─▶ login ─▶ Replication ─▶ ReplicationStream ─▶ pgoutput::Decoder
//! (a URL)                          (SCRAM, bound)  commands       frames, statuses       messages
//! ```
//!
//! One type for each phase of the protocol (<https://www.postgresql.org/docs/current/protocol-replication.html>):
//! [`ConnInfo`] is a parsed connection string, [`Replication`] a session that takes commands, and [`ReplicationStream`]
//! a stream of WAL with acknowledgements going back. [`pgoutput::Decoder`] decodes the stream, without I/O.
//!
//! Dropping a future of this crate loses nothing, because partly read and partly written messages live in the stream.
//! So every method of [`ReplicationStream`] can stand in a `select!`.
//!
//! | module | what it is | I/O |
//! |---|---|---|
//! | `conninfo`, `options`, `sslmode` | connection strings | no |
//! | `search_path` | the schemas in which a session looks names up | no |
//! | `time_limits` | the limits that a session lifts | no |
//! | `dial`, `login`, `channel_binding` | from a host to a session | yes |
//! | `peer` | the server at the other end | no |
//! | `replication` | commands | yes |
//! | `stream`, `framed` | the stream, and whole messages over a socket | yes |
//! | `frame` | WAL data, keepalives, statuses | no |
//! | [`pgoutput`] | decoder of the output plugin's messages | no |
//! | [`lsn`] | positions in the WAL | no |
//! | [`quoting`] | names and texts as SQL takes them | no |
//! | `error`, `server_error` | errors | no |
//!
//! # Example
//!
//! Follows a publication and prints the inserted rows, until the server ends the stream:
//!
//! ```no_run
#![doc = include_str!("../examples/follow.rs")]
//! ```

mod channel_binding;
mod conninfo;
mod dial;
mod error;
mod frame;
mod framed;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod invalid;
mod login;
pub mod lsn;
mod options;
mod peer;
pub mod pgoutput;
pub mod quoting;
mod replication;
mod search_path;
mod server_error;
mod sslmode;
mod stream;
mod time_limits;

pub use client_socket::Socket;

pub use self::{
    channel_binding::channel_binding,
    conninfo::ConnInfo,
    error::{ConnectCause, ConnectError, ReplError},
    frame::Frame,
    invalid::InvalidConnInfo,
    lsn::Lsn,
    peer::Peer,
    replication::{Identity, Replication},
    search_path::PIN_SEARCH_PATH,
    server_error::ServerError,
    stream::ReplicationStream,
    time_limits::time_limits,
};
