//! Whether events are delivered, with a sentence for people. Pure.

use std::time::{Duration, Instant};

use super::view::{Phase, State, View};
use crate::time::age;

/// After this time without an answer to a request, PostgreSQL counts as silent.
const SILENT: Duration = Duration::from_secs(15);

/// After this time without any answer of the broker, the messages in flight count as late.
const UNANSWERED: Duration = Duration::from_secs(10);

/// Whether this relay is ready, with a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Events are delivered as they are committed.
    Delivering(String),
    /// Another relay delivers, and this one is its standby.
    Waiting(String),
    /// This relay does not deliver events, or delivers them late.
    Not(String),
}

impl Readiness {
    /// The readiness at `now`.
    pub fn of(view: &View, now: Instant) -> Self {
        Self::judge(view, now, |changing| changing)
    }

    /// The readiness with a sentence that does not change while the state lasts: times and numbers are left out. It is
    /// meant for readers that are notified of each change.
    pub fn without_times(view: &View, now: Instant) -> Self {
        Self::judge(view, now, |_| String::new())
    }

    /// Judges the view; `changing` maps each part of the sentence that changes every second.
    fn judge(view: &View, now: Instant, changing: impl Fn(String) -> String) -> Self {
        let lasting = |time: Duration| changing(format!(" for {}", age(time)));
        let lasted = lasting(now.duration_since(view.state_since));
        let name = view.broker.name;
        match (view.state(), view.away_for(now)) {
            (State::Standby, _) => Self::Waiting(format!("another relay is at work; this one has waited{lasted}")),
            (State::Stopped, _) => Self::Not("stopped".to_owned()),
            (State::Draining, _) => {
                Self::Not("stopping: what is in flight is finished, and nothing more is taken".to_owned())
            }
            (State::Disconnected, _) => Self::Not(disconnected(&view.phase, &lasted)),
            _ if let Some(silent) = for_longer(view.silent_since, SILENT, now) => {
                Self::Not(format!("PostgreSQL has said nothing{}, although it was asked", lasting(silent)))
            }
            (_, Some(away)) => Self::Not(away_sentence(view, &lasting(away))),
            (State::Unavailable, _) => Self::Not(format!(
                "{name} takes no message{lasted} ({}); {}",
                view.broker.unavailable_by, view.broker.unavailable_hint
            )),
            (State::Parked, _) if view.is_making_slot => {
                let why = view.waits_for.as_deref().unwrap_or("making the slot takes long");
                Self::Not(format!("{why}; the table is read every second instead{lasted}"))
            }
            (State::Parked, _) => {
                Self::Not(format!("working off a backlog from the table{lasted}: events are late, none is lost"))
            }
            (State::Streaming, _) if let Some(waited) = for_longer(view.unanswered_since, UNANSWERED, now) => {
                let in_flight = changing(format!("; {} in flight", view.figures.in_flight));
                Self::Not(format!("{name} has answered no message{}{in_flight}", lasting(waited)))
            }
            (State::Streaming, _) => Self::Delivering(format!("delivering to {name}{lasted}")),
        }
    }

    /// The sentence.
    pub fn sentence(&self) -> &str {
        match self {
            Self::Delivering(sentence) | Self::Waiting(sentence) | Self::Not(sentence) => sentence,
        }
    }

    /// Whether the relay delivers, or is a standby.
    pub fn is_ready(&self) -> bool {
        !matches!(self, Self::Not(_))
    }
}

fn for_longer(since: Option<Instant>, limit: Duration, now: Instant) -> Option<Duration> {
    let lasted = now.duration_since(since?);
    (lasted >= limit).then_some(lasted)
}

fn disconnected(phase: &Phase, lasted: &str) -> String {
    match phase {
        Phase::Disconnected { error: Some(error) } => {
            format!("not connected{lasted}: {error}")
        }
        _ => format!("connecting{lasted}"),
    }
}

fn away_sentence(view: &View, away: &str) -> String {
    let name = view.broker.name;
    if view.figures.is_blocked {
        format!("{name} has blocked publishing{away} ({})", view.broker.blocks_over)
    } else {
        let why = view.sink.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        format!("no connection to {name}{away}{why}")
    }
}

#[cfg(test)]
mod tests {
    use outbox_core::Figures;

    use super::*;
    use crate::{
        observe::Shown,
        sink::{ANY, SinkFigures},
    };

    const MINUTE: Duration = Duration::from_secs(60);

    fn at_work(figures: Figures, sink: SinkFigures, began: Instant) -> View {
        let mut view = View::new(&ANY, began);
        view.enters(Phase::AtWork, began);
        view.publish(Shown { figures, sink, ..Shown::default() }, began);
        view
    }

    #[test]
    fn only_a_relay_that_streams_to_a_broker_delivers() {
        let began = Instant::now();
        let now = began + 3 * MINUTE;
        let live = Figures { is_live: true, ..Figures::default() };
        let away =
            SinkFigures { error: Some("cannot connect to mq:5672: refused".to_owned()), ..SinkFigures::default() };
        for (figures, sink, expected) in [
            (live, SinkFigures::default(), Ok("delivering to AnyMQ for 3m")),
            (Figures { is_live: false, ..live }, SinkFigures::default(), Err("working off a backlog")),
            (
                Figures { away_since: Some(began), ..live },
                away,
                Err("no connection to AnyMQ for 3m: cannot connect to mq:5672: refused"),
            ),
            (
                Figures { away_since: Some(began), is_blocked: true, ..live },
                SinkFigures::default(),
                Err("AnyMQ has blocked publishing for 3m (a full disk)"),
            ),
            (
                Figures { unavailable_since: Some(began), ..live },
                SinkFigures::default(),
                Err("AnyMQ takes no message for 3m (no); look at its queues"),
            ),
            (Figures { is_draining: true, ..live }, SinkFigures::default(), Err("stopping")),
        ] {
            let readiness = Readiness::of(&at_work(figures, sink, began), now);
            let (sentence, is_ready) = expected.map_or_else(|text| (text, false), |text| (text, true));
            assert!(readiness.sentence().contains(sentence), "{readiness:?}");
            assert_eq!(readiness.is_ready(), is_ready, "{readiness:?}");
        }
    }

    #[test]
    fn a_sentence_without_times_stays_the_same_while_the_state_lasts() {
        let began = Instant::now();
        let live = Figures { is_live: true, in_flight: 3, ..Figures::default() };
        let mut view = at_work(live, SinkFigures::default(), began);
        let at = |view: &View, seconds| Readiness::without_times(view, began + Duration::from_secs(seconds));
        for (from, sentence) in [(0, "delivering to AnyMQ"), (10, "AnyMQ has answered no message")] {
            for second in 0..9 {
                view.publish(Shown { figures: Figures { in_flight: second + 1, ..live }, ..Shown::default() }, began);
                assert_eq!(at(&view, from + second as u64).sentence(), sentence);
            }
        }
        view.enters(Phase::Disconnected { error: Some("refused".to_owned()) }, began);
        assert_eq!(at(&view, 70).sentence(), "not connected: refused");
    }

    #[test]
    fn a_server_that_does_not_answer_is_not_taken_for_one_that_has_nothing_to_say() {
        let began = Instant::now();
        let live = Figures { is_live: true, in_flight: 3, ..Figures::default() };
        let mut view = at_work(live, SinkFigures::default(), began);
        let at = |view: &View, seconds| Readiness::of(view, began + Duration::from_secs(seconds));
        assert!(at(&view, 9).is_ready());
        assert_eq!(at(&view, 10).sentence(), "AnyMQ has answered no message for 10s; 3 in flight");
        view.publish(Shown { silent_since: Some(began), ..Shown::default() }, began);
        assert!(!at(&view, 14).sentence().contains("PostgreSQL"));
        assert_eq!(at(&view, 25).sentence(), "PostgreSQL has said nothing for 25s, although it was asked");
    }

    #[test]
    fn a_standby_is_ready_and_a_relay_without_a_database_is_not() {
        let now = Instant::now();
        let mut view = View::new(&ANY, now);
        view.enters(Phase::Standby, now);
        assert!(matches!(Readiness::of(&view, now), Readiness::Waiting(_)));
        view.enters(Phase::Disconnected { error: Some("cannot connect to db:5432".to_owned()) }, now);
        let readiness = Readiness::of(&view, now + MINUTE);
        assert_eq!(readiness, Readiness::Not("not connected for 1m: cannot connect to db:5432".to_owned()));
    }
}
