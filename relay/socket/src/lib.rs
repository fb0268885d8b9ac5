//! The socket below a client of a server.
//!
//! | module | what it is |
//! |---|---|
//! | `socket` | [`Socket`]: TCP, Unix or TLS, read through a buffer |
//! | `tcp` | [`TcpOptions`]: how a dead peer is noticed |
//! | `tls` | [`TlsOptions`]: who may vouch for the peer, and who the client is |
//! | `verifier` | checks of a certificate without its name |
//! | `hosts` | [`Host`]: the hosts of a URL |
//! | `certificate` | [`Expiry`]: until when certificates are valid |
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use client_socket::{Socket, TcpOptions, TlsOptions};
//!
//! let tcp = TcpOptions::default().connect(("db.example", 5432)).await?;
//! let socket: Socket = TlsOptions::default().connect(tcp, "db.example").await?;
//! # Ok(())
//! # }
//! ```

mod certificate;
#[cfg(any(fuzzing, feature = "fuzz"))]
pub mod fuzz;
mod hosts;
mod socket;
mod tcp;
mod tls;
mod verifier;

pub use self::{
    certificate::Expiry,
    hosts::{Host, InvalidPart, decode, encode},
    socket::Socket,
    tcp::{Keepalive, TcpOptions},
    tls::{Identity, Roots, TlsError, TlsOptions, Verification, is_of_tls, refused_by_tls, speaks_no_tls},
};
