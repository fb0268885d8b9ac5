//! Deliberate faults, of which the simulator switches on one at a time: a simulator that has never found anything
//! proves nothing. Without the crate's feature `faults` none can be switched on, and the compiler removes them.

macro_rules! faults {
    ($(#[doc = $what:literal] $fault:ident,)+) => {
        /// A mistake that this core could have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Fault { $(#[doc = $what] $fault,)+ }

        impl Fault {
            /// All faults.
            pub const ALL: [Self; [$($what),+].len()] = [$(Self::$fault),+];
        }
    };
}

faults! {
    /// A verdict is written before the broker has answered.
    SettleBeforeConfirm,
    /// A position is acknowledged before the verdicts up to it are written.
    AcknowledgeBeforeSettle,
    /// An event that a pass has read is published again from the stream.
    CoveredTaken,
    /// An event that no pass has read is taken for read.
    UncoveredSkipped,
    /// A key forgets the event that holds it.
    HolderForgotten,
    /// Two events of a strict key leave at a time.
    StrictTwoAtATime,
    /// Events of a strict key leave together although the sink keeps no order.
    StrictTogether,
    /// Events of a strict key leave together although they have several destinations.
    DestinationsTogether,
    /// An event that came back from an ordered sink behind another is taken for delivered.
    BehindDelivered,
    /// Later events of a key leave before those that have yet to come back.
    BehindOvertaken,
    /// Coming back behind another counts as an attempt.
    BehindCounts,
    /// A session reads back from its predecessor's last verdict on, and not from before that.
    ReadBackTooLate,
    /// After the broker has forgotten the sink, nothing is read back.
    IdentityTrusted,
    /// Events whose verdicts are missing for long are not kept in the table.
    DoubtForgotten,
    /// A session's first verdicts let the next session read from later on.
    FloorForgotten,
    /// An event is sent that is larger than the broker takes.
    LargeSent,
    /// No pass follows for a key that has events in the table and room in memory.
    RefillLost,
    /// Events that are due are not looked for.
    TimerForgotten,
    /// Every nack counts as an attempt, whatever becomes of other messages.
    NackCounts,
    /// An outage counts as an attempt.
    OutageCounts,
    /// Events in flight over a lost connection are not published again.
    OutageForgets,
    /// Events in flight when connections ended are never suspected, and leave together again.
    EnderUnknown,
    /// An event fails the first time that a connection ends while it is alone in flight.
    EndingFails,
    /// A destination that leaves messages unanswered stops all others.
    SilenceUnheard,
    /// A row that is not yet visible is taken for deleted.
    UnseenIsGone,
    /// A transaction that left events to the table is not remembered as not yet visible.
    NotYetVisibleForgotten,
    /// A commit that is not yet visible is acknowledged.
    UnseenAcknowledged,
    /// A page of a backlog goes on behind rows of a transaction that had not finished.
    PageOvertakes,
    /// An event that is due leaves before earlier ones of its key that no page of a backlog has reached.
    DueOvertakes,
    /// Verdicts whose write failed are dropped.
    FailedWriteDropped,
    /// Memory that events gave back stays taken.
    BudgetLeaks,
    /// Events are published although too many verdicts are unwritten.
    UnsettledUnbounded,
    /// More events leave in a second than `max_rate` allows.
    RateIgnored,
    /// A drain takes events that the stream brings.
    DrainTakesMore,
    /// A commit whose events wait long for their verdicts holds the slot back.
    WaitingPinsLog,
    /// After the publication lacked the table, events are streamed before those that it missed.
    PublicationTrusted,
    /// A session's first look at the publication waits for no transaction that may be older than the publication.
    FirstLookTrusted,
    /// Ready events of held keys stay in memory while a pass reads.
    ReadyKeptInPass,
    /// When the row of a key's holder is gone, ready events leave before those that went back to the table.
    GoneLetsLaterGo,
    /// While every destination is unavailable, events of held keys take places in a round.
    HeldTakesProbes,
    /// A replay does not wake the relay.
    ReplayUnheard,
    /// A slot over its limit is not dropped.
    OverLimitIgnored,
    /// A slot is dropped as soon as it is over its limit.
    OverLimitInHaste,
    /// A slot over its limit is dropped although another slot keeps more.
    OtherSlotIgnored,
    /// A relay that was frozen goes on when it thaws.
    FreezeUnnoticed,
    /// A pass that began before the stream started ends recovery.
    PassBeforeStream,
    /// A pass publishes events that are not yet on disk. (A mistake of the store, which the simulator plays.)
    VisibleNotFlushed,
}

#[cfg(feature = "faults")]
thread_local! {
    static SWITCHED_ON: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Switches on this fault, on this thread; any other is switched off.
#[cfg(feature = "faults")]
pub fn switch_on(fault: Option<Fault>) {
    SWITCHED_ON.set(fault);
}

/// Whether the fault is switched on.
#[cfg(feature = "faults")]
pub fn is_on(fault: Fault) -> bool {
    SWITCHED_ON.get() == Some(fault)
}

#[cfg(not(feature = "faults"))]
pub(crate) const fn is_on(_: Fault) -> bool {
    false
}
