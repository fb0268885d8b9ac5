//! Events whose bodies are larger than the broker takes. They fail without being sent.

use std::sync::Arc;

use uuid::Uuid;

use super::{Dispatch, State};
use crate::{
    faults::{self, Fault},
    interface::{Event, Status},
};

impl Dispatch {
    /// Gives a ready event up if its body is larger than the broker takes. Returns whether it did.
    pub(super) fn is_too_large(&mut self, id: &Uuid) -> bool {
        let Some(most) = self.largest_message else { return false };
        let Some(tracked) = self.tracked.get_mut(id).filter(|tracked| tracked.state == State::Ready) else {
            return false;
        };
        let is_larger = |event: &mut Arc<Event>| event.body.as_ref().is_ok_and(|body| body.len() > most);
        let Some(event) = tracked.event.take_if(is_larger) else { return false };
        if faults::is_on(Fault::LargeSent) {
            tracked.event = Some(event);
            return false;
        }
        let bytes = event.body.as_ref().map_or(0, |body| body.len());
        let error = format!("its body has {bytes} bytes, and the broker takes at most {most}");
        self.suspects.cleared(id, std::mem::take(&mut tracked.endings));
        let landed = tracked.land(self.policy.holds(Status::Failed));
        let decided = self.decide(id, event, landed, Status::Failed, Some(error), None);
        self.split_off.too_large.push(decided);
        true
    }
}
