//! Start-up and authentication of a replication session
//! (<https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-START-UP>).

use std::io;

use fallible_iterator::FallibleIterator;
use postgres_protocol::{
    authentication::{
        md5_hash,
        sasl::{self, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256},
    },
    message::{
        backend::{AuthenticationSaslBody, Message},
        frontend,
    },
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::{ChannelBinding, Config, TargetSessionAttrs};

use crate::{error::ConnectCause, framed::Framed, server_error::ServerError};

/// A connection to a server, of whatever kind.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire for S {}

/// What the server says of a session that it accepts.
#[derive(Debug, Default)]
pub(crate) struct Accepted {
    /// The server process's id, the `pid` of `pg_stat_activity`.
    pub(crate) pid: i32,
    /// The version as the server reports it, such as `17.2`.
    pub(crate) server_version: Option<String>,
}

/// Logs in.
pub(crate) async fn login<S: Wire>(
    link: &mut Framed<S>,
    config: &Config,
    binding: Option<Vec<u8>>,
) -> Result<Accepted, ConnectCause> {
    let parameters = [
        ("client_encoding", Some("UTF8")), // names in the stream are converted to it
        ("replication", Some("database")), // logical decoding
        ("user", config.get_user()),
        ("database", config.get_dbname()),
        ("options", config.get_options()),
        ("application_name", config.get_application_name()),
    ];
    let parameters = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    frontend::startup_message(parameters, link.outgoing())?;
    authenticate(link, config, binding).await?;
    let mut accepted = Accepted::default();
    let mut read_only = false;
    loop {
        match receive(link).await? {
            Message::BackendKeyData(body) => accepted.pid = body.process_id(),
            Message::ParameterStatus(body) if body.name()? == "server_version" => {
                accepted.server_version = Some(body.value()?.to_owned());
            }
            Message::ParameterStatus(body) => {
                // PostgreSQL 14 and newer report this setting for clients that ask for a read-write server.
                let reason = matches!(body.name()?, "in_hot_standby" | "default_transaction_read_only");
                read_only |= reason && body.value()? == "on";
            }
            Message::ReadyForQuery(_) => break,
            _ => return Err(unexpected("after the login")),
        }
    }
    if read_only && config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
        return Err(ConnectCause::ReadOnly);
    }
    Ok(accepted)
}

async fn authenticate<S: Wire>(
    link: &mut Framed<S>,
    config: &Config,
    binding: Option<Vec<u8>>,
) -> Result<(), ConnectCause> {
    match receive(link).await? {
        Message::AuthenticationOk => return unbound(config),
        Message::AuthenticationCleartextPassword => {
            unbound(config)?;
            frontend::password_message(password(config)?, link.outgoing())?;
        }
        Message::AuthenticationMd5Password(body) => {
            unbound(config)?;
            let user = config.get_user().unwrap_or_default().as_bytes();
            let hash = md5_hash(user, password(config)?, body.salt());
            frontend::password_message(hash.as_bytes(), link.outgoing())?;
        }
        Message::AuthenticationSasl(body) => scram(link, config, &body, binding).await?,
        Message::AuthenticationKerberosV5 | Message::AuthenticationGss | Message::AuthenticationSspi => {
            return Err(failed("the server asks for Kerberos, GSSAPI or SSPI: none is supported"));
        }
        _ => return Err(unexpected("where a login begins")),
    }
    match receive(link).await? {
        Message::AuthenticationOk => Ok(()),
        _ => Err(unexpected("where a login ends")),
    }
}

/// SCRAM-SHA-256, bound to the TLS session if both sides can.
async fn scram<S: Wire>(
    link: &mut Framed<S>,
    config: &Config,
    offer: &AuthenticationSaslBody,
    binding: Option<Vec<u8>>,
) -> Result<(), ConnectCause> {
    let offered: Vec<&str> = offer.mechanisms().collect()?;
    let binding = binding.filter(|_| config.get_channel_binding() != ChannelBinding::Disable);
    let (mechanism, binding) = match binding {
        Some(hash) if offered.contains(&SCRAM_SHA_256_PLUS) => {
            (SCRAM_SHA_256_PLUS, sasl::ChannelBinding::tls_server_end_point(hash))
        }
        // The client says that it supports binding: if an offer of it was cut on the way, the server ends the login.
        Some(_) => (SCRAM_SHA_256, sasl::ChannelBinding::unrequested()),
        None => (SCRAM_SHA_256, sasl::ChannelBinding::unsupported()),
    };
    if !offered.contains(&mechanism) {
        return Err(failed("the server asks for a SASL mechanism that is not supported"));
    }
    if mechanism == SCRAM_SHA_256 {
        unbound(config)?;
    }
    let mut scram = ScramSha256::new(password(config)?, binding);
    frontend::sasl_initial_response(mechanism, scram.message(), link.outgoing())?;
    let Message::AuthenticationSaslContinue(challenge) = receive(link).await? else {
        return Err(unexpected("where SCRAM has its challenge"));
    };
    scram.update(challenge.data()).map_err(|error| failed(&error.to_string()))?;
    frontend::sasl_response(scram.message(), link.outgoing())?;
    let Message::AuthenticationSaslFinal(proof) = receive(link).await? else {
        return Err(unexpected("where SCRAM has its proof"));
    };
    scram.finish(proof.data()).map_err(|error| failed(&error.to_string()))
}

/// Whether a login that is not bound to the TLS session is good enough.
fn unbound(config: &Config) -> Result<(), ConnectCause> {
    match config.get_channel_binding() {
        ChannelBinding::Require => {
            Err(failed("the server does not bind the login to TLS, and channel_binding asks for it"))
        }
        _ => Ok(()),
    }
}

fn password(config: &Config) -> Result<&[u8], ConnectCause> {
    config.get_password().ok_or_else(|| failed("the server asks for a password, and there is none"))
}

/// The next message that is not a notice or an error.
async fn receive<S: Wire>(link: &mut Framed<S>) -> Result<Message, ConnectCause> {
    loop {
        match Message::parse(&mut link.read().await?)? {
            Some(Message::ErrorResponse(body)) => return Err(ServerError::from_error(&body).into()),
            Some(Message::NoticeResponse(body)) => ServerError::log_notice(&body),
            Some(message) => return Ok(message),
            None => return Err(io::Error::from(io::ErrorKind::InvalidData).into()), // whole messages do parse
        }
    }
}

fn failed(why: &str) -> ConnectCause {
    ConnectCause::Login(why.to_owned())
}

fn unexpected(place: &str) -> ConnectCause {
    ConnectCause::Login(format!("the server sent something else {place}: is it PostgreSQL?"))
}
