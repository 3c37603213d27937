//! Where a report was measured.

use std::path::Path;
use std::process::Command;

use everleaf_pmem::Cpu;

/// The facts, each with its name.
pub fn facts() -> Vec<(&'static str, String)> {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let unknown = || "unknown".to_owned();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let gibibytes = |text: String| text.trim_end_matches(" kB").parse::<u64>().ok().map(|kib| format!("{} GiB", kib >> 20));
    vec![
        (
            "processor",
            format!("{}, {processors} to be used", field(&file("/proc/cpuinfo"), "model name").unwrap_or_else(unknown)),
        ),
        ("memory", field(&file("/proc/meminfo"), "MemTotal").and_then(gibibytes).unwrap_or_else(unknown)),
        ("system", format!("Linux {}", file("/proc/sys/kernel/osrelease").trim())),
        ("best flush instruction", Cpu::detect().best_flush().map_or("none".into(), |flush| format!("{flush:?}").to_lowercase())),
        ("Everleaf", format!("{}, source tree at commit {}", env!("CARGO_PKG_VERSION"), commit().unwrap_or_else(unknown))),
        ("measured on", humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()),
    ]
}

/// The commit of the tree that this was built from, if that is still there.
fn commit() -> Option<String> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(tree).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
    Some(if changed { format!("{commit} with changes") } else { commit })
}
