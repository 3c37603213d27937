//! What this processor can do, found out at run time.

/// How a line is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FlushInstruction {
    /// `clwb`: writes back, may keep the line cached (aarch64: `dc cvap`).
    Clwb,
    /// `clflushopt`: writes back and evicts, ordered by a fence only.
    ClflushOpt,
    /// `clflush`: writes back and evicts, ordered among themselves (aarch64: `dc civac`).
    Clflush,
    /// None is needed: the caches are inside the persistence domain (eADR), or only a process crash
    /// is to be survived.
    None,
}

impl std::fmt::Display for FlushInstruction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Clwb if cfg!(target_arch = "aarch64") => "dc cvap",
            Self::Clwb => "clwb",
            Self::ClflushOpt => "clflushopt",
            Self::Clflush if cfg!(target_arch = "aarch64") => "dc civac",
            Self::Clflush => "clflush",
            Self::None => "none",
        })
    }
}

/// How [`Media::write_line`](crate::Media::write_line) writes 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineWriteMethod {
    /// `movdir64b`, a direct store of 64 bytes.
    Movdir64b,
    /// A hardware transaction (RTM) around eight stores, then a flush.
    Transaction,
    /// Eight ordinary stores and a flush: whole only word by word. Trees that need more must use a
    /// log.
    Words,
}

/// Vector instructions, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Vectors {
    /// None: word by word.
    Scalar,
    /// 16 bytes at a time (the x86-64 baseline).
    #[cfg(target_arch = "x86_64")]
    Sse2,
    /// 32 bytes at a time.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 64 bytes, a whole line, at a time (AVX-512 F, BW and DQ).
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The widest vector compare that may be executed. Only [`Cpu::detect`] finds one out, so a
/// program that has a level runs on a processor with its instructions. A lower one is always at
/// hand.
///
/// ```
/// use everleaf_pmem::{Cpu, SimdLevel};
///
/// let level = Cpu::detect().simd();
/// assert!(SimdLevel::SCALAR <= level && level.and_lower().any(|it| it == SimdLevel::SCALAR));
/// ```
///
/// It cannot be made up:
/// ```compile_fail
/// let level = everleaf_pmem::SimdLevel::Avx512;
/// ```
/// ```compile_fail
/// let level = everleaf_pmem::SimdLevel(3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimdLevel(pub(crate) Vectors);

impl SimdLevel {
    /// Word by word: what every processor can do.
    pub const SCALAR: Self = Self(Vectors::Scalar);

    /// Bytes that are compared at once.
    pub const fn bytes(self) -> usize {
        match self.0 {
            Vectors::Scalar => 8,
            #[cfg(target_arch = "x86_64")]
            Vectors::Sse2 => 16,
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => 32,
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512 => 64,
        }
    }

    /// The next lower level, which every processor with this one has.
    pub const fn lower(self) -> Option<Self> {
        match self.0 {
            Vectors::Scalar => None,
            #[cfg(target_arch = "x86_64")]
            Vectors::Sse2 => Some(Self::SCALAR),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => Some(Self(Vectors::Sse2)),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512 => Some(Self(Vectors::Avx2)),
        }
    }

    /// This level and all lower ones, descending.
    pub fn and_lower(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |level| level.lower())
    }
}

impl std::fmt::Debug for SimdLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// That the processor has transactions (RTM), and does not abort each at once. Only
/// [`Cpu::detect`] finds that out.
///
/// ```compile_fail
/// let rtm = everleaf_pmem::Rtm(());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtm(());

/// The instructions of a processor that Everleaf uses. [`Cpu::detect`] asks for them once; the
/// value is then handed on. There is no other way to make one, or to change it, so no
/// instruction is executed that is not there.
///
/// ```compile_fail
/// let mut cpu = everleaf_pmem::Cpu::detect();
/// cpu.clwb = true;
/// ```
/// ```compile_fail
/// let cpu = everleaf_pmem::Cpu { clwb: true, ..everleaf_pmem::Cpu::detect() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// `clwb` (aarch64: `dc cvap`).
    clwb: bool,
    clflushopt: bool,
    /// `clflush` (aarch64: `dc civac`).
    clflush: bool,
    movdir64b: bool,
    rtm: Option<Rtm>,
    simd: SimdLevel,
}

impl Cpu {
    /// Asks the processor.
    pub fn detect() -> Self {
        detect_instructions()
    }

    /// The widest vector compare.
    pub const fn simd(&self) -> SimdLevel {
        self.simd
    }

    /// Restricted transactional memory, if it is there and does not abort every transaction.
    pub const fn rtm(&self) -> Option<Rtm> {
        self.rtm
    }

    /// The best flush instruction for memory whose caches are not persistent. On aarch64 `dc cvap`
    /// or none: `dc civac` reaches the point of coherency, which need not be that of persistence.
    /// None either where a cache has lines of less than 64 bytes.
    pub fn best_flush(&self) -> Option<FlushInstruction> {
        if self.clwb {
            Some(FlushInstruction::Clwb)
        } else if self.clflushopt {
            Some(FlushInstruction::ClflushOpt)
        } else if self.clflush && cfg!(target_arch = "x86_64") {
            Some(FlushInstruction::Clflush)
        } else {
            None
        }
    }

    /// Whether this flush instruction can be executed here.
    pub fn has(&self, flush: FlushInstruction) -> bool {
        match flush {
            FlushInstruction::Clwb => self.clwb,
            FlushInstruction::ClflushOpt => self.clflushopt,
            FlushInstruction::Clflush => self.clflush,
            FlushInstruction::None => true,
        }
    }

    /// Whether lines can be written in this way here.
    pub const fn has_line_write(&self, method: LineWriteMethod) -> bool {
        match method {
            LineWriteMethod::Movdir64b => self.movdir64b,
            LineWriteMethod::Transaction => self.rtm.is_some(),
            LineWriteMethod::Words => true,
        }
    }

    /// The best way to write a whole line where lines are flushed by `flush`. Without flushes not
    /// `movdir64b`, which goes to memory and costs as much as a flush and a fence (191 ns where a
    /// transaction takes 26 and eight stores 4).
    pub fn best_line_write(&self, flush: FlushInstruction) -> LineWriteMethod {
        if self.movdir64b && flush != FlushInstruction::None {
            LineWriteMethod::Movdir64b
        } else if self.rtm.is_some() {
            LineWriteMethod::Transaction
        } else {
            LineWriteMethod::Words
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn detect_instructions() -> Cpu {
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    let highest_leaf = __cpuid(0).eax;
    let basic = __cpuid(1);
    let (ebx, ecx, edx) = if highest_leaf >= 7 {
        let extended = __cpuid_count(7, 0);
        (extended.ebx, extended.ecx, extended.edx)
    } else {
        (0, 0, 0)
    };
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("popcnt");
    let vectors = if avx512 {
        Vectors::Avx512
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        Vectors::Avx2
    } else {
        Vectors::Sse2
    };
    Cpu {
        clflush: basic.edx & (1 << 19) != 0,
        clflushopt: ebx & (1 << 23) != 0,
        clwb: ebx & (1 << 24) != 0,
        rtm: transactions(
            ebx & (1 << 11) != 0 && edx & (1 << 11) == 0,
            crate::transaction::commits,
        ),
        movdir64b: ecx & (1 << 28) != 0,
        simd: SimdLevel(vectors),
    }
}

/// Transactions where the processor names them and they commit. Some were told by their firmware
/// to abort each at once, and say so; a guest is told that they are there by some hosts that have
/// switched them off: only a trial shows it.
#[cfg(target_arch = "x86_64")]
fn transactions(named: bool, commits: impl FnOnce() -> bool) -> Option<Rtm> {
    (named && commits()).then_some(Rtm(()))
}

#[cfg(target_arch = "aarch64")]
fn detect_instructions() -> Cpu {
    // One instruction must clean a whole line of ours, and what leaves the cache together is what
    // the order of stores to one line rests on.
    let lines_are_whole = smallest_cache_line_bytes() >= crate::LINE;
    Cpu {
        clwb: lines_are_whole && std::arch::is_aarch64_feature_detected!("dpb"),
        clflushopt: false,
        clflush: lines_are_whole,
        rtm: None,
        movdir64b: false,
        simd: SimdLevel::SCALAR,
    }
}

/// Bytes of the smallest line of all caches.
#[cfg(target_arch = "aarch64")]
fn smallest_cache_line_bytes() -> usize {
    const WORD_BYTES: usize = 4;
    let caches: u64;
    // SAFETY: reads a register, which Linux lets every process read (CTR_EL0).
    unsafe { std::arch::asm!("mrs {}, ctr_el0", out(reg) caches, options(nomem, nostack)) };
    WORD_BYTES << (caches >> 16 & 0xf)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("Everleaf knows the persistence instructions of x86_64 and aarch64 only");

#[cfg(test)]
impl Rtm {
    /// For a test under a program that emulates the instructions.
    pub(crate) const EMULATED: Self = Self(());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn transactions_that_are_named_and_never_commit_are_not_there() {
        assert_eq!(transactions(true, || true), Some(Rtm(())));
        assert_eq!(transactions(true, || false), None);
        assert_eq!(transactions(false, || panic!("executed without the instruction")), None);
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn lines_are_flushed_where_no_cache_has_smaller_ones() {
        let bytes = smallest_cache_line_bytes();
        assert!(bytes.is_power_of_two() && (16..=2048).contains(&bytes), "{bytes}");
        assert_eq!(Cpu::detect().has(FlushInstruction::Clflush), bytes >= crate::LINE);
    }

    #[test]
    fn levels_descend_to_the_one_that_every_processor_has() {
        let levels: Vec<SimdLevel> = Cpu::detect().simd().and_lower().collect();
        assert!(levels.is_sorted_by(|one, next| one > next && one.bytes() == 2 * next.bytes()));
        assert_eq!(levels.last(), Some(&SimdLevel::SCALAR));
        assert_eq!(levels.last().unwrap().lower(), None);
    }
}
