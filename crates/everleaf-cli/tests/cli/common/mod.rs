//! Runs the binary as a user would. The tests of both programs use it, each some of it.
#![allow(dead_code)]

pub mod ended;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A folder of its own, in which the binary is run.
pub struct Bench {
    folder: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// In a folder on another file system, if there is one.
    pub fn on(place: &str) -> Option<Self> {
        Some(Self { folder: tempfile::tempdir_in(place).ok()? })
    }

    /// With a pool `p` of byte-string keys.
    pub fn with_pool() -> Self {
        let bench = Self::new();
        bench.ok(["create", "p", "--size", "1MiB"]);
        bench
    }

    /// With a pool `n` of u64 keys.
    pub fn with_u64_pool() -> Self {
        let bench = Self::new();
        bench.ok(["create", "n", "--size", "1MiB", "--keys", "u64"]);
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs; whatever comes out, there was no panic.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        Ran::new(self.command(arguments).output().unwrap())
    }

    /// Runs with `input` on standard input.
    pub fn run_with_input<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Ran {
        let mut command = self.command(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The child may end before it has read everything; that is not what is tested.
        let _ = child.stdin.take().unwrap().write_all(input);
        Ran::new(child.wait_with_output().unwrap())
    }

    /// Runs what must succeed; its standard output.
    #[track_caller]
    pub fn ok<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        self.run(arguments).ok()
    }

    /// Runs what must fail (exit code 1); the sentence.
    #[track_caller]
    pub fn fails<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        self.run(arguments).failed()
    }

    /// Runs what must be refused as wrong usage (exit code 2); all of stderr.
    #[track_caller]
    pub fn refused<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        self.run(arguments).refused()
    }
}

/// What came out.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    #[track_caller]
    pub fn new(output: Output) -> Self {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!stderr.contains("panicked") && !stderr.contains("RUST_BACKTRACE"), "{stderr}");
        Self { code: output.status.code(), stdout: output.stdout, stderr }
    }

    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        String::from_utf8(self.stdout).unwrap()
    }

    #[track_caller]
    pub fn failed(self) -> String {
        // 3 of those whose 1 says that a key is absent.
        assert!(matches!(self.code, Some(1 | 3)), "{:?}: {}", self.code, self.stderr);
        self.sentence()
    }

    #[track_caller]
    pub fn refused(self) -> String {
        assert_eq!(self.code, Some(2), "{}", self.stderr);
        assert!(!self.stderr.is_empty());
        self.stderr
    }

    /// The one sentence of a failure, which is the last line.
    #[track_caller]
    fn sentence(&self) -> String {
        let lines: Vec<&str> =
            self.stderr.lines().filter(|line| line.starts_with("everleaf: ")).collect();
        assert_eq!(lines.len(), 1, "{}", self.stderr);
        assert_eq!(self.stderr.lines().last(), Some(lines[0]), "{}", self.stderr);
        advises_only_what_there_is(lines[0]);
        lines[0].to_owned()
    }
}

/// What can be run, as `--help` lists it.
pub const COMMANDS: [&str; 25] = [
    "create",
    "load",
    "put",
    "get",
    "del",
    "scan",
    "count",
    "cas",
    "incr",
    "ttl",
    "trees",
    "drop",
    "dump",
    "restore",
    "copy",
    "shell",
    "info",
    "check",
    "bench",
    "explore",
    "torture",
    "tour",
    "completions",
    "man",
    "upgrade",
];

/// A sentence that names a command names one that exists.
#[track_caller]
fn advises_only_what_there_is(sentence: &str) {
    for named in sentence.split("`everleaf ").skip(1) {
        let words: Vec<&str> = named.split('`').next().unwrap_or_default().split(' ').collect();
        let is_one = words[0] == "cluster" || COMMANDS.contains(&words[0]);
        assert!(is_one, "{sentence}");
    }
}

/// Parses the one JSON object that a command printed.
#[track_caller]
pub fn json(text: &str) -> serde_json::Map<String, serde_json::Value> {
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(text).unwrap()
}

/// Bytes of a file.
pub fn content(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}
