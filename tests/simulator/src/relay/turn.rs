//! A session's turn: the core says what to do, and the session does it, until nothing is left to do now.

use outbox_core::{Effect, Report, Status};

use crate::{
    agenda::What,
    checker::Promise,
    database::seq_of,
    knobs::Trouble,
    world::{World, micros},
};

impl World {
    /// Carries out what the core asks for.
    pub(crate) fn turn(&mut self, relay: usize) {
        let now = self.clocks();
        for effects in 0.. {
            let Some(session) = &mut self.relays[relay].session else { return };
            let id = session.id;
            let Some(effect) = session.core.next(now) else { break };
            if effects > 1000 {
                return self.checker.fail(Promise::Sane, None, "the core has something to do without end");
            }
            self.carry_out(relay, id, effect);
            if self.has(Trouble::KillRelay) && self.dice.troubles.u32(..4000) == 0 {
                return self.kill(relay);
            }
        }
        let Some(session) = &mut self.relays[relay].session else { return };
        session.turn += 1;
        let (id, turn) = (session.id, session.turn);
        let wake_at = session.core.wake_at(now.instant);
        if wake_at <= now.instant {
            return self.checker.fail(Promise::Sane, None, "the core wants to be woken in the past");
        }
        let wait = micros(wake_at - now.instant).max(1);
        session.live_from = session.core.is_live().then(|| session.live_from.unwrap_or(session.next_entry));
        let unwritten = session.core.unwritten() + session.core.on_side_channels();
        self.later(wait, What::Wake(relay, id, turn));
        self.relays[relay].most_unwritten = self.relays[relay].most_unwritten.max(unwritten);
        self.check_bounds(relay);
        self.check_wal(relay);
        self.check_slot(relay);
        self.check_tries(relay);
        self.check_goes_on(relay);
        self.poke(relay);
    }

    /// The core wanted to be woken at this time.
    pub(crate) fn wake(&mut self, relay: usize, id: u64, turn: u64) {
        if self.session(relay, id).is_some_and(|session| session.turn == turn) {
            self.turn(relay);
        }
    }

    fn carry_out(&mut self, relay: usize, id: u64, effect: Effect) {
        match effect {
            Effect::Publish { batch, beside } => self.publish(relay, batch, beside),
            Effect::ReadBack { since_us, older } => self.read_back(relay, since_us, older),
            Effect::ConnectAnew => self.connect_anew(relay, id),
            Effect::Table(request) => self.ask(relay, id, request),
            Effect::LookAtSlot { .. } => {
                let way = self.way();
                self.later(way, What::LookAtSlot(relay, id));
            }
            Effect::Acknowledge(position) => {
                let way = self.way();
                self.check_acknowledged(relay, position.0);
                self.later(way, What::Acknowledge(id, position.0));
            }
            Effect::Report(report) => self.report(relay, id, report),
            Effect::End(end) => self.ended(relay, end),
        }
    }

    /// Notes a report of the core for the checks, and adds it to the story.
    fn report(&mut self, relay: usize, id: u64, report: Report) {
        if let Report::Answered { event, status: Status::Failed, .. } = &report {
            self.checker.fact(seq_of(&event.id)).given_up = true;
        }
        // A relay that cannot read the table cannot know what may be acknowledged.
        if let Report::TableTrouble { verdicts: None, .. } = &report
            && let Some(session) = self.session(relay, id)
        {
            session.calm_since = u64::MAX; // until the next session
        }
        self.log_relay(relay, || match report {
            Report::Answered { event, status, error, .. } => {
                format!("{} is {}: {}", event.seq, status.as_str(), error.unwrap_or_default())
            }
            report => format!("{report:?}"),
        });
    }
}
