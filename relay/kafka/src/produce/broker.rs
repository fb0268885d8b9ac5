//! The task that owns the connection to one broker.

use bytes::{Bytes, BytesMut};
use client_socket::Host;
use tokio::{
    io::AsyncWriteExt,
    sync::mpsc::{Receiver, Sender},
};

use crate::{
    config::ProduceConfig,
    connect::{channel::read_frame, error::KafkaError, open::open},
    wire::requests::Produce,
};

/// What a broker's connection tells of itself.
#[derive(Debug)]
pub(crate) enum Heard {
    Open,
    Answer(Bytes),
    Ended(KafkaError),
}

/// Connects to a broker, sends requests, and passes on its answers, until one side ends.
pub(crate) async fn run(
    config: ProduceConfig,
    id: i32,
    generation: u64,
    host: Host,
    requests: Receiver<BytesMut>,
    heard: Sender<(i32, u64, Heard)>,
) {
    let error = match serve(config, id, generation, host, requests, &heard).await {
        Ok(()) => return, // the producer is gone
        Err(error) => error,
    };
    let _ = heard.send((id, generation, Heard::Ended(error))).await;
}

async fn serve(
    config: ProduceConfig,
    id: i32,
    generation: u64,
    host: Host,
    mut requests: Receiver<BytesMut>,
    heard: &Sender<(i32, u64, Heard)>,
) -> Result<(), KafkaError> {
    let channel = open(&config, &host).await?;
    channel.versions.check::<Produce<'_>>()?;
    if heard.send((id, generation, Heard::Open)).await.is_err() {
        return Ok(());
    }
    let (mut reader, mut writer) = tokio::io::split(channel.socket);
    let write = async {
        while let Some(request) = requests.recv().await {
            writer.write_all(&request).await.map_err(KafkaError::Io)?;
            writer.flush().await.map_err(KafkaError::Io)?;
        }
        Ok(())
    };
    let read = async {
        loop {
            let answer = read_frame(&mut reader).await.map_err(KafkaError::Io)?;
            if heard.send((id, generation, Heard::Answer(answer))).await.is_err() {
                return Ok(());
            }
        }
    };
    tokio::select! {
        written = write => written,
        read = read => read,
    }
}
