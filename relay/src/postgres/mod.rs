//! PostgreSQL: sessions for SQL and for replication, and the logical replication protocol.
//!
//! ```text
//! conninfo ─▶ Database ─▶ dial (TCP, Unix, TLS) ─▶ Socket ─┬─▶ tokio_postgres::Client          SQL
//!                                                          └─▶ login ─▶ Replication ─▶ ReplicationStream
//!                                                                         commands        frames ─▶ pgoutput::Decoder
//! ```
//!
//! Both kinds of session share one way of dialling, so that timeouts, TLS and fail-over between hosts mean the same.
//! Nothing outside this module knows the replication protocol.

mod bounded;
mod channel_binding;
mod connect_error;
mod conninfo;
mod database;
mod dial;
mod frame;
mod framed;
mod invalid_url;
mod login;
pub mod pgoutput;
mod quote;
mod repl_error;
mod replication;
mod server_error;
mod socket;
mod stream;
mod tls;
mod verifier;

pub use self::{
    connect_error::{ConnectCause, ConnectError},
    database::Database,
    frame::Frame,
    invalid_url::InvalidUrl,
    repl_error::ReplError,
    replication::{Identity, Replication},
    server_error::ServerError,
    socket::{Socket, TlsSocket},
    stream::ReplicationStream,
};
