//! When a write that has returned is durable: what a user chooses, and what engine and medium
//! allow.
//!
//! | engine, medium | chosen | what holds |
//! |---|---|---|
//! | strict, DAX | nothing, `immediate`, `buffered` | `immediate` |
//! | strict, DAX | `process` | `process` |
//! | strict, a file with a log | nothing, `immediate`, `process` | `immediate` |
//! | strict, a file with a log | `buffered` | `buffered` |
//! | strict, any other | nothing, `process` | `process` |
//! | strict, any other | `immediate`, `buffered` | refused |
//! | of epochs, any | nothing, `buffered` | `buffered` |
//! | of epochs, any | `immediate`, `process` | refused |
//!
//! On an ordinary file system a new pool gets a log unless `process` is chosen. Which failure it
//! survives is another question: an engine of epochs without a log goes back to the end of an epoch
//! when its process dies, and is lost with the machine.
//!
//! What is chosen when a pool is created stands in its header, behind the parameters of its engine.
//! An opening may choose something weaker for itself. Where nothing was chosen, each opening takes
//! the strongest that its medium keeps: a pool that is moved to persistent memory gains by it.

use std::fmt;
use std::str::FromStr;

use everleaf_index::Contract;
use everleaf_pmem::{Durability, Media, Medium};
use everleaf_pool::Format;

use crate::{Engine, Error};

/// When a write that has returned is durable. [`Statistics`](crate::Statistics) say what holds, and
/// which failure a durable write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "control", derive(serde::Serialize, serde::Deserialize))]
pub enum DurabilityMode {
    /// When the call returns.
    Immediate,
    /// After a crash there is a consistent state, no older than this and what it takes to write it
    /// back: the end of an epoch, or two syncs of a disk, or both.
    /// [`Store::sync`](crate::Store::sync) waits.
    Buffered {
        /// Milliseconds, 1 to [`MAX_INTERVAL_MS`](DurabilityMode::MAX_INTERVAL_MS).
        interval_ms: u32,
    },
    /// It survives the death of the process, and nothing more is promised.
    Process,
}

impl DurabilityMode {
    /// The interval if none is given.
    pub const DEFAULT_INTERVAL_MS: u32 = 64;
    /// The longest interval: an hour.
    pub const MAX_INTERVAL_MS: u32 = 3_600_000;

    /// Buffered, with the default interval.
    pub const fn buffered() -> Self {
        Self::Buffered { interval_ms: Self::DEFAULT_INTERVAL_MS }
    }

    /// The word that stands for a choice in the header of a pool.
    const fn pack(chosen: Option<Self>) -> u64 {
        match chosen {
            None => 0,
            Some(Self::Immediate) => 1,
            Some(Self::Buffered { interval_ms }) => 2 | (interval_ms as u64) << 8,
            Some(Self::Process) => 3,
        }
    }

    /// The choice that a word stands for; none if it stands for nothing.
    fn unpack(word: u64) -> Option<Option<Self>> {
        let interval_ms = u32::try_from(word >> 8).ok()?;
        match (word & 0xff, interval_ms) {
            (0, 0) => Some(None),
            (1, 0) => Some(Some(Self::Immediate)),
            (2, 1..=Self::MAX_INTERVAL_MS) => Some(Some(Self::Buffered { interval_ms })),
            (3, 0) => Some(Some(Self::Process)),
            _ => None,
        }
    }

    /// Whether it promises more.
    fn is_stronger_than(self, other: Self) -> bool {
        // The age of what a crash leaves, and whether it is only the process that may crash.
        let age = |mode| match mode {
            Self::Immediate => (0, 0),
            Self::Buffered { interval_ms } => (0, interval_ms),
            Self::Process => (1, 0),
        };
        age(self) < age(other)
    }
}

impl fmt::Display for DurabilityMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Immediate => f.pad("immediate"),
            Self::Buffered { interval_ms } => f.pad(&format!("buffered={interval_ms}")),
            Self::Process => f.pad("process"),
        }
    }
}

/// A text that is not a [`DurabilityMode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "give immediate, buffered, buffered=MS with 1 to {max} milliseconds, or process",
    max = DurabilityMode::MAX_INTERVAL_MS
)]
pub struct NoDurabilityMode;

impl FromStr for DurabilityMode {
    type Err = NoDurabilityMode;

    /// As on the command line.
    fn from_str(name: &str) -> Result<Self, NoDurabilityMode> {
        match name.split_once('=') {
            None if name == "immediate" => Ok(Self::Immediate),
            None if name == "buffered" => Ok(Self::buffered()),
            None if name == "process" => Ok(Self::Process),
            Some(("buffered", interval)) => match interval.parse() {
                Ok(interval_ms @ 1..=Self::MAX_INTERVAL_MS) => Ok(Self::Buffered { interval_ms }),
                _ => Err(NoDurabilityMode),
            },
            _ => Err(NoDurabilityMode),
        }
    }
}

/// The word of a pool's parameters that no engine has.
const CHOICE: usize = 7;

/// The format with a choice in it.
pub(crate) fn with_choice(mut format: Format, chosen: Option<DurabilityMode>) -> Format {
    format.parameters[CHOICE] = DurabilityMode::pack(chosen);
    format
}

/// In that word: a log stands beside the pool.
const LOG: u64 = 4;

/// The format of a pool with a log beside it.
pub(crate) fn with_log(mut format: Format) -> Format {
    format.parameters[CHOICE] |= LOG;
    format
}

/// Whether a log stands beside a pool of this format.
pub(crate) fn has_log(format: &Format) -> bool {
    // Of what was chosen only these two need one.
    matches!(format.parameters[CHOICE] & 0xff, 5 | 6)
}

/// The format as the engine knows it.
pub(crate) fn without_choice(format: &Format) -> Format {
    with_choice(format.clone(), None)
}

/// What was chosen when a pool of this format was created.
///
/// # Errors
/// [`Error::ParameterOfPool`] if this release knows no such choice.
pub(crate) fn choice_of(format: &Format) -> Result<Option<DurabilityMode>, Error> {
    let word = format.parameters[CHOICE];
    let chosen = if has_log(format) { word & !LOG } else { word };
    DurabilityMode::unpack(chosen).ok_or_else(|| Error::ParameterOfPool {
        name: format.engine.clone(),
        parameter: "durability",
        value: word,
        offered: "immediate, buffered and process".to_owned(),
    })
}

/// What a choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurabilityContext {
    pub(crate) engine: Engine,
    pub(crate) contract: Contract,
    pub(crate) medium: Medium,
    /// What is written there and flushed as it is flushed survives this.
    pub(crate) keeps: Durability,
    /// It does so by a log, whose sync takes time.
    pub(crate) log: bool,
}

impl DurabilityContext {
    /// Of an engine of the table.
    pub(crate) const fn new(engine: Engine, medium: Medium, keeps: Durability) -> Self {
        Self { engine, contract: engine.contract(), medium, keeps, log: false }
    }

    /// Of an engine on a media that was opened.
    pub(crate) fn of<M: Media>(engine: Engine, media: &M) -> Self {
        let on = Self::new(engine, media.region().medium(), media.durability());
        Self { log: media.is_durable_later(), ..on }
    }

    /// The same with a log beside the pool, on an ordinary file.
    pub(crate) const fn with_log(engine: Engine) -> Self {
        let (medium, keeps) = (Medium::PageCache, Durability::PowerFail);
        Self { log: true, ..Self::new(engine, medium, keeps) }
    }

    /// The strongest mode there is here.
    const fn strongest(self) -> DurabilityMode {
        match (self.contract, self.keeps) {
            (Contract::Buffered, _) => DurabilityMode::buffered(),
            (Contract::Strict, Durability::PowerFail) => DurabilityMode::Immediate,
            (Contract::Strict, _) => DurabilityMode::Process,
        }
    }

    /// What holds if this is chosen.
    fn settle(self, chosen: DurabilityMode) -> Result<DurabilityMode, Error> {
        if let DurabilityMode::Buffered { interval_ms } = chosen
            && !(1..=DurabilityMode::MAX_INTERVAL_MS).contains(&interval_ms)
        {
            let max_ms = DurabilityMode::MAX_INTERVAL_MS;
            return Err(Error::DurabilityInterval { interval_ms, max_ms });
        }
        match (self.contract, chosen, self.keeps) {
            (Contract::Buffered, DurabilityMode::Buffered { .. }, _) => Ok(chosen),
            (Contract::Buffered, ..) => {
                Err(Error::DurabilityOfEngine { mode: chosen, engine: self.engine })
            }
            // The image is private memory: what is not in the log dies with the process.
            (Contract::Strict, DurabilityMode::Process, _) if self.log => {
                Ok(DurabilityMode::Immediate)
            }
            (Contract::Strict, DurabilityMode::Buffered { .. }, _) if self.log => Ok(chosen),
            (Contract::Strict, DurabilityMode::Process, _) => Ok(chosen),
            (Contract::Strict, _, Durability::PowerFail) => Ok(DurabilityMode::Immediate),
            (Contract::Strict, ..) => {
                Err(Error::DurabilityOfMedium { mode: chosen, medium: self.medium })
            }
        }
    }

    /// What holds in a pool that is created with a choice, or with none.
    ///
    /// # Errors
    /// [`Error::DurabilityOfEngine`], [`Error::DurabilityOfMedium`], [`Error::DurabilityInterval`].
    pub(crate) fn of_new(self, chosen: Option<DurabilityMode>) -> Result<DurabilityMode, Error> {
        chosen.map_or(Ok(self.strongest()), |chosen| self.settle(chosen))
    }

    /// What holds in a pool that was created with one choice and is opened with another. Where the
    /// medium cannot keep what was chosen, the pool can be read, and written if the opening chooses
    /// something weaker.
    ///
    /// # Errors
    /// As [`of_new`](Self::of_new), and [`Error::DurabilityOfPool`].
    pub(crate) fn of_opening(
        self,
        created: Option<DurabilityMode>,
        chosen: Option<DurabilityMode>,
        writable: bool,
    ) -> Result<DurabilityMode, Error> {
        match (created, chosen) {
            (Some(created), Some(chosen)) if chosen.is_stronger_than(created) => {
                Err(Error::DurabilityOfPool { mode: chosen, created })
            }
            (Some(created), None) => match self.settle(created) {
                Err(_) if !writable => Ok(self.strongest()),
                settled => settled,
            },
            (_, chosen) => self.of_new(chosen),
        }
    }

    /// What holds where `mode` would and less is wanted. Only a log is waited for.
    pub(crate) fn weakened(
        self,
        mode: DurabilityMode,
        relaxed: Option<DurabilityMode>,
    ) -> DurabilityMode {
        let settled = relaxed.and_then(|relaxed| self.settle(relaxed).ok());
        settled.filter(|relaxed| mode.is_stronger_than(*relaxed)).unwrap_or(mode)
    }

    /// The strongest failure that writes survive once they are durable in this mode.
    pub(crate) fn survives(self, mode: DurabilityMode) -> Durability {
        match mode {
            DurabilityMode::Process => self.keeps.min(Durability::ProcessCrash),
            DurabilityMode::Immediate | DurabilityMode::Buffered { .. } => self.keeps,
        }
    }
}

/// Why a medium cannot keep more than `process`.
pub(crate) const fn why_not(medium: Medium) -> &'static str {
    match medium {
        Medium::PageCache => {
            "an ordinary file is written to the disk when the system likes, and this pool was made \
             without a log beside it"
        }
        Medium::Dax => "without flushes nothing is known to be in persistent memory",
        Medium::Tmpfs | Medium::VolatileDax | Medium::Anonymous => {
            "it is gone when the machine restarts"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DurabilityMode::{Immediate, Process};

    const STRICT: Engine = Engine::FPTREE;
    const MEDIA: [Medium; 5] =
        [Medium::Dax, Medium::VolatileDax, Medium::Tmpfs, Medium::PageCache, Medium::Anonymous];
    const BUFFERED: DurabilityMode = DurabilityMode::buffered();

    /// An engine of this contract on this medium.
    fn on(contract: Contract, medium: Medium) -> DurabilityContext {
        DurabilityContext {
            engine: STRICT,
            contract,
            medium,
            keeps: medium.durability(),
            log: false,
        }
    }

    #[test]
    fn modes_round_trip_by_name_and_by_word() {
        let long = DurabilityMode::Buffered { interval_ms: DurabilityMode::MAX_INTERVAL_MS };
        for mode in [Immediate, BUFFERED, long, Process] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(DurabilityMode::unpack(DurabilityMode::pack(Some(mode))), Some(Some(mode)));
        }
        assert_eq!("buffered".parse(), Ok(BUFFERED));
        assert_eq!(DurabilityMode::unpack(DurabilityMode::pack(None)), Some(None));
        let wrong = [
            "",
            "Immediate",
            "buffered=",
            "buffered=0",
            "buffered=3600001",
            "buffered=-1",
            "process=1",
        ];
        for name in wrong {
            assert_eq!(name.parse::<DurabilityMode>(), Err(NoDurabilityMode), "{name}");
        }
        for word in [2, 4, 1 << 8, 1 | 1 << 8, 2 | 3_600_001 << 8, u64::MAX] {
            assert_eq!(DurabilityMode::unpack(word), None, "{word:#x}");
        }
    }

    #[test]
    fn a_new_pool_of_a_strict_engine_is_immediate_on_dax_and_of_the_process_elsewhere() {
        for medium in MEDIA {
            let ground = on(Contract::Strict, medium);
            let held = |chosen| ground.of_new(chosen);
            assert_eq!(held(Some(Process)).unwrap(), Process);
            if medium == Medium::Dax {
                for chosen in [None, Some(Immediate), Some(BUFFERED)] {
                    assert_eq!(held(chosen).unwrap(), Immediate);
                }
                continue;
            }
            assert_eq!(held(None).unwrap(), Process);
            for chosen in [Immediate, BUFFERED] {
                let refused = held(Some(chosen)).unwrap_err().to_string();
                let begins = format!("durability {chosen} cannot be kept on {medium}: ");
                assert!(refused.starts_with(&begins) && refused.contains("process"), "{refused}");
            }
        }
    }

    #[test]
    fn a_new_pool_of_an_engine_of_epochs_is_buffered_everywhere() {
        for medium in MEDIA {
            let ground = on(Contract::Buffered, medium);
            assert_eq!(ground.of_new(None).unwrap(), BUFFERED);
            let chosen = DurabilityMode::Buffered { interval_ms: 5 };
            assert_eq!(ground.of_new(Some(chosen)).unwrap(), chosen);
            for chosen in [Immediate, Process] {
                let refused = ground.of_new(Some(chosen)).unwrap_err().to_string();
                assert!(refused.contains("epochs") && refused.contains("buffered"), "{refused}");
            }
        }
    }

    #[test]
    fn an_interval_is_at_least_a_millisecond_and_at_most_an_hour() {
        for interval_ms in [0, DurabilityMode::MAX_INTERVAL_MS + 1, u32::MAX] {
            for contract in [Contract::Strict, Contract::Buffered] {
                let chosen = DurabilityMode::Buffered { interval_ms };
                let refused = on(contract, Medium::Dax).of_new(Some(chosen)).unwrap_err();
                assert!(matches!(refused, Error::DurabilityInterval { .. }), "{refused}");
            }
        }
    }

    #[test]
    fn an_opening_may_choose_something_weaker_and_nothing_stronger() {
        let longer = DurabilityMode::Buffered { interval_ms: 1000 };
        let order = [Immediate, BUFFERED, longer, Process];
        for (i, created) in order.into_iter().enumerate() {
            for (j, chosen) in order.into_iter().enumerate() {
                let ground = on(Contract::Strict, Medium::Dax);
                let held = ground.of_opening(Some(created), Some(chosen), true);
                if j < i {
                    let refused = held.unwrap_err().to_string();
                    assert!(refused.contains("weaker"), "{refused}");
                } else {
                    assert_eq!(held.unwrap(), if chosen == Process { Process } else { Immediate });
                }
            }
        }
        let epochs = on(Contract::Buffered, Medium::Tmpfs);
        assert_eq!(epochs.of_opening(Some(BUFFERED), Some(longer), true).unwrap(), longer);
        assert!(epochs.of_opening(Some(longer), Some(BUFFERED), true).is_err());
        assert!(epochs.of_opening(Some(BUFFERED), Some(Process), true).is_err());
    }

    #[test]
    fn what_a_medium_cannot_keep_can_be_read_and_written_only_by_choice() {
        let ground = on(Contract::Strict, Medium::PageCache);
        for created in [Immediate, BUFFERED] {
            assert!(ground.of_opening(Some(created), None, true).is_err());
            assert_eq!(ground.of_opening(Some(created), None, false).unwrap(), Process);
            assert_eq!(ground.of_opening(Some(created), Some(Process), true).unwrap(), Process);
        }
        // Nothing was chosen: what the medium keeps holds, whichever it was created on.
        assert_eq!(ground.of_opening(None, None, true).unwrap(), Process);
        let dax = on(Contract::Strict, Medium::Dax);
        assert_eq!(dax.of_opening(None, None, true).unwrap(), Immediate);
        assert_eq!(dax.of_opening(Some(Process), None, true).unwrap(), Process);
    }

    #[test]
    fn with_a_log_a_choice_holds_on_an_ordinary_file_and_stands_in_the_format() {
        let ground = DurabilityContext::with_log(STRICT);
        for chosen in [Immediate, BUFFERED] {
            assert_eq!(ground.of_new(Some(chosen)).unwrap(), chosen);
            assert_eq!(ground.survives(chosen), Durability::PowerFail);
            let parameters = [0; 8];
            let plain = Format { engine: "a".into(), key_type: crate::KeyType::U64, parameters };
            let chosen_only = with_choice(plain.clone(), Some(chosen));
            let format = with_log(chosen_only.clone());
            assert!(has_log(&format) && !has_log(&chosen_only) && !has_log(&plain));
            assert_eq!(choice_of(&format).unwrap(), Some(chosen));
            assert_eq!(without_choice(&format), plain);
        }
        assert_eq!(ground.weakened(Immediate, Some(BUFFERED)), BUFFERED);
        assert_eq!(ground.weakened(Immediate, Some(Process)), Immediate);
        let older = DurabilityMode::Buffered { interval_ms: 1000 };
        assert_eq!(ground.weakened(older, Some(BUFFERED)), older);
        assert_eq!(ground.weakened(older, None), older);
        assert_eq!(ground.of_opening(Some(BUFFERED), Some(Process), true).unwrap(), Immediate);
        assert!(ground.of_opening(Some(BUFFERED), Some(Immediate), true).is_err());
    }

    #[test]
    fn no_more_is_claimed_than_mode_and_medium_keep() {
        for medium in MEDIA {
            let ground = on(Contract::Strict, medium);
            let keeps = medium.durability();
            assert_eq!(ground.survives(Immediate), keeps);
            assert_eq!(ground.survives(Process), keeps.min(Durability::ProcessCrash));
        }
        let unflushed = DurabilityContext {
            keeps: Durability::ProcessCrash,
            ..on(Contract::Strict, Medium::Dax)
        };
        assert_eq!(unflushed.of_new(None).unwrap(), Process);
        assert!(unflushed.of_opening(Some(Immediate), None, true).is_err());
    }
}
