//! Code that only transactions execute is mapped in.
//!
//! What has been mapped once stays mapped, so each run needs a process of its own: this program
//! starts itself again. The body of the transactions stands alone on pages of its own, so that
//! nothing maps it by the way; the way without transactions is other code.
#![cfg(target_arch = "x86_64")]

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use everleaf_pmem::{AbortCause, Cpu, TransactionCounts, TransactionalMemory, Transactions};

// Adds 1 to the word that rdi points to. The kernel maps up to 64 KiB around the page that is asked
// for: there is nothing else in the 64 KiB where this stands.
std::arch::global_asm!(
    ".pushsection .text.everleaf_alone, \"ax\", @progbits",
    ".p2align 16",
    ".skip 32768",
    ".globl everleaf_add_one",
    "everleaf_add_one:",
    "add qword ptr [rdi], 1",
    "ret",
    ".p2align 16",
    ".popsection",
);

unsafe extern "C" {
    fn everleaf_add_one(word: *mut u64);
}

/// Set in the processes that do the work.
const VARIABLE: &str = "EVERLEAF_FRESH_PROCESS";
const CHANGES: u64 = 5000;
const PROCESSES: usize = 4;

#[test]
fn code_that_only_transactions_execute_does_not_make_them_fall_back_for_ever() {
    if Cpu::detect().rtm().is_none() {
        println!("not run: this processor has no RTM");
        return;
    }
    if std::env::var_os(VARIABLE).is_some() {
        change_a_word();
        return;
    }
    let program = std::env::current_exe().unwrap();
    for _ in 0..PROCESSES {
        let output = Command::new(&program)
            .args(["--exact", "--nocapture"])
            .arg("code_that_only_transactions_execute_does_not_make_them_fall_back_for_ever")
            .env(VARIABLE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{}", text.lines().find(|line| line.contains("fallbacks")).unwrap_or_default());
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Many changes; few may have gone the other way, unless as many do when the code has been executed
/// outside of transactions: then this machine aborts them for another reason.
fn change_a_word() {
    let counts = counts_of_changes();
    println!("{} fallbacks of {CHANGES} changes, {counts:?}", counts.fallbacks);
    if counts.fallbacks < CHANGES / 20 {
        return;
    }
    let mut elsewhere = 0;
    // SAFETY: adds to a word of this function.
    unsafe { everleaf_add_one(&raw mut elsewhere) };
    let control = counts_of_changes();
    assert!(
        control.fallbacks >= CHANGES / 20,
        "{} of {CHANGES} changes fell back, {} aborts without a reason; then {}",
        counts.fallbacks,
        counts.aborted_by(AbortCause::Unknown),
        control.fallbacks
    );
    println!("not judged: this machine aborts transactions whose code is mapped in, {control:?}");
}

fn counts_of_changes() -> TransactionCounts {
    let memory = TransactionalMemory::new(Transactions::Auto, Cpu::detect().rtm());
    let (lock, word) = (AtomicBool::new(false), AtomicU64::new(0));
    for _ in 0..CHANGES {
        let changed = memory.change(&|| lock.load(Relaxed), &std::hint::spin_loop, |attempt| {
            attempt.decided()?;
            // SAFETY: adds to a word that only this thread uses.
            unsafe { everleaf_add_one(word.as_ptr()) };
            Ok(())
        });
        if changed.is_none() {
            word.fetch_add(1, Relaxed);
        }
    }
    let counts = memory.counts();
    // Without transactions, which a trial may find by now, nothing is counted.
    if memory.is_on() {
        assert_eq!(counts.committed + counts.fallbacks, CHANGES);
    }
    assert_eq!(word.into_inner(), CHANGES);
    counts
}
