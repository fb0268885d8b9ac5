//! A broker with queues, as RabbitMQ is: it nacks and returns single messages, keeps no order between them, and closes
//! a channel over a message that it cannot take.

use std::sync::Arc;

use outbox_core::{Event, Outcome};
use uuid::Uuid;

use super::{Broker, Connection, Muted, Queue, Sent, Stepped};
use crate::database::seq_of;

impl Broker {
    pub(super) fn enqueue(
        &mut self,
        number: u64,
        sent: Sent,
        queue: usize,
        is_on_side_channel: bool,
        unroutable_is_retried: bool,
    ) -> Stepped {
        let event = Arc::clone(&sent.event);
        let seq = seq_of(&event.id);
        let is_poison = event.event_type.is_some();
        if self.queues[queue] == Queue::Mute && !is_poison {
            self.seen.entry(seq).or_default().muted += 1;
            self.muted.push(Muted { connection: number, sent, queue, is_on_side_channel });
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.muted += u64::from(!is_on_side_channel);
                connection.is_stuck |= connection.muted > number % 3;
            }
            return Stepped::Muted { seq, is_on_side_channel };
        }
        let outcome = self.outcome(number, &event, queue, unroutable_is_retried);
        let Some(connection) = self.connections.get_mut(&number) else { return Stepped::Nothing };
        let closes_channel = is_poison && !is_on_side_channel;
        if closes_channel {
            connection.close_channel(&event);
        }
        let is_accepted = outcome == Outcome::Delivered;
        connection.answers.push((event.id, outcome));
        if is_accepted { Stepped::Accepted(seq, None) } else { Stepped::NotTaken { seq, closes_channel } }
    }
}

impl Connection {
    /// The channel is closed. The sink publishes the unanswered messages again, and this one last, on a channel of its
    /// own.
    fn close_channel(&mut self, event: &Event) {
        let unanswered = &self.unanswered;
        let is_on_side_channel = |id: &Uuid| unanswered.iter().all(|event| event.id != *id);
        let stays = |(id, outcome): &(Uuid, Outcome)| is_on_side_channel(id) || matches!(outcome, Outcome::Rejected(_));
        self.answers.retain(stays);
        let is_decided = |id: &Uuid| *id == event.id || self.answers.iter().any(|(answered, _)| answered == id);
        let again = self.unanswered.iter().filter(|other| !is_decided(&other.id)).cloned();
        self.on_the_way = again.map(|event| Sent { event, at: 0, generation: 0 }).collect();
    }
}
