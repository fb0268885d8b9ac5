//! Deliberate faults, one of which the simulator switches on at a time: a simulator that has never found anything proves nothing.
//! Without the crate's feature `faults` none can be switched on, and the compiler leaves them out.

macro_rules! faults {
    ($(#[doc = $what:literal] $fault:ident,)+) => {
        /// A mistake that this core could have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Fault { $(#[doc = $what] $fault,)+ }

        impl Fault {
            /// All of them.
            pub const ALL: [Self; [$($what),+].len()] = [$(Self::$fault),+];
        }
    };
}

faults! {
    /// A verdict is written before the broker has answered.
    SettleBeforeConfirm,
    /// A position is acknowledged before the verdicts up to it are written.
    AcknowledgeBeforeSettle,
    /// What a pass has covered is taken for not covered.
    CoveredTaken,
    /// What a pass has not covered is taken for covered.
    UncoveredSkipped,
    /// A key forgets the event that holds it.
    HolderForgotten,
    /// A strict key lets two events leave at a time.
    StrictTwoAtATime,
    /// The table is not read again for a key that has worked off what it had in memory.
    RefillLost,
    /// Events that wait for their time are not looked for.
    TimerForgotten,
    /// A nack counts as an attempt, whatever becomes of others.
    NackCounts,
    /// An outage counts as an attempt.
    OutageCounts,
    /// What was in flight over a lost connection is not published again.
    OutageForgets,
    /// What was in flight when connections ended is never suspected, and leaves together again.
    EnderUnknown,
    /// An event fails at once when a connection ends while it is alone in flight.
    EndingFails,
    /// A destination that leaves messages unanswered stops all others.
    SilenceUnheard,
    /// A row that is not visible yet is taken for gone.
    UnseenIsGone,
    /// A transaction that left something to the table is not awaited.
    NotYetVisibleForgotten,
    /// A commit that cannot be seen yet is acknowledged.
    UnseenAcknowledged,
    /// A page of a backlog goes on behind a transaction that had not finished.
    PageOvertakes,
    /// An event whose time has come goes before those of its key that no page of a backlog has reached.
    DueOvertakes,
    /// A failed write of verdicts is dropped.
    FailedWriteDropped,
    /// The budget is not given back.
    BudgetLeaks,
    /// More is published than verdicts are written.
    UnsettledUnbounded,
    /// More leaves in a second than is allowed.
    RateIgnored,
    /// A drain takes what the stream brings.
    DrainTakesMore,
    /// What waits long for its verdict holds the slot back.
    WaitingPinsLog,
    /// The table can leave the publication without what was missed going first.
    PublicationTrusted,
    /// A session's first look at the publication awaits no transaction that may be older than the publication.
    FirstLookTrusted,
    /// What is ready and held back stays in memory while a pass reads.
    ReadyKeptInPass,
    /// When the row of an event that held its key is gone, what is ready leaves before what went back to the table.
    GoneLetsLaterGo,
    /// While the broker refuses everything, what is held back takes the turns of what may leave.
    HeldTakesProbes,
    /// A replay rings for nobody.
    ReplayUnheard,
    /// A slot over its limit stays.
    OverLimitIgnored,
    /// A slot is dropped as soon as it is over its limit.
    OverLimitInHaste,
    /// A slot over its limit is dropped although another keeps more.
    OtherSlotIgnored,
    /// A frozen relay goes on when it wakes.
    FreezeUnnoticed,
    /// A pass that began before the stream did ends recovery.
    PassBeforeStream,
    /// A pass publishes what is visible and not on disk yet. (A mistake of the store, which the simulator plays.)
    VisibleNotFlushed,
}

#[cfg(feature = "faults")]
thread_local! {
    static SWITCHED_ON: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Switches a fault on, on this thread, and any other off.
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
