//! lapin speaks over TCP, or TLS of its own. This lets it speak over a socket that was reached, encrypted and verified as the relay's own
//! is: through a connection within this process, over the loopback device.

use std::{
    io,
    net::Ipv4Addr,
    sync::{Mutex, PoisonError},
};

use async_compat::Compat;
use lapin::{AsyncTcpStream, Connection, ConnectionProperties, runtime::default_runtime, uri::AMQPUri};
use pg_replication::Socket;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Logs in over the socket. The second part passes the bytes on, until it is dropped.
pub(super) async fn connect(
    socket: Socket,
    uri: AMQPUri,
    properties: ConnectionProperties,
) -> Result<(Connection, JoinSet<()>), lapin::Error> {
    let (near, mut far) = pair().await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut socket = socket;
        let _ = copy_bidirectional(&mut socket, &mut far).await; // either end learns from its own side that it is over
    });
    let near = Mutex::new(Some(near));
    let dial = async move |_, _| {
        let near = near.lock().unwrap_or_else(PoisonError::into_inner).take();
        let near = near.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?; // it dials once
        Ok(AsyncTcpStream::Plain(Compat::new(near)))
    };
    Ok((Connection::connector(uri, default_runtime()?, dial, properties).await?, tasks))
}

/// Two ends of a connection. Whoever else on this machine connects in between is sent away.
async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let near = TcpStream::connect(listener.local_addr()?).await?;
    near.set_nodelay(true)?;
    loop {
        let (far, from) = listener.accept().await?;
        if from == near.local_addr()? {
            far.set_nodelay(true)?;
            return Ok((near, far));
        }
    }
}
