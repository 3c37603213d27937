//! Asks git, when this is built, of which commit the sources are; outside of a checkout, and
//! without git, nothing is known and nothing fails.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates of the workspace that are part of what is measured.
const MEASURED: [&str; 7] = [
    "../everleaf-bench",
    "../../crates/everleaf",
    "../../crates/everleaf-index",
    "../../crates/everleaf-pmem",
    "../../crates/everleaf-pool",
    "../everleaf-baselines",
    "../../crates/trees",
];

/// What git prints, if it can.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A file or folder whose change makes this run again. One that is not there would make it run
/// every time.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

fn main() {
    watch(Path::new("build.rs"));
    // The log of HEAD grows with every commit and checkout, in a linked worktree too; HEAD itself
    // is for those who keep no log.
    for name in ["HEAD", "logs/HEAD"] {
        git(&["rev-parse", "--git-path", name])
            .into_iter()
            .for_each(|path| watch(&PathBuf::from(path)));
    }
    // Whether there are changes that were not committed.
    MEASURED.iter().for_each(|name| watch(Path::new(name)));
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        let changed = git(&["status", "--porcelain", "--untracked-files=no"])
            .is_some_and(|changes| !changes.is_empty());
        println!(
            "cargo::rustc-env=EVERLEAF_COMMIT={commit}{}",
            if changed { " with changes" } else { "" }
        );
    }
}
