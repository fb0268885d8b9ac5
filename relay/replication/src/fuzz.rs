//! The fuzzer's server (see `fuzz/README.md`): it says anything at all, from the login to the stream.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use client_socket::fuzz::{says_itself, server};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::{Builder, Runtime},
};
use tokio_postgres::Config;

use crate::{
    Frame, Lsn, Replication, ReplicationStream,
    framed::{Framed, SESSION_LIMIT},
    login::login,
    pgoutput::Decoder,
};

const PASSWORD: &str = "hunter2";

/// Plays one input: two bytes that say how, and the server's bytes.
pub fn backend(data: &[u8]) {
    let [how, piece, said @ ..] = data else { return };
    // Raw bytes find mistakes with lengths, and whole messages come further.
    let says = if how & 1 == 0 { Bytes::copy_from_slice(said) } else { messages(said, how & 0x1c == 0x1c) };
    let piece = 1 + usize::from(*piece).max(says.len() / 20);
    let starts_at_login = how & 2 == 0;
    RUNTIME.with(|runtime| runtime.block_on(talk(&says, piece, starts_at_login)));
}

thread_local! {
    /// The runtime, which the stream's clock needs.
    static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
}

/// PostgreSQL's messages from pieces of a tag, a length in one byte and a body. With `has_large` the first piece of
/// length 255 is continued with zeros, which takes long, so few inputs have one.
fn messages(mut pieces: &[u8], mut may_be_large: bool) -> Bytes {
    const LARGE_PIECE: usize = 270_000; // the least that counts as large
    let mut messages = BytesMut::new();
    while let Ok(tag) = pieces.try_get_u8() {
        let length = pieces.try_get_u8().unwrap_or_default();
        let (body, rest) = pieces.split_at(pieces.len().min(length.into()));
        pieces = rest;
        let is_large = length == u8::MAX && std::mem::take(&mut may_be_large);
        let zeros = if is_large { LARGE_PIECE - body.len() } else { 0 };
        messages.put_u8(tag);
        messages.put_u32(4 + u32::try_from(body.len() + zeros).expect("a size"));
        messages.put_slice(body);
        messages.put_bytes(0, zeros);
    }
    messages.freeze()
}

async fn talk(says: &[u8], piece: usize, starts_at_login: bool) {
    let may_show_it = says_itself(says, PASSWORD);
    let mut framed = Framed::new(server(says, piece));
    if !starts_at_login {
        framed.set_limit(SESSION_LIMIT);
        return read(ReplicationStream::new(framed, 7)).await;
    }
    let mut config = Config::new();
    config.host("db").user("relay").password(PASSWORD).dbname("shop");
    let accepted = match login(&mut framed, &config, None).await {
        Ok(accepted) => accepted,
        Err(error) => return assert!(may_show_it || !error.to_string().contains(PASSWORD), "{error}"),
    };
    let mut session = Replication::new(framed, accepted.pid);
    let _ = session.begin(accepted.server_version.as_deref()).await;
    let _ = session.identify_system().await;
    let _ = session.set("wal_sender_timeout", "1000").await;
    let _ = session.create_slot("outbox").await;
    if let Ok(stream) = session.start("outbox", "outbox", Lsn(0)).await {
        read(stream).await;
    }
}

/// Reads to the end, as a relay does, with a limit that inputs can reach.
async fn read(mut stream: ReplicationStream<impl AsyncRead + AsyncWrite + Unpin>) {
    stream.limit_inserts(265_000);
    let mut decoder = Decoder::new();
    loop {
        match stream.next().await {
            Ok(frame) => {
                let shown = format!("{frame:?}");
                assert!(shown.len() < 1 << 20, "a frame is shown without its data");
                if let Frame::XLogData { data, .. } = frame {
                    let _ = decoder.decode(data);
                }
            }
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
        let _ = stream.status(Lsn(1), false).await;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_seed_of_the_fuzzer_keeps_the_promises() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/backend");
        let played: Vec<_> =
            std::fs::read_dir(seeds).unwrap().map(|seed| std::fs::read(seed.unwrap().path())).collect();
        assert!(played.len() > 20, "{}", played.len());
        played.into_iter().for_each(|seed| super::backend(&seed.unwrap()));
    }
}
