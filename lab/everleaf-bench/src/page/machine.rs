//! Where a report was measured.

use everleaf_pmem::Cpu;

use crate::figure::HAS_PLOTS;

/// The facts, each with its name.
pub fn facts() -> Vec<(&'static str, String)> {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let unknown = || "unknown".to_owned();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let gibibytes = |text: String| {
        text.trim_end_matches(" kB").parse::<u64>().ok().map(|kib| format!("{} GiB", kib >> 20))
    };
    let plots = if HAS_PLOTS { "drawn" } else { "not in this build, which takes --features plots" };
    vec![
        (
            "processor",
            format!(
                "{}, {processors} to be used",
                field(&file("/proc/cpuinfo"), "model name").unwrap_or_else(unknown)
            ),
        ),
        (
            "memory",
            field(&file("/proc/meminfo"), "MemTotal").and_then(gibibytes).unwrap_or_else(unknown),
        ),
        ("system", format!("Linux {}", file("/proc/sys/kernel/osrelease").trim())),
        (
            "best flush instruction",
            Cpu::detect()
                .best_flush()
                .map_or("none".into(), |flush| format!("{flush:?}").to_lowercase()),
        ),
        (
            "Everleaf",
            format!(
                "{}, source tree at commit {}",
                env!("CARGO_PKG_VERSION"),
                commit().map_or_else(unknown, str::to_owned)
            ),
        ),
        (
            "measured on",
            humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
        ),
        ("plots", plots.into()),
    ]
}

/// The commit of the sources that this was built from, as the build saw it.
fn commit() -> Option<&'static str> {
    option_env!("EVERLEAF_COMMIT")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_commit_is_that_of_the_build() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
        let git = Command::new("git").arg("-C").arg(tree).args(["rev-parse", "HEAD"]).output();
        let Some(head) = git.ok().filter(|output| output.status.success()) else {
            println!("skipped: no checkout, or no git");
            return;
        };
        let (built, head) = (commit().unwrap(), String::from_utf8(head.stdout).unwrap());
        let (short, rest) = built.split_at(12);
        assert!(
            head.starts_with(short) && ["", " with changes"].contains(&rest),
            "built of {built}, now {head}"
        );
        assert!(facts().iter().any(|(name, value)| *name == "Everleaf" && value.ends_with(built)));
    }
}
