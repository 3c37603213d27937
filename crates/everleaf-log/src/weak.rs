//! Rules that a test can switch off one by one, to see that it notices.

use everleaf_pmem::planted;

macro_rules! rules {
    ($($(#[doc = $text:literal])* $name:ident,)*) => {
        /// A rule that is left out. Outside of tests none ever is, and what is built without debug
        /// assertions looks at none. They are the first of the planted mistakes, in this order: a
        /// new one goes to the end.
        #[doc(hidden)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Weak {
            $($(#[doc = $text])* $name,)*
        }

        impl Weak {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

rules! {
    /// Any invalid group before a valid later one is damage.
    TailIsDamage,
    /// Damage to a durable group is taken for the end of the log.
    DamageIsTail,
    /// Groups of other sessions are replayed.
    SessionsAreOne,
    /// Opening serves what it read, without writing and syncing it.
    ServeTheCache,
    /// A checkpoint copies what was stored and not captured.
    CopyUncaptured,
    /// A checkpoint does not wait for the group behind its copies.
    WriteBeforeGroup,
    /// Segments go before the control block is durable.
    RecycleEarly,
    /// The durable number is published before the sync.
    PublishEarly,
    /// A segment is used before its name is durable.
    NameNotSynced,
    /// A segment is used again before its new name is durable.
    OtherNameNotSynced,
    /// The base is not synced before the control block moves on.
    BaseNotSynced,
    /// The stamp of a complete checkpoint may be durable before its pages.
    PagesNotSynced,
    /// It may be durable after the control block.
    StampNotSynced,
    /// A new session names the stamp that it has read, which may be in the page cache only.
    StampOfTheCache,
    /// A session serves before its stamp is durable.
    SessionNotMarked,
    /// A group's payload is not checked.
    NoChecksum,
    /// A session that goes on takes the length of its own segments for that of all.
    SizeOfTheSession,
    /// A segment that is missing is taken for the end of the log.
    GapIsEnd,
    /// An opening does not wait until segments behind the end are gone durably.
    RemovalNotSynced,
    /// A segment is used before its content is durable.
    SegmentNotSynced,
    /// The last group of a segment is written before the name of the next one is durable.
    CloseBeforeName,
    /// The last group of a segment is not synced with the first of the next.
    CloseNotSynced,
    /// An opening does not sync what it has written again.
    TailNotSynced,
    /// The control block is not synced.
    ControlNotSynced,
    /// The control block is written once.
    ControlOnce,
    /// A control block that cannot be read is passed over for the one before.
    ControlFallsBack,
    /// The image's first page is not stored to at opening.
    FirstPageUntouched,
    /// Replay leaves words alone that are equal already.
    EqualIsDone,
    /// The first page is given back to the file like others.
    FirstPageGoes,
    /// A page is given back although something of it was captured since it was written.
    DirtyGoes,
    /// A page is given back although words of it are new.
    UnflushedGoes,
    /// A read of a key shows what is not durable.
    ReadShowsEarly,
    /// A call returns before what it has done is durable.
    WriteReturnsEarly,
}

/// What is left out; nothing as a rule.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weakness(pub(crate) Option<Weak>);

impl Weakness {
    #[inline(always)]
    pub(crate) fn is(self, rule: Weak) -> bool {
        cfg!(any(test, debug_assertions)) && self.0 == Some(rule) || planted(rule as u32 + 1)
    }
}
