//! From an address to a connection that is logged in.

use std::io;

use client_socket::{Host, Keepalive, Socket, TcpOptions, refused_by_tls};
use tokio::time::timeout;

use super::{
    channel::Channel,
    error::KafkaError,
    scram::{Hash, Scram},
    url::{KafkaUrl, Mechanism},
};
use crate::{
    config::ProduceConfig,
    wire::{
        codes,
        requests::{ApiVersions, Metadata, SaslAuthenticate, SaslHandshake},
    },
};

/// How a dead broker is noticed while nothing is sent.
const KEEPALIVE: Keepalive = Keepalive {
    idle: std::time::Duration::from_secs(30),
    interval: Some(std::time::Duration::from_secs(10)),
    retries: Some(3),
};

/// What a broker may expect that ends the connection before it answers.
const TLS_OR_LOGIN: &str = "it may expect TLS, another login, or a client's certificate";
/// The same, of one that ends the TLS handshake.
const NO_TLS: &str = "it may not speak TLS on this port: then the URL begins with kafka://, or the port is another";
/// The same, of one that answers what it answers to anybody, and nothing else.
const LOGIN: &str = "it may expect a login: give one, as user:password@ in front of the hosts";

/// Connects and logs in. The broker has answered a request that it answers only to those that it lets in.
pub(crate) async fn open(config: &ProduceConfig, host: &Host) -> Result<Channel, KafkaError> {
    let (limit, url) = (config.connect_timeout, config.url.now());
    let opening = async {
        let tcp = TcpOptions { keepalive: Some(KEEPALIVE), user_timeout: Some(config.confirm_timeout) };
        let stream = tcp.connect((host.name.as_str(), host.port)).await.map_err(KafkaError::Connect)?;
        let socket = match &url.tls {
            Some(tls) => tls.connect(stream, &host.name).await.map_err(no_handshake)?,
            None => Socket::tcp(stream),
        };
        let mut channel = Channel::new(socket, &config.client_id, limit);
        learn_versions(&mut channel).await.map_err(|error| match error {
            // A broker looks at the client's certificate after its own part of the handshake is over.
            KafkaError::Io(error) if url.tls.is_some() && refused_by_tls(&error) => KafkaError::Connect(error),
            KafkaError::Io(_) => KafkaError::HungUp(TLS_OR_LOGIN),
            error => error,
        })?;
        if let KafkaUrl { login: Some((user, password)), mechanism, .. } = &url {
            log_in(&mut channel, *mechanism, user, password).await?;
        }
        // A listener that expects a login tells anybody its versions, and a controller knows no such request.
        channel.ask(&Metadata { topics: &[], rights: false }).await.map_err(|error| match error {
            KafkaError::Io(_) if url.login.is_none() => KafkaError::HungUp(LOGIN),
            error => error,
        })?;
        Ok(channel)
    };
    timeout(limit, opening).await.unwrap_or(Err(KafkaError::ConnectTimeout(limit)))
}

/// The error of a TLS handshake. A broker without TLS takes its first bytes for the length of a request, finds that too
/// long, and ends the connection.
fn no_handshake(error: io::Error) -> KafkaError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => KafkaError::HungUp(NO_TLS),
        _ => KafkaError::Connect(error),
    }
}

async fn learn_versions(channel: &mut Channel) -> Result<(), KafkaError> {
    let (code, versions) = channel.ask_unchecked(&ApiVersions).await?;
    check("versions", code, None)?;
    channel.versions.0 = versions;
    Ok(())
}

async fn log_in(channel: &mut Channel, mechanism: Mechanism, user: &str, password: &str) -> Result<(), KafkaError> {
    let asked = mechanism.name();
    let (code, offered) = channel.ask(&SaslHandshake(asked)).await?;
    if code == codes::UNSUPPORTED_SASL_MECHANISM {
        return Err(KafkaError::Mechanism { asked, offered: offered.join(", ") });
    }
    if code == codes::ILLEGAL_SASL_STATE {
        return Err(KafkaError::NoLogins);
    }
    check("handshake", code, None)?;
    match mechanism {
        Mechanism::Plain => {
            authenticate(channel, format!("\0{user}\0{password}")).await?;
        }
        Mechanism::ScramSha256 => scram(channel, Hash::Sha256, user, password).await?,
        Mechanism::ScramSha512 => scram(channel, Hash::Sha512, user, password).await?,
        Mechanism::OAuthBearer => {
            // RFC 7628: the broker answers a bad token with the reason as JSON, and waits for one byte more.
            let answer = authenticate(channel, format!("n,,\x01auth=Bearer {password}\x01\x01")).await?;
            if !answer.is_empty() {
                return Err(KafkaError::Authentication(answer));
            }
        }
    }
    Ok(())
}

async fn scram(channel: &mut Channel, hash: Hash, user: &str, password: &str) -> Result<(), KafkaError> {
    let nonce: String = std::iter::repeat_with(fastrand::alphanumeric).take(32).collect();
    let (scram, first) = Scram::begin(hash, user, password, &nonce);
    let server_first = authenticate(channel, first).await?;
    let (proved, last) = scram.prove(&server_first).map_err(KafkaError::Authentication)?;
    let server_last = authenticate(channel, last).await?;
    proved.check(&server_last).map_err(KafkaError::Authentication)
}

async fn authenticate(channel: &mut Channel, message: String) -> Result<String, KafkaError> {
    let (code, said, message) = channel.ask(&SaslAuthenticate(message)).await?;
    if code != 0 {
        return Err(KafkaError::Authentication(said.unwrap_or_else(|| codes::name(code))));
    }
    Ok(String::from_utf8_lossy(&message).into_owned())
}

/// Turns a code into an error, unless it is 0.
pub(crate) fn check(request: &'static str, code: i16, said: Option<&str>) -> Result<(), KafkaError> {
    if code == 0 { Ok(()) } else { Err(refused(request, code, said)) }
}

/// The error that a code is.
pub(crate) fn refused(request: &'static str, code: i16, said: Option<&str>) -> KafkaError {
    let name = codes::name(code);
    let error = said.map_or(name.clone(), |said| format!("{name}: {said}"));
    KafkaError::Refused { request, code, error }
}
