//! How many messages lie in a queue: what was delivered, if nobody consumes.

use std::time::{Duration, Instant};

use crate::{
    ceiling::{on_own_thread, rate},
    socket::{Link, Queue},
};

/// Asks the broker how long a queue is.
pub(super) struct Depth {
    link: Option<Link>,
    queue: Queue,
}

impl Depth {
    /// Of this queue, which must exist.
    pub(super) async fn of(url: String, queue: Queue) -> Self {
        Self { link: Some(on_own_thread(move || Link::open(&url)).await), queue }
    }

    /// Messages now.
    pub(super) async fn now(&mut self) -> u64 {
        let (mut link, queue) = (self.link.take().expect("it is given back below"), self.queue.clone());
        let (link, messages) = on_own_thread(move || {
            let messages = link.messages(&queue);
            (link, messages)
        })
        .await;
        self.link = Some(link);
        messages
    }

    /// Messages a second that come in this time.
    pub(super) async fn rate_over(&mut self, time: Duration) -> f64 {
        let (before, from) = (self.now().await, Instant::now());
        tokio::time::sleep(time).await; // what is measured takes this long
        let now = self.now().await;
        rate(now - before, from.elapsed())
    }
}
