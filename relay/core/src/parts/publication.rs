//! The publication as the session knows it.
//!
//! While the table is not published nothing of it is streamed, so the stream waits for a look at the publication each time that it
//! may have changed.

use crate::{
    faults::{self, Fault},
    interface::Published,
};

/// What was seen of the publication, and what is to be done about it.
#[derive(Clone, Debug)]
pub(crate) struct Publication {
    /// `None`: no look has ended yet.
    last_look: Option<Look>,
    is_look_due: bool,
    is_repair_due: bool,
    /// Its repair was refused before the session began: it publishes nothing.
    is_useless: bool,
    /// An insert has come without some columns since the server last described the table.
    lacks_columns: bool,
}

crate::marked!(Publication { last_look, is_look_due, is_repair_due, is_useless, lacks_columns });

/// The identity that a look has found; `None`: no publication has the table.
type Look = Option<String>;

/// What a look at the publication has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing has changed.
    Same,
    /// It is the session's first look, before events are streamed. What these transactions write may not be streamed.
    First(Vec<u32>),
    /// It has changed. What these transactions write may not be streamed.
    Changed(Vec<u32>),
}

impl Publication {
    pub(crate) fn new(is_useless: bool) -> Self {
        Self { last_look: None, is_look_due: true, is_repair_due: false, is_useless, lacks_columns: false }
    }

    /// Whether the stream brings nothing.
    pub(crate) fn is_useless(&self) -> bool {
        self.is_useless
    }

    /// Whether to look at it, before more is read of the stream.
    pub(crate) fn is_look_due(&self) -> bool {
        self.is_look_due
    }

    /// It may have changed.
    pub(crate) fn may_have_changed(&mut self) {
        self.is_look_due = true;
    }

    /// The server has described the table.
    pub(crate) fn described(&mut self) {
        self.lacks_columns = false;
        self.may_have_changed();
    }

    /// An insert has come without some columns. Returns whether it is the first since the table was described.
    pub(crate) fn lacks_columns(&mut self) -> bool {
        !std::mem::replace(&mut self.lacks_columns, true)
    }

    /// Asks for its repair, if it needs one.
    pub(crate) fn repair(&mut self) {
        self.is_repair_due = true;
    }

    /// Whether its repair is to begin now.
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
            // One that began after the change is streamed, unless it emitted before the change committed:
            // docs/delivery.md names that.
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
