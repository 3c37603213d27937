//! What this processor can do, found out at run time.

/// How a line is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The widest vector compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdLevel {
    /// Word by word.
    Scalar,
    /// 16 bytes at a time (the x86-64 baseline).
    Sse2,
    /// 32 bytes at a time.
    Avx2,
    /// 64 bytes, a whole line, at a time (AVX-512 BW and DQ).
    Avx512,
}

/// The features of a processor that Everleaf uses. [`Cpu::detect`] reads them once; the value is
/// then handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// `clwb` (aarch64: `dc cvap`) is there.
    pub clwb: bool,
    /// `clflushopt` is there.
    pub clflushopt: bool,
    /// `clflush` (aarch64: `dc civac`) is there.
    pub clflush: bool,
    /// `movdir64b` is there.
    pub movdir64b: bool,
    /// Restricted transactional memory is there, and does not abort every transaction.
    pub rtm: bool,
    /// The persistence domain includes the caches, as the kernel reports it for every NVDIMM region
    /// of the machine.
    pub eadr: bool,
    /// The widest vector compare.
    pub simd: SimdLevel,
}

impl Cpu {
    /// Asks the processor, and the kernel for eADR.
    pub fn detect() -> Self {
        let mut cpu = detect_instructions();
        cpu.eadr = eadr_by_sysfs();
        cpu
    }

    /// The best flush instruction for memory whose caches are not persistent. On aarch64 `dc cvap`
    /// or none: `dc civac` reaches the point of coherency, which need not be that of persistence.
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

    /// The best way to write a whole line where lines are flushed by `flush`. Without flushes not
    /// `movdir64b`, which goes to memory and costs as much as a flush and a fence (191 ns where a
    /// transaction takes 26 and eight stores 4).
    pub fn best_line_write(&self, flush: FlushInstruction) -> LineWriteMethod {
        if self.movdir64b && flush != FlushInstruction::None {
            LineWriteMethod::Movdir64b
        } else if self.rtm {
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
    let avx512 = is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("popcnt");
    let simd = if avx512 {
        SimdLevel::Avx512
    } else if is_x86_feature_detected!("avx2") {
        SimdLevel::Avx2
    } else {
        SimdLevel::Sse2
    };
    Cpu {
        clflush: basic.edx & (1 << 19) != 0,
        clflushopt: ebx & (1 << 23) != 0,
        clwb: ebx & (1 << 24) != 0,
        // Some have it and were told by their firmware to abort every transaction at once.
        rtm: ebx & (1 << 11) != 0 && edx & (1 << 11) == 0,
        movdir64b: ecx & (1 << 28) != 0,
        eadr: false,
        simd,
    }
}

#[cfg(target_arch = "aarch64")]
fn detect_instructions() -> Cpu {
    Cpu {
        clwb: std::arch::is_aarch64_feature_detected!("dpb"),
        clflushopt: false,
        clflush: true,
        rtm: false,
        movdir64b: false,
        eadr: false,
        simd: SimdLevel::Scalar,
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("Everleaf knows the persistence instructions of x86_64 and aarch64 only");

/// The kernel reports a region's persistence domain; eADR holds only if there is a region and all
/// of them say so.
fn eadr_by_sysfs() -> bool {
    let Ok(regions) = std::fs::read_dir("/sys/bus/nd/devices") else { return false };
    let mut domains = regions
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("region"))
        .map(|entry| {
            std::fs::read_to_string(entry.path().join("persistence_domain")).unwrap_or_default()
        })
        .peekable();
    domains.peek().is_some() && domains.all(|domain| domain.trim() == "cpu_cache")
}
