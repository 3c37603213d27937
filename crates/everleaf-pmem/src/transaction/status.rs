//! Why a transaction was aborted.

use super::rtm::LOCKED_CODE;

/// The most telling reason of an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AbortCause {
    /// The fallback lock was held: the transaction gave itself up.
    Locked,
    /// Another thread touched what the transaction had touched.
    Conflict,
    /// It touched more lines than the processor can keep track of.
    Capacity,
    /// The processor gives no reason: an interrupt, an instruction that no transaction may have, or
    /// a page fault, which comes again every time until the page is touched outside.
    Unknown,
    /// A debugger, a nested transaction, or an injected abort.
    Other,
}

impl AbortCause {
    /// All of them, in the order of their discriminants.
    pub const ALL: [AbortCause; 5] =
        [Self::Locked, Self::Conflict, Self::Capacity, Self::Unknown, Self::Other];

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::Conflict => "conflict",
            Self::Capacity => "capacity",
            Self::Unknown => "unknown",
            Self::Other => "other",
        }
    }
}

/// The word that the processor leaves behind: bits for explicit abort, may-retry, conflict,
/// capacity, debugger and nesting; the top byte is the code of an explicit abort.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct AbortStatus(u32);

impl std::fmt::Debug for AbortStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, may retry: {} ({:#x})", self.cause(), self.may_retry(), self.0)
    }
}

impl AbortStatus {
    const EXPLICIT: u32 = 1;
    const RETRY: u32 = 1 << 1;
    const CONFLICT: u32 = 1 << 2;
    const CAPACITY: u32 = 1 << 3;
    const DEBUG: u32 = 1 << 4;
    const CODE_SHIFT: u32 = 24;

    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// As the processor would say it.
    pub fn of(cause: AbortCause) -> Self {
        Self(match cause {
            AbortCause::Locked => Self::EXPLICIT | u32::from(LOCKED_CODE) << Self::CODE_SHIFT,
            AbortCause::Conflict => Self::CONFLICT | Self::RETRY,
            AbortCause::Capacity => Self::CAPACITY,
            AbortCause::Unknown => 0,
            AbortCause::Other => Self::DEBUG,
        })
    }

    pub fn cause(self) -> AbortCause {
        if self.0 & Self::EXPLICIT != 0 && self.0 >> Self::CODE_SHIFT == u32::from(LOCKED_CODE) {
            AbortCause::Locked
        } else if self.0 & Self::CAPACITY != 0 {
            AbortCause::Capacity // It may come with a conflict, and is the graver reason.
        } else if self.0 & Self::CONFLICT != 0 {
            AbortCause::Conflict
        } else if self.0 == 0 || self.0 == Self::RETRY {
            AbortCause::Unknown
        } else {
            AbortCause::Other
        }
    }

    /// Whether the processor thinks that another attempt may succeed.
    pub fn may_retry(self) -> bool {
        self.0 & Self::RETRY != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_round_trip_through_the_status_word() {
        for cause in AbortCause::ALL {
            assert_eq!(AbortStatus::of(cause).cause(), cause);
            assert_eq!(AbortCause::ALL[cause as usize], cause);
        }
        assert_eq!(
            AbortCause::ALL.map(AbortCause::name),
            ["locked", "conflict", "capacity", "unknown", "other"]
        );
    }

    #[test]
    fn words_of_the_manual_are_understood() {
        // Status words as the architecture manual defines them: (word, cause, may retry).
        let words = [
            (0, AbortCause::Unknown, false),
            (0b10, AbortCause::Unknown, true),
            (0b110, AbortCause::Conflict, true),
            (0b100, AbortCause::Conflict, false),
            (0b1000, AbortCause::Capacity, false),
            (0b1100, AbortCause::Capacity, false),
            (0b1_0000, AbortCause::Other, false),
            (0b10_0110, AbortCause::Conflict, true),
            (0b10_0000, AbortCause::Other, false),
            (0xff00_0001, AbortCause::Locked, false),
            (0x0100_0001, AbortCause::Other, false),
        ];
        for (word, cause, retry) in words {
            let status = AbortStatus::from_bits(word);
            assert_eq!((status.cause(), status.may_retry()), (cause, retry), "{status:?}");
        }
    }
}
