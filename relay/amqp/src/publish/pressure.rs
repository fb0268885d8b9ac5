//! Whether the broker takes messages, and whether the caller knows. Pure.

use super::confirm::News;

/// What the broker has said about taking messages.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// Whether the broker is out of memory or disk (`connection.blocked`).
    blocked: bool,
    /// Whether the broker has stopped the channel (`channel.flow`).
    stopped: bool,
    /// The latest change that the caller has not heard of.
    news: Option<News>,
}

impl Pressure {
    /// Whether the broker takes no messages for now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked || self.stopped
    }

    /// Whether there is news for the caller.
    pub(crate) fn has_news(&self) -> bool {
        self.news.is_some()
    }

    /// The news for the caller.
    pub(crate) fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    /// The broker has blocked the connection.
    pub(crate) fn blocked(&mut self, reason: String) {
        self.change(true, self.stopped, reason);
    }

    /// The broker has unblocked the connection.
    pub(crate) fn unblocked(&mut self) {
        self.change(false, self.stopped, String::new());
    }

    /// The broker has stopped the channel, or lets it go on.
    pub(crate) fn flow(&mut self, active: bool) {
        self.change(self.blocked, !active, "the broker has stopped the channel (channel.flow)".to_owned());
    }

    fn change(&mut self, blocked: bool, stopped: bool, reason: String) {
        let was_blocked = self.is_blocked();
        (self.blocked, self.stopped) = (blocked, stopped);
        if self.is_blocked() != was_blocked {
            let news = if was_blocked { News::Unblocked } else { News::Blocked { reason } };
            // Two changes that the caller has not heard of cancel each other.
            self.news = self.news.take().map_or(Some(news), |_| None);
        }
    }
}
