//! Consumes a queue on a thread of its own, and notes when each message came.

use std::{
    net::{Shutdown, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use amqp_publisher::raw::{self, Incoming};
use harness::Vhost;
use uuid::Uuid;

use super::{link::Link, queue::Queue};

/// A consumer that acknowledges nothing, until it is dropped. Its queue stays.
pub(crate) struct Consumer {
    socket: TcpStream,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Consumer {
    /// Declares the queue and consumes it. `on_delivery` is called on the consumer's thread, in the order of the queue,
    /// with each message's id and the moment at which the read returned that brought its last byte. Until it returns,
    /// nothing is read.
    pub(crate) async fn start(
        vhost: &Vhost,
        queue: &Queue,
        on_delivery: impl FnMut(Uuid, Instant) + Send + 'static,
    ) -> Self {
        queue.declare(vhost).await;
        let mut link = Link::open(vhost, queue.exchange).await;
        link.write(&raw::consume(queue.name));
        let socket = link.socket();
        let is_ending = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&is_ending);
        let thread = thread::spawn(move || consume(link, &ending, on_delivery));
        Self { socket, is_ending, thread: Some(thread) }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        let _ = self.socket.shutdown(Shutdown::Both); // it may be closed already
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) && !thread::panicking() {
            panic!("the consumer has failed");
        }
    }
}

fn consume(mut link: Link, is_ending: &AtomicBool, mut on_delivery: impl FnMut(Uuid, Instant)) {
    let (mut id, mut left) = (Uuid::nil(), 0);
    loop {
        let read = link.read();
        let at = Instant::now();
        if read.is_err() {
            assert!(is_ending.load(Ordering::Acquire), "the consumer's connection has ended: {read:?}");
            return;
        }
        while let Some(frame) = link.next() {
            match frame {
                Incoming::Header { id: message_id, body } => {
                    (id, left) = (message_id.expect("a message_id that is a UUID"), body);
                }
                Incoming::Body(bytes) => left -= bytes,
                _ => continue, // the method of a delivery, whose header follows
            }
            if left == 0 {
                on_delivery(id, at);
            }
        }
    }
}
