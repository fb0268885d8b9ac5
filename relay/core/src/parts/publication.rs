//! The publication as the session knows it.
//!
//! While the publication lacks the table, the stream brings nothing of it. So each time that the publication may have
//! changed, the stream waits for a look at it.

use crate::{
    faults::{self, Fault},
    interface::Published,
};

/// What the last look has found, and what is to be done next.
#[derive(Clone, Debug)]
pub(crate) struct Publication {
    /// The last look; `None`: none has ended yet.
    last_look: Option<Look>,
    is_look_due: bool,
    is_repair_due: bool,
    /// The publication publishes nothing, and its repair was refused before the session began.
    is_useless: bool,
    /// Whether an insert lacked columns since the server last described the table.
    lacks_columns: bool,
}

crate::marked!(Publication { last_look, is_look_due, is_repair_due, is_useless, lacks_columns });

/// The identity that a look has found; `None`: no publication has the table.
type Look = Option<String>;

/// What a look at the publication has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The publication has not changed.
    Same,
    /// The session's first look, before events are streamed. Events of these transactions may not be streamed.
    First(Vec<u32>),
    /// The publication has changed. Events of these transactions may not be streamed.
    Changed(Vec<u32>),
}

impl Publication {
    pub(crate) fn new(is_useless: bool) -> Self {
        Self { last_look: None, is_look_due: true, is_repair_due: false, is_useless, lacks_columns: false }
    }

    /// Whether the publication publishes nothing, so that the stream brings nothing.
    pub(crate) fn is_useless(&self) -> bool {
        self.is_useless
    }

    /// Whether the stream waits for a look at the publication.
    pub(crate) fn is_look_due(&self) -> bool {
        self.is_look_due
    }

    /// The publication may have changed.
    pub(crate) fn may_have_changed(&mut self) {
        self.is_look_due = true;
    }

    /// The server has described the table.
    pub(crate) fn described(&mut self) {
        self.lacks_columns = false;
        self.may_have_changed();
    }

    /// An insert lacked columns. Returns whether it is the first since the table was described.
    pub(crate) fn lacks_columns(&mut self) -> bool {
        !std::mem::replace(&mut self.lacks_columns, true)
    }

    /// Asks for a check of the publication, and its repair if needed.
    pub(crate) fn repair(&mut self) {
        self.is_repair_due = true;
    }

    /// Whether the check that was asked for is to begin now.
    pub(crate) fn takes_repair(&mut self) -> bool {
        std::mem::take(&mut self.is_repair_due)
    }

    /// A look has ended.
    pub(crate) fn looked(&mut self, published: Published, is_live: bool) -> Found {
        self.is_look_due = false;
        let Published { identity, changed_by, snapshot, writers } = published;
        let before = self.last_look.replace(identity.clone());
        let is_same = identity.is_some() && before.as_ref() == Some(&identity);
        let is_first = before.is_none() && !is_live;
        let mut unpublished = writers.unwrap_or_else(|| snapshot.running().collect());
        if is_first {
            // A transaction that began after the change is streamed, unless it emitted before the change committed:
            // docs/failures.md describes that case.
            let is_older = |xid: u32| changed_by.iter().any(|change| snapshot.precedes(xid, *change));
            unpublished.retain(|xid| identity.is_none() || is_older(*xid));
            if faults::is_on(Fault::FirstLookTrusted) {
                unpublished.clear();
            }
            return Found::First(unpublished);
        }
        if is_same || faults::is_on(Fault::PublicationTrusted) { Found::Same } else { Found::Changed(unpublished) }
    }
}
