//! Those who watch a relay.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use harness::get;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

/// Prometheus scrapes every 15 to 60 s; this is far more often.
const SCRAPED_EVERY: Duration = Duration::from_secs(1);
const LISTENS_WITHIN: Duration = Duration::from_secs(60);

/// One that scrapes, and one that looks at the dashboard. Dropping it ends both.
pub(super) struct Watchers([JoinHandle<()>; 2]);

impl Watchers {
    /// Of the relay that listens there, or soon will.
    pub(super) fn of(port: u16) -> Self {
        let scraping = tokio::spawn(async move {
            loop {
                let _ = get(port, "/metrics").await;
                tokio::time::sleep(SCRAPED_EVERY).await; // the pace of what is measured, not a wait for something
            }
        });
        let looking = tokio::spawn(async move {
            let until = Instant::now() + LISTENS_WITHIN;
            while let Err(error) = look(port).await {
                assert!(Instant::now() < until, "nobody listens on port {port}: {error}");
                tokio::time::sleep(Duration::from_millis(20)).await; // it does not listen yet
            }
        });
        Self([scraping, looking])
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Reads what a page that is open is told, until the relay ends.
async fn look(port: u16) -> std::io::Result<()> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let request = format!("GET /api/live HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut told = [0; 16 * 1024];
    while socket.read(&mut told).await? > 0 {}
    Ok(())
}
