//! What the system tells of this process.

use std::fs;
use std::time::Duration;

/// Ticks of a second, in which the system tells times of processors to all programs of Linux.
const TICKS: u64 = 100;
/// Bytes of a page; where pages are larger, the system's number of them is told too small.
const PAGE_BYTES: u64 = 4096;

/// How long processors have worked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// In its own code.
    pub user: Duration,
    /// In the system, for it.
    pub system: Duration,
}

fn processor(file: &str) -> Processor {
    let text = fs::read_to_string(file).unwrap_or_default();
    // Behind the name, which may hold anything.
    let words: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let time = |at: usize| {
        let ticks: u64 = words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
        Duration::from_millis(ticks * (1000 / TICKS))
    };
    Processor { user: time(11), system: time(12) }
}

/// Of all threads.
pub fn of_all_threads() -> Processor {
    processor("/proc/self/stat")
}

/// Of the first thread.
pub fn of_first_thread() -> Processor {
    processor(&format!("/proc/self/task/{}/stat", std::process::id()))
}

/// Bytes of memory that it has, with those of files that are mapped.
pub fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
        * PAGE_BYTES
}

/// Bytes of memory that the machine has.
pub fn machine_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or("");
    line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The system and its version.
pub fn system() -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    let words = ["ostype", "osrelease"].map(|name| read(name).unwrap_or_default());
    format!("{} {} {}", words[0].trim(), words[1].trim(), std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_used_a_processor() {
        let began = std::time::Instant::now();
        while of_all_threads().user.is_zero() {
            assert!(began.elapsed() < Duration::from_secs(60), "no time is counted");
        }
        assert!(resident_bytes() > 100_000 && machine_bytes() > resident_bytes());
        assert!(system().starts_with("Linux "));
    }
}
