//! Consumes a queue that outlived its broker's crash, or that no consumer was on yet.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use lapin::{Connection, ConnectionProperties, options::BasicConsumeOptions, types::FieldTable};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Collects the ids of what arrives at a queue, in order, until it is dropped.
pub(super) struct Resumed {
    ids: Arc<Mutex<Vec<Uuid>>>,
    task: JoinHandle<()>,
    _connection: Connection,
}

impl Resumed {
    pub(super) async fn on(url: &str, queue: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
        let mut stream = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await.unwrap();
        let ids = Arc::<Mutex<Vec<Uuid>>>::default();
        let collected = Arc::clone(&ids);
        let task = tokio::spawn(async move {
            let _open = channel;
            while let Some(Ok(delivery)) = stream.next().await {
                // What has no id is no event: a gate's filler.
                let id = delivery.properties.message_id().as_ref().and_then(|id| Uuid::parse_str(id.as_str()).ok());
                collected.lock().unwrap().extend(id);
            }
        });
        Self { ids, task, _connection: connection }
    }

    pub(super) fn ids(&self) -> Vec<Uuid> {
        self.ids.lock().unwrap().clone()
    }
}

impl Drop for Resumed {
    fn drop(&mut self) {
        self.task.abort();
    }
}
