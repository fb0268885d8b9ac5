//! The table's side of a session: operations that the core asks for, each on its way to the server and back.

use outbox_core::{Finished, Input, Request, marked};

use crate::{
    agenda::What,
    database::{Executed, seq_of},
    world::{World, micros},
};

/// An operation on the table that is on its way.
#[derive(Clone)]
pub(crate) struct Operation {
    relay: usize,
    session: u64,
    /// The request until it reaches the server.
    request: Option<Request>,
    /// The result from then on.
    executed: Option<Executed>,
}

marked!(Operation { request, executed } not { relay, session });

impl World {
    /// The core asks for an operation, which is sent to the server.
    pub(super) fn ask(&mut self, relay: usize, id: u64, request: Request) {
        self.log_relay(relay, || format!("asks the table: {}", name_of(&request)));
        let number = self.number();
        self.operations.insert(number, Operation { relay, session: id, request: Some(request), executed: None });
        let way = self.way();
        self.later(way, What::Execute(number));
    }

    /// The operation reaches the server, which runs it.
    pub(crate) fn execute(&mut self, number: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let Some(request) = operation.request.take() else { return };
        if !self.db.is_up {
            self.operations.remove(&number);
            return;
        }
        // Without a stream, events that are due wait for a pass.
        let streams = self.db.slot.as_ref().is_some_and(|slot| slot.is_created);
        let takes_all_due = streams && matches!(&request, Request::Due(scan) if scan.older_than.is_none());
        let takes_floor_away = matches!(&request, Request::Keep(doubts) if doubts.floor_us.is_none());
        if takes_floor_away {
            let session = self.relays[operation.relay].session.as_ref().filter(|own| own.id == operation.session);
            for seq in self.db.left_out(|id| session.is_some_and(|session| session.core.knows(id))) {
                self.checker.fact(seq).was_left_out = true;
            }
        }
        let executed = self.db.execute(request, self.now);
        if let Finished::Due(due) = &executed.finished
            && takes_all_due
        {
            for event in &due.events {
                self.checker.fact(event.seq).goes_by_time |= !event.holds_key;
            }
        }
        let wait = micros(executed.wait);
        for (seq, status) in executed.written.clone() {
            self.log("table", || format!("{seq} is {}", status.as_str()));
            self.checker.written(seq, status, &self.knobs, &self.broker);
        }
        if let Some(operation) = self.operations.get_mut(&number) {
            operation.executed = Some(executed);
        }
        let way = self.way();
        self.later(way + wait, What::Finish(number));
        self.poke_all();
    }

    /// The operation's result reaches the relay.
    pub(crate) fn finish(&mut self, number: u64) {
        let Some(operation) = self.operations.get(&number) else { return };
        let (relay, id) = (operation.relay, operation.session);
        let thaws_at = self.relays[relay].frozen_until;
        if thaws_at > self.now {
            return self.at(thaws_at, What::Finish(number));
        }
        let now = self.clocks();
        let Some(Operation { executed: Some(executed), .. }) = self.operations.remove(&number) else { return };
        let Some(session) = self.session(relay, id) else { return };
        let events = match &executed.finished {
            Finished::Scanned(_, page) => page.events.as_slice(),
            Finished::Due(due) => due.events.as_slice(),
            _ => &[],
        };
        session.from_table.extend(events.iter().map(|event| event.seq));
        session.core.on(Input::Table(executed.finished), now);
        self.turn(relay);
    }

    /// The session is over. Each of its operations may have reached the server, or not.
    pub(super) fn drop_operations(&mut self, session: u64) {
        let own = |operation: &Operation| operation.session == session;
        for number in self.operations.iter().filter(|(_, op)| own(op)).map(|(number, _)| *number).collect::<Vec<_>>() {
            if self.dice.is_searched || self.dice.network.bool() {
                self.operations.remove(&number);
            }
        }
    }
}

/// The operation's name in a story.
fn name_of(request: &Request) -> String {
    match request {
        Request::Settle(batch) => {
            let verdicts =
                batch.verdicts.iter().map(|verdict| format!("{} {}", seq_of(&verdict.id), verdict.status.as_str()));
            format!("settle {}", verdicts.collect::<Vec<_>>().join(", "))
        }
        Request::Keep(doubts) => {
            let events = doubts.events.iter().map(|kept| format!("{} since {}", seq_of(&kept.id), kept.since_us));
            format!("keep {:?}, in doubt {}", doubts.floor_us, events.collect::<Vec<_>>().join(", "))
        }
        Request::Scan(from, scan) => format!("pending after {} ({} rows)", from.after_seq, scan.max_rows),
        Request::Due(_) => "due".to_owned(),
        Request::Snapshot => "snapshot".to_owned(),
        Request::LookAtPublication => "the publication?".to_owned(),
        Request::EnsurePublication => "fix the publication".to_owned(),
        Request::EnsureSequence => "fix the sequence".to_owned(),
    }
}
