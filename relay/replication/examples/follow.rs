//! Follows a publication through a new slot, and prints every inserted row:
//! `cargo run --example follow -- postgres://user:password@host/database publication slot`

use std::{convert::Infallible, error::Error};

use pg_replication::{
    ConnInfo, Frame, Lsn,
    pgoutput::{Decoder, Message},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, publication, slot] = &arguments[..] else { return Err("usage: follow URL PUBLICATION SLOT".into()) };
    follow(&url.parse()?, publication, slot, |line| println!("{line}")).await?;
    Ok(())
}

/// Ends when the server ends the stream.
pub(crate) async fn follow(
    server: &ConnInfo,
    publication: &str,
    slot: &str,
    mut print: impl FnMut(String),
) -> Result<Infallible, Box<dyn Error>> {
    let mut session = server.connect_replication("follow").await?;
    match session.create_slot(slot).await {
        Ok(position) => print(format!("slot {slot} begins at {position}")),
        Err(error) if error.slot_exists() => {}
        Err(error) => return Err(error.into()),
    }
    let mut stream = session.start(slot, publication, Lsn(0)).await?;
    let mut decoder = Decoder::new();
    loop {
        match stream.next().await? {
            Frame::XLogData { data, .. } => match decoder.decode(data)? {
                Message::Insert { relation, tuple } => print(format!("{}: {tuple:?}", relation.name)),
                // Acknowledged rows are not sent again: acknowledge once the rows are safe in their new place.
                Message::Commit { end_lsn, .. } => stream.status(end_lsn, false).await?,
                _ => {}
            },
            Frame::Keepalive { wal_end, .. } => stream.status(wal_end, false).await?,
            Frame::Oversized { bytes, .. } => print(format!("passed over a row of {bytes} bytes")),
            Frame::Warning(warning) => print(format!("warning: {warning}")),
        }
    }
}
